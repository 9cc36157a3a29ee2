# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan is made from: files below a root, nvidia-ctk's own word on the CDI spec, and what the repository has."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_container_toolkit_plan as plan_module

from tests.unit.plugins.module_utils._core.test_openpgp import FINGERPRINT, KEY, SMUGGLED

Run = Callable[..., dict[str, Any]]

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
REPOSITORY = {
    "url": "http://repo.example/stable/deb/$(ARCH)",
    "key_url": "http://repo.example/gpgkey",
    "fingerprints": ["A" * 40],
}


class Host:
    """A host below a root, with docker's and the toolkit's packages and a driver that is loaded."""

    def __init__(self, root: Path) -> None:
        self.root, self.says = root, SPEC
        self.asked: list[dict[str, str]] = []
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

    def run_command(self, command: list[str], environ_update: dict[str, str]) -> tuple[int, str, str]:
        self.asked.append(environ_update)
        if not self.says:
            return 1, "", "level=info\nfailed to generate CDI spec: failed to initialize NVML: Driver Not Loaded"
        Path(environ_update[plan_module.OUTPUT]).write_text(self.says)
        return 0, "", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path / "root")
    monkeypatch.setattr(plan_module, "ROOT", str(found.root))
    monkeypatch.setattr(docker_api, "SOCKET", str(tmp_path / "no docker"))
    monkeypatch.setattr(plan_module, "open_url", lambda address, **_options: io.BytesIO(index(address)))
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda _self, command, **options: found.run_command(command, **options)
    )
    return found


def index(address: str) -> bytes:
    assert address == "http://repo.example/stable/deb/amd64/Packages"
    blocks = [
        f"Package: {name}\nVersion: {version}\n" for name in toolkit.PACKAGES for version in ("1.19.1-1", "1.20.1-1")
    ]
    # Not of all four.
    return "\n".join([*blocks, "Package: libnvidia-container1\nVersion: 1.20.2-1\n"]).encode()


@pytest.fixture
def planned(run_module: Run, host: Host) -> Run:
    def run(**params: Any) -> dict[str, Any]:
        status = "\n".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
            for name, version in host.packages.items()
        )
        host.write("/var/lib/dpkg/status", status)
        return run_module(plan_module, **{"version": "1.20.1", "repository": REPOSITORY, **params})

    return run


def units(result: dict[str, Any]) -> list[str]:
    return [unit["name"] for unit in result["units"]]


def test_a_spec_that_says_what_the_driver_says_is_kept(planned: Run, host: Host) -> None:
    host.install()
    host.write(toolkit.SPEC, SPEC)
    host.write("/etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.service", "")
    result = planned()
    assert (result["stale"], units(result), result["install"]) == ("", [toolkit.PATH_UNIT], [])
    assert result["devices"] == ["0", "GPU-00000041-0000-0000-0000-000000000000", "all"]


@pytest.mark.parametrize("there", ["", SPEC.replace("41", "42")], ids=["missing", "of another GPU"])
def test_a_spec_that_is_not_true_is_written_again(planned: Run, host: Host, there: str) -> None:
    host.install()
    if there:
        host.write(toolkit.SPEC, there)
    result = planned()
    assert toolkit.SERVICE in units(result)
    assert toolkit.SPEC in result["stale"]


def test_the_settings_of_the_service_count(planned: Run, host: Host) -> None:
    host.install()
    host.write(
        plan_module.SETTINGS, f'# NVIDIA_X=1\n{plan_module.OUTPUT}=/etc/cdi/gpus.yaml\nNVIDIA_CTK_DEBUG="true"\n'
    )
    host.write("/etc/cdi/gpus.yaml", SPEC)
    assert planned()["stale"] == ""
    assert host.asked[0]["NVIDIA_CTK_DEBUG"] == "true"
    assert host.asked[0][plan_module.OUTPUT].endswith("/gpus.yaml")


def test_what_nvidia_ctk_complains_of_is_told(planned: Run, host: Host) -> None:
    host.install()
    host.says = ""
    result = planned()
    assert result["stale"].endswith("failed to initialize NVML: Driver Not Loaded")
    assert toolkit.SERVICE not in units(result)


def test_a_node_without_its_link_is_seen(planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(plan_module.os, "stat", node)
    (host.root / "dev/char").mkdir()
    (host.root / "dev/char/195:0").symlink_to("/dev/nvidia0")
    assert planned()["stale"] == "/dev/char had no links to /dev/nvidiactl"


def test_a_version_is_looked_up_where_it_would_come_from(planned: Run, host: Host) -> None:
    assert planned()["requirements"] == []
    (fault,) = planned(version="1.20.2")["requirements"]
    assert fault["variable"] == "nvidia_container_toolkit_version"
    assert fault["remedy"] == "choose one of 1.20.1-1, 1.19.1-1"


def test_a_repository_that_cannot_be_asked_is_left_to_apt(
    planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(address: str, **_options: Any) -> Any:
        raise OSError(f"{address}: no route to host")

    monkeypatch.setattr(plan_module, "open_url", unreachable)
    result = planned(version="1.20.2")
    assert (result["requirements"], len(result["install"])) == ([], 4)


def test_files_before_the_packages_are_due_until_all_are_there(planned: Run, host: Host) -> None:
    result = planned()
    assert (result["package_files_due"], result["key"]) == (True, "")


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_key_file_with_another_key_is_fetched_anew(planned: Run, host: Host, name: str) -> None:
    repository = {**REPOSITORY, "fingerprints": [FINGERPRINT]}
    host.write(toolkit.KEY, KEY.decode())
    assert planned(repository=repository)["key"] == KEY.decode()
    host.write(toolkit.KEY, SMUGGLED[name].decode())
    assert planned(repository=repository)["key"] == ""


def test_a_damaged_record_ends_the_run(planned: Run, host: Host, run_module: Run) -> None:
    host.write(toolkit.BROUGHT, "{")
    assert "is damaged" in planned()["msg"]


def test_absent_is_planned_from_the_record(planned: Run, host: Host) -> None:
    host.install()
    host.write(toolkit.BROUGHT, json.dumps({"packages": list(toolkit.PACKAGES), "settings": True, "held": []}))
    result = planned(state="absent")
    assert result["remove"] == list(toolkit.PACKAGES)
