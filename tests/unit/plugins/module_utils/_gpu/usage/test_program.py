# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs as a host has them: bundled, without Ansible, with the fake NVML."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import program
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import TEXTFILE
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Sample
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sampler import Sampler, Settings

from harness.fakes import nvml as fake_nvml

SETTINGS = {
    "interval_s": 15,
    "keep_days": 400,
    "idle_memory": "18 GiB",
    "idle_after": "2h",
    "idle_ignore": ["ollama"],
    "notify_socket": "/run/x",
}


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    path = tmp_path / "gpu_usage.pyz"
    path.write_bytes(bundle("_gpu.usage.program"))
    return path


@pytest.fixture
def child(bundled: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        # Not isolated, for the binding is in the environment of the tests.
        command = [sys.executable, "-B", str(bundled), "probe"]
        found.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return found[-1]

    yield start
    for process in found:
        process.kill()
        process.communicate()


def test_bundled_child_answers_with_a_sample(child: Callable[[], subprocess.Popen[str]]) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, os.getpid(), memory_mib=1024)
        process = child()
        answers = []
        assert process.stdin and process.stdout
        for _number in range(2):
            process.stdin.write("\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
    (row,) = answers[1]["gpus"][0]["processes"]
    assert (row["pid"], row["memory_mib"], row["uid"]) == (os.getpid(), 1024, os.getuid())
    assert answers[0]["driver"] == fake_nvml.DRIVER


def test_bundled_child_ends_with_its_input(child: Callable[[], subprocess.Popen[str]]) -> None:
    process = child()
    process.communicate()
    assert process.returncode == 0


def test_bundled_who_prints_its_help(tmp_path: Path) -> None:
    path = tmp_path / "gpu-who"
    path.write_bytes(bundle("_gpu.usage.who"))
    done = subprocess.run([sys.executable, "-IB", str(path), "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: gpu-who")


def test_settings_are_read_with_their_units() -> None:
    found = program.settings_of(json.dumps(SETTINGS))
    assert (found.interval_s, found.keep_days, found.idle_memory_mib, found.idle_after_s) == (15, 400, 18432, 7200)
    assert found.idle_ignore == ("ollama",)
    assert program.settings_of(json.dumps({**SETTINGS, "idle_ignore": "ollama, vllm"})).idle_ignore == (
        "ollama",
        "vllm",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({**SETTINGS, "idle_after": "2 moons"}),
        json.dumps({**SETTINGS, "interval_s": None}),
        json.dumps({**SETTINGS, "interval_s": "15"}),
        json.dumps({**SETTINGS, "notify_socket": None}),
    ],
)
def test_damaged_settings_end_the_sampler(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / program.SETTINGS.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.setattr(program, "Tree", lambda: Tree(str(tmp_path)))
    assert program.sample() == 1
    assert "apply the role gpu_usage again" in capsys.readouterr().err


def test_second_sampler_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((program.SETTINGS, json.dumps(SETTINGS)), (program.LOCK, "")):
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / path.lstrip("/")).write_text(text)
    monkeypatch.setattr(program, "Tree", lambda: Tree(str(tmp_path)))
    monkeypatch.setattr(program, "run", lambda *_arguments: pytest.fail("it samples"))
    with (tmp_path / program.LOCK.lstrip("/")).open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert program.sample() == 1
    assert "another sampler runs" in capsys.readouterr().err
    assert program.is_alone(Tree(str(tmp_path)))


def test_files_of_a_killed_sampler_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{program.HOME}/.snapshot.json.a_b0c1d2", f"{program.days.HOME}/.2026-11-25.json.abcdefgh"]
    for path, text in ((program.SETTINGS, json.dumps(SETTINGS)), *((name, "{") for name in names)):
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / path.lstrip("/")).write_text(text)
    monkeypatch.setattr(program, "Tree", lambda: Tree(str(tmp_path)))
    monkeypatch.setattr(program, "run", lambda *_arguments: None)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        assert program.sample() == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert [name for name in names if (tmp_path / name.lstrip("/")).exists()] == []


def test_lock_that_cannot_be_had_stops_no_sampler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.is_alone(Tree(str(tmp_path)))
    path = tmp_path / program.LOCK.lstrip("/")
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "elsewhere")
    assert program.is_alone(Tree(str(tmp_path)))
    assert not (tmp_path / "elsewhere").exists()
    assert "is a link" in capsys.readouterr().out


class Counting(Sampler):
    """A sampler that cannot write its second sample."""

    def sample(self, now: float, clock: float) -> None:
        self.taken = [*getattr(self, "taken", []), clock]
        if len(self.taken) == 2:
            raise OSError("no space left on device")

    def save(self, clock: float) -> None:
        self.saved = clock


def ask() -> Sample:
    raise AssertionError("it takes no sample")


def sampler(tmp_path: Path, lines: list[str]) -> Counting:
    return Counting(Settings("ws1"), Tree(str(tmp_path)), ask, lambda _uid, _text: 0, lines.append)


@pytest.mark.parametrize(
    ("work_s", "starts"), [(1.0, [100.0, 115.0, 130.0, 145.0]), (40.0, [100.0, 140.0, 180.0, 220.0])]
)
def test_full_disk_and_late_samples_do_not_end_the_sampler(tmp_path: Path, work_s: float, starts: list[float]) -> None:
    lines: list[str] = []
    found = sampler(tmp_path, lines)
    clock, begun = [100.0], []

    def sample(now: float, moment: float) -> None:
        begun.append(moment)
        clock[0] += work_s
        Counting.sample(found, now, moment)

    def stopped(seconds: float) -> bool:
        clock[0] += max(0.0, seconds)
        return len(begun) == 4

    found.sample = sample  # type: ignore[assignment,method-assign]
    program.run(found, lambda: clock[0], stopped)
    assert begun == starts
    assert lines == ["a file cannot be written: no space left on device"]
    assert found.saved == clock[0]


def test_signal_ends_the_wait() -> None:
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        assert program.wait(0.0) is False
        # To this thread: a worker of pytest has others, and a sampler has none.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        assert program.wait(60.0) is True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def test_link_replaces_a_file_and_follows_nothing(tmp_path: Path, capsys: Any) -> None:
    folder, target = tmp_path / "textfile", tmp_path / "metrics"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / TEXTFILE).symlink_to(tmp_path / "secret")
    for _number in range(2):
        assert program.link(str(folder), str(target)) == 0
    assert os.readlink(folder / TEXTFILE) == str(target)
    assert [path.name for path in folder.iterdir()] == [TEXTFILE]
    assert (tmp_path / "secret").read_text() == "secret"


def test_link_into_a_missing_or_linked_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.link(str(tmp_path / "nowhere")) == 1
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert program.link(str(tmp_path / "link")) == 1
    assert list((tmp_path / "real").iterdir()) == []
    assert "gpu_usage_textfile_directory" in capsys.readouterr().err


def test_arguments_choose_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sample", "probe", "link"):
        monkeypatch.setattr(program, name, lambda *arguments, name=name: [name, *arguments])
    for arguments, expected in (
        (["x"], ["sample"]),
        (["x", "probe"], ["probe"]),
        (["x", "link", "/d"], ["link", "/d"]),
    ):
        monkeypatch.setattr(sys, "argv", arguments)
        assert program.main() == expected  # type: ignore[comparison-overlap]
