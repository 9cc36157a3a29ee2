# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages of a host and their origin: versions, manual installs, holds, sources with their keys, kernels.

Pure, but for the files below a tree.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import packages as apt
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import sources
from ansible_collections.rigwright.workstation.plugins.module_utils._core import openpgp
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

TRUSTED = ("/etc/apt/trusted.gpg.d", "/etc/apt/keyrings", "/usr/share/keyrings")
ARCHITECTURE = "/var/lib/dpkg/arch"


def installed(status: str, automatic: t.Collection[str]) -> Facts:
    """Return the installed packages: version, and how apt has them. A foreign architecture is part of the name, as with dpkg."""
    names = re.findall(r"^Package: (\S+)\n(?:(?!\n).*\n)*?Architecture: (\S+)$", status, re.MULTILINE)
    foreign = _foreign(names)
    found = apt.parse_status(status)
    return {
        "versions": {name: package.version for name, package in sorted(found.items()) if package.whole},
        "foreign": foreign,
        "manual": sorted(name for name, package in found.items() if package.whole and name not in automatic),
        "holds": sorted(name for name, package in found.items() if package.hold),
        "unfinished": sorted(name for name, package in found.items() if not package.whole),
    }


def _foreign(names: t.Sequence[tuple[str, str]]) -> list[str]:
    """Return the packages of another architecture than dpkg's own, which is that of the package dpkg."""
    own = {architecture for name, architecture in names if name == "dpkg"} | {"all"}
    return sorted(f"{name}:{architecture}" for name, architecture in names if architecture not in own)


def read_sources(tree: Tree) -> list[Facts]:
    """Return the sources of apt, one for each line or stanza."""
    paths = [sources.SOURCES_LIST]
    paths += [
        f"{sources.SOURCES_PARTS}/{name}"
        for name in tree.names(sources.SOURCES_PARTS)
        if name.endswith((".list", ".sources"))
    ]
    return [
        {
            "file": path,
            "types": list(block.entry.types),
            "uris": [without_secrets(uri) for uri in block.entry.uris],
            "suites": list(block.entry.suites),
            "components": list(block.entry.components),
            "options": {name: without_secrets(value) for name, value in block.entry.options},
        }
        for path in paths
        for block in sources.parse(path, tree.text(path))
        if block.entry
    ]


def read_keys(tree: Tree, entries: t.Iterable[Facts]) -> dict[str, list[str]]:
    """Return the fingerprints in the key files that apt trusts, or that a source names; empty for an unreadable one."""
    paths = {
        f"{directory}/{name}"
        for directory in TRUSTED[:2]
        for name in tree.names(directory)
        if name.endswith((".gpg", ".asc"))
    }
    paths |= {entry["options"].get("Signed-By", "") for entry in entries}
    found = {}
    for path in sorted(paths):
        if path.startswith("/"):
            try:
                found[path] = openpgp.fingerprints(tree.bytes(path))
            except openpgp.Invalid:
                found[path] = []
    return found


def read_kernels(tree: Tree, running: str) -> Facts:
    """Return the kernels in /boot, and whether each has its modules: one without them boots without network and driver."""
    releases = sorted(name[len("vmlinuz-") :] for name in tree.names("/boot") if name.startswith("vmlinuz-"))
    return {
        "running": running,
        "installed": {
            release: bool(tree.names(f"/lib/modules/{release}") or tree.names(f"/usr/lib/modules/{release}"))
            for release in releases
        },
    }


def read_nvidia(tree: Tree) -> Facts:
    """Return the loaded driver, and the CUDA toolkits below /usr/local."""
    version = re.search(r"\s(\d{3}(?:\.\d+)+)\s", tree.text("/proc/driver/nvidia/version"))
    return {
        "driver": version.group(1) if version else "",
        "cuda": sorted(name for name in tree.names("/usr/local") if re.fullmatch(r"cuda-\d+\.\d+", name)),
    }
