# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as /proc tells them, files, and who a command is run as. Daemons live in the tests of gpu_mps."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import apply as mps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon


def process(proc: Path, words: list[str], **environment: str) -> Path:
    folder = proc / "4711"
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (folder / "environ").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in environment.items()))
    return proc


def test_a_daemon_is_known_by_its_program(tmp_path: Path) -> None:
    proc = process(tmp_path, ["/usr/bin/nvidia-cuda-mps-control", "-f"], RIGWRIGHT_MPS="none:team", X="a=b")
    found = mps.read_process(4711, str(proc))
    assert found == (("-f",), {"RIGWRIGHT_MPS": "none:team", "X": "a=b"}, os.getuid())


def test_another_program_that_got_its_number_is_none(tmp_path: Path) -> None:
    assert mps.read_process(4711, str(process(tmp_path, ["sleep", "60"]))) is None
    assert mps.read_process(4712, str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "x", "0", "-1"])
def test_a_half_written_pid_file_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / mps.PID_FILE).write_text(text)
    assert mps.read_pid(str(tmp_path)) is None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("4711")
    return path


@pytest.mark.parametrize("name", [mps.PID_FILE, mps.PARTITIONS, mps.START_LOG])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("../secret"), Path.mkdir])
def test_what_a_user_puts_into_a_daemons_directory_neither_blocks_nor_leads_elsewhere(
    tmp_path: Path, secret: Path, name: str, put: Callable[[Path], None]
) -> None:
    (tmp_path / "pipe").mkdir()
    put(tmp_path / "pipe" / name)
    assert mps.read_below(f"{tmp_path}/pipe", name) is None


def test_a_pid_file_of_another_kind_names_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / mps.PID_FILE)
    assert mps.find_pid(str(tmp_path), str(process(tmp_path / "proc", ["sleep"]))) is None


def test_a_link_in_place_of_a_daemons_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "pipe").symlink_to("elsewhere")
    with pytest.raises(MpsError, match="remove it"):
        mps.make_directory(f"{tmp_path}/pipe", pwd.getpwuid(os.getuid()).pw_name)
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.chown(tmp_path / "pipe", 1234, 1234)
    with pytest.raises(MpsError, match="belongs to uid 1234"):
        mps.make_directory(f"{tmp_path}/pipe", "nobody")


def test_a_file_is_written_whole_and_taken_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/etc/team.sh"
    mps.write(path, "x\n")
    assert (mps.read_text(path), os.listdir(tmp_path / "etc")) == ("x\n", ["team.sh"])
    mps.write(path, None)
    assert mps.read_text(path) is None


def test_commands_of_a_user_have_none_of_the_variables_that_would_set_limits() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 0, "", ""

    host = mps.Host(execute, "none", "program", "/etc/nvidia-mps")
    host.run_as("")(["x"], {}, "")
    host.run_as("nobody", unset=["A"])(["x"], {}, "")
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" in ran[0] and ran[0][0] == "env"
    as_root = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    assert ran[1] == [*as_root, "env", "-u", "A", "x"]


def test_the_probe_runs_in_the_python_of_the_module() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 137, "", ""

    told = mps.ask_probe(mps.Host(execute, "none", "program", "/etc"), "", {}, "{}")
    assert sys.executable in ran[0] and "CUDA_VISIBLE_DEVICES" in ran[0]
    assert told["error"] == {"function": "the probe", "code": 807, "words": "no answer in 60 s"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_daemon_that_lives_is_talked_to_as_the_user_that_it_is_of() -> None:
    ran: list[list[str]] = []

    def execute(command: Sequence[str], environment: Mapping[str, str], text: str) -> tuple[int, str, str]:
        ran.append(list(command))
        return 0, "", ""

    host = mps.Host(execute, "none", "program", "/etc")
    nobody = pwd.getpwnam("nobody").pw_uid
    host.control(Daemon("team"), Live(4711, "none:team", nobody, ("-d", "-p", "3", "-a", "x"))).servers()
    assert ran[0][:3] == ["runuser", "-u", "nobody"] and ran[0][-3:] == ["server", "list", "--format=csv,noheader"]


def test_files_are_for_all_to_read_also_under_a_strict_mask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        mps.write(f"{tmp_path}/etc/team.sh", "x")
    finally:
        os.umask(before)
    assert ((tmp_path / "etc").stat().st_mode & 0o777, (tmp_path / "etc/team.sh").stat().st_mode & 0o777) == (
        0o755,
        0o644,
    )


@pytest.mark.parametrize(
    ("told", "limits"), [("20G", True), ("512M", True), ("0M", False), ("17179869183G", False), ("not set", False)]
)
def test_a_size_that_no_card_has_is_no_limit(told: str, limits: bool) -> None:
    assert mps.is_limit(told) is limits
