# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a request for MIG: plan all GPUs before the first change, then change each GPU as a transaction of its own.

Modules that declare MIG and more (gpu_sharing_plan) call :func:`run` or :func:`run_requests` in their own process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import parted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.apply import (
    UNCHANGED,
    CardBusy,
    Failed,
    Plan,
    ResetRefused,
    apply,
    described,
    instances,
    plan,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import (
    DISABLED,
    ENABLED,
    Device,
    State,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Layout,
    count_of,
    slot_map,
    summary,
    uuid_changes,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import predict
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import (
    Requests,
    parameters,
    resolve,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import describe

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

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


@dataclasses.dataclass
class Judged:
    """The plan of a GPU, and the processes that block it."""

    plan: Plan
    busy: tuple[int, ...] = ()
    why: str = ""


def run(module: Runner, nvml: Nvml, params: t.Mapping[str, t.Any], program: str, root: str = "/") -> Facts:
    """Apply the parameters of gpu_mig, see :func:`run_requests`."""
    return run_requests(module, nvml, resolve(nvml.cards(), params), params, program, root)


def run_requests(
    module: Runner,
    nvml: Nvml,
    requests: Requests,
    params: t.Mapping[str, t.Any],
    program: str,
    root: str = "/",
) -> Facts:
    """Apply the request of each GPU, and return the result of the module.

    :param params: parameters of gpu_mig for all GPUs: when_busy, busy_timeout, allow_reset, stop_services, persist, refresh_cdi.
    :param program: the boot program, ``_gpu.mig.boot.PROGRAM``.
    :raises Refusal: nothing was written.
    :raises NvmlError: nothing was written.
    :raises Stopped: processes block a change, or a plan failed.
    """
    tree = Tree(root)
    judged = _judge(nvml, requests, params, tree, wait=not module.check_mode)
    declaration = _declaration(judged, requests.forgotten, params, program, tree)
    rows = [_row(entry, None) for entry in judged]
    afters: dict[str, State] = {}
    for number, entry in enumerate(judged):
        if module.check_mode or entry.busy or not entry.plan.changed:
            continue
        try:
            entry.plan, after = _carry_out(module, nvml, entry.plan, params["stop_services"], tree)
        except (Failed, CardBusy, NvmlError, Refusal) as error:
            # Containers need the new instances of the GPUs before this one.
            _refresh_cdi(module, tree, params, rows[:number])
            raise _stopped_by(error, entry, tree, gpus=rows[:number], changed=bool(afters)) from error
        afters[after.uuid] = after
        rows[number] = _row(entry, after)
    result: Facts = {
        "changed": bool(declaration and declaration.changed) or any(row["changes"] for row in rows),
        "gpus": rows,
        "needs": next((row["needs"] for row in rows if row["needs"] != "none"), "none"),
        "mig_parted": _exported(nvml, judged, afters),
        "boot": declaration.changed if declaration else [],
        "diff": _diff(judged, afters, declaration),
    }
    due = [
        f"{entry.plan.state.label} ({entry.plan.state.uuid}) was left as it is: MIG {entry.plan.request.mode} needs a reset. "
        "Set allow_reset: gpu when no program uses it"
        for entry in judged
        if entry.plan.needs == "gpu_reset"
    ]
    due += [
        f"{entry.plan.state.label} ({entry.plan.state.uuid}): {_step_to_enter(entry.plan.state, tree)}"
        for entry in judged
        if entry.plan.needs == "reboot" and not entry.plan.changed
    ]
    for text in [*requests.warnings, *due, *(_busy_message(entry, tree) for entry in judged if entry.busy)]:
        module.warn(text)
    # Before the declaration: the next run completes a missing declaration, and not a missing refresh of CDI.
    result["cdi_refreshed"] = _refresh_cdi(module, tree, params, rows)
    if declaration and declaration.changed and not module.check_mode:
        try:
            declaration.write(module)
        except OSError as error:
            message = f"the GPUs are as requested, but the next boot does not restore them ({error})"
            remedy = "make the path writable, or set persist to none"
            raise Stopped(f"{message}: {remedy}", gpus=rows, changed=result["changed"]) from error
    return result


def _judge(nvml: Nvml, requests: Requests, params: t.Mapping[str, t.Any], tree: Tree, wait: bool) -> list[Judged]:
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
                judged.append(Judged(plan(state, request)))
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


def _carry_out(module: Runner, nvml: Nvml, plan_: Plan, services: t.Sequence[str], tree: Tree) -> tuple[Plan, State]:
    device = Device(nvml, plan_.state.uuid)
    # The first plan may be minutes old: processes may have started since.
    plan_ = plan(device.read(), plan_.request)

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
    with _stopped(module, services if plan_.resets else []):
        after = apply(device, plan_, reset if plan_.request.allow_reset else None)
    if plan_.mode and after.mode != plan_.mode:
        module.warn(f"{after.label} ({after.uuid}): {refusals[-1]}: {_step_to_enter(after, tree)}")
        plan_ = dataclasses.replace(plan_, needs="reboot")
    return plan_, after


def _step_to_enter(state: State, tree: Tree) -> str:
    """Return how a GPU that was not reset enters its pending mode."""
    unload = "`rmmod nvidia_drm` and " if tree.exists("/sys/module/nvidia_drm") else ""
    return (
        f"MIG {state.pending} waits for a reboot, after which the boot's service or the next run makes the layout."
        f" Where the GPU can be reset, {unload}`nvidia-smi --gpu-reset -i {state.uuid}` do without, when no program uses it"
    )


@contextlib.contextmanager
def _stopped(module: Runner, services: t.Sequence[str]) -> t.Iterator[None]:
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


def _target(plan_: Plan) -> tuple[str | None, Layout]:
    """Return mode and instances after the plan."""
    mode = plan_.mode or plan_.state.mode
    return mode, predict(plan_.state.layout, plan_.steps) if mode == ENABLED else ()


def _row(entry: Judged, after: State | None) -> Facts:
    """Return the result row of a GPU. Without *after* it shows the state before, or the predicted one in check mode."""
    plan_ = entry.plan
    skipped = bool(entry.busy) and not plan_.changed
    mode, layout = _target(plan_)
    gpu = described(after or plan_.state)
    if after is None and plan_.changed:
        gpu.update(
            mode=mode,
            pending=mode,
            instances=instances(layout),
            slots=slot_map(plan_.state.profiles, layout) if mode == ENABLED else [],
        )
    return {
        **gpu,
        "changes": plan_.descriptions(),
        "needs": plan_.needs,
        "skipped": skipped,
        "uuid_changes": uuid_changes(plan_.state.layout, after.layout) if after else {},
    }


def _exported(nvml: Nvml, judged: t.Sequence[Judged], afters: t.Mapping[str, State]) -> Facts:
    states = [afters.get(entry.plan.state.uuid, entry.plan.state) for entry in judged]
    return parted.write(
        {
            state.index: (
                state.mode,
                state.layout,
                {name: profile.slices for name, profile in state.profiles.items()},
            )
            for state in states
            if state.mode
        },
        hosts=len(nvml.cards()),
    )


def _diff(judged: t.Sequence[Judged], afters: t.Mapping[str, State], declaration: boot.Declaration | None) -> Facts:
    before, after = [], []
    for gpu in judged:
        state = gpu.plan.state
        done = afters.get(state.uuid)
        mode, layout = (done.mode, done.layout) if done else _target(gpu.plan)
        before += _lines(state, state.mode, state.layout, declaration.before if declaration else {})
        after += _lines(state, mode, layout, declaration.after if declaration else {})
        if gpu.plan.open_ and not done:
            after += [f"  {summary(str(entry['profile']) for entry in gpu.plan.request.layout or ())}"]
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def _lines(state: State, mode: str | None, layout: Layout, declared: ByCard) -> list[str]:
    lines = [f"{state.uuid} {state.label}", f"  MIG {mode or 'not supported'}"]
    if mode == ENABLED:
        lines += [f"  {line}" for line in slot_map(state.profiles, layout)]
    entry = declared.get(state.uuid)
    if entry:
        names = [str(row["profile"]) for row in entry["layout"] or () for _number in range(count_of(row))]
        lines.append(f"  at boot: MIG {entry['mode']}{', ' + summary(names) if entry['layout'] is not None else ''}")
    return lines


def _refresh_cdi(module: Runner, tree: Tree, params: t.Mapping[str, t.Any], rows: t.Sequence[Facts]) -> bool:
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
