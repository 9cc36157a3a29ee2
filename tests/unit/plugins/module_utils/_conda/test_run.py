# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which environments are installed. Their content: test_plan.py and ../../modules/test_conda_environment.py."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import (
    CondaError,
    Environment,
    Generation,
    Package,
    Receipt,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import Step, apply, describe

OLD = {"a": Package("1", "0")}


def environment(name: str, *numbers: int, leftovers: tuple[int, ...] = ()) -> Environment:
    generations = {number: Generation(number, Receipt({}, True, OLD), OLD) for number in numbers}
    return Environment(name, max(numbers, default=None), generations, leftovers, max(numbers, default=0))


def store() -> Any:
    fake = Mock()
    fake.link.side_effect = lambda name: f"/envs/{name}"
    fake.install.return_value = {"a": Package("2", "0")}
    return fake


def done(store: Any) -> list[str]:
    return [call[0] for call in store.method_calls if call[0] not in ("link", "tidy")]


def test_apply_installs_then_switches_then_discards():
    disk = store()
    steps = [Step(Wanted(name, {}, keep=0), environment(name, 1, leftovers=(2,)), 3, make=["new"]) for name in "ab"]
    installed = apply(disk, steps, Mock())
    assert done(disk) == [*["discard"] * 2, *["install"] * 2, *["switch"] * 2, *["discard"] * 2, "prune_cache"]
    assert installed == {"a": {"a": Package("2", "0")}, "b": {"a": Package("2", "0")}}


@pytest.mark.parametrize("error", [CondaError("a hash mismatch"), OSError(28, "No space left on device")])
def test_failed_install_switches_no_link(error):
    disk = store()
    disk.install.side_effect = [{}, error]
    with pytest.raises(type(error)):
        apply(disk, [Step(Wanted(name, {}), environment(name, 1), 2, make=["new"]) for name in "ab"], Mock())
    assert done(disk) == ["install", "install", "discard"]


def test_generation_with_processes_stays():
    step = Step(Wanted("a", {}, keep=0), environment("a", 1, 2), 2, held={1: [4711]})
    assert step.surplus == [] and not step.changes
    assert step._replace(held={}).surplus == [1]


def test_removed_environment_takes_all_its_generations():
    disk = store()
    step = Step(Wanted("a", {}, present=False), environment("a", 1, 2), None)
    apply(disk, [step], Mock())
    assert done(disk) == ["unlink", "discard", "discard", "prune_cache"]
    outcome = describe(step, disk, {})
    assert (outcome["prefix"], outcome["generation"], outcome["previous"], outcome["removed"]) == ("", 0, [], ["a 1 0"])
