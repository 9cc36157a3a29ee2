# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the steps from the current instances to the requested ones, and back. Pure.

Steps name instances by their place: the driver chooses ids, and a recreated instance may get another.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    Instance,
    Layout,
    Profiles,
    Wanted,
    summary,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.search import (
    choose,
    fits,
    nearest,
    place_compute,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

DESTROY_COMPUTE = "destroy_compute"
DESTROY = "destroy"
CREATE = "create"
CREATE_COMPUTE = "create_compute"


class Busy(Exception):
    """The request fits the card, but not together with these instances, which have processes."""

    def __init__(self, instances: t.Sequence[Instance]) -> None:
        self.instances = tuple(instances)
        self.pids = tuple(sorted({pid for instance in instances for pid in instance.pids}))
        where = ", ".join(f"{instance.profile} at slot {instance.start}" for instance in instances)
        super().__init__(f"processes run in {where}")


@dataclasses.dataclass(frozen=True)
class Step:
    """One call that changes the card. ``compute``: the compute instance to create or destroy; without a start, the driver places it."""

    action: str
    profile: str
    start: int
    compute: Compute | None = None

    def description(self) -> str:
        where = f"{self.profile} at slot {self.start}"
        if self.compute is None:
            return f"{self.action} {where}"
        at = "" if self.compute.start is None else f" at slice {self.compute.start}"
        return f"{self.action} {self.compute.slices}c{at} of {where}"

    def as_data(self) -> dict[str, t.Any]:
        """Return the step as a plan hands it on; :func:`read_step` reads it."""
        compute = self.compute and {"slices": self.compute.slices, "start": self.compute.start}
        return {"action": self.action, "profile": self.profile, "start": self.start, "compute": compute}


def read_step(data: t.Mapping[str, t.Any]) -> Step:
    """Return a step from its data."""
    compute = data["compute"] and Compute(**data["compute"])
    return Step(data["action"], data["profile"], data["start"], compute)


def plan_layout(profiles: Profiles, current: Layout, wanted: t.Sequence[Wanted], keep: bool = True) -> list[Step]:
    """Plan the steps to the requested layout. Busy instances stay; idle ones go if they are surplus or block a placement.

    :raises Refusal: no placement on this card has all instances.
    :raises Busy: busy instances block every placement.
    """
    choices = choose(profiles, wanted, current, keep)
    if choices is None:
        refuse_impossible(profiles, wanted)
        if choose(profiles, wanted, [_idle(instance) for instance in current]) is None:
            raise Refusal(_no_room_inside(current, wanted))
        raise Busy(_in_the_way(profiles, current, wanted))
    existing = {choice.existing.place for choice in choices if choice.existing}
    destroyed, created = [], []
    for instance in current:
        if instance.place not in existing:
            destroyed += _destroy(instance)
    for choice in choices:
        profile, start = choice.wanted.profile, choice.start
        if choice.existing is None:
            created.append(Step(CREATE, profile, start))
        else:
            destroyed += [
                Step(DESTROY_COMPUTE, profile, start, compute)
                for compute in choice.existing.compute
                if compute not in choice.kept
            ]
        created += [Step(CREATE_COMPUTE, profile, start, compute) for compute in choice.new]
    return destroyed + created


def refuse_impossible(profiles: Profiles, wanted: t.Sequence[Wanted]) -> None:
    """Check that an empty card has room for a layout.

    :raises Refusal: it has not.
    """
    if fits(profiles, wanted):
        return
    layout_text = summary(instance.profile for instance in wanted)
    if fits(profiles, [dataclasses.replace(instance, start=None) for instance in wanted]):
        starts = ", ".join(
            f"{instance.profile} at {instance.start}" for instance in wanted if instance.start is not None
        )
        raise Refusal(
            f"layout: {layout_text} fits the card, but not with {starts}: leave `start` out, or choose others"
        )
    near = nearest(profiles, wanted)
    hint = f"; the nearest that fit: {', or '.join(near)}" if near else ""
    raise Refusal(f"layout: {layout_text} does not fit this card ({profiles.description()}){hint}")


def _in_the_way(profiles: Profiles, current: Layout, wanted: t.Sequence[Wanted]) -> list[Instance]:
    """Return the fewest busy instances that would have to end."""
    busy = [instance for instance in current if instance.pids]
    for count in range(1, len(busy) + 1):
        for ended in itertools.combinations(busy, count):
            if (
                choose(profiles, wanted, [_idle(instance) if instance in ended else instance for instance in current])
                is not None
            ):
                return list(ended)
    return busy


def _no_room_inside(current: Layout, wanted: t.Sequence[Wanted]) -> str:
    """Return the refusal for compute instances without room in their GPU instances."""
    tables = {instance.profile: instance.compute_starts for instance in current}
    lacking = [
        instance for instance in wanted if place_compute((), instance.compute, tables.get(instance.profile)) is None
    ]
    text = "; ".join(
        f"{' + '.join(f'{size}c' for size in instance.compute)} of {instance.profile}, where there are "
        + ", ".join(f"{size}c at {', '.join(map(str, at))}" for size, at in (tables[instance.profile] or {}).items())
        for instance in lacking
    )
    return f"layout: compute_instances do not fit: {text}"


def _idle(instance: Instance) -> Instance:
    return dataclasses.replace(
        instance, pids=(), compute=tuple(dataclasses.replace(compute, pids=()) for compute in instance.compute)
    )


def _destroy(instance: Instance) -> list[Step]:
    inner = [Step(DESTROY_COMPUTE, instance.profile, instance.start, compute) for compute in instance.compute]
    return [*inner, Step(DESTROY, instance.profile, instance.start)]


def plan_disabled(current: Layout) -> list[Step]:
    """Plan what has to go before MIG can be switched off.

    :raises Busy: processes run in an instance.
    """
    busy = [instance for instance in current if instance.pids]
    if busy:
        raise Busy(busy)
    return [step for instance in current for step in _destroy(instance)]


def rollback(now: Layout, before: Layout) -> list[Step]:
    """Plan the steps from the state that a failed run left to exactly the state before it, place by place.

    It compares with the current instances and not with the calls: a failed call may have had its effect.
    """
    wanted = {instance.place: instance for instance in before}
    present = {instance.place: instance for instance in now}
    destroyed, created = [], []
    for instance in now:
        if instance.place not in wanted:
            destroyed += _destroy(instance)
            continue
        places = {compute.place for compute in wanted[instance.place].compute}
        destroyed += [
            Step(DESTROY_COMPUTE, instance.profile, instance.start, compute)
            for compute in instance.compute
            if compute.place not in places
        ]
    for instance in before:
        places = set()
        if instance.place in present:
            places = {compute.place for compute in present[instance.place].compute}
        else:
            created.append(Step(CREATE, instance.profile, instance.start))
        created += [
            Step(CREATE_COMPUTE, instance.profile, instance.start, Compute(compute.slices, compute.start))
            # In the order of their ids, so that they get the same order again.
            for compute in sorted(instance.compute, key=lambda compute: compute.id)
            if compute.place not in places
        ]
    return destroyed + created


def predict(layout: Layout, steps: t.Sequence[Step]) -> Layout:
    """Predict the instances, for check mode; new ones have no ids."""
    present = {instance.place: instance for instance in layout}
    for step in steps:
        place = (step.profile, step.start)
        if step.action == CREATE:
            present[place] = Instance(*place)
        elif step.action == DESTROY:
            del present[place]
        elif step.compute:
            held = present[place].compute
            rest = tuple(instance for instance in held if instance.place != step.compute.place)
            present[place] = dataclasses.replace(
                present[place], compute=rest if step.action == DESTROY_COMPUTE else (*held, step.compute)
            )
    return tuple(sorted(present.values(), key=lambda instance: instance.start))


def same_places(first: Layout, other: Layout) -> bool:
    """Return whether the same instances are in the same places, whatever their ids."""

    def places(layout: Layout) -> set[tuple[t.Any, ...]]:
        return {(*gpu.place, frozenset(compute.place for compute in gpu.compute)) for gpu in layout}

    return places(first) == places(other)


def meets(layout: Layout, wanted: t.Sequence[Wanted]) -> bool:
    """Return whether a card has what is wanted and nothing else."""
    shapes = sorted(instance.shape for instance in layout)
    # Instances with a fixed start take theirs first.
    for instance in sorted(wanted, key=lambda instance: instance.start is None):
        found = next(
            (
                shape
                for shape in shapes
                if (shape[0], shape[2]) == (instance.profile, instance.compute) and instance.start in (None, shape[1])
            ),
            None,
        )
        if found is None:
            return False
        shapes.remove(found)
    return not shapes
