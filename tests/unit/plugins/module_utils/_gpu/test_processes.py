# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a GPU, from NVML and /proc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader

from harness.fakes import nvml as fake_nvml


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1001:1001:A\u2028B:/home/alice:/bin/sh\n")
    return tmp_path


def add(root: Path, pid: int, uid: int, command: str) -> None:
    process = root / f"proc/{pid}"
    process.mkdir(parents=True)
    (process / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (process / "cmdline").write_text("\0".join(command.split()) + "\0")


def read(root: Path) -> Any:
    with Nvml() as nvml:
        return processes.read(Reader(nvml, nvml.cards()[0]), Tree(str(root)))


def test_process_has_its_user_and_command(root: Path) -> None:
    add(root, 4242, 1001, "python3 train.py --epochs 3")
    with fake_nvml.fake(["H100"]) as machine:
        machine.run_process(0, 4242, memory_mib=512)
        assert read(root) == [
            {
                "pid": 4242,
                "kind": "compute",
                "memory_bytes": 512 << 20,
                "gpu_instance_id": None,
                "compute_instance_id": None,
                "user": "alice",
                "command": "python3 train.py --epochs 3",
            }
        ]


def test_graphics_processes_are_listed_too(root: Path) -> None:
    with fake_nvml.fake(["RTX 4090"]) as machine:
        machine.run_process(0, 800, kind="graphics", name="Xorg")
        assert [(row["pid"], row["kind"]) for row in read(root) or []] == [(800, "graphics")]


def test_mps_clients_are_listed_apart_from_their_server(root: Path) -> None:
    add(root, 911, 0, "/usr/bin/nvidia-cuda-mps-server")
    add(root, 4242, 1001, "python3 train.py")
    with fake_nvml.fake(["H100"]) as machine:
        machine.run_process(0, 911, kind="compute")
        machine.run_process(0, 4242, kind="mps")
        assert [(row["pid"], row["kind"], row["user"]) for row in read(root) or []] == [
            (911, "mps_server", "root"),
            (4242, "mps_client", "alice"),
        ]


def test_process_of_another_namespace_has_no_user_or_command(root: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.run_process(0, 4242)
        rows = read(root) or []
    assert (rows[0]["user"], rows[0]["command"]) == (None, None)


def test_user_without_a_name_has_its_uid(root: Path) -> None:
    add(root, 4242, 65000, "python3")
    assert processes.describe(Tree(str(root)), 4242)["user"] == "65000"


@pytest.mark.parametrize(("link", "sees"), [("pid:[4026531836]", True), ("pid:[4026532201]", False), ("", False)])
def test_process_list_is_complete_in_the_hosts_namespace(tmp_path: Path, link: str, sees: bool) -> None:
    if link:
        (tmp_path / "proc/self/ns").mkdir(parents=True)
        (tmp_path / "proc/self/ns/pid").symlink_to(link)
    assert processes.sees_all(Tree(str(tmp_path))) is sees


@pytest.mark.parametrize(
    ("driver", "wrong"),
    [
        ("535.43.02", True),
        ("535.54.03", True),
        ("535.86.10", True),
        ("535.98", False),
        ("535.104.05", False),
        ("530.30.02", False),
        ("580.159.04", False),
        ("", False),
    ],
)
def test_drivers_535_43_to_535_86_are_read_by_version_2(root: Path, driver: str, wrong: bool) -> None:
    assert processes.has_wrong_processes(driver) is wrong
    calls: list[str] = []

    class Recording(Nvml):
        def driver_version(self) -> str:
            return driver

        def call(self, function: str, *arguments: Any) -> Any:
            calls.append(function)
            return super().call(function, *arguments)

    with fake_nvml.fake(["H100"]), Recording() as nvml:
        processes.read(Reader(nvml, nvml.cards()[0]), Tree(str(root)))
    versions = {function[-2:] for function in calls if "Processes" in function}
    assert versions == ({"v2"} if wrong else {"v3"})


def test_lost_gpu_has_no_process_list(root: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.lose(0)
        assert read(root) is None
