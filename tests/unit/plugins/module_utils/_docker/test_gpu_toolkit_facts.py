# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host with GPUs: files below a root, and nvidia-ctk's own output for the CDI spec."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit_facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import read_driver

SPEC = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
    - name: GPU-00000041-0000-0000-0000-000000000000
      containerEdits: {}
    - name: all
      containerEdits: {}
"""


class Host:
    """A host below a root, with docker's and the toolkit's packages and a driver that is loaded."""

    def __init__(self, root: Path) -> None:
        self.root, self.says, self.unit = root, SPEC, ""
        self.environments: list[dict[str, str]] = []
        self.packages: dict[str, str] = {"docker.io": "26.1.5+dfsg1-9"}
        self.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Thu\n")
        library = self.root / "usr/lib/x86_64-linux-gnu"
        library.mkdir(parents=True)
        (library / "libnvidia-ml.so.580.159.04").write_text("")
        (library / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.04")

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def install(self, version: str = "1.20.1-1") -> None:
        self.packages |= dict.fromkeys(toolkit.PACKAGES, version)
        self.write("/usr/bin/nvidia-ctk", "")

    def facts(self) -> toolkit.Host:
        return facts.read_host(self.run_command, read_driver(Tree(str(self.root))), {})

    def run_command(
        self, command: list[str], environ_update: dict[str, str], check_rc: bool = False
    ) -> tuple[int, str, str]:
        if command[0] == "systemctl":
            return 0, f"Id={toolkit.SERVICE}\nNames={toolkit.SERVICE}\nEnvironment={self.unit}\n", ""
        self.environments.append(environ_update)
        if not self.says:
            return 1, "", "level=info\nfailed to generate CDI spec: failed to initialize NVML: Driver Not Loaded"
        Path(environ_update[facts.OUTPUT]).write_text(self.says)
        return 0, "", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path / "root")
    monkeypatch.setattr(facts, "ROOT", str(found.root))
    monkeypatch.setattr(docker_api, "SOCKET", str(tmp_path / "no docker"))
    return found


def test_current_spec_is_not_stale(host: Host) -> None:
    host.install()
    host.write(toolkit.SPEC, SPEC)
    host.write("/etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.service", "")
    read = host.facts()
    assert (read.refresh.stale, read.service_enabled) == ("", True)
    assert read.refresh.devices == ("0", "GPU-00000041-0000-0000-0000-000000000000", "all")


@pytest.mark.parametrize("spec", ["", SPEC.replace("41", "42")], ids=["missing", "of another GPU"])
def test_missing_or_old_spec_is_stale(host: Host, spec: str) -> None:
    host.install()
    if spec:
        host.write(toolkit.SPEC, spec)
    assert toolkit.SPEC in host.facts().refresh.stale


def test_settings_of_the_service_are_used(host: Host) -> None:
    host.install()
    host.write(facts.SETTINGS, f'# NVIDIA_X=1\n{facts.OUTPUT}=/etc/cdi/gpus.yaml\nNVIDIA_CTK_DEBUG="true"\n')
    host.write("/etc/cdi/gpus.yaml", SPEC)
    assert host.facts().refresh.stale == ""
    assert host.environments[0]["NVIDIA_CTK_DEBUG"] == "true"
    assert host.environments[0][facts.OUTPUT].endswith("/gpus.yaml")


def test_settings_of_the_unit_are_used_and_the_file_wins(host: Host) -> None:
    host.install()
    host.unit = f"{facts.OUTPUT}=/etc/cdi/nvidia.yaml 'NVIDIA_X=a b'"
    host.write("/etc/cdi/nvidia.yaml", SPEC)
    assert host.facts().refresh.stale == ""
    assert host.environments[0]["NVIDIA_X"] == "a b"
    host.write(facts.SETTINGS, f"{facts.OUTPUT}=/srv/other.yaml\nNVIDIA_Y=it's\n")
    assert "/srv/other.yaml" in host.facts().refresh.stale


def test_error_of_nvidia_ctk_is_reported(host: Host) -> None:
    host.install()
    host.says = ""
    assert host.facts().refresh.problem == "failed to initialize NVML: Driver Not Loaded".join(
        ["failed to generate CDI spec: ", ""]
    )


def test_device_node_without_link_is_stale(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.install()
    host.write(toolkit.SPEC, SPEC)
    for name in ("nvidia0", "nvidiactl", "nvidia-fs0"):
        host.write(f"/dev/{name}", "")
    numbers = {"nvidia0": os.makedev(195, 0), "nvidiactl": os.makedev(195, 255), "nvidia-fs0": os.makedev(240, 0)}
    real = os.stat

    def node(path: Any, **options: Any) -> Any:
        name = os.path.basename(path)
        if name not in numbers:
            return real(path, **options)
        return type("Node", (), {"st_rdev": numbers[name], "st_mode": stat.S_IFCHR})

    monkeypatch.setattr(facts.os, "stat", node)
    (host.root / "dev/char").mkdir()
    (host.root / "dev/char/195:0").symlink_to("/dev/nvidia0")
    assert host.facts().refresh.stale == "/dev/char had no links to /dev/nvidiactl"
