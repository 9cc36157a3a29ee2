# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the CUDA toolkits of a host: what is installed and removed, and why a request is refused.

Pure: facts and a request in, a plan out. A plan that is refused changes nothing.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    Package,
    installed_for,
    is_whole,
    unfinished,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_environment import (
    environment_files,
    unset_environment,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import toolkit_problem
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import version_key

AUTO = "auto"

# The toolkit in the distributions' own archives, which have one each: package nvidia-cuda-toolkit.
# Debian measured 2026-11-21 (apt-cache policy in bookworm and trixie); Ubuntu unverified (packages.ubuntu.com).
ARCHIVE_TOOLKITS = {("Debian", "12"): "11.8", ("Debian", "13"): "12.4", ("Ubuntu", "24.04"): "12.0"}
ARCHIVE_PACKAGE = "nvidia-cuda-toolkit"

# nvcc hands everything but the kernels to the host's compiler, and NVIDIA's packages do not depend on one.
COMPILER = "g++"

# NVIDIA's packages install a toolkit here. The link to the one in use leads through a link of update-alternatives.
ROOT = "/usr/local/cuda"
ALTERNATIVES = "/etc/alternatives"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request of the user. Each field is the role's variable ``cuda_<field>``. *driver_branch* plans for a later driver."""

    source: str = AUTO
    toolkits: tuple[str, ...] = ()
    default: str = ""
    driver_branch: str = AUTO
    free_bytes: int = data.FREE_BYTES


@dataclasses.dataclass(frozen=True)
class Host:
    """The facts of a host. *driver* is the version in use, empty for none. *installed* are packages that the role installed.

    *alternatives* are the links of update-alternatives, by name. *roots* are the files below /usr/local with such a name:
    their target, or empty for what is no link. *interrupted* says that dpkg was killed, or is running, and has not recorded its work yet.

    *environment* is the text of /etc/environment. *environment_before* is the text before the role, None if it is not the role's.
    """

    distribution: str
    version: str
    machine: str
    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    automatic: frozenset[str] = frozenset()
    driver: str = ""
    generations: tuple[str, ...] = ()
    free_bytes: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    alternatives: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    roots: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    installed: frozenset[str] = frozenset()
    interrupted: bool = False
    environment: str = ""
    environment_before: str | None = None


@dataclasses.dataclass
class PackagePlan:
    """The common part of the plans of CUDA and cuDNN. *requirements* are those that are not met: with any, the plan is refused.

    *installed* are the packages of NVIDIA that the role manages afterwards: they were not installed before it. *unfinished* says that
    dpkg has to complete earlier work before apt can continue.
    """

    source: str = ""
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    installed: list[str] = dataclasses.field(default_factory=list)
    unfinished: bool = False

    def require(self, ok: bool, variable: str, text: str, remedy: str) -> None:
        if not ok:
            self.requirements.append(problem(variable, text, remedy))

    def settle_packages(
        self, host: Host, variable: str, wanted: t.Sequence[str] = (), tools: t.Sequence[str] = ()
    ) -> None:
        """Install what is missing. Remove what the role installed, unless it is *wanted* or something else needs it.

        *tools* are the distribution's. They stay for good: apt does not know who else works with a compiler by now.
        """
        self.install = [name for name in (*wanted, *tools) if not is_whole(name, host.packages)]
        staying = {*wanted, *tools}
        self.remove = installed_for(host.installed - staying, host.packages, host.automatic - staying)
        staying_installed = host.installed.intersection(host.packages).difference(tools, self.remove)
        self.installed = sorted({*staying_installed, *(name for name in wanted if name not in host.packages)})
        self.unfinished = host.interrupted or bool(unfinished({*staying, *host.installed}, host.packages))
        held = [name for name in self.remove if host.packages[name].hold]
        self.require(
            not held,
            variable,
            f"removes {', '.join(held)}, which dpkg holds",
            f"run `apt-mark unhold {' '.join(held)}` first, or leave things as they are",
        )

    def check_known(self, variable: str, choices: t.Mapping[str, str], installable: t.Collection[str]) -> None:
        """Refuse what the repository lacks. *choices* has the package of each value, *known* what apt can install."""
        missing = [choice for choice, name in choices.items() if name in self.install and name not in installable]
        offered = [choice for choice, name in choices.items() if name in installable]
        self.require(
            not missing,
            variable,
            f"asks for {', '.join(missing)}, which NVIDIA's repository for this system does not have",
            f"choose among {', '.join(offered) or 'none'}, or set `workstation_cuda_repository` to a mirror that has it",
        )


@dataclasses.dataclass
class Plan(PackagePlan):
    """Toolkits and their environment. *driver* is the version that the plan is for. *notes* are worth a warning."""

    toolkits: list[str] = dataclasses.field(default_factory=list)
    default: str = ""
    root: str = ""
    driver: str = ""
    alternatives: dict[str, str] = dataclasses.field(default_factory=dict)
    files: list[FileRow] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


def package_of(toolkit: str) -> str:
    """Return the package of a toolkit. It is never ``cuda`` or ``cuda-13-0``: those install a driver as well."""
    return f"cuda-toolkit-{toolkit.replace('.', '-')}"


def repository_of(host: Host) -> package_data.CudaRepository | None:
    """Return NVIDIA's repository for this system and machine."""
    for row in package_data.CUDA_REPOSITORIES:
        if (row.distribution, row.version) == (host.distribution, host.version) and host.machine in row.architectures:
            return row
    return None


def plan_present(host: Host, request: Request) -> Plan:
    """Plan the toolkits of a host."""
    plan = Plan()
    driver = host.driver
    if request.driver_branch != AUTO:
        _check_branch(plan, request.driver_branch)
        # The newest of the branch is what the role nvidia_driver installs.
        driver = f"{request.driver_branch}.9999"
    plan.driver = driver.replace(".9999", "")
    plan.source = _choose_source(host, request)
    _check_source(plan, host)
    plan.toolkits = list(request.toolkits) or _choose_toolkits(plan.source, host, driver)
    plan.default = request.default or next(iter(plan.toolkits), "")
    _check_toolkits(plan, host, request, driver)
    plan.settle_packages(host, "cuda_toolkits", _packages(plan), [COMPILER])
    _check_room(plan, host, request)
    plan.root = "/usr"
    if plan.source == data.CUDA_REPOSITORY:
        plan.root = ROOT
        majors = {toolkit.partition(".")[0]: toolkit for toolkit in sorted(plan.toolkits, key=version_key)}
        chosen = {"cuda": plan.default, **{f"cuda-{major}": newest for major, newest in majors.items()}}
        # The default is also the one of its major: /usr/local/cuda and /usr/local/cuda-13 never disagree.
        chosen[f"cuda-{plan.default.partition('.')[0]}"] = plan.default
        _check_roots(plan, host, chosen)
        # If a link of update-alternatives is missing or wrong, setting the alternative again restores it.
        plan.alternatives = {
            name: f"{ROOT}-{toolkit}"
            for name, toolkit in chosen.items()
            if host.alternatives.get(name) != f"{ROOT}-{toolkit}" or host.roots.get(name) != f"{ALTERNATIVES}/{name}"
        }
        plan.files = environment_files(ROOT, host.environment)
    else:
        plan.files = released_files(ROOT, host)
    return plan


def plan_absent(host: Host) -> Plan:
    """Remove the packages that the role installed, unless something else needs them."""
    plan = Plan()
    plan.settle_packages(host, "cuda_state")
    plan.files = released_files(ROOT, host)
    return plan


def _check_branch(plan: Plan, branch: str) -> None:
    branches = [str(row.number) for row in data.BRANCHES]
    plan.require(
        branch in branches,
        "cuda_driver_branch",
        f"is {branch or 'empty'}, which is no branch that is known",
        f"choose among {', '.join(branches)}, or {AUTO}",
    )


def _choose_source(host: Host, request: Request) -> str:
    if request.source != AUTO:
        return request.source
    archive = ARCHIVE_TOOLKITS.get((host.distribution, host.version))
    only_there = bool(request.toolkits) and set(request.toolkits) == {archive}
    return data.ARCHIVE if archive and (only_there or not repository_of(host)) else data.CUDA_REPOSITORY


def _choose_toolkits(source: str, host: Host, driver: str) -> list[str]:
    """Choose toolkits for a request that names none. An installed one that works stays, so that a newer driver brings no other toolkit.

    What the role installed stays in any case: if it does not work with the driver, the plan is refused. Otherwise the archive's toolkit is
    chosen, or the newest one that the driver fully supports.
    """
    if source == data.ARCHIVE:
        return [toolkit for key, toolkit in ARCHIVE_TOOLKITS.items() if key == (host.distribution, host.version)]
    driver = driver or f"{data.PREFERRED_BRANCHES[0]}.9999"
    usable = [row for row in data.TOOLKITS if not toolkit_problem(row.version, driver, host.generations)]
    usable.sort(key=lambda row: version_key(row.version), reverse=True)
    ours = [row for row in data.TOOLKITS if package_of(row.version) in host.installed and row not in usable]
    installed = [row.version for row in [*ours, *usable] if package_of(row.version) in host.packages]
    installed.sort(key=version_key, reverse=True)
    return installed or [row.version for row in usable if version_key(row.driver) <= version_key(driver)][:1]


def _packages(plan: Plan) -> list[str]:
    if plan.source == data.ARCHIVE:
        return [ARCHIVE_PACKAGE]
    return [package_of(toolkit) for toolkit in plan.toolkits]


def _check_source(plan: Plan, host: Host) -> None:
    system = f"{host.distribution} {host.version}"
    if plan.source == data.ARCHIVE:
        plan.require(
            (host.distribution, host.version) in ARCHIVE_TOOLKITS,
            "cuda_source",
            f"is archive, and no toolkit is known in that of {system}",
            f"set it to {data.CUDA_REPOSITORY}",
        )
    else:
        plan.require(
            repository_of(host) is not None,
            "cuda_source",
            f"is {data.CUDA_REPOSITORY}, and NVIDIA has none that is known for {system} on {host.machine}",
            "set it to archive",
        )


def _check_toolkits(plan: Plan, host: Host, request: Request, driver: str) -> None:
    archive = ARCHIVE_TOOLKITS.get((host.distribution, host.version), "none")
    twice = sorted({toolkit for toolkit in plan.toolkits if plan.toolkits.count(toolkit) > 1})
    plan.require(not twice, "cuda_toolkits", f"has {', '.join(twice)} twice", "name each toolkit once")
    plan.require(
        bool(plan.toolkits),
        "cuda_toolkits",
        f"is empty, and no toolkit is known that driver {plan.driver} supports in full",
        "name one, or choose a newer driver",
    )
    plan.require(
        plan.default in plan.toolkits or not plan.toolkits,
        "cuda_default",
        f"is {plan.default}, which is not among the toolkits ({', '.join(plan.toolkits)})",
        f"set it to one of them, or add {plan.default} to cuda_toolkits",
    )
    for toolkit in plan.toolkits:
        row = next((row for row in data.TOOLKITS if row.version == toolkit), None)
        # Without a driver, only what never works is refused: assume the newest driver.
        problem = toolkit_problem(toolkit, driver or "9999", host.generations)
        usable = [
            row.version for row in data.TOOLKITS if not toolkit_problem(row.version, driver or "9999", host.generations)
        ]
        stays = not request.toolkits and package_of(toolkit) in host.installed
        why = "is empty, so that what the role installed stays: it " if stays else ""
        plan.require(
            not problem,
            "cuda_toolkits",
            why + problem.replace(".9999", "") + (f" ({row.source})" if row else ""),
            f"choose among {', '.join(usable) or 'none'}" + (", or a newer driver" if row else ""),
        )
        if plan.source == data.ARCHIVE:
            plan.require(
                toolkit == archive,
                "cuda_toolkits",
                f"has {toolkit}, and the archive of {host.distribution} {host.version} has {archive} alone",
                f"set it to [{archive}], or cuda_source to {data.CUDA_REPOSITORY}",
            )
        if row and driver and not problem and version_key(driver) < version_key(row.driver):
            plan.notes.append(
                f"CUDA {toolkit} runs on driver {plan.driver} by minor-version compatibility: PTX cannot be compiled, and"
                f" what needs driver {row.driver} fails"
            )


def _check_roots(plan: Plan, host: Host, names: t.Iterable[str]) -> None:
    """Refuse what is no link: update-alternatives leaves it as it is, and reports success."""
    taken = [f"/usr/local/{name}" for name in names if host.roots.get(name) == ""]
    plan.require(
        not taken,
        "cuda_source",
        f"is {data.CUDA_REPOSITORY}, whose toolkit is found by way of {' and '.join(taken)}: no link, but another installation,"
        " as of NVIDIA's runfile",
        "remove it, or move it elsewhere (`mv /usr/local/cuda /usr/local/cuda-own`)",
    )


def _check_room(plan: Plan, host: Host, request: Request) -> None:
    new = [name for name in plan.install if name != COMPILER and name not in host.packages]
    needed = len(new) * request.free_bytes
    short = sorted(path for path, free in host.free_bytes.items() if free < needed)
    plan.require(
        not short,
        "cuda_toolkits",
        f"asks for {len(new)} new, which need {needed / 1024**3:.0f} GiB, and less is free below {' and '.join(short)}",
        "free some room, ask for fewer, or set `cuda_free_bytes` to what one toolkit may need",
    )


def released_files(root: str, host: Host) -> list[FileRow]:
    """Return /etc/environment without the toolkit if others have written to it since. Otherwise config_files restores it."""
    if host.environment_before is None:
        return []
    remaining = unset_environment(host.environment, root, host.environment_before)
    same = remaining.splitlines() == host.environment_before.splitlines()
    row: FileRow = {"path": "/etc/environment", "state": "released", "content": remaining, "merged": True}
    return [] if same else [row]
