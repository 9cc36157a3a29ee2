"""The contract that every role is held to on real hosts. That check mode changes nothing on a fresh host, converge.yml sees to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator

import pytest

from harness import fingerprint
from harness.clients import Machine

MODULE_RUNS = int(os.environ.get("MODULE_RUNS", "4"))

# Changes that check mode cannot know of, by role: a pattern of their lines in `changes`, and the reason.
BEYOND_CHECK_MODE: dict[str, dict[str, str]] = {}


def changes(output: str, host: str) -> Iterator[str]:
    """What a run with -v changed on a host: the task, and each path or unit that its result names."""
    task = ""
    for line in output.splitlines():
        if heading := re.match(r"TASK \[(?:\S+ : )?(.+)\] \*", line):
            task = heading[1]
        elif found := re.match(rf"changed: \[{host}\] => (?:\(item=.*\) => )?(\{{.*\}})$", line):
            result = json.loads(found[1])
            units = [f"{verb} {unit}" for unit, verbs in result.get("actions", {}).items() for verb in verbs]
            for what in [*result.get("changed_paths", []), *units] or ["changed"]:
                yield f"{task}: {what}"


def test_the_second_run_changes_and_restarts_nothing(apply: Callable, targets: list[Machine], scenario: str) -> None:
    first = apply()
    assert first.rc == 0, first.output
    before = [(fingerprint.of(target), fingerprint.service_starts(target)) for target in targets]

    second = apply()

    assert second.rc == 0, second.output
    assert set(second.changed().values()) == {0}
    for target, (state, starts) in zip(targets, before, strict=True):
        assert fingerprint.difference(state, fingerprint.of(target)) == []
        assert fingerprint.service_starts(target) == starts
        assert second.hosts[target.host.name]["roles"][scenario]["module_runs"] <= MODULE_RUNS


def test_check_mode_finds_nothing_to_change_after_a_run(apply: Callable) -> None:
    assert apply().rc == 0
    result = apply(check=True)
    assert result.rc == 0, result.output
    assert set(result.changed().values()) == {0}


def test_absent_gives_the_host_back(apply: Callable, targets: list[Machine], scenario: str) -> None:
    fresh = fingerprint.remembered("molecule")

    result = apply(variables={f"{scenario}_state": "absent"})

    assert result.rc == 0, result.output
    for target in targets:
        before = fresh[target.host.name]
        # Packages stay: something else on the host may need them by now.
        after = fingerprint.without_new_packages(before, fingerprint.of(target))
        assert fingerprint.difference(before, after) == []
    again = apply(variables={f"{scenario}_state": "absent"})
    assert again.rc == 0, again.output
    assert set(again.changed().values()) == {0}


@pytest.mark.parametrize("state", ["present", "absent"])
def test_check_mode_tells_beforehand_what_a_run_changes(
    apply: Callable, targets: list[Machine], scenario: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"present": "absent", "absent": "present"}[state]
    assert apply(variables={f"{scenario}_state": other}).rc == 0
    # One plain line of JSON for each result.
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")
    monkeypatch.setenv("ANSIBLE_CALLBACK_FORMAT_PRETTY", "false")
    monkeypatch.setenv("ANSIBLE_FORCE_COLOR", "false")
    variables = {f"{scenario}_state": state}

    rehearsal = apply(scenario, "targets", variables, "-v", check=True)
    real = apply(scenario, "targets", variables, "-v")

    assert rehearsal.rc == real.rc == 0, rehearsal.output + real.output
    unforeseen = BEYOND_CHECK_MODE.get(scenario, {})
    for target in targets:
        told, done = (sorted(changes(result.output, target.host.name)) for result in (rehearsal, real))
        assert len(done) > 0
        assert told == [line for line in done if not any(re.search(pattern, line) for pattern in unforeseen)]
