# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of smoke_test with small programs as interpreters, docker and nvidia-smi."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts, findings, process
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import Place
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import smoke_test as smoke_test_role

from tests.unit.support.plan import run_plan

Run = Callable[..., Any]

UUID = "GPU-00000000-0000-0000-0000-000000000001"
# The report of the training program, from a quick program.
ACCOUNT: Any = {
    "reason": "",
    "words": "",
    "gpus": [],
    "driver": "libcuda.so.1: cannot open",
    "torch": "2.6.0",
    "cuda": None,
    "device": "cpu",
    "device_name": "a processor",
    "epochs": 20,
    "seconds_per_epoch": 0.1,
    "held_out": 359,
    "accuracy": 0.98,
    "peak_gpu_memory_bytes": 0,
    "peak_memory_bytes": 300 * 2**20,
}
PROGRAM = f"import sys; print({json.dumps(json.dumps(ACCOUNT))}); sys.stderr.write(' '.join(sys.argv[1:]))"


class Host:
    """A folder of programs, which is in PATH before those of the system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def program(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(facts, "ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(process, "GRACE_S", 0)
    created = Host(tmp_path / "bin")
    created.program("nvidia-smi", "exit 1")
    return created


@pytest.fixture
def train(run_module: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Prove the role, as this user, and note the reports of the places; `train(environments=[...])`."""
    reports: list[Any] = []
    judge = findings.judge

    def judged(place: Place, report: findings.Report) -> Finding:
        reports.append(report)
        return judge(place, report)

    monkeypatch.setattr(findings, "judge", judged)

    def run(**params: Any) -> Any:
        me = pwd.getpwuid(os.geteuid()).pw_name
        wanted = {"user": me, "environments": [], "images": [], **params}
        program = wanted.pop("program", PROGRAM)
        result = run_plan(run_module, smoke_test_role, kind="verify", context={"program": program}, **wanted)
        return {**result, "reports": reports}

    return run


def here(python: str = sys.executable, **more: str) -> list[dict[str, str]]:
    return [{"name": "here", "python": python, **more}]


def alive(marker: str) -> bool:
    return subprocess.run(["pgrep", "--full", marker], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_program_is_run_and_judged(train: Run) -> None:
    result = train(environments=here())
    assert result["changed"] is False
    assert [(finding["id"], finding["status"]) for finding in result["findings"]] == [
        ("smoke_test.environment.here", "pass"),
        ("smoke_test.gpus", "skip"),
    ]


def test_check_mode_trains_too(train: Run) -> None:
    assert train(environments=here(), check=True)["findings"][0]["status"] == "pass"


def test_gpu_of_the_host_is_required(train: Run, host: Host) -> None:
    host.program("nvidia-smi", f"echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})'")
    python = host.program("python", 'echo "$@" >&2; exit 1')
    result = train(environments=here(python))
    assert "--device cuda" in result["findings"][0]["evidence"]


def test_place_is_allowed_to_use_the_processor(train: Run, host: Host) -> None:
    host.program("nvidia-smi", f"echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})'")
    python = host.program("python", 'echo "$@" >&2; exit 1')
    assert "--device cpu" in train(environments=here(python, device="cpu"))["findings"][0]["evidence"]
    assert "--device cpu" in train(environments=here(python), device="cpu")["findings"][0]["evidence"]


@pytest.mark.parametrize("python", ["/opt/nowhere/bin/python", "/etc/passwd", "/etc"])
def test_invalid_interpreter_is_named(train: Run, python: str) -> None:
    (finding, _gpus) = train(environments=here(python))["findings"]
    assert finding["status"] == "fail"
    assert f"environment here: {python}: " in finding["evidence"]


def test_hanging_program_is_killed_with_its_children(train: Run, host: Host) -> None:
    python = host.program("python", "sleep 424242 & sleep 424242")
    before = time.monotonic()
    (finding, _gpus) = train(environments=here(python), timeout_s=1)["findings"]
    assert time.monotonic() - before < 20
    assert "not done in time" in finding["evidence"]
    assert not alive("^sleep 424242")


def test_background_children_are_killed(train: Run, host: Host) -> None:
    python = host.program("python", f"sleep 434343 & exec {sys.executable} $@")
    assert train(environments=here(python))["findings"][0]["status"] == "pass"
    assert not alive("^sleep 434343")


def test_endless_output_takes_no_memory(train: Run) -> None:
    result = train(environments=[{"name": "wrong", "python": "/usr/bin/yes"}], timeout_s=2)
    assert result["reports"][0]["reason"] in ("timeout", "no_answer")


def test_program_that_reads_nothing_is_no_problem(train: Run) -> None:
    assert train(environments=here("/bin/true"), program="x" * 1_000_000)["reports"][0]["reason"] == "no_answer"


def test_interpreter_ignores_variables_of_its_user(train: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    program = f"import sys; assert '/nowhere' not in sys.path\n{PROGRAM}"
    assert train(environments=here(), program=program)["findings"][0]["status"] == "pass"


# --- Containers ---

DOCKER = """\
echo "$@" >> {log}
case "$1 $2" in
  "version --format") {version} ;;
  "image inspect") {inspect} ;;
  "run --interactive") while [ "$1" != --entrypoint ]; do shift; done; python=$2; shift 3; {run} ;;
  "rm --force") ;;
  *) exit 64 ;;
esac
"""


@pytest.fixture
def docker(host: Host, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a fake docker, which runs the program on the host, and returns the log of its commands."""

    def make(version: str = "echo 28.5", inspect: str = "echo []", run: str = f'exec {sys.executable} "$@"') -> Path:
        log = tmp_path / "docker.log"
        host.program("docker", DOCKER.format(log=log, version=version, inspect=inspect, run=run))
        return log

    return make


IMAGE = [{"image": "lab/digits"}]


def test_a_container_is_run_and_removed(train: Run, docker: Callable[..., Path]) -> None:
    log = docker()
    (finding, _gpus) = train(images=IMAGE)["findings"]
    assert (finding["id"], finding["status"]) == ("smoke_test.image.lab-digits", "pass")
    lines = log.read_text().splitlines()
    (name,) = {word for line in lines for word in line.split() if word.startswith("rigwright-smoke-test-")}
    assert lines[-1] == f"rm --force --volumes {name}"
    assert "nvidia.com/gpu" not in log.read_text()


def test_a_container_gets_the_gpu(train: Run, docker: Callable[..., Path], host: Host) -> None:
    host.program("nvidia-smi", f"echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})'")
    log = docker()
    train(images=IMAGE)
    assert "--device nvidia.com/gpu=all" in log.read_text()
    train(images=IMAGE, gpu_options=["--gpus", "all"])
    assert "--gpus all" in log.read_text().splitlines()[-2]


@pytest.mark.parametrize(
    ("wrong", "reason", "text"),
    [
        ({"version": "echo 'Cannot connect to the Docker daemon' >&2; exit 1"}, "no_docker", "Cannot connect"),
        ({"inspect": "exit 1"}, "no_image", "docker has no image lab/digits"),
        ({"run": "echo 'unresolvable CDI devices' >&2; exit 125"}, "container", "unresolvable CDI devices"),
        ({"run": "echo 'exec: python3: not found' >&2; exit 127"}, "no_interpreter", "python3: not found"),
    ],
)
def test_errors_of_docker_have_a_reason(
    train: Run, docker: Callable[..., Path], wrong: dict[str, str], reason: str, text: str
) -> None:
    docker(**wrong)
    result = train(images=IMAGE)
    assert result["reports"][0]["reason"] == reason
    assert text in result["findings"][0]["evidence"]


def test_without_docker_the_role_is_named(train: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(host.folder))
    assert "apply the role docker" in train(images=IMAGE)["findings"][0]["remedy"]


def test_a_container_that_hangs_is_removed(train: Run, docker: Callable[..., Path]) -> None:
    log = docker(run="exec sleep 444444")
    result = train(images=IMAGE, timeout_s=1)
    assert result["reports"][0]["reason"] == "timeout"
    assert log.read_text().splitlines()[-1].startswith("rm --force --volumes rigwright-smoke-test-")
    assert not alive("^sleep 444444")
