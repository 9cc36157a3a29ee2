# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Search the best placement of MIG instances exactly, over all placements that the card allows. Pure.

A card has at most 12 memory slots (RTX PRO 6000) and 7 compute slices, so that all placements of a layout can be tried.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    ComputeStarts,
    Instance,
    Profile,
    Profiles,
    Wanted,
    summary,
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Instances of one size: how many, their possible starts, and the starts that some of them must have."""

    size: int
    starts: tuple[int, ...]
    count: int
    fixed: frozenset[int] = frozenset()


def bits(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def placements(kinds: t.Sequence[Kind], taken: int = 0) -> t.Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every way to place all kinds without overlap: the starts of each kind, in order."""
    if not kinds:
        yield ()
        return
    first, rest = kinds[0], kinds[1:]
    if len(first.fixed) > first.count:
        return
    for starts in _starts(first, sorted({*first.starts, *first.fixed}), taken):
        used = taken
        for start in starts:
            used |= bits(start, first.size)
        for others in placements(rest, used):
            yield (starts, *others)


def _starts(kind: Kind, candidates: t.Sequence[int], taken: int) -> t.Iterator[tuple[int, ...]]:
    if not kind.count:
        # A kind with a fixed start left has no placement.
        if not kind.fixed:
            yield ()
        return
    for position, start in enumerate(candidates):
        if len(candidates) - position < kind.count:
            return
        if not taken & bits(start, kind.size):
            rest = dataclasses.replace(kind, count=kind.count - 1, fixed=kind.fixed - {start})
            for others in _starts(rest, candidates[position + 1 :], taken | bits(start, kind.size)):
                yield (start, *others)
        if start in kind.fixed:
            return


def within_limits(profiles: Profiles, wanted: t.Sequence[Wanted]) -> bool:
    """Return whether a layout keeps the limits of the whole card: instances of a profile, compute slices, engines."""
    counts = collections.Counter(instance.profile for instance in wanted)
    if any(count > profiles[name].maximum for name, count in counts.items()):
        return False
    if sum(profiles[name].slices * count for name, count in counts.items()) > profiles.slices:
        return False
    return all(
        sum(profiles[name].engines[kind] * count for name, count in counts.items() if profiles[name].engines) <= most
        for kind, most in enumerate(profiles.engines)
    )


def fits(profiles: Profiles, wanted: t.Sequence[Wanted]) -> bool:
    """Return whether an empty card has room for a layout."""
    return within_limits(profiles, wanted) and next(placements(_kinds(profiles, wanted)), None) is not None


def _kinds(profiles: Profiles, wanted: t.Sequence[Wanted], busy: t.Iterable[Instance] = ()) -> list[Kind]:
    fixed: dict[str, set[int]] = {wish.profile: set() for wish in wanted}
    counts = collections.Counter(wish.profile for wish in wanted)
    for wish in wanted:
        if wish.start is not None:
            if wish.start in fixed[wish.profile]:
                # Two instances at one start: a kind without starts has no placement.
                return [Kind(1, (), 1)]
            fixed[wish.profile].add(wish.start)
    for instance in busy:
        fixed.setdefault(instance.profile, set()).add(instance.start)
    return [
        Kind(profiles[name].size, profiles[name].starts, counts[name], frozenset(starts))
        for name, starts in fixed.items()
    ]


class Choice(t.NamedTuple):
    """The slot of a wanted instance. ``existing``: the instance of this profile that is there already.

    ``kept``, ``new``: the compute instances of the existing instance that stay, and those to create.
    """

    wanted: Wanted
    start: int
    existing: Instance | None
    kept: list[Compute]
    new: list[Compute]


def choose(
    profiles: Profiles, wanted: t.Sequence[Wanted], current: t.Sequence[Instance], keep: bool = True
) -> list[Choice] | None:
    """Choose the placement that keeps the most instances, then memory slots, then compute instances; None if there is none.

    Of equal placements it takes the one with the most room for large instances. Busy instances stay in all of them. Without *keep*,
    only the room decides, as on an empty card.
    """
    existing = {instance.place: instance for instance in current}
    busy = [instance for instance in current if instance.pids]
    if not within_limits(profiles, wanted):
        return None
    kinds = _kinds(profiles, wanted, busy)
    # A busy instance of a profile that is not requested leaves no placement.
    names = list(dict.fromkeys(instance.profile for instance in wanted))
    best: tuple[tuple[t.Any, ...], list[Choice]] | None = None
    for chosen in placements(kinds):
        choices: list[Choice] = []
        kept_compute = 0
        for name, starts in zip(names, chosen):
            found = _assign([instance for instance in wanted if instance.profile == name], starts, name, existing)
            if found is None:
                break
            kept_compute += found[0]
            choices += found[1]
        else:
            kept = [choice for choice in choices if choice.existing]
            slots = sum(profiles[choice.wanted.profile].size for choice in kept)
            room = (*_room(profiles, choices), [-choice.start for choice in choices])
            score = (len(kept), slots, kept_compute, *room) if keep else room
            if best is None or score > best[0]:
                best = (score, choices)
    return best[1] if best else None


def _room(profiles: Profiles, choices: t.Sequence[Choice]) -> tuple[list[int]]:
    """Return how many places remain, for the largest profiles first."""
    taken = 0
    for choice in choices:
        taken |= bits(choice.start, profiles[choice.wanted.profile].size)
    return (
        [
            sum(1 for start in profile.starts if not taken & bits(start, profile.size))
            for profile in sorted(profiles.values(), key=lambda profile: (-profile.size, profile.id))
        ],
    )


def _assign(
    wanted: t.Sequence[Wanted], starts: tuple[int, ...], name: str, existing: t.Mapping[tuple[str, int], Instance]
) -> tuple[int, list[Choice]] | None:
    """Assign wanted instances to starts, keeping the most compute instances; None if a busy one would be evicted."""
    placed = {wish.start: wish for wish in wanted if wish.start is not None}
    free = [start for start in starts if start not in placed]
    loose = [wish for wish in wanted if wish.start is None]
    orders = {tuple(loose)} if len(set(loose)) <= 1 else set(itertools.permutations(loose))
    best: tuple[int, list[Choice]] | None = None
    for order in sorted(orders, key=lambda order: [wish.compute for wish in order], reverse=True):
        kept, choices = 0, []
        for start, wish in sorted([*placed.items(), *zip(free, order)], key=lambda pair: pair[0]):
            instance = existing.get((name, start))
            inner: tuple[list[Compute], list[Compute]] = [], [Compute(size) for size in wish.compute]
            if instance:
                found = place_compute(instance.compute, wish.compute, instance.compute_starts)
                if found is None:
                    break
                inner = found
                kept += len(inner[0])
            choices.append(Choice(wish, start, instance, kept=inner[0], new=inner[1]))
        else:
            if best is None or kept > best[0]:
                best = (kept, choices)
    return best


def place_compute(
    current: t.Sequence[Compute], wanted: t.Sequence[int], starts: ComputeStarts | None
) -> tuple[list[Compute], list[Compute]] | None:
    """Return the compute instances that stay, as many as possible, and those to create; None if a busy one would go or none fits.

    :param starts: possible starts of compute instances. Without them, new compute instances have no start.
    """
    counts = collections.Counter(wanted)
    busy = [instance for instance in current if instance.pids]
    if collections.Counter(instance.slices for instance in busy) - counts:
        return None
    if starts is None:
        kept: list[Compute] = []
        for instance in sorted(current, key=lambda instance: not instance.pids):
            if counts[instance.slices]:
                counts[instance.slices] -= 1
                kept.append(instance)
        return kept, [Compute(size) for size in sorted(counts.elements(), reverse=True)]
    sizes = sorted(counts, reverse=True)
    kinds = [
        Kind(
            size,
            starts.get(size, ()),
            counts[size],
            frozenset(t.cast("int", instance.start) for instance in busy if instance.slices == size),
        )
        for size in sizes
    ]
    at = {instance.place: instance for instance in current}
    best: tuple[list[Compute], list[Compute]] | None = None
    for chosen in placements(kinds):
        places = [(size, start) for size, group in zip(sizes, chosen) for start in group]
        kept = [at[place] for place in places if place in at]
        if best is None or len(kept) > len(best[0]):
            best = kept, [Compute(*place) for place in places if place not in at]
    return best


def nearest(profiles: Profiles, wanted: t.Sequence[Wanted]) -> list[str]:
    """Return the layouts closest to one that does not fit: with fewer instances, or with smaller ones."""
    names = sorted((instance.profile for instance in wanted), key=lambda name: _order(profiles[name]))
    # More instances of a profile than the card can have only slow the search down.
    counts = collections.Counter(names)
    clipped = [name for name in counts for _number in range(min(counts[name], profiles[name].maximum))]
    found = [_first_fit(profiles, clipped, lambda _name: [None])]
    if len(names) <= profiles.slices:
        found.append(_first_fit(profiles, names, lambda name: _smaller(profiles, profiles[name])))
    return list(dict.fromkeys(summary(instance) for instance in found if instance))


def _order(profile: Profile) -> tuple[int, int, str]:
    return -profile.size, -profile.slices, profile.name


def _smaller(profiles: Profiles, than: Profile) -> list[str | None]:
    """Return the profiles that take no more of the card: smaller ones, and those that need fewer engines."""
    return [
        profile.name
        for profile in profiles.values()
        if profile is not than and profile.size <= than.size and profile.slices <= than.slices
    ]


def _first_fit(
    profiles: Profiles, names: t.Sequence[str], instead: t.Callable[[str], list[str | None]]
) -> tuple[str, ...] | None:
    """Return the fitting layout that loses the fewest compute slices, then memory slots, by replacing instances one by one."""

    def loss(layout: t.Sequence[str]) -> tuple[int, int, int]:
        # Plain profiles come before those with attributes that were not requested.
        special = sum(1 for name in layout if name not in names and ("+" in name or "-" in name))
        return (
            -sum(profiles[name].slices for name in layout),
            -sum(profiles[name].size for name in layout),
            special,
        )

    start = tuple(names)
    heap, visited = [(loss(start), start)], {start}
    while heap:
        _loss, layout = heapq.heappop(heap)
        if layout and fits(profiles, [Wanted(name) for name in layout]):
            return layout
        for position, name in enumerate(layout):
            for other in instead(name):
                middle = () if other is None else (other,)
                others = (*layout[:position], *middle, *layout[position + 1 :])
                new = tuple(sorted(others, key=lambda profile_name: _order(profiles[profile_name])))
                if new not in visited:
                    visited.add(new)
                    heapq.heappush(heap, (loss(new), new))
    return None
