# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the result of gpu_mig: the GPUs and the diff that a person is shown. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import parted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    ENABLED,
    Layout,
    State,
    count_of,
    slot_map,
    summary,
    uuid_changes,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import Judged, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import predict

Facts = dict[str, t.Any]


def described(state: State) -> Facts:
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


def instances(layout: Layout) -> list[Facts]:
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


def _target(plan_: Plan) -> tuple[str | None, Layout]:
    """Return mode and instances after the plan."""
    mode = plan_.mode or plan_.state.mode
    return mode, predict(plan_.state.layout, plan_.steps) if mode == ENABLED else ()


def row(entry: Judged, after: State | None) -> Facts:
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


def exported(judged: t.Sequence[Judged], afters: t.Mapping[str, State], hosts: int) -> Facts:
    """Return the layout of the GPUs as a configuration of nvidia-mig-parted.

    :param hosts: the number of GPUs of the host.
    """
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
        hosts,
    )


def diff(judged: t.Sequence[Judged], afters: t.Mapping[str, State], declaration: boot.Declaration | None) -> Facts:
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
        names = [str(part["profile"]) for part in entry["layout"] or () for _number in range(count_of(part))]
        lines.append(f"  at boot: MIG {entry['mode']}{', ' + summary(names) if entry['layout'] is not None else ''}")
    return lines
