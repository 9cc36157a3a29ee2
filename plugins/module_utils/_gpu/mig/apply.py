# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply the plan of one GPU as a transaction."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    DISABLED,
    ENABLED,
    Compute,
    State,
    Wanted,
    expand,
    slot_map,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.result import described
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    CREATE,
    CREATE_COMPUTE,
    Busy,
    Step,
    meets,
    plan_disabled,
    plan_layout,
    rollback,
    same_places,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal


class Failed(Exception):
    """A plan failed. ``now`` is None if the GPU no longer answers; ``restored``: the GPU is as it was before."""

    def __init__(self, before: State, now: State | None, cause: Exception, done: list[str], problem: str = "") -> None:
        self.before, self.now, self.cause, self.done, self.problem = before, now, cause, done, problem
        self.restored = not problem
        outcome = "everything was restored" if self.restored else f"the restore failed too: {problem}"
        steps = f" after {', '.join(done)}" if done else ""
        super().__init__(f"{before.label}: {cause}{steps}; {outcome}")

    def as_result(self) -> dict[str, t.Any]:
        """Return both states, for the result."""
        error = self.cause.as_result() if isinstance(self.cause, NvmlError) else {"nvml_error": None}
        return {
            **error,
            "restored": self.restored,
            "before": described(self.before),
            "now": described(self.now) if self.now else None,
        }


class ResetRefused(NvmlError):
    """The GPU cannot be reset, as in a virtual machine, or with nvidia_drm loaded. A mode that was set before waits for a reboot."""


class NotAsPlanned(Exception):
    """All calls succeeded, but the GPU differs from the request."""


def apply(device: Device, plan_: Plan, reset: t.Callable[[], None] | None = None) -> State:
    """Apply a plan as a transaction.

    Where the GPU cannot be reset, the new mode stays pending: only a reboot enters it, and the next run makes the layout. Instances that
    had to go for it are restored instead: until the reboot nobody could use the GPU.

    :param reset: resets the GPU after a change of mode that needs it; only where the user allows it.
    :raises Failed: a step failed; the steps before it are reverted as far as possible.
    """
    done: list[str] = []
    try:
        return _carry_out(device, plan_, reset, done)
    except ResetRefused as cause:
        waiting = device.read()
        if waiting.pending == plan_.mode and not (plan_.mode == DISABLED and plan_.state.layout):
            return waiting
        now, problem = _restore(device, plan_.state, reset)
        raise Failed(plan_.state, now, cause, done, problem) from cause
    except (NvmlError, NotAsPlanned, Refusal, Busy) as cause:
        now, problem = _restore(device, plan_.state, reset)
        raise Failed(plan_.state, now, cause, done, problem) from cause
    except BaseException:
        _restore(device, plan_.state, reset)
        raise


def _carry_out(device: Device, plan_: Plan, reset: t.Callable[[], None] | None, done: list[str]) -> State:
    steps: t.Sequence[Step] = plan_.steps
    if plan_.mode == ENABLED:
        set_mode(device, ENABLED, reset)
        done.append(f"MIG {ENABLED}")
    if plan_.open_:
        state = device.read()
        steps = plan_layout(state.profiles, state.layout, expand(plan_.request.layout or (), state.profiles))
    run_steps(device, steps, done)
    if plan_.mode == DISABLED:
        set_mode(device, DISABLED, reset)
        done.append(f"MIG {DISABLED}")
    after = device.read()
    _verify(after, plan_)
    return after


def run_steps(device: Device, steps: t.Sequence[Step], done: list[str]) -> None:
    """Run the steps in order, and add each that succeeded to *done*."""
    settled: dict[tuple[str, int], list[Compute]] = {}
    for number, step in enumerate(steps):
        place = (step.profile, step.start)
        if step.action == CREATE_COMPUTE and place in settled:
            step = dataclasses.replace(step, compute=settled[place].pop(0))
        device.take(step)
        done.append(step.description())
        if step.action == CREATE:
            inner = [
                later.compute
                for later in steps[number + 1 :]
                if later.action == CREATE_COMPUTE and (later.profile, later.start) == place and later.compute
            ]
            if len(inner) > 1 and any(compute.start is None for compute in inner):
                settled[place] = device.settle(*place, [compute.slices for compute in inner])


def set_mode(device: Device, mode: str, reset: t.Callable[[], None] | None) -> None:
    """Switch MIG on or off, and confirm that the mode is active.

    :raises NvmlError: the mode is not active, also where NVML says SUCCESS and means it only for the pending one.
    """
    try:
        device.set_mode(mode)
    except NvmlError as error:
        if error.name != "RESET_REQUIRED" or reset is None:
            raise
        reset()


def _verify(after: State, plan_: Plan) -> None:
    if plan_.mode and (after.mode, after.pending) != (plan_.mode, plan_.mode):
        raise NotAsPlanned(f"MIG is {after.mode} (pending: {after.pending}) and should be {plan_.mode}")
    if after.mode != ENABLED or plan_.request.layout is None:
        return
    wanted: t.Sequence[Wanted] = expand(plan_.request.layout, after.profiles)
    if not meets(after.layout, wanted):
        raise NotAsPlanned(
            f"the instances differ from the request: {'; '.join(slot_map(after.profiles, after.layout))}"
        )


def _restore(device: Device, before: State, reset: t.Callable[[], None] | None) -> tuple[State | None, str]:
    """Return the state of the GPU now, and why it is not what it was; an empty text where it is."""
    now: State | None = None
    try:
        now = device.read()
        if now.mode == ENABLED and before.mode == DISABLED:
            run_steps(device, plan_disabled(now.layout), [])
        if (now.mode, now.pending) != (before.mode, before.pending) and before.pending:
            set_mode(device, before.pending, reset)
            now = device.read()
        if before.mode == ENABLED:
            run_steps(device, rollback(now.layout, before.layout), [])
        now = device.read()
    except (NvmlError, Busy) as error:
        return _reread(device, now), str(error)
    if (now.mode, now.pending) != (before.mode, before.pending):
        return now, f"MIG is {now.mode} (pending: {now.pending}) and was {before.mode} (pending: {before.pending})"
    return now, "" if same_places(now.layout, before.layout) else "the instances differ from those before"


def _reread(device: Device, now: State | None) -> State | None:
    try:
        return device.read()
    except NvmlError:
        return now
