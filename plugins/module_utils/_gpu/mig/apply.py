# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the changes of one GPU, and apply a plan as a transaction."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import (
    DISABLED,
    ENABLED,
    Device,
    State,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    Layout,
    Wanted,
    expand,
    slot_map,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import (
    CREATE,
    CREATE_COMPUTE,
    Busy,
    Step,
    meets,
    plan_disabled,
    plan_layout,
    plan_mode,
    refuse_impossible,
    rollback,
    same_places,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

UNCHANGED = "unchanged"


@dataclasses.dataclass(frozen=True)
class Request:
    """The requested mode and layout of one GPU. ``layout``: None leaves the instances as they are; an empty one removes all.

    ``optional``: the request is for all GPUs, so that one without MIG is left as it is.
    """

    mode: str = UNCHANGED
    layout: tuple[t.Mapping[str, t.Any], ...] | None = None
    keep: bool = True
    allow_reset: bool = False
    optional: bool = False

    @property
    def wants_mig(self) -> bool:
        return self.mode == ENABLED or bool(self.layout)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The changes of one GPU. ``mode``: the mode to set, or None; ``open_``: the card reports its profiles only with MIG on."""

    state: State
    request: Request
    mode: str | None = None
    steps: tuple[Step, ...] = ()
    needs: str = "none"
    resets: bool = False
    open_: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.mode or self.steps)

    def descriptions(self) -> list[str]:
        """Return the changes as text, in the order in which they are made."""
        mode = [f"MIG {self.mode}"] if self.mode else []
        steps = [step.description() for step in self.steps]
        later = ["the layout, once the card reports its profiles"] if self.open_ else []
        return steps + mode if self.mode == DISABLED else mode + steps + later


class CardBusy(Exception):
    """A mode cannot change while processes use the card."""

    def __init__(self, pids: t.Sequence[int], why: str) -> None:
        self.pids = tuple(pids)
        super().__init__(why)


def plan(state: State, request: Request) -> Plan:
    """Plan the changes from the state of a GPU to the request; pure.

    :raises Refusal: the card cannot meet the request.
    :raises CardBusy: processes block the change.
    """
    _refuse_unfit(state, request)
    if state.mode is None:
        return Plan(state, request)
    mode = plan_mode(state.mode, state.pending or state.mode, request.mode, state.resetless, request.allow_reset)
    target = state.mode if request.mode == UNCHANGED else request.mode
    resets = mode.write and not state.resetless and state.mode != target
    if mode.needs != "none":
        if target == ENABLED and request.layout is not None and state.profiles:
            # No reset helps a layout for which the card has no room.
            refuse_impossible(state.profiles, expand(request.layout, state.profiles))
        return Plan(state, request, needs=mode.needs)
    steps: list[Step] = []
    open_ = False
    try:
        if target == DISABLED:
            steps = plan_disabled(state.layout)
        elif request.layout is not None and state.profiles:
            steps = plan_layout(state.profiles, state.layout, expand(request.layout, state.profiles), request.keep)
        else:
            open_ = bool(request.layout)
    except Busy as busy:
        raise CardBusy(busy.pids, str(busy)) from busy
    if mode.write and state.mode != target and state.pids:
        raise CardBusy(state.pids, "processes use the GPU, whose mode would change")
    return Plan(state, request, target if mode.write else None, tuple(steps), resets=resets, open_=open_)


def _refuse_unfit(state: State, request: Request) -> None:
    if request.mode == DISABLED and request.layout:
        raise Refusal("layout: a GPU with `mode: disabled` has no instances; leave one of them out")
    if state.mode is None:
        if request.wants_mig and not request.optional:
            raise Refusal(
                f"{state.label} has no MIG: leave it out of `devices`, or share it by MPS or time-slicing (gpu_mps, gpu_mode)"
            )
        return
    if request.layout and request.mode == UNCHANGED and state.mode == DISABLED:
        raise Refusal("layout: MIG is off on this GPU; set mode: enabled")
    wants_mig = request.mode == ENABLED or (request.mode == UNCHANGED and request.layout)
    if wants_mig and (state.compute_mode or "").startswith("exclusive"):
        raise Refusal(
            f"{state.label} is in compute mode {state.compute_mode}, which excludes MIG: "
            "set it to default first (gpu_mode, compute_mode: default)"
        )


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


def described(state: State) -> dict[str, t.Any]:
    """Return a GPU as a result shows it."""
    return {
        "index": state.index,
        "uuid": state.uuid,
        "pci_address": state.pci_address,
        "name": state.name,
        "mode": state.mode,
        "pending": state.pending,
        "instances": instances(state.layout),
        "slots": slot_map(state.profiles, state.layout) if state.mode == ENABLED else [],
    }


def instances(layout: Layout) -> list[dict[str, t.Any]]:
    return [
        {
            "profile": instance.profile,
            "start": instance.start,
            "id": instance.id,
            "pids": list(instance.pids),
            "compute_instances": [
                {"slices": inner.slices, "start": inner.start, "id": inner.id, "uuid": inner.uuid}
                for inner in instance.compute
            ],
        }
        for instance in layout
    ]
