# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG layouts: the profiles of a card, its instances, and the request of a user. Pure.

A GPU instance takes memory slots ``start .. start+size-1`` of its card, and a share of the compute slices. A compute instance takes
compute slices of its GPU instance. Programs see it as a device, and it has a UUID.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

ENABLED, DISABLED = "enabled", "disabled"
# The names that NVML gives (MIG user guide, "Device names"): C compute slices of a GPU instance of G slices and M GB.
_NAME = re.compile(r"(?:MIG )?(?:(\d+)c\.)?((\d+)g\.\d+gb(?:[+-][a-z0-9]+(?:\.[a-z0-9]+)*)?)", re.IGNORECASE)
_COMPUTE = re.compile(r"(\d+)c?")
# Sizes of compute instances by the slices of their GPU instance (MIG user guide, "Compute instances").
COMPUTE_SIZES = {1: (1,), 2: (1, 2), 3: (1, 2, 3), 4: (1, 2, 4), 7: (1, 2, 3, 4, 7)}
# NVML_COMPUTE_INSTANCE_PROFILE_* of nvml.h, for later cards.
_EVERY_SIZE = (1, 2, 3, 4, 6, 7, 8)


@dataclasses.dataclass(frozen=True)
class Profile:
    """A kind of GPU instance. ``engines``: its decoders, encoders, JPEG and optical flow engines, which are not shared."""

    name: str
    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    maximum: int
    memory_mib: int = 0
    engines: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Compute:
    """A compute instance. Without ``start`` it is to be created where the driver has room for it."""

    slices: int
    start: int | None = None
    id: int = -1
    uuid: str = ""
    pids: tuple[int, ...] = ()

    @property
    def place(self) -> tuple[int, int | None]:
        return self.slices, self.start


# The possible starts of compute instances in a GPU instance, by slices.
ComputeStarts = t.Mapping[int, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Instance:
    """A GPU instance. ``pids``: processes in it, those of its compute instances included."""

    profile: str
    start: int
    compute: tuple[Compute, ...] = ()
    id: int = -1
    pids: tuple[int, ...] = ()
    compute_starts: ComputeStarts | None = dataclasses.field(default=None, compare=False)

    @property
    def place(self) -> tuple[str, int]:
        return self.profile, self.start

    @property
    def shape(self) -> tuple[str, int, tuple[int, ...]]:
        """Return what a request can ask of an instance."""
        return self.profile, self.start, tuple(sorted((compute.slices for compute in self.compute), reverse=True))


Layout = tuple[Instance, ...]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A requested GPU instance; ``compute``: the slices of its compute instances, largest first."""

    profile: str
    start: int | None = None
    compute: tuple[int, ...] = ()


class Profiles(dict[str, Profile]):
    """The profiles of a card by name."""

    @property
    def slices(self) -> int:
        """Return the slices of the whole card: those that the most instances of any one profile take."""
        return max((profile.slices * profile.maximum for profile in self.values()), default=0)

    @property
    def slots(self) -> int:
        return max((start + profile.size for profile in self.values() for start in profile.starts), default=0)

    @property
    def engines(self) -> tuple[int, ...]:
        """Return the engines of the whole card, counted in the same way as slices."""
        rows = [[kind * profile.maximum for kind in profile.engines] for profile in self.values() if profile.engines]
        return tuple(max(kind) for kind in zip(*rows))

    def description(self) -> str:
        return ", ".join(
            f"{profile.name} (at most {profile.maximum}, starts {', '.join(map(str, profile.starts))})"
            for profile in self.values()
        )


@dataclasses.dataclass(frozen=True)
class State:
    """The state of one GPU. ``mode``: None without MIG; ``profiles``: empty if the driver reports none with MIG off."""

    index: int
    uuid: str
    pci_address: str
    name: str
    device_id: str
    mode: str | None
    pending: str | None
    resetless: bool
    compute_mode: str | None
    profiles: Profiles
    layout: Layout
    pids: tuple[int, ...]

    @property
    def label(self) -> str:
        return f"{self.name} {self.pci_address}"


def parse_name(text: str) -> tuple[int | None, str]:
    """Split a profile name into compute slices, None if it has none, and the profile of the GPU instance.

    :raises Refusal: the text is no profile name.
    """
    match = _NAME.fullmatch(text.strip())
    if not match:
        raise Refusal(
            f"{text!r} is no name of a MIG profile: names have the form [Cc.]Gg.Mgb[+attribute|-attribute], "
            "such as 3g.71gb, 1c.3g.71gb or 1g.24gb+gfx"
        )
    return int(match.group(1)) if match.group(1) else None, match.group(2).lower()


def count_of(entry: t.Mapping[str, t.Any]) -> int:
    """Return how many instances an entry asks for. A missing count is 1; a count of 0 is none."""
    count = entry.get("count")
    return 1 if count is None else int(count)


def expand(layout: t.Sequence[t.Mapping[str, t.Any]], profiles: Profiles) -> tuple[Wanted, ...]:
    """Return each GPU instance of a request, largest first.

    :raises Refusal: the card has no such profile, or an entry cannot be met by any card.
    """
    wanted: list[Wanted] = []
    devices: dict[str, list[int]] = {}
    for number, entry in enumerate(layout):
        where = f"layout[{number}]"
        devices_each, name = parse_name(str(entry["profile"]))
        profile = profiles.get(name)
        if profile is None:
            raise Refusal(f"{where}.profile: this card has no {name}; it has {profiles.description()}")
        count, start, compute = count_of(entry), entry.get("start"), entry.get("compute_instances")
        if count < 1:
            raise Refusal(f"{where}.count: {count} is none; leave the entry out")
        if start is not None and count > 1:
            raise Refusal(f"{where}.start: {count} instances cannot all start at {start}: write an entry for each")
        if start is not None and start not in profile.starts:
            possible = ", ".join(map(str, profile.starts))
            raise Refusal(f"{where}.start: {name} cannot start at {start}; possible are {possible}")
        if devices_each is None:
            wanted += [Wanted(name, start, _compute_of(compute, profile, where))] * count
            continue
        if start is not None or compute is not None:
            raise Refusal(
                f"{where}: {entry['profile']} counts compute instances: name {name} to set start or compute_instances"
            )
        devices.setdefault(name, []).extend(_sizes([devices_each] * count, profile, where))
    for name, sizes in devices.items():
        wanted += [Wanted(name, None, packed) for packed in _pack(sizes, profiles[name].slices)]
    return tuple(
        sorted(
            wanted,
            key=lambda instance: (
                -profiles[instance.profile].size,
                -profiles[instance.profile].slices,
                instance.profile,
                instance.start is None,
            ),
        )
    )


def _sizes(sizes: t.Sequence[int], profile: Profile, where: str) -> list[int]:
    possible = COMPUTE_SIZES.get(profile.slices, _EVERY_SIZE)
    for size in sizes:
        if size not in possible or size > profile.slices:
            names = ", ".join(f"{slices}c" for slices in possible if slices <= profile.slices)
            raise Refusal(f"{where}: {profile.name} has no compute instance of {size}c; possible are {names}")
    return list(sizes)


def _compute_of(counts: t.Sequence[t.Any] | None, profile: Profile, where: str) -> tuple[int, ...]:
    """Return the sizes of the compute instances. The default is one with all slices, which most programs need."""
    if counts is None:
        return (profile.slices,)
    sizes = []
    for text in counts:
        match = _COMPUTE.fullmatch(str(text).lower())
        size, name = (int(match.group(1)), profile.name) if match else parse_name(str(text))
        if size is None or name != profile.name:
            raise Refusal(f"{where}.compute_instances: {text!r} is not of {profile.name}; write 1c, 2c ...")
        sizes.append(size)
    sizes = _sizes(sizes, profile, f"{where}.compute_instances")
    if sum(sizes) > profile.slices:
        counts = " + ".join(f"{size}c" for size in sizes)
        raise Refusal(f"{where}.compute_instances: {counts} is more than the {profile.slices} slices of {profile.name}")
    return tuple(sorted(sizes, reverse=True))


def _pack(sizes: t.Sequence[int], room: int) -> list[tuple[int, ...]]:
    """Pack compute instances into GPU instances: first fit, largest first."""
    packed: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        for item in packed:
            if sum(item) + size <= room:
                item.append(size)
                break
        else:
            packed.append([size])
    return [tuple(item) for item in packed]


def summary(names: t.Iterable[str]) -> str:
    """Return a layout in one line, such as ``3g.71gb + 3x 1g.18gb``."""
    counts = collections.Counter(names)
    return " + ".join(f"{count}x {name}" if count > 1 else name for name, count in counts.items()) or "no instance"


def slot_map(profiles: Profiles, layout: t.Sequence[Instance]) -> list[str]:
    """Return a line for each instance and each free memory slot, for a diff that shows what moves."""
    taken = {holder.start: holder for holder in layout}
    lines, slot = [], 0
    while slot < profiles.slots:
        holder = taken.get(slot)
        if holder is None:
            lines.append(f"slot {slot}: free")
            slot += 1
            continue
        size = profiles[holder.profile].size if holder.profile in profiles else 1
        span = f"slot {slot}" if size == 1 else f"slots {slot}-{slot + size - 1}"
        shares = [compute.slices for compute in holder.compute]
        whole = holder.profile in profiles and shares == [profiles[holder.profile].slices]
        shown = "" if whole else f" ({' + '.join(f'{share}c' for share in shares) or 'no compute instance'})"
        lines.append(f"{span}: {holder.profile}{shown}")
        slot += size
    return lines


def uuid_changes(before: t.Sequence[Instance], after: t.Sequence[Instance]) -> dict[str, str | None]:
    """Map UUIDs that are gone to those that serve instead; None where none of that size does. UUIDs that stayed are left out."""
    kept = {compute.uuid for instance in after for compute in instance.compute}

    def unmatched(layout: t.Sequence[Instance], others: set[str]) -> list[tuple[Instance, Compute]]:
        return [
            (instance, compute) for instance in layout for compute in instance.compute if compute.uuid not in others
        ]

    gone = unmatched(before, kept)
    new = unmatched(after, {compute.uuid for instance in before for compute in instance.compute})
    changes: dict[str, str | None] = {}
    # An instance in the same place comes first, then one of the same size elsewhere.
    for alike in (
        lambda instance, compute: (instance.place, compute.place),
        lambda instance, compute: (instance.profile, compute.slices),
    ):
        for instance, compute in gone:
            if changes.get(compute.uuid):
                continue
            found = next((pair for pair in new if alike(*pair) == alike(instance, compute)), None)
            changes[compute.uuid] = found[1].uuid if found else None
            if found:
                new.remove(found)
    return changes
