# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which generation of a conda environment is to be used, and what that adds, removes and changes.

Pure: what is asked for and what lies on the host go in, a decision comes out.

An environment is a link to one of its generations. A generation is a prefix, never changed once it is linked, with two files beside
it: the lock, and a receipt that says what it was made from and what was in it then. What is in it now may differ: that is drift.
"""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Ends the name of a package that did not come from a channel.
PIP = " (pip)"

VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
# For `cuda`: what the host's driver supports.
AUTO = "auto"

# What makes a generation: the packages asked for, channels, CUDA version, lock. Text and lists of text only, as JSON keeps it.
Spec = dict[str, t.Any]


class CondaError(Exception):
    """Why an environment cannot be had, in words for the user."""


class Package(t.NamedTuple):
    """One build of a package; *sha256* of its archive. A package of pip's has neither build nor archive."""

    version: str
    build: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.version} {self.build}".strip()


Packages = t.Mapping[str, Package]


def archive(name: str, package: Package) -> str:
    """The name of a package's archive, less its ending."""
    return f"{name}-{package.version}-{package.build}"


class Difference(t.NamedTuple):
    """From one set of packages to another, a line for each."""

    added: list[str]
    removed: list[str]
    replaced: list[str]


def difference(before: Packages, after: Packages) -> Difference:
    return Difference(
        added=[f"{name} {after[name]}" for name in sorted(after.keys() - before.keys())],
        removed=[f"{name} {before[name]}" for name in sorted(before.keys() - after.keys())],
        replaced=[
            f"{name} {before[name]} -> {after[name]}{_hint(before[name], after[name])}"
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ],
    )


def _hint(before: Package, after: Package) -> str:
    return " (another archive)" if str(before) == str(after) else ""


# What is on the host


@dataclasses.dataclass(frozen=True)
class Receipt:
    """What was installed. *records* are the files in conda-meta with their SHA-256, *distributions* what Python finds in site-packages.
    *cuda* is the version that it was solved for, *beside* are the files beside the prefix by their endings, with their SHA-256.

    Before a prefix is linked it has a receipt that is not *complete*: whatever lies there then is ours, and of no use.
    """

    spec: Spec
    complete: bool = False
    packages: Packages = dataclasses.field(default_factory=dict)
    records: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    distributions: t.Sequence[str] = ()
    cuda: str = ""
    beside: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, t.Any]:
        packages = {name: list(package) for name, package in self.packages.items()}
        return {**dataclasses.asdict(self), "packages": packages}

    @classmethod
    def from_json(cls, data: t.Mapping[str, t.Any]) -> Receipt:
        return cls(**{**data, "packages": {name: Package(*row) for name, row in data["packages"].items()}})


class Found(t.NamedTuple):
    """What is in a prefix now, in the words of its receipt. *strange* are the packages of records that the receipt does not know."""

    records: t.Mapping[str, str]
    distributions: t.Sequence[str]
    strange: t.Mapping[str, tuple[str, Package]]


def unknown_records(receipt: Receipt, records: t.Mapping[str, str]) -> list[str]:
    """The records that have to be read, since they are not those that were installed."""
    return sorted(name for name, digest in records.items() if receipt.records.get(name) != digest)


def present_packages(receipt: Receipt, found: Found) -> dict[str, Package]:
    """What is in the prefix now: what was installed and is still there, and what came by other hands."""
    named = {f"{archive(name, package)}.json": name for name, package in receipt.packages.items()}
    packages = {
        named[record]: receipt.packages[named[record]]
        for record in receipt.records
        if record in found.records and record not in found.strange
    }
    packages.update(dict(found.strange.values()))
    for directory in sorted(set(found.distributions) - set(receipt.distributions)):
        name, package = distribution(directory)
        packages[name + PIP] = package
    return packages


def distribution(directory: str) -> tuple[str, Package]:
    """Name and version of what lies in site-packages as `requests-2.32.5.dist-info`."""
    stem = os.path.splitext(directory)[0]
    name, _dash, version = stem.partition("-")
    return normalized(name), Package(version)


def normalized(project: str) -> str:
    """A project's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def from_channels(packages: Packages) -> Packages:
    return {name: package for name, package in packages.items() if not name.endswith(PIP)}


@dataclasses.dataclass(frozen=True)
class Generation:
    """One that was completed. *present* is what is in it now, *lost* what Python no longer finds, *changed* the files in words.

    *spoiled* are the archives whose files those are: unpacked in the cache they are the same files.
    """

    number: int
    receipt: Receipt
    present: Packages
    lost: t.Sequence[str] = ()
    changed: t.Sequence[str] = ()
    spoiled: t.Sequence[str] = ()
    has_lock: bool = True

    @property
    def drift(self) -> list[str]:
        """What others did to it, in words."""
        seen = difference(self.receipt.packages, self.present)
        return [
            *(f"{row} was added" for row in seen.added),
            *(f"{row} was removed" for row in seen.removed),
            *(f"{row} was changed" for row in seen.replaced),
            *(f"{name} was removed" for name in self.lost),
            *self.changed,
        ]

    @property
    def intact(self) -> bool:
        return self.present == self.receipt.packages and not self.lost and not self.changed


@dataclasses.dataclass(frozen=True)
class Environment:
    """What there is of one environment. *in_use* is the generation that its link leads to, None without one.

    One that is none of *generations* has lost its receipt: it is ours, and nobody goes back to it.

    *foreign* is what has the place of the link and is not ours, *leftovers* are prefixes of a run that was cut short.
    *highest* is the highest number that anything has.
    """

    name: str
    in_use: int | None = None
    generations: t.Mapping[int, Generation] = dataclasses.field(default_factory=dict)
    leftovers: t.Sequence[int] = ()
    highest: int = 0
    foreign: str = ""

    @property
    def current(self) -> Generation | None:
        return self.generations.get(self.in_use) if self.in_use is not None else None

    @property
    def lost(self) -> int | None:
        return self.in_use if self.in_use not in self.generations else None

    @property
    def drift(self) -> list[str]:
        """What others did to what is in use, in words."""
        if self.lost is not None:
            return [f"the receipt of generation {self.lost} was removed"]
        return self.current.drift if self.current else []

    @property
    def spoiled(self) -> set[str]:
        return {archive for generation in self.generations.values() for archive in generation.spoiled}

    @property
    def packages(self) -> Packages:
        return self.current.present if self.current else {}


# What is asked for


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One environment as asked for. *generation* 0 stands for what *spec* leads to, *keep* counts those kept for going back.

    *cuda* is the version that solving is to see, where the spec says "auto" that of the host's driver; empty is none.
    """

    name: str
    spec: Spec
    present: bool = True
    generation: int = 0
    update: bool = False
    keep: int = 1
    cuda: str = ""


def check_place(open_to_others: t.Sequence[str]) -> None:
    """Refuse a place in which others may exchange the programs that root runs."""
    if open_to_others:
        raise CondaError(
            f"others than root may write in {', '.join(open_to_others)}, and could exchange what everybody runs."
            " Have root own that, and take the right from others (`chmod go-w`), or set `root` to another directory"
        )


def check(root: str, wanted: t.Sequence[Wanted], environments: t.Mapping[str, Environment]) -> None:
    """Refuse what cannot be meant. *root* is a conda of somebody else that lies where the environments would, or empty."""
    if root and any(row.present for row in wanted):
        raise CondaError(
            f"{root} is a conda of its own: it was not made by this module and is left alone. Move it away, or set `root`"
        )
    names = [row.name for row in wanted]
    for name in names:
        if not NAME.fullmatch(name):
            raise CondaError(
                f"{name!r} is no name of an environment: use letters, digits, dots, dashes and underscores"
            )
        if names.count(name) > 1:
            raise CondaError(f"the environment {name} is there twice: name each once")
    for row in wanted:
        environment = environments[row.name]
        if environment.foreign and row.present:
            raise CondaError(
                f"{environment.foreign} is in the way: it was not made by this module and is left alone."
                f" Move it away, or give the environment {row.name} another name"
            )
        if row.generation and row.present and row.generation not in environment.generations:
            there = ", ".join(map(str, sorted(environment.generations))) or "none"
            raise CondaError(
                f"the environment {row.name} has no generation {row.generation}: choose among {there}, or leave `generation` out"
            )
        if row.spec["cuda"] not in ("", AUTO) and not VERSION.fullmatch(row.spec["cuda"]):
            raise CondaError(
                f"the environment {row.name} has {row.spec['cuda']!r} for `cuda`: set a version such as 12.8, or auto, or leave it out"
            )
        if row.present and not row.generation and not row.spec["packages"] and not row.spec["lock"]:
            raise CondaError(f"the environment {row.name} has neither `packages` nor a `lock`: set one of them")
        strange = [line for line in row.spec["pip"] if line.lstrip().startswith("-")]
        if strange:
            raise CondaError(
                f"the environment {row.name} has the option {strange[0]!r} in `pip`, where only requirements belong: remove it"
            )


def check_solved(wanted: Wanted, solved: Packages) -> None:
    if wanted.spec["pip"] and "python" not in solved:
        raise CondaError(
            f"the environment {wanted.name} asks for `pip` and has no Python: add python to its `packages`"
        )


class Decision(t.NamedTuple):
    """Use the generation *use*, or make one: from the lock of the generation *again*, or with neither from what solving brings."""

    use: int | None = None
    again: int | None = None

    @property
    def solve(self) -> bool:
        return self.use is None and self.again is None


def decide(wanted: Wanted, environment: Environment) -> Decision:
    """A spec that was solved once is not solved again: the machine stays as it is until the spec changes or `update` asks for it."""
    if wanted.generation:
        return Decision(use=wanted.generation)
    if wanted.update:
        return Decision()
    same = [row for row in by_preference(environment) if leads_to(wanted, row.receipt)]
    intact = [row for row in same if row.intact]
    if intact:
        return Decision(use=intact[0].number)
    locked = [row for row in same if row.has_lock]
    return Decision(again=locked[0].number) if locked else Decision()


def leads_to(wanted: Wanted, receipt: Receipt) -> bool:
    """Whether a request leads to what was made from this. Another mirror of the same channels makes no difference."""
    mirrored = {**receipt.spec, "channel_alias": wanted.spec["channel_alias"]}
    return mirrored == wanted.spec and serves(receipt.cuda, wanted.cuda)


def serves(solved: str, offered: str) -> bool:
    """Whether what was solved for one CUDA is good with a driver for another: with a newer one. And GPUs are not left unused."""
    if not solved or not offered:
        return solved == offered
    return _numbers(solved) <= _numbers(offered)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def by_preference(environment: Environment) -> list[Generation]:
    """The one in use, then the newest."""
    order = sorted(environment.generations, key=lambda number: (number == environment.in_use, number), reverse=True)
    return [environment.generations[number] for number in order]


def stays(wanted: Wanted, environment: Environment) -> int | None:
    """The generation whose packages are left at their versions as far as the request lets them: the one in use.

    With other channels or another CUDA, packages are chosen afresh: what was the best build then would stay for good.
    """
    current = environment.current
    if current is None or wanted.update or not current.has_lock:
        return None
    alike = {**current.receipt.spec, "packages": wanted.spec["packages"]} == wanted.spec
    return current.number if alike and serves(current.receipt.cuda, wanted.cuda) else None


def settle(wanted: Wanted, solved: Packages, environment: Environment) -> Decision:
    """After solving: a generation that already has just these packages is used, and nothing is installed."""
    for row in by_preference(environment):
        same = from_channels(row.receipt.packages) == solved and row.receipt.spec["pip"] == wanted.spec["pip"]
        if row.intact and same:
            return Decision(use=row.number)
    return Decision()


def surplus(environment: Environment, use: int | None, keep: int) -> list[int]:
    """The generations that nobody goes back to. *use* None: the environment goes as a whole."""
    lost = [environment.lost] if environment.lost is not None else []
    if use is None:
        return sorted([*environment.generations, *lost])
    # The one that was in use up to now is what somebody would go back to first.
    others = [row.number for row in by_preference(environment) if row.number != use]
    return sorted([*others[keep:], *lost])
