# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes as /proc shows them, files of users, and the user whom a command is run as."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.apply import PARTITIONS, START_LOG
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon


def process(proc: Path, arguments: list[str], **environment: str) -> Path:
    folder = proc / "4711"
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in arguments))
    (folder / "environ").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in environment.items()))
    return proc


def test_a_daemon_is_known_by_its_program(tmp_path: Path) -> None:
    proc = process(tmp_path, ["/usr/bin/nvidia-cuda-mps-control", "-f"], RIGWRIGHT_MPS="none:team", X="a=b")
    found = facts.read_process(4711, str(proc))
    assert found == (("-f",), {"RIGWRIGHT_MPS": "none:team", "X": "a=b"}, os.getuid())


def test_another_program_with_the_pid_is_no_daemon(tmp_path: Path) -> None:
    assert facts.read_process(4711, str(process(tmp_path, ["sleep", "60"]))) is None
    assert facts.read_process(4712, str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "x", "0", "-1"])
def test_half_written_pid_file_has_no_pid(tmp_path: Path, text: str) -> None:
    (tmp_path / facts.PID_FILE).write_text(text)
    assert facts.read_pid(str(tmp_path)) is None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("4711")
    return path


@pytest.mark.parametrize("name", [facts.PID_FILE, PARTITIONS, START_LOG])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("../secret"), Path.mkdir])
def test_special_files_in_a_users_directory_are_not_followed(
    tmp_path: Path, secret: Path, name: str, put: Callable[[Path], None]
) -> None:
    (tmp_path / "pipe").mkdir()
    put(tmp_path / "pipe" / name)
    assert facts.read_below(f"{tmp_path}/pipe", name) is None


def test_pid_file_that_is_a_fifo_has_no_pid(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / facts.PID_FILE)
    assert facts.find_pid(str(tmp_path), str(process(tmp_path / "proc", ["sleep"]))) is None


def test_commands_of_a_user_have_no_variables_of_limits() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 0, "", ""

    host = facts.Host(execute, "none", "program", "/etc/nvidia-mps")
    host.run_as("")(["x"], {}, "")
    host.run_as("nobody", unset=["A"])(["x"], {}, "")
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" in ran[0] and ran[0][0] == "env"
    as_root = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    assert ran[1] == [*as_root, "env", "-u", "A", "x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_running_daemon_is_controlled_as_its_user() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 0, "", ""

    host = facts.Host(execute, "none", "program", "/etc")
    nobody = pwd.getpwnam("nobody").pw_uid
    host.control(Daemon("team"), Live(4711, "none:team", nobody, ("-d", "-p", "3", "-a", "x"))).servers()
    assert ran[0][:3] == ["runuser", "-u", "nobody"] and ran[0][-3:] == ["server", "list", "--format=csv,noheader"]


@pytest.mark.parametrize(
    ("answer", "limits"), [("20G", True), ("512M", True), ("0M", False), ("17179869183G", False), ("not set", False)]
)
def test_a_size_that_no_card_has_is_no_limit(answer: str, limits: bool) -> None:
    assert facts.is_limit(answer) is limits
