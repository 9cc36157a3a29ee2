"""How `script/test` counts: its closing line is what people and CI trust."""

from __future__ import annotations

import argparse
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox.lab import NUMBER
from harness.testing import run as testing
from harness.testing import stages
from harness.testing.stage import Log, Stage, StageFailed, Tally, kill_tree, tally_of_junit

LANES = (NUMBER, NUMBER + 1)
JUNIT = """\
<testsuites>
  <testsuite name="pytest">
    <testcase name="a" time="12.5"/>
    <testcase name="b"/>
    <testcase name="c"><failure message="AssertionError:&#10;PLAY&#10;[ERROR]: no sudo">
def c():
&gt;       assert apply().rc == 0
E       AssertionError

tests/test_c.py:7:
conftest.py:20: AssertionError</failure></testcase>
    <testcase name="d"><error message="fixture"/></testcase>
    <testcase name="e"><skipped message="no such device"/></testcase>
  </testsuite>
</testsuites>
"""


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(testing, "OUTPUT", tmp_path)
    monkeypatch.setattr(testing, "ROOT", tmp_path)
    return tmp_path


def stage(work: Callable[[Log], Tally], name: str = "example") -> Stage:
    return Stage(name, "what it proves", work)


def passes(log: Log) -> Tally:
    return Tally(passed=3)


def skips(log: Log) -> Tally:
    return Tally(passed=1, skipped=2)


def crashes(log: Log) -> Tally:
    raise StageFailed("the tool ended with status 139")


def fails(log: Log) -> Tally:
    raise StageFailed("two tests failed", Tally(passed=5, failed=2))


def names_its_failures(log: Log) -> Tally:
    raise StageFailed("one test failed", Tally(passed=5, failed=1, failures=("test_login: no sudo",)))


def closing_line(*works: Callable[[Log], Tally]) -> str:
    results = testing.run_stages([stage(work, f"stage-{number}") for number, work in enumerate(works)], LANES)
    return testing.summary(results).splitlines()[-1]


def test_the_closing_line_counts_every_test() -> None:
    assert closing_line(passes, passes) == "6 passed, 0 failed"


def test_a_skipped_test_is_named_and_not_counted_as_passed() -> None:
    assert closing_line(passes, skips) == "4 passed, 0 failed, 2 skipped"


def test_a_stage_that_crashed_counts_as_one_failure() -> None:
    assert closing_line(passes, crashes) == "3 passed, 1 failed"


def test_a_stage_with_failed_tests_counts_these() -> None:
    assert closing_line(fails) == "5 passed, 2 failed"


def test_failed_tests_stand_before_the_table() -> None:
    shown = testing.summary(
        testing.run_stages([stage(passes, "one"), stage(names_its_failures, "other")], LANES)
    ).splitlines()
    assert shown[0] == "other: test_login: no sudo"
    assert shown[-1] == "8 passed, 1 failed"


def test_the_slowest_tests_stand_before_the_closing_line() -> None:
    def slow(log: Log) -> Tally:
        return Tally(passed=30, seconds=tuple((float(number), f"test_{number}") for number in range(30)))

    shown = testing.summary(testing.run_stages([stage(slow, "one"), stage(passes, "other")], LANES)).splitlines()
    assert shown[-27:-2] == [f"{number:7.1f} s  one: test_{number}" for number in range(29, 4, -1)]


def test_an_error_of_the_stage_itself_is_not_hidden() -> None:
    def broken(log: Log) -> Tally:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        testing.run_stages([stage(broken)], LANES)


def test_results_have_the_order_of_the_table() -> None:
    names = [f"stage-{number}" for number in range(5)]
    assert [result.stage.name for result in testing.run_stages([stage(passes, name) for name in names], LANES)] == names


def test_each_lane_has_its_own_sandbox() -> None:
    both_run = threading.Barrier(2, timeout=10)
    sandboxes = set()

    def work(log: Log) -> Tally:
        both_run.wait()
        sandboxes.add(log.run("sh", "-c", "echo $RIGWRIGHT_SANDBOX").output.strip())
        return Tally(passed=1)

    testing.run_stages([stage(work, "one"), stage(work, "other")], LANES)
    assert sandboxes == {str(NUMBER), str(NUMBER + 1)}


def test_the_log_of_a_failed_stage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def work(log: Log) -> Tally:
        log.run("sh", "-c", "echo the reason; exit 3")
        return Tally(passed=1)

    testing.run_stages([stage(work)], LANES)
    shown = capsys.readouterr().out
    assert "the reason" in shown
    assert "example: sh ended with status 3; its whole output: example.log" in shown


def test_failed_tests_are_named_when_their_stage_ends(capsys: pytest.CaptureFixture[str]) -> None:
    testing.run_stages([stage(names_its_failures, "one")], LANES)
    assert "one: test_login: no sudo" in capsys.readouterr().out


def test_a_missing_tool_fails_its_stage_and_no_other() -> None:
    def work(log: Log) -> Tally:
        log.run("no-such-tool")
        return Tally(passed=1)

    assert closing_line(work, passes) == "3 passed, 1 failed"


def test_the_log_of_a_passed_stage_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def work(log: Log) -> Tally:
        log.run("echo", "chatter")
        return Tally(passed=1)

    testing.run_stages([stage(work)], LANES)
    assert "chatter" not in capsys.readouterr().out


def test_junit_results_are_counted_by_case(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text(JUNIT)
    failures = ("c: tests/test_c.py:7: [ERROR]: no sudo", "d: fixture")
    tally = tally_of_junit(path)
    assert (tally.passed, tally.failed, tally.skipped, tally.failures) == (2, 2, 1, failures)
    assert sorted(tally.seconds)[-1] == (12.5, "a")


@pytest.mark.parametrize("content", [None, "", JUNIT[:100]], ids=["missing", "empty", "cut short"])
def test_results_that_cannot_be_read_fail_the_stage(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "results.xml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StageFailed, match=r"no test results in results\.xml"):
        tally_of_junit(path)


def test_fast_skips_slow_stages() -> None:
    quick, slow = stage(passes, "quick"), Stage("slow", "", passes, fast=False)
    assert stages.choose([quick, slow], fast=True) == [quick]
    assert stages.choose([quick, slow]) == [quick, slow]


def test_the_hardware_stage_runs_only_when_asked_for() -> None:
    quick, gpu = stage(passes, "quick"), Stage("gpu", "", passes, by_default=False)
    assert stages.choose([quick, gpu]) == [quick]
    assert stages.choose([quick, gpu], gpu=True) == [gpu]


def test_booted_machine_runs_on_request_and_with_everything() -> None:
    quick, machine = stage(passes, "quick"), Stage("machine", "", passes, False, by_default=False, with_all=True)
    assert stages.choose([quick, machine]) == [quick]
    assert stages.choose([quick, machine], machine=True) == [machine]
    assert stages.choose([quick, machine], everything=True) == [quick, machine]
    assert stages.choose([quick, machine], everything=True, fast=True) == [quick]
    assert machine not in stages.choose([quick, machine], everything=True, role="ssh")


def test_a_role_selects_its_scenario_and_no_other() -> None:
    every = [stage(passes, "ruff"), stage(passes, "molecule:ssh"), stage(passes, "molecule:mirrors")]
    assert [chosen.name for chosen in stages.choose(every, role="ssh")] == ["unit", "molecule:ssh"]


def test_request_for_a_missing_gpu_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "GPU_DEVICE", Path("/nonexistent/gpu"))
    status = testing.main(argparse.Namespace(fast=False, role=None, gpu=True, list=False, all=False))
    assert status == 1
    assert "nothing was tested" in capsys.readouterr().err


def test_every_stage_has_a_name_of_its_own() -> None:
    names = [each.name for each in stages.every_stage()]
    assert len(names) == len(set(names))


def test_a_command_that_hangs_fails_its_stage(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.testing.stage.LIMIT_S", 0)
    with pytest.raises(StageFailed, match="sleep did not end within 0 s"):
        Log(tmp_path / "log", {}).run("sleep", "infinity")


def test_a_process_is_killed_with_its_children():
    command = ["bash", "-c", "sleep infinity & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        sleep = Path("/proc", parent.stdout.readline().strip(), "stat")
        kill_tree(parent.pid)
    assert parent.returncode == -signal.SIGKILL
    # Killed, it may die only when a processor is free for it, and be collected later by the init of this machine.
    limit = time.monotonic() + 60
    while sleep.exists() and sleep.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < limit, "it runs on"
        time.sleep(0.01)


def test_python_of_a_stage_keeps_what_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command = ("python", "-c", "import sys; print(sys.dont_write_bytecode)")
    assert Log(tmp_path / "log").run(*command).output == "False\n"
