# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Which driver a host gets, what that changes, and why it may have to be refused. Pure: facts and a request in, a plan out.

What is asked for stands. Otherwise what is installed and fits the GPUs stays; otherwise the data's preference decides.
A plan that is refused changes nothing: its lists of packages are empty.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import (
    Facts,
    branch_of,
    driver_version,
    find_chip,
    is_driver_package,
    is_kernel_metapackage,
    is_on_branch,
    kernel_flavours,
    lowest_driver,
    origins_now,
    version_key,
)

AUTO = "auto"
SOURCES = (data.ARCHIVE, data.CUDA_REPOSITORY)
_NO_LIMIT = 10000


@dataclasses.dataclass(frozen=True)
class Request:
    """What a user may ask for; each field is the role's variable ``nvidia_driver_<field>``.

    *gpus* are PCI device ids, such as 2684, to plan for instead of the cards that are there (an image, a sandbox).
    *own_holds* are the holds that the role itself has set, so that they are not in its way. *interrupt* lets the driver
    change while programs use it; *ignore_build_failures* tries what is known not to build.
    """

    source: str = AUTO
    branch: str = AUTO
    modules: str = AUTO
    scope: str = AUTO
    gpus: tuple[str, ...] = ()
    toolkits: tuple[str, ...] = ()
    lock: bool = True
    own_holds: tuple[str, ...] = ()
    interrupt: bool = False
    ignore_build_failures: bool = False
    free_bytes: int = data.FREE_BYTES
    host_name: str = "this host"

    @classmethod
    def from_dict(cls, wanted: t.Mapping[str, t.Any]) -> Request:
        """Raises ValueError for a key that is none of a request."""
        unknown = wanted.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} is no part of a request for a driver")
        values: dict[str, t.Any] = {
            key: tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else value
            for key, value in wanted.items()
        }
        return cls(**{**values, "branch": str(values.get("branch", AUTO))})


@dataclasses.dataclass
class Plan:
    """What is to be done, in the order of its fields from *repository* on.

    *requirements* are those that are not met, as the action ``require`` takes them: any of them, and the plan is refused.
    *version* is the driver's version that apt would install, empty where its lists do not tell. *preliminary*: apt has no list
    of the source yet, so add *repository* (or *components*), ask gpu_host_info again and plan again before anything changes.
    *pinning*, *headers*, *install* and *remove* go in one call of apt, which may have to downgrade. *hold* is the whole unit
    that is locked afterwards: plan again then, since dependencies are part of it.
    *preferences* is the content of a file of apt. *build*: dkms or prebuilt. *secure_boot*: off, signed (prebuilt modules),
    enrolled (the key of DKMS is trusted), pending (a person confirms it at the next boot), enroll (nobody has staged it yet).
    *reboot* gives the reasons for one, so none means that none is needed. *notes* are worth a warning.
    """

    source: str = ""
    branch: int = 0
    modules: str = ""
    scope: str = ""
    version: str = ""
    preliminary: bool = False
    generations: list[str] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)
    requirements: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    repository: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    components: list[str] = dataclasses.field(default_factory=list)
    pinning: list[str] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    hold: list[str] = dataclasses.field(default_factory=list)
    headers: list[str] = dataclasses.field(default_factory=list)
    preferences: str = ""
    build: str = ""
    downgrade: bool = False
    changes: bool = False
    secure_boot: str = ""
    reboot: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def refused(self) -> bool:
        return bool(self.requirements)

    def require(self, ok: bool, variable: str, problem: str, remedy: str) -> bool:
        if not ok:
            self.requirements.append({"ok": False, "variable": variable, "problem": problem, "remedy": remedy})
        return ok

    def as_dict(self) -> dict[str, t.Any]:
        return {**dataclasses.asdict(self), "refused": self.refused}


class Cards(t.NamedTuple):
    """What the GPUs of one host have in common."""

    generations: tuple[data.Generation, ...]
    lowest_driver: str

    @property
    def names(self) -> list[str]:
        return [row.name for row in self.generations]

    @property
    def lowest_branch(self) -> int:
        return int(self.lowest_driver.partition(".")[0] or 0)

    @property
    def highest_branch(self) -> int:
        return min((row.highest_branch or _NO_LIMIT for row in self.generations), default=_NO_LIMIT)

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(name for name in (data.OPEN, data.CLOSED) if all(name in row.modules for row in self.generations))


class Choice(t.NamedTuple):
    """A driver, as it is asked for, installed or chosen; 0 and the empty string mean: not told."""

    source: str
    branch: int
    modules: str
    scope: str


def _is_device_id(text: str) -> bool:
    return bool(re.fullmatch(r"(?:0[xX])?[0-9a-fA-F]{4}", text))


def cards_of(devices: t.Iterable[int]) -> Cards:
    ids = list(devices)
    names = {find_chip(device).generation for device in ids}
    return Cards(
        tuple(row for row in data.GENERATIONS if row.name in names),
        max(map(lowest_driver, ids), key=version_key, default=""),
    )


def toolkit_problem(version: str, driver: str, generations: t.Iterable[str]) -> str:
    """Why a CUDA toolkit cannot be used with a driver version and GPUs, empty when it can."""
    toolkit = next((row for row in data.TOOLKITS if row.version == version), None)
    if toolkit is None:
        return f"has CUDA {version}, which is not one of {', '.join(row.version for row in data.TOOLKITS)}"
    for row in data.GENERATIONS:
        if row.name in generations and row.highest_cuda and version_key(version) > version_key(row.highest_cuda):
            return f"has CUDA {version}, but CUDA {row.highest_cuda} is the last for {row.name}"
        if row.name in generations and row.lowest_cuda and version_key(version) < version_key(row.lowest_cuda):
            return f"has CUDA {version}, but CUDA {row.lowest_cuda} is the first for {row.name}"
    if version_key(driver) < version_key(toolkit.minimum):
        return f"has CUDA {version}, which needs driver {toolkit.minimum} or newer, not {driver}"
    return ""


def build_failure(version: str, kernel: str, source: str, distribution: str) -> data.BuildFailure | None:
    """The known reason why a driver version, or every version of a branch, does not build for a kernel version."""
    versions = [version, f"{version}.9999"] if version.isdigit() else [version]
    for row in data.BUILD_FAILURES:
        patched = source == data.ARCHIVE and distribution in row.patched_archives
        if not patched and _within(kernel, row.kernels) and all(_within(one, row.drivers) for one in versions):
            return row
    return None


def _within(version: str, limits: tuple[str, str]) -> bool:
    return version_key(limits[0]) <= version_key(version) < version_key(limits[1])


def installed_choice(host: Facts) -> Choice:
    """The driver that the host's packages make up."""
    packages = host["packages"]
    branches = [branch_of(entry["version"]) for name, entry in packages.items() if is_driver_package(name)]
    known = [branch for branch in branches if branch]
    if not known:
        return Choice("", 0, "", "")
    branch = max(set(known), key=known.count)
    source = host["package_source"] if host["package_source"] in (data.ARCHIVE, data.CUDA_REPOSITORY) else ""
    modules = scope = ""
    rows = [row for place in ([source] if source else SOURCES) for row in _package_sets(host, place, branch)]
    for row in rows:
        names = {name for templates in (row.dkms, row.prebuilt) for name in _names(templates, host, branch)}
        if names & packages.keys():
            modules = row.modules
        if all(name in packages for name in _names(row.packages, host, branch)) and scope != data.DESKTOP:
            scope = row.scope
    return Choice(source, branch, modules, scope)


def _package_sets(host: Facts, source: str, branch: int) -> list[data.PackageSet]:
    """For each scope and flavour the set of names that holds for a branch."""
    found: dict[tuple[str, str], data.PackageSet] = {}
    for row in sorted(data.PACKAGE_SETS, key=lambda row: row.lowest_branch):
        if (row.source, row.distribution) == (source, host["system"]["distribution"]) and row.lowest_branch <= branch:
            found[row.scope, row.modules] = row
    return list(found.values())


def _names(templates: t.Iterable[str], host: Facts, branch: int) -> list[str]:
    # NVSwitch machines take the archive's -server drivers, which alone have a fabric manager beside them.
    server = "-server" if host["nvswitch"] else ""
    return [
        template.format(branch=branch, server=server, kernel=kernel)
        for template in templates
        for kernel in (kernel_flavours(host["packages"]) if "{kernel}" in template else [""])
    ]


class Planner:
    """One request, weighed against one host."""

    def __init__(self, host: Facts, request: Request) -> None:
        self.host = host
        self.request = request
        self.system = host["system"]
        self.installed = installed_choice(host)
        asked = [gpu for gpu in request.gpus if _is_device_id(gpu)]
        self.cards = cards_of(int(gpu, 16) for gpu in asked or [gpu["device_id"] for gpu in host["gpus"]])
        self.plan = Plan(generations=self.cards.names)

    def run(self) -> Plan:
        if self._check_words() and self._check_cards() and self._choose():
            self._list_packages()
            self._check_version()
            self._check_toolkits()
            self._check_kernels()
            self._check_host()
            self._lock()
            self._look_at_boot()
        if self.plan.refused:
            nothing: dict[str, t.Any] = {
                name: [] for name in ("pinning", "install", "remove", "hold", "headers", "reboot")
            }
            self.plan = dataclasses.replace(self.plan, **nothing, preferences="", changes=False, downgrade=False)
        return self.plan

    # --- the request ---

    def _check_words(self) -> bool:
        """The request is made of words that the data knows."""
        offered = {
            "source": SOURCES,
            "branch": tuple(str(row.number) for row in data.BRANCHES),
            "modules": (data.OPEN, data.CLOSED),
            "scope": (data.COMPUTE, data.DESKTOP),
        }
        known = [
            self.plan.require(
                getattr(self.request, field) in (AUTO, *words),
                f"nvidia_driver_{field}",
                f"is {getattr(self.request, field)}, which is unknown",
                f"use one of {', '.join((AUTO, *words))}",
            )
            for field, words in offered.items()
        ]
        strange = [repr(gpu) for gpu in self.request.gpus if not _is_device_id(gpu)]
        return all(known) and self.plan.require(
            not strange,
            "nvidia_driver_gpus",
            f"has {', '.join(strange)}, which is no PCI device id",
            "give four hexadecimal digits in quotes, as `lspci -n` has them after `10de:`",
        )

    def _check_cards(self) -> bool:
        """There are GPUs, a driver that is still built supports them, and one driver serves all of them."""
        name, cards = self.request.host_name, self.cards
        lowest = min(row.number for row in data.BRANCHES)
        together = " and ".join(cards.names)
        return (
            self.plan.require(
                bool(cards.generations),
                name,
                "has no NVIDIA GPU",
                "leave the role out, or name the PCI device ids to prepare for in `nvidia_driver_gpus`",
            )
            and self.plan.require(
                bool(cards.modules),
                name,
                f"has GPUs of {together}, which no kernel module serves together: the open one begins with Turing, "
                "the closed one ends before Blackwell",
                "take one of the cards out",
            )
            and self.plan.require(
                cards.highest_branch >= lowest,
                name,
                f"has a GPU of {together}, whose last driver branch is {cards.highest_branch}",
                f"replace the card: drivers from {lowest} on need Maxwell or newer",
            )
        )

    # --- the choice ---

    def _choose(self) -> bool:
        """Source, branch and flavour together: the first that the GPUs, the source and the request allow."""
        found = [choice for source in self._sources() for choice in self._offers(source)]
        asked = [choice for choice in found if self._is_asked_for(choice)]
        wanted = [choice for choice in asked if not self._goes_down(choice)]
        if not self.plan.require(bool(wanted), *self._why_none(asked)):
            return False
        choice = min(wanted, key=self._preference)
        plan = self.plan
        plan.source, plan.branch, plan.modules, plan.scope = choice
        branch = next(row for row in data.BRANCHES if row.number == choice.branch)
        if branch.ends and branch.ends < self.host["month"]:
            plan.notes.append(f"branch {choice.branch} was supported until {branch.ends}, and gets no more fixes")
        for field in ("source", "branch", "modules", "scope"):
            value, asked, had = getattr(choice, field), getattr(self.request, field), getattr(self.installed, field)
            if asked != AUTO:
                reason = f"asked for by nvidia_driver_{field}"
            elif had == value:
                reason = "installed, and fits"
            else:
                reason = self._default_reason(field, value)
            plan.reasons.append(f"{field} {value}: {reason}")
        return True

    def _default_reason(self, field: str, value: t.Any) -> str:
        if field == "source":
            rows = [row for row in data.DEFAULT_SOURCES if row.distribution == self.system["distribution"]]
            return rows[0].source.removeprefix("rule: ")
        if field == "branch":
            row = next(row for row in data.BRANCHES if row.number == value)
            return f"{row.kind.replace('_', ' ')} branch" + (f", supported until {row.ends}" if row.ends else "")
        if field == "modules":
            return f"what {' and '.join(self.cards.names)} and the source have" + (
                "; recommended" if value == data.OPEN else ""
            )
        return "a desktop is installed" if value == data.DESKTOP else "no desktop is installed"

    def _sources(self) -> tuple[str, ...]:
        order = [row.sources for row in data.DEFAULT_SOURCES if row.distribution == self.system["distribution"]]
        return order[0] if order else ()

    def _offers(self, source: str) -> list[Choice]:
        """All drivers that a source has for the GPUs of this host."""
        offered: dict[int, tuple[str, ...]] = {}
        if source == data.ARCHIVE:
            for archive in data.ARCHIVES:
                if (archive.distribution, archive.version) == (self.system["distribution"], self.system["version"]):
                    offered = archive.branches
        else:
            repository = self._cuda_repository()
            if repository:
                offered = {row.number: row.modules for row in data.BRANCHES if row.number >= repository.lowest_branch}
        return [
            Choice(source, row.number, modules, scope)
            for row in data.BRANCHES
            if row.number in offered and self._in_range(row)
            for modules in row.modules
            if modules in offered[row.number] and modules in self.cards.modules
            for scope in (data.COMPUTE, data.DESKTOP)
        ]

    def _cuda_repository(self) -> data.CudaRepository | None:
        place = (self.system["distribution"], self.system["version"])
        return next((row for row in data.CUDA_REPOSITORIES if (row.distribution, row.version) == place), None)

    def _in_range(self, branch: data.Branch) -> bool:
        """Whether a branch, in its newest release at least, knows every GPU of this host."""
        return self.cards.lowest_branch <= branch.number <= self.cards.highest_branch

    def _is_asked_for(self, choice: Choice) -> bool:
        return all(getattr(self.request, field) in (AUTO, str(value)) for field, value in choice._asdict().items())

    def _goes_down(self, choice: Choice) -> bool:
        """Whether a driver that serves the GPUs would become an older branch, and nobody has asked for a source or a branch."""
        return (self.request.source, self.request.branch) == (AUTO, AUTO) and self._is_older(choice)

    def _is_older(self, choice: Choice) -> bool:
        had = self.installed.branch
        return choice.branch < had and self.cards.lowest_branch <= had <= self.cards.highest_branch

    def _preference(self, choice: Choice) -> tuple[t.Any, ...]:
        """Smaller is better: a source, then a branch and a flavour; what is installed before what is preferred."""
        scope = self.installed.scope or (data.DESKTOP if self.host["desktop"]["present"] else data.COMPUTE)
        return (
            bool(self._known_failure(choice)) and not self.request.ignore_build_failures,
            choice.source != self.installed.source,
            self._sources().index(choice.source),
            any(toolkit_problem(version, f"{choice.branch}.9999", ()) for version in self.request.toolkits),
            choice.branch != self.installed.branch,
            self._is_older(choice),
            data.PREFERRED_BRANCHES.index(choice.branch),
            choice.modules != (self.installed.modules or data.OPEN),
            choice.scope != scope,
        )

    def _known_failure(self, choice: Choice) -> data.BuildFailure | None:
        """Why no release of a choice builds for the kernel that boots next, as far as that is known."""
        upstream = next((kernel["upstream"] for kernel in self.host["kernels"] if kernel["next"]), "")
        return build_failure(str(choice.branch), upstream, choice.source, self.system["distribution"])

    def _why_none(self, asked_for: t.Sequence[Choice]) -> tuple[str, str, str]:
        """Variable, problem and remedy when nothing serves the request: the narrowest part of it that is to blame.

        *asked_for* would serve it, but for being older than what is installed.
        """
        request, cards, together = self.request, self.cards, " and ".join(self.cards.names)
        if asked_for:
            newest = max(choice.branch for choice in asked_for)
            return (
                "nvidia_driver_branch",
                f"is {AUTO}, which does not go down from the installed branch {self.installed.branch} to {newest}",
                f"use {newest} if an older driver is wanted",
            )
        everywhere = [choice for source in self._sources() for choice in self._offers(source)]
        branches = sorted({choice.branch for choice in everywhere})
        if request.modules not in (AUTO, *cards.modules):
            return (
                "nvidia_driver_modules",
                f"is {request.modules}, which has no support for {together}",
                f"use {AUTO} or {' or '.join(cards.modules)}",
            )
        if request.branch != AUTO and int(request.branch) not in branches:
            if int(request.branch) > cards.highest_branch:
                problem = f"but {cards.highest_branch} is the last for {together}"
            elif int(request.branch) < cards.lowest_branch:
                problem = f"but {together} is known from driver {cards.lowest_driver} on"
            else:
                problem = f"which {self.system['distribution']} {self.system['version']} has no packages of"
            return (
                "nvidia_driver_branch",
                f"is {request.branch}, {problem}",
                f"use {AUTO}" + (f" or one of {', '.join(map(str, branches))}" if branches else ""),
            )
        usable = [
            f"{choice.branch} {choice.modules} from {choice.source}"
            for choice in everywhere
            if choice.scope == data.COMPUTE
        ]
        variable = "nvidia_driver_source" if request.source != AUTO else "nvidia_driver_branch"
        asked = ", ".join(
            f"{field} {getattr(request, field)}"
            for field in ("source", "branch", "modules")
            if getattr(request, field) != AUTO
        )
        return (
            variable,
            f"leaves no driver for {together} on {self.system['distribution']} {self.system['version']}"
            f" ({asked or 'nothing was asked for'})",
            f"use one of {'; '.join(usable) or 'the supported systems'}",
        )

    # --- packages ---

    def _list_packages(self) -> None:
        plan, packages = self.plan, self.host["packages"]
        row = next(
            row
            for row in _package_sets(self.host, plan.source, plan.branch)
            if (row.scope, row.modules) == (plan.scope, plan.modules)
        )
        plan.preliminary = not any(
            is_driver_package(name) and plan.source in offer["origins"]
            for name, offers in self.host["available"].items()
            for offer in offers
        )
        wanted = _names(row.packages, self.host, plan.branch) + self._fabric_manager()
        prebuilt = _names(row.prebuilt, self.host, plan.branch)
        dkms = _names(row.dkms, self.host, plan.branch)
        has_prebuilt = bool(prebuilt) and all(self._candidate(name) or name in packages for name in prebuilt)
        plan.build = "prebuilt" if has_prebuilt else "dkms"
        wanted += prebuilt if has_prebuilt else dkms
        plan.version = driver_version(self._candidate((dkms + wanted)[0]) or self._candidate(wanted[0]))
        plan.headers = [] if has_prebuilt else self._headers()
        pinning = [name for name in _names(row.pinning, self.host, plan.branch) if self._is_offered(name)]
        plan.pinning = [name for name in pinning if name not in packages]
        plan.install = [name for name in wanted if not self._is_there(name)]
        plan.remove = sorted(name for name in packages if self._goes(name, {*wanted, *pinning}))
        plan.changes = bool(plan.pinning or plan.install or plan.remove)
        plan.downgrade = bool(self.installed.branch > plan.branch and plan.changes)
        if not pinning:
            plan.preferences = preferences(plan.source, plan.branch)
        self._describe_source()

    def _headers(self) -> list[str]:
        """The headers that DKMS lacks: of the kernels that are there, and of those that come by themselves where nothing is locked."""
        missing = [
            kernel["headers_package"]
            for kernel in self._kernels()
            if not kernel["headers"] and kernel["headers_available"]
        ]
        if self.request.lock:
            return missing
        packages = self.host["packages"]
        images = sorted(name for name in packages if is_kernel_metapackage(name) and "-image-" in name)
        following = [name.replace("-image-", "-headers-") for name in images]
        return missing + [name for name in following if name not in packages and self.host["available"].get(name)]

    def _is_offered(self, name: str) -> bool:
        """Whether the planned source has a package; one whose lists apt does not have yet is believed to."""
        offers = self.host["available"].get(name, [])
        return self.plan.preliminary or any(self.plan.source in row["origins"] for row in offers)

    def _describe_source(self) -> None:
        plan, repository = self.plan, self._cuda_repository()
        if plan.source == data.CUDA_REPOSITORY and repository:
            configured = [row["directory"] for row in self.host["repositories"]]
            plan.repository = {
                "url": f"{data.CUDA_REPOSITORY_URL}/{repository.directory}",
                "directory": repository.directory,
                "architectures": repository.architectures,
                "keyring": data.CUDA_KEYRING_PACKAGE,
                "keyring_sha256": repository.keyring_sha256,
                "key": repository.key,
                "configured": repository.directory in configured,
            }
            foreign = sorted({name for name in configured if name != repository.directory})
            self.plan.require(
                not foreign,
                self.request.host_name,
                f"has the CUDA repository of {', '.join(foreign)}",
                f"remove {', '.join(row['file'] for row in self.host['repositories'] if row['directory'] in foreign)}",
            )
        else:
            plan.components = [
                name
                for row in data.ARCHIVES
                if (row.distribution, row.version) == (self.system["distribution"], self.system["version"])
                for name in row.components
            ]

    def _fabric_manager(self) -> list[str]:
        rows = [
            row
            for row in data.FABRIC_MANAGERS
            if (row.source, row.distribution) == (self.plan.source, self.system["distribution"])
            and row.lowest_branch <= self.plan.branch
        ]
        if not self.host["nvswitch"]:
            return []
        self.plan.require(
            bool(rows),
            "nvidia_driver_source",
            f"is {self.plan.source}, which has no fabric manager, and this machine has NVSwitch",
            f"use {data.CUDA_REPOSITORY}",
        )
        return [max(rows, key=lambda row: row.lowest_branch).package.format(branch=self.plan.branch)] if rows else []

    def _candidate(self, name: str) -> str:
        """The newest version of a package that the planned source has on the planned branch."""
        versions = [
            row["version"]
            for row in self.host["available"].get(name, [])
            if self.plan.source in row["origins"]
            and is_on_branch(name, row["version"], self.plan.branch, {self.plan.source})
        ]
        return max(versions, key=version_key, default="")

    def _is_there(self, name: str) -> bool:
        """Installed whole, on the planned branch and from the planned source, as far as its version tells."""
        entry = self.host["packages"].get(name)
        return bool(
            entry
            and entry["status"] == "installed"
            and is_on_branch(name, entry["version"], self.plan.branch, origins_now(self.host, name))
            and self._is_of_source(entry)
        )

    def _is_of_source(self, entry: Facts) -> bool:
        """What no source has any more is of the planned one, unless the driver is known to come from another."""
        unknown = entry["origin"] == "unknown" and self.installed.source in ("", self.plan.source)
        return unknown or bool(entry["origin"] == self.plan.source)

    def _goes(self, name: str, wanted: t.AbstractSet[str]) -> bool:
        """Whether an installed package has to go: of another branch, flavour or source, and not offered by the planned one."""
        if name in wanted:
            return False
        if re.fullmatch(r"nvidia-driver-pinning-.*", name):
            return True
        if not is_driver_package(name):
            return False
        entry, plan = self.host["packages"][name], self.plan
        if name in self._other_flavour(wanted):
            return True
        named = re.search(r"-(\d{3})(?=-|$)", name)
        if named and int(named.group(1)) != plan.branch:
            return True
        branch = branch_of(entry["version"])
        if not branch or (branch == plan.branch and self._is_of_source(entry)):
            return False
        return not self._candidate(name)

    def _other_flavour(self, wanted: t.AbstractSet[str]) -> set[str]:
        """Names that only the flavour that is not planned would install."""
        named: dict[str, set[str]] = {data.OPEN: set(), data.CLOSED: set()}
        for row in _package_sets(self.host, self.plan.source, self.plan.branch):
            named[row.modules].update(_names((*row.packages, *row.dkms, *row.prebuilt), self.host, self.plan.branch))
        planned = named.pop(self.plan.modules)
        return set().union(*named.values()) - planned - wanted

    # --- what may be in the way ---

    def _check_version(self) -> None:
        """The release that would be installed knows every card; a branch gets to know cards while it lives."""
        plan, lowest = self.plan, self.cards.lowest_driver
        plan.require(
            not plan.version or version_key(plan.version) >= version_key(lowest),
            "nvidia_driver_branch",
            f"leads to {plan.version}, but {' and '.join(plan.generations)} here is known from driver {lowest} on",
            "refresh apt's lists, or choose a newer branch",
        )
        unknown = [gpu["device_id"] for gpu in self.host["gpus"] if not gpu["known"]] if not self.request.gpus else []
        if unknown:
            plan.notes.append(
                f"GPU {', '.join(unknown)} is newer than this collection's data, and planned for as {data.UNKNOWN_CHIP.generation}"
            )

    def _check_toolkits(self) -> None:
        driver = self.plan.version or f"{self.plan.branch}.9999"
        for version in self.request.toolkits:
            problem = toolkit_problem(version, driver, self.plan.generations)
            remedy = f"choose a newer nvidia_driver_branch or one of CUDA {', '.join(self._usable_toolkits(driver))}"
            if problem:
                self.plan.require(False, "nvidia_driver_toolkits", problem, remedy)
            row = next((row for row in data.TOOLKITS if row.version == version), None)
            if row and not problem and version_key(driver) < version_key(row.driver):
                self.plan.notes.append(
                    f"CUDA {version} runs on driver {self.plan.branch} by minor-version compatibility: PTX cannot be compiled, "
                    f"and features that need driver {row.driver} fail"
                )

    def _usable_toolkits(self, driver: str) -> list[str]:
        return [row.version for row in data.TOOLKITS if not toolkit_problem(row.version, driver, self.plan.generations)]

    def _kernels(self) -> list[Facts]:
        """The kernels that a module is needed for: the one that boots next, and the running one."""
        return [kernel for kernel in self.host["kernels"] if kernel["next"] or kernel["running"]]

    def _check_kernels(self) -> None:
        if self.plan.build != "dkms" or not self.plan.changes:
            return
        for kernel in (kernel for kernel in self._kernels() if kernel["next"]):
            self.plan.require(
                kernel["headers"] or kernel["headers_available"],
                self.request.host_name,
                f"has no headers for the kernel {kernel['release']}, and no configured source has {kernel['headers_package']}",
                "install the distribution's current kernel and reboot",
            )
            version = self.plan.version or str(self.plan.branch)
            failure = build_failure(version, kernel["upstream"], self.plan.source, self.system["distribution"])
            if failure and not self.request.ignore_build_failures:
                self.plan.require(
                    False,
                    "nvidia_driver_branch" if self.request.branch != AUTO else "nvidia_driver_source",
                    f"leads to driver {version} from {self.plan.source}, which does not build for the kernel"
                    f" {kernel['release']}: {failure.reason} ({failure.source})",
                    f"use {self._another_driver()}a kernel before {failure.kernels[0]},"
                    " or `nvidia_driver_ignore_build_failures: true` to try it",
                )

    def _another_driver(self) -> str:
        """A source and branch that are not known to fail."""
        choices = [choice for source in self._sources() for choice in self._offers(source)]
        good = [choice for choice in sorted(choices, key=self._preference) if not self._known_failure(choice)]
        return (
            f"`nvidia_driver_source: {good[0].source}` with `nvidia_driver_branch: {good[0].branch}`, " if good else ""
        )

    def _check_host(self) -> None:
        host, plan, name = self.host, self.plan, self.request.host_name
        source = host["package_source"]
        origins: dict[str, list[str]] = {}
        for package, entry in host["packages"].items():
            if is_driver_package(package) and branch_of(entry["version"]):
                origins.setdefault(entry["origin"], []).append(package)
        described = "; ".join(f"{origin}: {', '.join(names)}" for origin, names in sorted(origins.items()))
        plan.require(
            not host["run_installer"]["installed"],
            name,
            f"has driver {host['run_installer']['version'] or 'files'} from a .run file",
            "run `/usr/bin/nvidia-uninstall --silent` first",
        )
        plan.require(
            source != "mixed" or host["run_installer"]["installed"],
            name,
            f"has driver packages of several sources ({described})",
            "purge those of all but one source",
        )
        plan.require(
            source != "other",
            name,
            f"has driver packages that neither the archive nor the CUDA repository has ({described})",
            "run `apt-get update`; if that does not help, purge them and remove their repository",
        )
        plan.require(
            source != "foreign",
            name,
            f"has driver {host['driver']['library']} that no package brought",
            "leave the role out where a container's host or an image lends the driver, or take these libraries away",
        )
        if not plan.changes:
            return
        driver = (package for package in host["packages"] if is_driver_package(package))
        plan.requirements += obstacles(host, self.request, {*plan.remove, *driver, *plan.install, *plan.pinning})
        broken = sorted(package for package, entry in host["packages"].items() if entry["status"] != "installed")
        if broken:
            plan.notes.append(f"dpkg has not finished {', '.join(broken)}")

    # --- afterwards ---

    def _lock(self) -> None:
        """What is held as one unit once the plan is carried out. Run again afterwards, it names the dependencies too."""
        if not self.request.lock:
            return
        kept = {name for name in self.host["packages"] if is_driver_package(name) or is_kernel_metapackage(name)}
        self.plan.hold = sorted(kept.union(self.plan.install).difference(self.plan.remove))

    def _look_at_boot(self) -> None:
        plan, driver, host = self.plan, self.host["driver"], self.host
        boot = host["secure_boot"]
        if boot["state"] != "enabled":
            plan.secure_boot = "off"
        elif plan.build == "prebuilt":
            plan.secure_boot = "signed"
        else:
            plan.secure_boot = "enrolled" if boot["enrolled"] else ("pending" if boot["pending"] else "enroll")
        following = host["next_kernel"]["release"]
        running = next((kernel["release"] for kernel in host["kernels"] if kernel["running"]), following)
        reasons = [
            (bool(driver["loaded"]) and plan.changes, f"driver {driver['loaded']} is loaded and will be replaced"),
            (
                driver["matches"] is False and not plan.changes,
                f"driver {driver['loaded']} is loaded, the libraries are of {driver['library']}",
            ),
            (driver["nouveau"], "nouveau is loaded"),
            (following != running and plan.changes, f"the kernel {following} boots next, {running} runs"),
            (
                plan.secure_boot in ("pending", "enroll"),
                "the key that signs the module is confirmed at the console, while booting",
            ),
        ]
        plan.reboot = [reason for needed, reason in reasons if needed]


def obstacles(host: Facts, request: Request, touched: t.Collection[str]) -> list[dict[str, t.Any]]:
    """What stands in the way of a change of these packages, as the action ``require`` takes it; only what is not met."""
    name = request.host_name
    held = sorted(
        {package.partition(":")[0] for package in touched}.intersection(host["holds"]).difference(request.own_holds)
    )
    short = sorted(path for path, free in host["free_bytes"].items() if path != "/boot" and free < request.free_bytes)
    found = [
        {
            "ok": not held,
            "variable": name,
            "problem": f"holds {', '.join(held)}",
            "remedy": f"run `apt-mark unhold {' '.join(held)}` if the hold is no longer wanted",
        },
        {
            "ok": not short,
            "variable": name,
            "problem": f"has less than {request.free_bytes // 1024**3} GiB free on {', '.join(short)}",
            "remedy": "free some room, or set `nvidia_driver_free_bytes`",
        },
    ]
    if any(is_driver_package(package) for package in touched):
        found.append(in_use(host, request.interrupt))
    return [row for row in found if not row["ok"]]


def in_use(host: Facts, interrupt: bool) -> dict[str, t.Any]:
    """The driver must not be taken from under a program."""
    users = [row for row in host["holders"] if not row["command"].startswith(data.DAEMONS)]
    shown = ", ".join(f"{row['command']} ({row['pid']}, {row['user']})" for row in users[:5])
    return {
        "ok": not users or interrupt,
        "variable": "nvidia_driver_interrupt",
        "problem": f"is off, and the GPU is in use by {shown}{' and others' if users[5:] else ''}",
        "remedy": "end these programs, or set it to true",
    }


def preferences(source: str, branch: int) -> str:
    """Preferences of apt that keep the driver on its branch and other sources' drivers away. CUDA toolkits stay free."""
    if source == data.ARCHIVE:
        return (
            "# The driver comes from the distribution's archive: NVIDIA's repository may bring CUDA, but no driver.\n"
            "Package: src:*nvidia*:any src:cuda-drivers:any\n"
            "Pin: release l=NVIDIA CUDA\n"
            "Pin-Priority: -1\n"
        )
    return (
        f"# The driver stays on its branch, as with nvidia-driver-pinning-{branch}.\n"
        "Package: src:*nvidia*:any src:cuda-drivers:any\n"
        f"Pin: version {branch}.*\n"
        "Pin-Priority: 1000\n"
    )


def plan_driver(host: Facts, request: t.Mapping[str, t.Any]) -> Plan:
    """Plan the driver of a host.

    *host* is what gpu_host_info returns, *request* has the fields of Request. Raises ValueError for an unknown field.
    """
    return Planner(host, Request.from_dict(request)).run()
