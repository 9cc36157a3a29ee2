"""The first run of every role on fresh hosts. All other tests go on from there, and none runs if it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox import fingerprint
from harness.sandbox.clients import Machine

pytestmark = [pytest.mark.first, pytest.mark.both_releases]


def test_check_mode_changes_nothing_on_a_fresh_host(applied: Callable[..., Any], targets: list[Machine]) -> None:
    fresh = fingerprint.remember("molecule", targets)
    applied(check=True)
    for target in targets:
        assert fingerprint.difference(fresh[target.host.name], fingerprint.of(target)) == []


def test_the_first_run_succeeds(first_run: Any, targets: list[Machine]) -> None:
    assert set(first_run.hosts) == {target.host.name for target in targets}
