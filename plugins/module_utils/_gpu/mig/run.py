# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a request for MIG: plan all GPUs before the first change, then change each GPU as a transaction of its own.

The role gpu_sharing calls :func:`prepare` in its plan, and hands the plans of the GPUs to gpu_mig.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import result
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.apply import Failed, ResetRefused, apply
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import DISABLED, ENABLED, State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import (
    CardBusy,
    Judged,
    Plan,
    Planner,
    plan,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import (
    UNCHANGED,
    Requests,
    parameters,
    resolve,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import describe

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Commands

NAME = "gpu_mig"
# Seconds between two checks for processes.
PAUSE = 2.0
_NOT_FOUND = 127
# What nvidia-smi says of a GPU that programs use: "currently being used by one or more other processes".
_IN_USE = re.compile(r"other process", re.IGNORECASE)
CDI_REFRESH = "nvidia-cdi-refresh.service"
_UNIT_FILES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")

Facts = dict[str, t.Any]


class Stopped(Exception):
    """The run fails. ``result`` has the other keys of the module's result."""

    def __init__(self, message: str, **result: t.Any) -> None:
        super().__init__(message)
        self.result = result


def run(module: Commands, nvml: Nvml, params: t.Mapping[str, t.Any], program: str, root: str = "/") -> Facts:
    """Apply the parameters of gpu_mig, and return the result of the module.

    :raises Refusal: nothing was written.
    :raises NvmlError: nothing was written.
    :raises Stopped: processes block a change, or a plan failed.
    """
    requests = resolve(nvml.cards(), params)
    return prepare(nvml, requests, params, program, Tree(root), wait=not module.check_mode).carry_out(module)


def prepare(
    nvml: Nvml, requests: Requests, params: t.Mapping[str, t.Any], program: str, tree: Tree, wait: bool = False
) -> Prepared:
    """Read and plan all GPUs.

    :param params: parameters of gpu_mig for all GPUs: when_busy, busy_timeout, allow_reset, stop_services, persist, refresh_cdi, plans.
    :param program: the boot program, ``_gpu.mig.boot.PROGRAM``.
    :param wait: whether to wait for processes where the request says so.
    :raises Refusal: a GPU cannot meet its request; the text names all such GPUs.
    :raises NvmlError: a GPU does not answer.
    :raises Stopped: processes block a change.
    """
    # The declaration for boots has no plans.
    planner = Planner(params.get("plans") or ())
    judged = _judge(nvml, requests, params, tree, planner, wait)
    declaration = _declaration(judged, requests.forgotten, params, program, tree)
    return Prepared(nvml, tree, params, planner, requests.warnings, judged, declaration)


@dataclasses.dataclass
class Prepared:
    """A valid request with the plan of each GPU."""

    nvml: Nvml
    tree: Tree
    params: t.Mapping[str, t.Any]
    planner: Planner
    notes: list[str]
    judged: list[Judged]
    declaration: boot.Declaration | None

    @property
    def changed(self) -> bool:
        declared = self.declaration and self.declaration.changed
        return bool(declared) or any(entry.plan.descriptions() for entry in self.judged)

    @property
    def needs(self) -> str:
        return next((entry.plan.needs for entry in self.judged if entry.plan.needs != "none"), "none")

    @property
    def warnings(self) -> list[str]:
        states = [(entry.plan, f"{entry.plan.state.label} ({entry.plan.state.uuid})") for entry in self.judged]
        resets = [
            f"{label} was left as it is: MIG {plan_.request.mode} needs a reset. Set allow_reset: gpu when no program uses it"
            for plan_, label in states
            if plan_.needs == "gpu_reset"
        ]
        reboots = [
            f"{label}: {_step_to_enter(plan_.state, self.tree)}"
            for plan_, label in states
            if plan_.needs == "reboot" and not plan_.changed
        ]
        busy = [_busy_message(entry, self.tree) for entry in self.judged if entry.busy]
        return [*self.notes, *resets, *reboots, *busy]

    @property
    def plans(self) -> list[Facts]:
        """Return the plans that a later task executes, as data."""
        return [entry.plan.as_data() for entry in self.judged if entry.plan.changed and not entry.busy]

    def carry_out(self, module: Commands) -> Facts:
        """Change the GPUs, declare them for boots, and return the result of the module. In check mode, nothing is written.

        :raises Stopped: processes block a change, or a plan failed.
        """
        rows = [result.row(entry, None) for entry in self.judged]
        afters: dict[str, State] = {}
        for number, entry in enumerate(self.judged):
            if module.check_mode or entry.busy or not entry.plan.changed:
                continue
            try:
                entry.plan, after = self._carry_out(module, entry.plan)
            except (Failed, CardBusy, NvmlError, Refusal) as error:
                # Containers need the new instances of the GPUs before this one.
                _refresh_cdi(module, self.tree, self.params, rows[:number])
                raise _stopped_by(error, entry, self.tree, gpus=rows[:number], changed=bool(afters)) from error
            afters[after.uuid] = after
            rows[number] = result.row(entry, after)
        found: Facts = {
            "changed": self.changed,
            "gpus": rows,
            "needs": self.needs,
            "mig_parted": result.exported(self.judged, afters, len(self.nvml.cards())),
            "boot": self.declaration.changed if self.declaration else [],
            "diff": result.diff(self.judged, afters, self.declaration),
        }
        for text in self.warnings:
            module.warn(text)
        # Before the declaration: the next run completes a missing declaration, and not a missing refresh of CDI.
        found["cdi_refreshed"] = _refresh_cdi(module, self.tree, self.params, rows)
        if self.declaration and self.declaration.changed and not module.check_mode:
            try:
                self.declaration.write(module)
            except OSError as error:
                message = f"the GPUs are as requested, but the next boot does not restore them ({error})"
                remedy = "make the path writable, or set persist to none"
                raise Stopped(f"{message}: {remedy}", gpus=rows, changed=found["changed"]) from error
        return found

    def _carry_out(self, module: Commands, plan_: Plan) -> tuple[Plan, State]:
        nvml = self.nvml
        device = Device(nvml, plan_.state.uuid)
        # The first plan may be minutes old: processes may have started since.
        plan_ = self.planner.plan(device.read(), plan_.request)

        def reset() -> None:
            # An open NVML counts as a program that uses the GPU.
            nvml.__exit__()
            try:
                rc, out, err = module.run_command(
                    ["nvidia-smi", "--gpu-reset", "-i", plan_.state.uuid], handle_exceptions=False
                )
            except OSError as error:
                # A missing program is a failed step: the steps before it have to be reverted.
                rc, out, err = _NOT_FOUND, "", str(error)
            finally:
                nvml.__enter__()
            if rc:
                answer = (out + err).strip()
                # Programs can end, and no reboot is needed then.
                kind = NvmlError if rc == _NOT_FOUND or _IN_USE.search(answer) else ResetRefused
                refusals.append(f"nvidia-smi --gpu-reset ({answer})")
                raise kind(CODES["RESET_REQUIRED"], refusals[-1])

        refusals: list[str] = []
        with _stopped(module, self.params["stop_services"] if plan_.resets else []):
            after = apply(device, plan_, reset if plan_.request.allow_reset else None)
        if plan_.mode and after.mode != plan_.mode:
            module.warn(f"{after.label} ({after.uuid}): {refusals[-1]}: {_step_to_enter(after, self.tree)}")
            plan_ = dataclasses.replace(plan_, needs="reboot")
        return plan_, after


def _judge(
    nvml: Nvml, requests: Requests, params: t.Mapping[str, t.Any], tree: Tree, planner: Planner, wait: bool
) -> list[Judged]:
    """Plan for all GPUs; wait for processes where the request says so.

    :raises Refusal: a GPU cannot meet its request; the text names all such GPUs.
    """
    patience = params["busy_timeout"] if params["when_busy"] == "wait" else 0
    deadline = time.monotonic() + patience
    while True:
        judged, refused = [], []
        for card, request in requests.cards:
            state = Device(nvml, card.uuid).read()
            try:
                judged.append(Judged(planner.plan(state, request)))
            except CardBusy as busy:
                judged.append(Judged(Plan(state, request), busy.pids, str(busy)))
            except Refusal as refusal:
                refused.append(f"{card.index} ({state.label}): {refusal}")
        if refused:
            raise Refusal("; ".join(f"GPU {text}" for text in refused))
        if judged and all(entry.plan.request.wants_mig and entry.plan.state.mode is None for entry in judged):
            raise Refusal("devices: no GPU here has MIG; share it by MPS or time-slicing (gpu_mps, gpu_mode)")
        blocked = [entry for entry in judged if entry.busy]
        if not blocked or params["when_busy"] == "skip":
            return judged
        if params["when_busy"] == "wait" and not wait:
            # Check mode does not wait: it reports the changes that follow when the processes have ended.
            return [
                dataclasses.replace(entry, plan=_without_processes(entry.plan)) if entry.busy else entry
                for entry in judged
            ]
        if time.monotonic() >= deadline:
            remedy = "end them, or set when_busy to skip or wait"
            if params["when_busy"] == "wait":
                remedy = f"they did not end within {patience} s"
            message = "; ".join(_busy_message(entry, tree) for entry in blocked)
            raise Stopped(f"{message}: {remedy}", busy=[row for entry in blocked for row in _busy_rows(entry, tree)])
        time.sleep(PAUSE)


def _stopped_by(error: Exception, entry: Judged, tree: Tree, **result: t.Any) -> Stopped:
    """Return the failure of a GPU after others may have been changed."""
    if isinstance(error, Failed):
        return Stopped(str(error), **result, **error.as_result())
    if isinstance(error, CardBusy):
        late = Judged(entry.plan, error.pids, str(error))
        return Stopped(_busy_message(late, tree), **result, busy=_busy_rows(late, tree))
    details = error.as_result() if isinstance(error, NvmlError) else {}
    return Stopped(f"{entry.plan.state.label}: {error}. This GPU was not changed.", **result, **details)


def _without_processes(plan_: Plan) -> Plan:
    state = plan_.state
    layout = tuple(
        dataclasses.replace(
            instance, pids=(), compute=tuple(dataclasses.replace(inner, pids=()) for inner in instance.compute)
        )
        for instance in state.layout
    )
    ended = plan(dataclasses.replace(state, layout=layout, pids=()), plan_.request)
    return dataclasses.replace(ended, state=state)


def _busy_rows(entry: Judged, tree: Tree) -> list[Facts]:
    uuid = entry.plan.state.uuid
    return [{"gpu": uuid, "pid": pid, **describe(tree, pid)} for pid in entry.busy]


def _busy_message(entry: Judged, tree: Tree) -> str:
    rows = _busy_rows(entry, tree)
    who = ", ".join(
        f"{row['pid']} ({row['user'] or 'user unknown'}: {row['command'] or 'command unknown'})" for row in rows
    )
    return f"{entry.plan.state.label} ({entry.plan.state.uuid}) is busy: {entry.why}: {who}"


def _step_to_enter(state: State, tree: Tree) -> str:
    """Return how a GPU that was not reset enters its pending mode."""
    unload = "`rmmod nvidia_drm` and " if tree.exists("/sys/module/nvidia_drm") else ""
    return (
        f"MIG {state.pending} waits for a reboot, after which the boot's service or the next run makes the layout."
        f" Where the GPU can be reset, {unload}`nvidia-smi --gpu-reset -i {state.uuid}` do without, when no program uses it"
    )


@contextlib.contextmanager
def _stopped(module: Commands, services: t.Sequence[str]) -> t.Iterator[None]:
    """Stop services during a reset. Start those that ran again, also after a failure."""
    running = [
        service for service in services if module.run_command(["systemctl", "is-active", "--quiet", service])[0] == 0
    ]
    try:
        for service in running:
            module.run_command(["systemctl", "stop", service], check_rc=True)
        yield
    finally:
        failed = [service for service in running if module.run_command(["systemctl", "start", service])[0]]
        if failed:
            module.warn(f"stop_services: {', '.join(failed)} did not start again: look at `systemctl status`")


def _declaration(
    judged: t.Sequence[Judged], forgotten: t.Sequence[str], params: t.Mapping[str, t.Any], program: str, tree: Tree
) -> boot.Declaration | None:
    """Return the declaration for boots; None if it stays as it is. A GPU without MIG needs none.

    :raises Refusal: the current declaration cannot be read.
    """
    changes: dict[str, Facts | None] = dict.fromkeys(forgotten)
    for entry in [] if params["persist"] == "unchanged" else judged:
        request, state = entry.plan.request, entry.plan.state
        stays_off = request.mode == UNCHANGED and state.mode != ENABLED and request.layout is not None
        if params["persist"] == "none" or request.mode == DISABLED or stays_off:
            changes[state.uuid] = None
        elif state.mode and (request.mode == ENABLED or request.layout is not None):
            # Hopper and later lose the mode at a reboot.
            declared = dataclasses.replace(request, mode=ENABLED)
            changes[state.uuid] = parameters(state.uuid, declared, params)
    if not changes:
        return None
    return boot.prepare(tree, NAME, program, boot.read_declared(tree, NAME), changes, after=["gpu_mode"])


def _refresh_cdi(module: Commands, tree: Tree, params: t.Mapping[str, t.Any], rows: t.Sequence[Facts]) -> bool:
    """Refresh the CDI specification, with the service of the container toolkit, so that containers find the instances."""
    is_installed = any(tree.exists(f"{folder}/{CDI_REFRESH}") for folder in _UNIT_FILES) and tree.exists(
        "/run/systemd/system"
    )
    if params["refresh_cdi"] != "auto" or not is_installed or not any(row["changes"] for row in rows):
        return False
    if not module.check_mode:
        rc, _out, err = module.run_command(["systemctl", "restart", CDI_REFRESH])
        if rc:
            module.warn(f"refresh_cdi: {CDI_REFRESH} failed, and containers may not find the instances: {err.strip()}")
            return False
    return True
