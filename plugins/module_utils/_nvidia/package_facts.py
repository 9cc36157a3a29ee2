# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages, sources and pins of a host, as dpkg and apt have them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import policy
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import sources as apt_sources
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    header_packages,
    headers_along,
    is_kernel_metapackage,
    kernel_flavours,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    branch_of,
    is_driver_package,
)

STATUS, JOURNAL = "/var/lib/dpkg/status", "/var/lib/dpkg/updates"
# A source in the output of apt-cache policy, after its priority: address, suite with component, architecture.
_PLACE = re.compile(r"\s+-?\d+ (\S.*?)\s+Packages$")


def origins_now(facts: Facts, name: str) -> set[str]:
    """Return the sources that have the installed version of a package now."""
    return _origins_of(facts["packages"][name]["version"], facts["available"].get(name, []))


def read_system(tree: Tree) -> Facts:
    """Return name and version of the distribution as Ansible has them, and its codename."""
    fields = {
        key: value.strip("\"'")
        for key, _separator, value in (line.partition("=") for line in tree.text("/etc/os-release").splitlines())
    }
    name = fields.get("ID", "")
    return {
        "distribution": {"debian": "Debian", "ubuntu": "Ubuntu"}.get(name, name),
        "version": fields.get("VERSION_ID", ""),
        "codename": fields.get("VERSION_CODENAME", ""),
    }


def read_packages(tree: Tree) -> dict[str, Facts]:
    """Return the packages of NVIDIA, CUDA and the kernel for the host's own architecture. Removed ones are left out."""
    return {
        name: entry
        for name, entry in _read_status(tree).items()
        if ":" not in name
        and (
            is_driver_package(name)
            or re.match(r"cuda-|nvidia-|(linux|proxmox|pve)-(default-)?(image|kernel|headers|generic)", name)
        )
    }


def read_holds(tree: Tree) -> list[str]:
    """Return every held package: a change of the driver can touch more than the driver."""
    return sorted(name for name, entry in _read_status(tree).items() if entry["hold"] and ":" not in name)


def read_unfinished(tree: Tree) -> list[str]:
    """Return the packages, as ``name`` or ``name:architecture``, that dpkg has begun and not finished.

    These are all that its journal names, whatever their state: until dpkg has merged the journal, apt changes nothing.
    """
    named = {fields.get("Package", "") for fields in _blocks(tree, journal(tree))} - {""}
    return sorted(named | {name for name, entry in _read_status(tree).items() if entry["status"] != "installed"})


def _read_status(tree: Tree) -> dict[str, Facts]:
    """Return the packages of which something is installed. One of a foreign architecture, such as Steam's, is ``name:architecture``."""
    # A dpkg that was killed leaves its last changes in a journal.
    blocks = _blocks(tree, [STATUS, *journal(tree)])
    native = next((fields.get("Architecture") for fields in blocks if fields.get("Package") == "dpkg"), None)
    found = {}
    for fields in blocks:
        status, architecture = fields.get("Status", "").split(), fields.get("Architecture", "")
        suffix = f":{architecture}" if native and architecture not in (native, "all") else ""
        if len(status) == 3:
            entry = {"version": fields.get("Version", ""), "hold": status[0] == "hold", "status": status[2]}
            found[fields.get("Package", "") + suffix] = entry
    return {name: entry for name, entry in found.items() if entry["status"] not in ("not-installed", "config-files")}


def _blocks(tree: Tree, paths: t.Iterable[str]) -> list[dict[str, str]]:
    return [
        dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(" "))
        for path in paths
        for block in tree.text(path).split("\n\n")
    ]


def journal(tree: Tree) -> list[str]:
    """Return the files of what dpkg has done since it wrote its status file. There are some only while it runs, and after it was killed."""
    return [f"{JOURNAL}/{name}" for name in tree.names(JOURNAL) if name.isdigit()]


def wanted_names(system: Facts, packages: t.Iterable[str], kernels: t.Iterable[str]) -> list[str]:
    """Return the packages to ask apt about: the installed ones, those that a plan can want, and headers for the kernels."""
    branches = {row.number for row in data.BRANCHES}
    flavours = kernel_flavours(packages)
    names = {*packages, *(name for kernel in (*kernels, *flavours) for name in header_packages(kernel))}
    names |= {headers_along(name) for name in names if is_kernel_metapackage(name)}
    for row in package_data.PACKAGE_SETS:
        if row.distribution == system["distribution"]:
            for template in (*row.packages, *row.dkms, *row.prebuilt, *row.pinning):
                names |= {
                    template.format(branch=branch, server=server, kernel=kernel)
                    for branch in branches
                    for server in ("", "-server")
                    for kernel in flavours
                }
    return sorted(names)


def parse_sources(text: str, codename: str) -> dict[str, str]:
    """Return the places that ``apt-cache policy`` lists without a package, and the kind of each: archive, cuda_repository or other.

    The signed Release file decides: a mirror is what it mirrors, whatever its address.
    """
    origins: dict[str, str] = {}
    place = ""
    for line in text.splitlines():
        source = _PLACE.match(line)
        release = re.match(r"\s+release (.*)$", line)
        if source:
            place = source.group(1)
        elif release and place:
            fields = dict(word.partition("=")[::2] for word in release.group(1).split(","))
            origins[place] = _origin(fields, codename)
            place = ""
    return origins


def _origin(release: t.Mapping[str, str], codename: str) -> str:
    if release.get("l") == package_data.CUDA_REPOSITORY_LABEL:
        return data.CUDA_REPOSITORY
    own = bool(codename) and re.match(rf"{re.escape(codename)}(-|$)", release.get("n", ""))
    return data.ARCHIVE if own and release.get("o") in package_data.ARCHIVE_ORIGINS else "other"


def parse_policy(text: str, sources: t.Mapping[str, str]) -> dict[str, list[Facts]]:
    """Return the versions that ``apt-cache policy`` lists for each package, and their origins.

    *origins* are values of *sources*. A version that only dpkg knows has none.
    """
    return {
        name: [
            {"version": version, "origins": sorted({sources.get(place, "other") for place in places})}
            for version, places in offer.versions
            if places
        ]
        for name, offer in policy.parse(text).items()
    }


def origin_of(version: str, offered: t.Sequence[Facts]) -> str:
    """Return where an installed version comes from, unknown if that cannot be decided.

    A version that no source offers any more is little evidence: an archive keeps only the newest, and a source can be disabled. It comes
    from where the other versions of its branch do, if that is one place. A source that only has the name can have another driver.
    """
    related = [row for row in offered if branch_of(row["version"]) == branch_of(version)]
    origins = _origins_of(version, offered) or {origin for row in related for origin in row["origins"]}
    return origins.pop() if len(origins) == 1 else "unknown"


def _origins_of(version: str, offered: t.Iterable[Facts]) -> set[str]:
    return {origin for row in offered if row["version"] == version for origin in row["origins"]}


def read_run_installer(tree: Tree) -> Facts:
    """Return what a .run file has left on the host."""
    paths = [path for path in ("/usr/bin/nvidia-uninstall", "/var/log/nvidia-installer.log") if tree.exists(path)]
    version = re.search(r"^installer version:\s*(\S+)", tree.text("/var/log/nvidia-installer.log"), re.MULTILINE)
    return {
        "installed": tree.exists("/usr/bin/nvidia-uninstall"),
        "version": version.group(1) if version else "",
        "paths": paths,
    }


def package_source(packages: t.Mapping[str, Facts], pins: t.Sequence[Facts], run_installed: bool, library: str) -> str:
    """Return where the driver comes from.

    none, archive, cuda_repository, other (another repository), unknown (no source has it any more, and no pin names one), run (a
    .run file), foreign (libraries of no package, such as those that a container gets from its host), or mixed.
    """
    origins = {
        entry["origin"] for name, entry in packages.items() if is_driver_package(name) and branch_of(entry["version"])
    }
    known_origins = origins - {"unknown"}
    if origins and not known_origins:
        known_origins = {_pinned_source(pins) or "unknown"}
    if run_installed:
        return "mixed" if known_origins else "run"
    if not known_origins:
        return "foreign" if library else "none"
    return "mixed" if len(known_origins) > 1 else known_origins.pop()


def _pinned_source(pins: t.Iterable[Facts]) -> str:
    """Return the source whose driver the pins are made for: NVIDIA's is pinned to a version, or kept away from the archive's."""
    for pin in pins:
        if "src:*nvidia*" in pin["packages"]:
            if pin["pin"].startswith("version "):
                return data.CUDA_REPOSITORY
            if pin["pin"] == f"release l={package_data.CUDA_REPOSITORY_LABEL}" and pin["priority"] < 0:
                return data.ARCHIVE
    return ""


def read_repositories(tree: Tree) -> list[Facts]:
    """Return the sources of apt that are NVIDIA's CUDA repository, by file."""
    found = []
    files = [
        "/etc/apt/sources.list",
        *(f"/etc/apt/sources.list.d/{name}" for name in tree.names("/etc/apt/sources.list.d")),
    ]
    for path in files:
        entries = [block.entry for block in apt_sources.parse(path, tree.text(path)) if block.entry]
        for url in [url for entry in entries for url in entry.uris if path.endswith((".list", ".sources"))]:
            address = re.search(r"/compute/cuda/repos/([a-z0-9]+)(/|$)", url)
            if address:
                found.append({"file": path, "url": url, "directory": address.group(1)})
    return found


def read_pins(tree: Tree) -> list[Facts]:
    """Return the preferences of apt that name NVIDIA's packages or repository."""
    pins = []
    files = [
        "/etc/apt/preferences",
        # apt reads no other names: apt_preferences(5).
        *(
            f"/etc/apt/preferences.d/{name}"
            for name in tree.names("/etc/apt/preferences.d")
            if name.endswith(".pref") or "." not in name
        ),
    ]
    for path in files:
        text = re.sub(r"^(#|Explanation:).*\n", "", tree.text(path), flags=re.MULTILINE)
        for block in re.split(r"\n\s*\n", text):
            # A line that begins with a blank continues the one before it. Names are in any case, and a blank after the colon is free.
            lines = re.sub(r"\n[ \t]+", " ", block).splitlines()
            fields = {
                name.strip().lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)
            }
            priority = re.match(r"[+-]?\d+", fields.get("pin-priority", ""))
            if re.search(r"nvidia|cuda", block, re.IGNORECASE) and priority:
                pins.append(
                    {
                        "file": path,
                        "packages": fields.get("package", ""),
                        "pin": fields.get("pin", ""),
                        "priority": int(priority.group(0)),
                    }
                )
    return pins
