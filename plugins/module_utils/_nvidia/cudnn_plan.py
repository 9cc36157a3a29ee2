# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan cuDNN for the CUDA toolkits of a host. Pure: facts and a request in, a plan out."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import (
    ARCHIVE_PACKAGE,
    AUTO,
    Host,
    PackagePlan,
    repository_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_apply import WheelRow
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_wheels import VERSION
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import version_key

WHEEL = "wheel"

# SHA-256 of NVIDIA's wheels nvidia-cudnn-cu<major>, one for each kind of machine (x86_64, aarch64), as the package index states
# them. Read 2026-11-21. 9.12.0.46 is the first for CUDA 13 and the smallest: 571 MB for CUDA 12, 313 MB for CUDA 13 on x86_64.
WHEELS: dict[str, dict[int, tuple[str, ...]]] = {
    # The last with kernels for cards older than Turing, and the one that PyTorch's wheels for CUDA 12.6 have. Read 2026-11-27.
    "9.10.2.21": {
        12: (
            "949452be657fa16687d0930933f032835951ef0892b37d2d53824d1a84dc97a8",
            "c9132cc3f8958447b4910a1720036d9eff5928cc3179b0a51fb6d167c6cc87d8",
        ),
    },
    "9.12.0.46": {
        12: (
            "73471a185656232b383693294431882edb14584ee47f41c0abd81556b92ef2ac",
            "af016cfc6c5a3e210bcd6a01aef96978a4dd834a0fdcd398898be9da652c9132",
        ),
        13: (
            "f3befad533e234069eb61ae0d12cb7aa8af0ccf36f28c1d4273cc0005d990de0",
            "62e8441f9693547fe72108b1974fb82fde9a89d6dcb7b7d117ce8969d08e08e3",
        ),
    },
    "9.20.0.48": {
        12: (
            "7d7479e1321c7a039b33827f0247791ee1be091759032c1f66a287c4a643396a",
            "d9da9c15344323afae571751393552652c52486eab0b886530997bef664e29de",
        ),
        13: (
            "0c45dd8eeb50b603f07995b1b300c62ffe6a1980482b82b3bcf94a4ca9d49304",
            "e31454ae00094b0c55319d9d15b6fa2fc50a9e1c0f5c8c80fb75258234e731e1",
        ),
    },
}
PINNED = "9.12.0.46"
PINNED_FOR_OLD_CARDS = "9.10.2.21"

# cuDNN 9 is made for these (NVIDIA's packages cudnn9-cuda-12 and cudnn9-cuda-13).
MAJORS = (12, 13)

# A wheel and what is unpacked of it: 9.20.0.48 for CUDA 12, the largest of the above, takes 1.7 GB.
WHEEL_BYTES = 2 * 1024**3

# What a wheel needs and does not contain, and what installs it.
WHEEL_PACKAGES = ("zlib1g", "libstdc++6", "python3-pip")
# A compiler, to prove that headers and library belong together.
COMPILER = ("gcc", "libc6-dev")


@dataclasses.dataclass(frozen=True)
class Request:
    """A request of the user. Each field is the role's variable ``cudnn_<field>``. *wheels* extend WHEELS."""

    source: str = AUTO
    cuda_majors: tuple[int, ...] = ()
    version: str = ""
    wheels: t.Mapping[str, t.Mapping[int, t.Sequence[str]]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Plan(PackagePlan):
    """cuDNN for each of *majors*. Compilers and programs find the first one by default."""

    majors: list[int] = dataclasses.field(default_factory=list)
    wheels: list[WheelRow] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)


def read_wheels(given: JsonObject) -> dict[str, dict[int, list[str]]]:
    """Parse the role's ``cudnn_wheels``. In JSON and YAML, keys are possibly strings.

    :raises ValueError: it is not such a table.
    """
    wheels: dict[str, dict[int, list[str]]] = {}
    for version, row in given.items():
        if not VERSION.fullmatch(str(version)):
            raise ValueError(f"{version} is no version of cuDNN")
        if not isinstance(row, dict) or not all(str(major).isdigit() for major in row):
            raise ValueError(f"{version} has no table of checksums by CUDA's major version")
        wheels[version] = {int(major): sums for major, sums in row.items()}
        for sums in wheels[version].values():
            if (
                not isinstance(sums, list)
                or not sums
                or not all(re.fullmatch(r"[0-9a-f]{64}", str(digest)) for digest in sums)
            ):
                raise ValueError(f"{version} has a checksum that is not a SHA-256 of 64 hexadecimal digits in a list")
    return wheels


def majors_of(host: Host) -> list[int]:
    """Return the installed major versions of CUDA: that of /usr/local/cuda first, then the newest."""
    found = {
        int(match.group(1))
        for match in (re.fullmatch(r"cuda-toolkit-(\d+)-\d+", name) for name in host.packages)
        if match
    }
    if ARCHIVE_PACKAGE in host.packages:
        found.add(int(host.packages[ARCHIVE_PACKAGE].version.partition(".")[0]))
    first = re.search(r"cuda-(\d+)\.\d+$", host.alternatives.get("cuda", ""))
    default = int(first.group(1)) if first else 0
    return sorted(found, key=lambda major: (major != default, -major))


def plan_present(host: Host, request: Request) -> Plan:
    """Plan cuDNN for a host."""
    plan = Plan(majors=list(request.cuda_majors) or majors_of(host))
    plan.source = _choose_source(host, request)
    _check(plan, host, request)
    wanted: list[str] = []
    tools = [*COMPILER]
    if plan.source == WHEEL:
        version = request.version or (PINNED_FOR_OLD_CARDS if _is_old(host) else PINNED)
        checksums = {**WHEELS.get(version, {}), **request.wheels.get(version, {})}
        if request.version:
            _check_wheels(plan, version, checksums, {*WHEELS, *request.wheels})
        _check_room(plan, host)
        plan.wheels = [
            {"cuda": major, "version": version, "sha256": list(checksums[major])}
            for major in plan.majors
            if major in checksums
        ]
        tools += WHEEL_PACKAGES
    else:
        wanted = [package_of(major) for major in plan.majors]
    _check_cards(plan, host)
    plan.settle_packages(host, "cudnn_cuda_majors", wanted, tools)
    return plan


def package_of(major: int) -> str:
    return f"cudnn9-cuda-{major}"


def plan_absent(host: Host) -> Plan:
    """Remove the packages that the role installed, unless something else needs them."""
    plan = Plan()
    plan.settle_packages(host, "cudnn_state")
    return plan


def _choose_source(host: Host, request: Request) -> str:
    """Choose the source for a request that names none: the one of the toolkits, so that apt updates both together.

    The repository gives its newest alone, which cards older than Turing do not run.
    """
    if request.source != AUTO:
        return request.source
    if _is_old(host):
        return WHEEL
    from_repository = any(re.fullmatch(r"cuda-toolkit-\d+-\d+", name) for name in host.packages)
    return data.CUDA_REPOSITORY if from_repository and repository_of(host) and not request.version else WHEEL


def _old_cards(host: Host) -> list[data.LastLibraries]:
    """Return the generations of the host's GPUs that the newest cuDNN has no kernels for."""
    return [row for row in data.LAST_LIBRARIES if row.generation in host.generations]


def _is_old(host: Host) -> bool:
    """Return whether no GPU of the host has kernels in the newest cuDNN."""
    return bool(host.generations) and {*host.generations} <= {row.name for row in data.GENERATIONS if row.highest_cuda}


def _check_cards(plan: Plan, host: Host) -> None:
    """Refuse what has no kernels for any GPU of the host. Where newer ones have them, the older ones get a finding."""
    if not _is_old(host):
        names = [old.generation for old in _old_cards(host) if _lacks_kernels(plan, old)]
        if names:
            newer = [row.name for row in data.GENERATIONS if row.name in host.generations and not row.highest_cuda]
            plan.findings.append(
                finding(
                    "cudnn.gpus",
                    "warn",
                    f"the GPU of {' and '.join(names)} has no kernels in this cuDNN, which is for {' and '.join(newer)}",
                    "compute on the others (CUDA_VISIBLE_DEVICES); or set cudnn_source to wheel and cudnn_version to a cuDNN "
                    "that has kernels for all",
                )
            )
        return
    for row in data.GENERATIONS:
        last = row.highest_cuda or "" if row.name in host.generations else ""
        newer = [str(major) for major in plan.majors if last and major > int(last.partition(".")[0])]
        plan.require(
            not newer,
            "cudnn_cuda_majors",
            f"has {', '.join(newer)}, but CUDA {last} is the last for {row.name}",
            f"set it to [{last.partition('.')[0]}]",
        )
    for old in _old_cards(host):
        wheels = [str(row["version"]) for row in plan.wheels if _is_later(row["version"], old)]
        plan.require(
            not wheels,
            "cudnn_version",
            f"is {', '.join(dict.fromkeys(wheels))}, but cuDNN {old.cudnn} is the last for {old.generation}",
            f"leave it empty, for {PINNED_FOR_OLD_CARDS}",
        )
        plan.require(
            plan.source == WHEEL,
            "cudnn_source",
            f"is {data.CUDA_REPOSITORY}, which gives its newest alone, but cuDNN {old.cudnn} is the last for {old.generation}",
            f"set it to {WHEEL}",
        )


def _is_later(version: str, old: data.LastLibraries) -> bool:
    return version_key(version) >= version_key(f"{old.cudnn}.9999")


def _lacks_kernels(plan: Plan, old: data.LastLibraries) -> bool:
    return plan.source != WHEEL or any(_is_later(row["version"], old) or row["cuda"] > 12 for row in plan.wheels)


def _check(plan: Plan, host: Host, request: Request) -> None:
    plan.require(
        bool(plan.majors),
        "cudnn_cuda_majors",
        "is empty, and no CUDA toolkit is installed that it could be derived from",
        "set it, to [13] for example, or apply the role cuda first",
    )
    unknown = [str(major) for major in plan.majors if major not in MAJORS]
    plan.require(
        not unknown,
        "cudnn_cuda_majors",
        f"has {', '.join(unknown)}, and there is no cuDNN 9 for that",
        f"choose among {', '.join(map(str, MAJORS))}",
    )
    plan.require(len(set(plan.majors)) == len(plan.majors), "cudnn_cuda_majors", "has a number twice", "name each once")
    if plan.source == data.CUDA_REPOSITORY:
        plan.require(
            repository_of(host) is not None,
            "cudnn_source",
            f"is {data.CUDA_REPOSITORY}, and NVIDIA has none that is known for {host.distribution} {host.version} on {host.machine}",
            f"set it to {WHEEL}",
        )
        plan.require(
            not request.version,
            "cudnn_version",
            f"is {request.version}, and the repository gives its newest alone",
            f"leave it empty, or set cudnn_source to {WHEEL}",
        )


def _check_wheels(plan: Plan, version: str, majors: t.Collection[int], versions: t.Collection[str]) -> None:
    missing = [str(major) for major in plan.majors if major in MAJORS and major not in majors]
    plan.require(
        not missing,
        "cudnn_version",
        f"is {version}, of which no SHA-256 is known for CUDA {', '.join(missing)}",
        f"choose among {', '.join(sorted(versions))}, or add it to cudnn_wheels",
    )


def _check_room(plan: Plan, host: Host) -> None:
    needed = len(plan.majors) * WHEEL_BYTES
    free = host.free_bytes.get("/opt", needed)
    plan.require(
        free >= needed,
        "cudnn_cuda_majors",
        f"needs {needed / 1024**3:.0f} GiB, and /opt has {free / 1024**3:.1f} GiB left",
        "free some room, or ask for fewer",
    )
