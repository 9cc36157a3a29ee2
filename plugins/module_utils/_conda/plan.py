# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choose the generation of a conda environment, and list what that adds, removes and replaces. Pure: facts and requests in, decisions out.

An environment is a link to one of its generations. A generation is a prefix that is never changed once it is linked. Next to it are
its lock, and a receipt of its request and its content. What differs from the receipt now is drift.
"""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# The end of the name of a package that is not from a channel.
PIP = " (pip)"

VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
# For `cuda`: what the host's driver and GPUs support.
AUTO = "auto"

# The request that a generation is made from: packages, channels, CUDA version, lock. Text and lists of text only, for JSON.
Spec = dict[str, t.Any]


class CondaError(Exception):
    """The reason why an environment cannot be installed, as a message for the user."""


class Package(t.NamedTuple):
    """One build of a package; *sha256* is that of its archive. A package of pip has neither build nor archive."""

    version: str
    build: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        return f"{self.version} {self.build}".strip()


Packages = t.Mapping[str, Package]


def archive(name: str, package: Package) -> str:
    """Return the name of a package's archive, without its ending."""
    return f"{name}-{package.version}-{package.build}"


class Difference(t.NamedTuple):
    """The changes from one set of packages to another, a line for each."""

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
    """The record of what was installed.

    *records* are the files in conda-meta with their SHA-256, *distributions* are those of Python in site-packages. *cuda* is the version
    that it was solved for. *beside* are the files next to the prefix by their endings, with their SHA-256.

    Until the installation is finished the receipt is not *complete*: such a prefix is a leftover of this module.
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
    """The present content of a prefix, in the terms of its receipt. *strange* are the packages of records that the receipt lacks."""

    records: t.Mapping[str, str]
    distributions: t.Sequence[str]
    strange: t.Mapping[str, tuple[str, Package]]


def unknown_records(receipt: Receipt, records: t.Mapping[str, str]) -> list[str]:
    """Return the records that have to be read, since they are not those that were installed."""
    return sorted(name for name, digest in records.items() if receipt.records.get(name) != digest)


def present_packages(receipt: Receipt, found: Found) -> dict[str, Package]:
    """Return the packages that are in the prefix now: installed ones that are left, and those that somebody else added."""
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
    """Return name and version of a directory in site-packages such as `requests-2.32.5.dist-info`."""
    stem = os.path.splitext(directory)[0]
    name, _dash, version = stem.partition("-")
    return normalized(name), Package(version)


def normalized(project: str) -> str:
    """Return the name of a project as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def from_channels(packages: Packages) -> Packages:
    return {name: package for name, package in packages.items() if not name.endswith(PIP)}


@dataclasses.dataclass(frozen=True)
class Generation:
    """A generation that was completed.

    *present* are its packages now. *lost* are distributions that Python no longer finds. *changed* describes changed files. *spoiled* are
    the archives of these files: their unpacked copies in the cache are the same files.
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
        """Describe what others have changed in it, a line for each change."""
        changes = difference(self.receipt.packages, self.present)
        return [
            *(f"{row} was added" for row in changes.added),
            *(f"{row} was removed" for row in changes.removed),
            *(f"{row} was changed" for row in changes.replaced),
            *(f"{name} was removed" for name in self.lost),
            *self.changed,
        ]

    @property
    def intact(self) -> bool:
        return self.present == self.receipt.packages and not self.lost and not self.changed


@dataclasses.dataclass(frozen=True)
class Environment:
    """The facts of one environment. *in_use* is the generation that its link leads to, None without one.

    If *in_use* is not one of *generations*, it has lost its receipt: it belongs to this module, and nobody can go back to it.

    *foreign* is the path of something else in the place of the link. *leftovers* are prefixes of an interrupted run.
    *highest* is the highest number in use.
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
        """Describe what others have changed in the generation in use."""
        if self.lost is not None:
            return [f"the receipt of generation {self.lost} was removed"]
        return self.current.drift if self.current else []

    @property
    def spoiled(self) -> set[str]:
        return {archive for generation in self.generations.values() for archive in generation.spoiled}

    @property
    def packages(self) -> Packages:
        return self.current.present if self.current else {}


# Requests


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The request for one environment. *generation* 0 means the one that *spec* leads to. *keep* generations are kept for going back.

    *cuda* is the version for solving: where the spec says "auto" the highest that driver and GPUs of the host support; empty for none.
    *lowest_cuda* is the lowest that has kernels for the GPUs.
    """

    name: str
    spec: Spec
    present: bool = True
    generation: int = 0
    update: bool = False
    keep: int = 1
    cuda: str = ""
    lowest_cuda: str = ""


def check_place(open_to_others: t.Sequence[str]) -> None:
    """Refuse a directory in which users other than root may exchange programs that root runs."""
    if open_to_others:
        raise CondaError(
            f"users other than root may write in {', '.join(open_to_others)}, and could exchange what everybody runs."
            " Have root own that, and take the right from others (`chmod go-w`), or set `root` to another directory"
        )


def check(root: str, wanted: t.Sequence[Wanted], environments: t.Mapping[str, Environment]) -> None:
    """Refuse invalid requests. *root* is the directory of another installation of conda in the place of the environments, or empty."""
    if root and any(row.present for row in wanted):
        raise CondaError(
            f"{root} is a conda of its own: it was not made by this module and is left alone. Move it away, or set `root`"
        )
    names = [row.name for row in wanted]
    for name in names:
        if not NAME.fullmatch(name):
            raise CondaError(
                f"{name!r} is not a name for an environment: use letters, digits, dots, dashes and underscores"
            )
        if names.count(name) > 1:
            raise CondaError(f"the environment {name} is named twice: name each once")
    for row in wanted:
        environment = environments[row.name]
        if environment.foreign and row.present:
            raise CondaError(
                f"{environment.foreign} is in the way: it was not made by this module and is left alone."
                f" Move it away, or give the environment {row.name} another name"
            )
        if row.generation and row.present and row.generation not in environment.generations:
            existing = ", ".join(map(str, sorted(environment.generations))) or "none"
            raise CondaError(
                f"the environment {row.name} has no generation {row.generation}: choose among {existing}, or leave `generation` out"
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
        raise CondaError(f"the environment {wanted.name} has `pip` and no Python: add python to its `packages`")


class Decision(t.NamedTuple):
    """Use the generation *use*, or install a new one: from the lock of the generation *again*, or with neither by solving."""

    use: int | None = None
    again: int | None = None

    @property
    def solve(self) -> bool:
        return self.use is None and self.again is None


def decide(wanted: Wanted, environment: Environment) -> Decision:
    """Choose a generation. A spec is solved once: the packages stay as they are until the spec changes or `update` is set."""
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
    """Return whether a request leads to the generation of a receipt. Another mirror of the same channels makes no difference."""
    mirrored = {**receipt.spec, "channel_alias": wanted.spec["channel_alias"]}
    return mirrored == wanted.spec and serves(receipt.cuda, wanted.cuda)


def serves(solved: str, offered: str) -> bool:
    """Return whether packages for one CUDA serve a driver for another: only a newer one, and builds for CPUs no GPU."""
    if not solved or not offered:
        return solved == offered
    return _numbers(solved) <= _numbers(offered)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def by_preference(environment: Environment) -> list[Generation]:
    """Return the generations: the one in use first, then the newest."""
    order = sorted(environment.generations, key=lambda number: (number == environment.in_use, number), reverse=True)
    return [environment.generations[number] for number in order]


def stays(wanted: Wanted, environment: Environment) -> int | None:
    """Return the generation whose packages keep their versions as far as the request allows: the one in use, or None.

    With other channels or another CUDA, packages are chosen again: otherwise the best build of that time would stay for ever.
    """
    current = environment.current
    if current is None or wanted.update or not current.has_lock:
        return None
    alike = {**current.receipt.spec, "packages": wanted.spec["packages"]} == wanted.spec
    return current.number if alike and serves(current.receipt.cuda, wanted.cuda) else None


def settle(wanted: Wanted, solved: Packages, environment: Environment) -> Decision:
    """Choose a generation after solving: one that already has exactly these packages is used, and nothing is installed."""
    for row in by_preference(environment):
        same = from_channels(row.receipt.packages) == solved and row.receipt.spec["pip"] == wanted.spec["pip"]
        if row.intact and same:
            return Decision(use=row.number)
    return Decision()


def surplus(environment: Environment, use: int | None, keep: int) -> list[int]:
    """Return the generations to remove. *use* None removes the whole environment."""
    lost = [environment.lost] if environment.lost is not None else []
    if use is None:
        return sorted([*environment.generations, *lost])
    # The first candidate for going back is the generation that was in use until now.
    others = [row.number for row in by_preference(environment) if row.number != use]
    return sorted([*others[keep:], *lost])
