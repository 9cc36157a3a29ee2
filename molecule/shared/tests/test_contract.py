"""The contract that every role is held to on real hosts, after its first run (test_first_run.py) and its own tests.

It stands for molecule's step `idempotence` as well, which compares less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox import fingerprint
from harness.sandbox.clients import Machine
from harness.sandbox.site_output import changes

# A plan, and one more where it must be.
MODULE_RUNS = 2

# Changes that check mode cannot know of, by role: a pattern of their lines in `changes`, and the reason.
BEYOND_CHECK_MODE: dict[str, dict[str, str]] = {
    "gpu_sharing": {r"^Set GPU modes: ": "NVML is asked through nvidia-ml-py, which a fresh host does not have yet"},
}

# Roles after which no unit runs, or starts at boot, that did not before, also of packages that stay.
STOPS_ITS_UNITS = ("firewall", "ssh")


class Life:
    """The states of a role on the targets: a state that they are in already is not applied again."""

    def __init__(self, apply: Callable, scenario: str) -> None:
        self.apply, self.scenario = apply, scenario
        self.states: dict[str, str] = {}

    def run(self, state: str, *options: str, check: bool = False) -> Any:
        """Apply the role with a state, and expect success."""
        result = self.apply(self.scenario, "targets", {f"{self.scenario}_state": state}, *options, check=check)
        assert result.rc == 0, result.output
        if not check:
            self.states |= dict.fromkeys(result.hosts, state)
        return result

    def given(self, state: str, targets: list[Machine]) -> None:
        if {self.states.get(target.host.name) for target in targets} != {state}:
            self.run(state)


@pytest.fixture(scope="module")
def life(apply: Callable, scenario: str) -> Life:
    return Life(apply, scenario)


@pytest.fixture
def announced_changes(
    life: Life, targets: list[Machine], scenario: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Any]:
    """Apply a state, check that check mode announced the changes, and return the run in check mode."""
    # One plain line of JSON for each result.
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")
    monkeypatch.setenv("ANSIBLE_CALLBACK_FORMAT_PRETTY", "false")

    def prove(state: str) -> Any:
        planned = life.run(state, "-v", check=True)
        real = life.run(state, "-v")

        unforeseen = BEYOND_CHECK_MODE.get(scenario, {})
        for target in targets:
            announced, done = (sorted(changes(result.output, target.host.name)) for result in (planned, real))
            assert done
            assert announced == [line for line in done if not any(re.search(pattern, line) for pattern in unforeseen)]
        return planned

    return prove


@pytest.mark.of_states
@pytest.mark.both_releases
def test_the_second_run_changes_and_restarts_nothing(life: Life, targets: list[Machine], scenario: str) -> None:
    def module_runs(run: Any) -> int:
        return max(run.hosts[target.host.name]["roles"][scenario]["module_runs"] for target in targets)

    # The role's own tests may have left something to do, once. After it, or after a restart by hand, a run notes the state.
    for _run in range(3):
        before = [(fingerprint.of(target), fingerprint.service_starts(target)) for target in targets]
        second = life.run("present")
        if set(second.changed().values()) == {0} and module_runs(second) <= MODULE_RUNS:
            break

    assert set(second.changed().values()) == {0}
    for target, (state, starts) in zip(targets, before, strict=True):
        assert fingerprint.difference(state, fingerprint.of(target)) == []
        assert fingerprint.service_starts(target) == starts
    assert module_runs(second) <= MODULE_RUNS


@pytest.mark.of_states
def test_check_mode_finds_nothing_to_change_after_a_run(life: Life, targets: list[Machine]) -> None:
    life.given("present", targets)
    assert set(life.run("present", check=True).changed().values()) == {0}


@pytest.mark.of_states
def test_check_mode_announces_the_changes_of_absent(
    life: Life, announced_changes: Callable, targets: list[Machine]
) -> None:
    life.given("present", targets)
    announced_changes("absent")


@pytest.mark.of_states
@pytest.mark.both_releases
def test_absent_restores_the_host(life: Life, targets: list[Machine], scenario: str) -> None:
    fresh = fingerprint.remembered("molecule")

    # The test before has removed the role from one of them.
    removed = [name for name, state in life.states.items() if state == "absent"]
    done = life.run("absent")

    assert {name: done.changed()[name] for name in removed} == dict.fromkeys(removed, 0)
    for target in targets:
        before = fresh[target.host.name]
        # Packages stay: something else on the host may need them by now.
        found = fingerprint.of(target)
        after = fingerprint.without_packages(before, found)
        assert fingerprint.difference(before, after) == []
        if scenario in STOPS_ITS_UNITS:
            assert fingerprint.units(found) - fingerprint.units(before) == set()


@pytest.mark.of_states
def test_check_mode_announces_the_first_run_and_passes_nothing(
    life: Life, announced_changes: Callable, targets: list[Machine], scenario: str
) -> None:
    life.given("absent", targets)
    checked = announced_changes("present")
    for target in targets:
        found = checked.findings(target.host.name)
        assert [id_ for id_, status in found.items() if id_.startswith(f"{scenario}.") and status == "pass"] == []
