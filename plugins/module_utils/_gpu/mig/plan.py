# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the changes of one GPU from its state and the request, as data that a later run can execute. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    DISABLED,
    ENABLED,
    State,
    expand,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import UNCHANGED, Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    Busy,
    Step,
    plan_disabled,
    plan_layout,
    read_step,
    refuse_impossible,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


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

    def as_data(self) -> dict[str, t.Any]:
        """Return the plan as it is handed on to a later task."""
        return {
            "fingerprint": fingerprint(self.state, self.request),
            "mode": self.mode,
            "steps": [step.as_data() for step in self.steps],
            "needs": self.needs,
            "resets": self.resets,
            "open": self.open_,
        }


def fingerprint(state: State, request: Request) -> str:
    """Return the digest of all that a plan is made from."""
    text = json.dumps([dataclasses.asdict(state), dataclasses.asdict(request)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Planner:
    """The plans of GPUs. A GPU is planned again only if its state or its request differs from what a plan was made from.

    :param handed: plans of an earlier task, as data.
    """

    def __init__(self, handed: t.Iterable[t.Mapping[str, t.Any]] = ()) -> None:
        self._plans: dict[str, t.Mapping[str, t.Any]] = {row["fingerprint"]: row for row in handed}

    def plan(self, state: State, request: Request) -> Plan:
        """Return the plan from the state of a GPU to the request.

        :raises Refusal: the card cannot meet the request.
        :raises CardBusy: processes block the change.
        """
        key = fingerprint(state, request)
        if key not in self._plans:
            self._plans[key] = plan(state, request).as_data()
        data = self._plans[key]
        steps = tuple(map(read_step, data["steps"]))
        return Plan(state, request, data["mode"], steps, data["needs"], data["resets"], data["open"])


@dataclasses.dataclass
class Judged:
    """The plan of a GPU, and the processes that block it."""

    plan: Plan
    busy: tuple[int, ...] = ()
    why: str = ""


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


class ModePlan(t.NamedTuple):
    """How to reach a mode. ``needs``: an action that the user has not allowed."""

    write: bool
    needs: str = "none"


def plan_mode(current: str, pending: str, wanted: str, resetless: bool, allow_reset: bool) -> ModePlan:
    """Plan the change of the MIG mode.

    Hopper and later switch without a reset (NVML field 184). Ampere resets the GPU, and nvmlDeviceSetMigMode does that by itself when
    the GPU is idle: where no reset is allowed, it must not even be called. A mode that is pending already was set where the reset failed,
    and each further try would stop services for nothing.
    """
    if wanted == "unchanged" or (current == wanted and pending == wanted):
        return ModePlan(write=False)
    if not resetless and allow_reset and current != wanted and pending == wanted:
        return ModePlan(write=False, needs="reboot")
    if resetless or allow_reset or current == wanted:
        # With current == wanted the call only cancels the pending mode.
        return ModePlan(write=True)
    return ModePlan(write=False, needs="gpu_reset")
