# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards with MIG as data, and one in memory that runs steps and refuses impossible ones."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    ComputeStarts,
    Instance,
    Layout,
    Profile,
    Profiles,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.search import place_compute
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    CREATE,
    CREATE_COMPUTE,
    DESTROY,
    DESTROY_COMPUTE,
    Step,
)

from harness.fakes.nvml import file_of, read_model

# How many cases the property tests try; the figure is made with 10000.
CASES = int(os.environ.get("RIGWRIGHT_CASES", "150"))

# The models that have MIG.
_MODELS = ("A100 40GB", "A100 80GB", "A30", "B200", "H100", "H200", "RTX PRO 6000")
_ENGINES = ("decoders", "encoders", "jpegs", "ofas")


def _profiles(model: str) -> Profiles:
    """Return the profiles of a model of the fake NVML."""
    found = Profiles()
    for row in read_model(file_of(model)[1])["mig"]["profile"].values():
        places = [[int(number) for number in place.split(":")] for place in row["placements"]]
        name = row["name"].removeprefix("MIG ")
        found[name] = Profile(
            name,
            row["id"],
            row["slices"],
            places[0][1],
            tuple(start for start, _size in places),
            row["instances"],
            engines=tuple(row.get(engine, 0) for engine in _ENGINES),
        )
    return found


CARDS = {model: _profiles(model) for model in _MODELS}

# Where compute instances start on GPU instances of so many slices (nvidia-smi mig -lcipp).
_COMPUTE_STARTS: dict[int, dict[int, tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}


def compute_starts(slices: int) -> ComputeStarts:
    return _COMPUTE_STARTS[slices]


class CardInMemory:
    """A card that takes steps. Every new instance gets a new id and UUID, so that kept ones can be recognized."""

    def __init__(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.layout: Layout = ()
        self.created = 0

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.take(step)

    def take(self, step: Step) -> None:
        by_start = {instance.start: instance for instance in self.layout}
        instance = by_start.get(step.start)
        if step.action == CREATE:
            profile = self.profiles[step.profile]
            assert step.start in profile.starts
            assert self._free(step.start, profile.size), "the slots are taken"
            assert sum(1 for other in self.layout if other.profile == step.profile) < profile.maximum
            self.created += 1
            starts = compute_starts(profile.slices)
            self.layout += (Instance(step.profile, step.start, id=self.created, compute_starts=starts),)
            return
        assert instance is not None and instance.profile == step.profile, "there is no such instance"
        if step.action == DESTROY:
            assert not instance.compute and not instance.pids, "the instance is in use"
            self._put(instance, None)
            return
        compute = step.compute
        assert compute is not None
        if step.action == DESTROY_COMPUTE:
            held = next(other for other in instance.compute if other.place == compute.place)
            assert not held.pids, "the compute instance is in use"
            self._put(
                instance,
                dataclasses.replace(instance, compute=tuple(other for other in instance.compute if other != held)),
            )
            return
        assert step.action == CREATE_COMPUTE
        start = compute.start
        if start is None:
            placed = place_compute(
                instance.compute, [*(c.slices for c in instance.compute), compute.slices], instance.compute_starts
            )
            assert placed is not None, "no room for the compute instance"
            start = placed[1][0].start
        assert start is not None and start in compute_starts(self.profiles[instance.profile].slices)[compute.slices]
        taken = {
            slice_
            for other in instance.compute
            for slice_ in range(other.start or 0, (other.start or 0) + other.slices)
        }
        assert not taken & set(range(start, start + compute.slices)), "the slices are taken"
        self.created += 1
        new = Compute(compute.slices, start, self.created, f"MIG-{self.created}")
        self._put(instance, dataclasses.replace(instance, compute=(*instance.compute, new)))

    def _free(self, start: int, size: int) -> bool:
        slots = set(range(start, start + size))
        return not any(
            slots & set(range(instance.start, instance.start + self.profiles[instance.profile].size))
            for instance in self.layout
        )

    def _put(self, old: Instance, new: Instance | None) -> None:
        self.layout = tuple(
            instance for instance in (new if instance is old else instance for instance in self.layout) if instance
        )

    def occupy(self, picks: Sequence[tuple[int, int]]) -> None:
        """Run a process in the compute instances of these numbers (instance, compute), if they exist."""
        for number, (which, inner) in enumerate(picks):
            if not self.layout:
                return
            instance = self.layout[which % len(self.layout)]
            if not instance.compute:
                continue
            pid = 1000 + number
            busy = instance.compute[inner % len(instance.compute)]
            compute = tuple(dataclasses.replace(c, pids=(*c.pids, pid)) if c is busy else c for c in instance.compute)
            self._put(instance, dataclasses.replace(instance, compute=compute, pids=(*instance.pids, pid)))
