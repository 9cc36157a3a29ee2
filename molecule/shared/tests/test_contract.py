"""The contract that every role is held to on real hosts; check mode on a fresh host is held to it by converge.yml."""

from __future__ import annotations

import os
from collections.abc import Callable

from harness import fingerprint
from harness.clients import Machine

MODULE_RUNS = int(os.environ.get("MODULE_RUNS", "4"))


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
    assert set(again.changed().values()) == {0}
