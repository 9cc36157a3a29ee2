# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model of a planned driver: request, plan, GPUs, and the choices between them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import (
    find_chip,
    lowest_driver,
    of_host,
    passed_on,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import kernel_flavours
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    branch_of,
    is_driver_package,
    version_key,
)

AUTO = "auto"
SOURCES = (data.ARCHIVE, data.CUDA_REPOSITORY)
_NO_LIMIT = 10000


@dataclasses.dataclass(frozen=True)
class Request:
    """A request of the user. Each field is the role's variable ``nvidia_driver_<field>``.

    *gpus* are PCI device ids, such as 2684, to plan for instead of the installed cards (an image, a sandbox). *own_holds* are
    the holds that the role itself has set, so that they do not block it. *interrupt* lets the driver change while programs
    use it. *ignore_build_failures* tries what is known not to build.
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
    def from_dict(cls, wanted: t.Mapping[str, object]) -> Request:
        """Return a request from its fields.

        :raises ValueError: a request has no such field.
        """
        unknown = wanted.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} is no part of a request for a driver")
        values: JsonObject = {
            key: tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else value
            for key, value in wanted.items()
        }
        return cls(**{**values, "branch": str(values.get("branch", AUTO))})


@dataclasses.dataclass
class Plan:
    """The steps to a driver, in the order of the fields from *repository* on.

    *requirements* are those that are not met, as the action ``require`` takes them: with any, the plan is refused.
    *version* is the driver's version that apt would install, empty if apt's lists do not have it. *preliminary*: apt has no list of the
    source yet. So add *repository* (or *components*), run gpu_host_info again and plan again before anything changes.
    *pinning*, *headers*, *install* and *remove* go in one call of apt, which possibly has to downgrade. *hold* are all packages that are
    held afterwards as one unit: plan again then, since dependencies belong to it.
    *preferences* is the content of a file of apt. *build*: dkms or prebuilt. *secure_boot*: off, signed (prebuilt modules),
    enrolled (the key of DKMS is trusted), pending (a person confirms it at the next boot), enroll (nobody has staged it yet).
    *reboot* gives the reasons for a reboot, none if it needs none. *notes* are worth a warning.
    """

    source: str = ""
    branch: int = 0
    modules: str = ""
    scope: str = ""
    version: str = ""
    preliminary: bool = False
    generations: list[str] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    repository: JsonObject = dataclasses.field(default_factory=dict)
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

    def require(self, ok: bool, variable: str, text: str, remedy: str) -> bool:
        if not ok:
            self.requirements.append(problem(variable, text, remedy))
        return ok

    def as_dict(self) -> JsonObject:
        return {**dataclasses.asdict(self), "refused": self.refused}


class Cards(t.NamedTuple):
    """The properties that the GPUs of one host share."""

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
    """A driver that is requested, installed or chosen. 0 and the empty string stand for: unknown."""

    source: str
    branch: int
    modules: str
    scope: str


def is_device_id(text: str) -> bool:
    """Return whether a text is a PCI device id."""
    return bool(re.fullmatch(r"(?:0[xX])?[0-9a-fA-F]{4}", text))


def cards_of(devices: t.Iterable[int]) -> Cards:
    """Return what the GPUs with these PCI device ids have in common."""
    ids = list(devices)
    names = {find_chip(device).generation for device in ids}
    return Cards(
        tuple(row for row in data.GENERATIONS if row.name in names),
        max(map(lowest_driver, ids), key=version_key, default=""),
    )


def toolkit_problem(version: str, driver: str, generations: t.Iterable[str]) -> str:
    """Return why a CUDA toolkit cannot be used with a driver version and GPUs, empty if it can."""
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
    """Return the known reason why a driver version, or every version of a branch, does not build for a kernel version."""
    versions = [version, f"{version}.9999"] if version.isdigit() else [version]
    for row in data.BUILD_FAILURES:
        patched = source == data.ARCHIVE and distribution in row.patched_archives
        if (
            not patched
            and _within(kernel, row.kernels)
            and all(_within(candidate, row.drivers) for candidate in versions)
        ):
            return row
    return None


def _within(version: str, limits: tuple[str, str]) -> bool:
    return version_key(limits[0]) <= version_key(version) < version_key(limits[1])


def installed_choice(host: Facts) -> Choice:
    """Return the driver that the host's packages make up."""
    packages = host["packages"]
    branches = [branch_of(entry["version"]) for name, entry in packages.items() if is_driver_package(name)]
    driver_branches = [branch for branch in branches if branch]
    if not driver_branches:
        return Choice("", 0, "", "")
    branch = max(set(driver_branches), key=driver_branches.count)
    source = host["package_source"] if host["package_source"] in (data.ARCHIVE, data.CUDA_REPOSITORY) else ""
    modules = scope = ""
    rows = [row for place in ([source] if source else SOURCES) for row in package_sets(host, place, branch)]
    for row in rows:
        names = {name for templates in (row.dkms, row.prebuilt) for name in package_names(templates, host, branch)}
        if names & packages.keys():
            modules = row.modules
        if all(name in packages for name in package_names(row.packages, host, branch)) and scope != data.DESKTOP:
            scope = row.scope
    return Choice(source, branch, modules, scope)


def package_sets(host: Facts, source: str, branch: int) -> list[package_data.PackageSet]:
    """Return the packages of a branch for each scope and kind of modules."""
    found: dict[tuple[str, str], package_data.PackageSet] = {}
    for row in sorted(package_data.PACKAGE_SETS, key=lambda row: row.lowest_branch):
        if (row.source, row.distribution) == (source, host["system"]["distribution"]) and row.lowest_branch <= branch:
            found[row.scope, row.modules] = row
    return list(found.values())


def package_names(templates: t.Iterable[str], host: Facts, branch: int) -> list[str]:
    # Machines with NVSwitch take the archive's -server drivers: only those have a fabric manager.
    """Return the names of packages for this host and branch."""
    server = "-server" if host["nvswitch"] else ""
    return [
        template.format(branch=branch, server=server, kernel=kernel)
        for template in templates
        for kernel in (kernel_flavours(host["packages"]) if "{kernel}" in template else [""])
    ]


class Draft:
    """The plan of a driver while it is made, with the host and the request that it is made from."""

    def __init__(self, host: Facts, request: Request) -> None:
        self.host = host
        self.request = request
        self.system = host["system"]
        self.installed = installed_choice(host)
        requested = [gpu for gpu in request.gpus if is_device_id(gpu)]
        # A virtual machine can borrow the only card: it returns to the driver that is installed when the machine stops.
        self.gpus = of_host(host["gpus"]) or [gpu for gpu in passed_on(host["gpus"]) if self._serves(gpu)]
        self.cards = cards_of(int(gpu, 16) for gpu in requested or [gpu["device_id"] for gpu in self.gpus])
        self.plan = Plan(generations=self.cards.names)

    def _serves(self, gpu: Facts) -> bool:
        """Return whether the installed driver has support for a GPU."""
        cards, branch = cards_of([int(gpu["device_id"], 16)]), self.installed.branch
        return branch > 0 and cards.lowest_branch <= branch <= cards.highest_branch

    @property
    def cuda_repository(self) -> package_data.CudaRepository | None:
        """Return NVIDIA's repository for the system of the host."""
        place = (self.system["distribution"], self.system["version"])
        return next((row for row in package_data.CUDA_REPOSITORIES if (row.distribution, row.version) == place), None)

    @property
    def kernels(self) -> list[Facts]:
        """Return the kernels that a module is needed for: the one that boots next, and the running one."""
        return [kernel for kernel in self.host["kernels"] if kernel["next"] or kernel["running"]]
