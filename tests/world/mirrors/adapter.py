# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of the role mirrors, and those of what apt prints."""

from __future__ import annotations

import configparser
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import packages, pip_conf, sources
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_facts

REFUSALS = (pip_conf.Unreadable, sources.NoArchive)
UBUNTU = {
    "id": "ubuntu",
    "pockets": ("updates", "proposed", "backports", "security"),
    "components": ("main", "restricted", "universe", "multiverse"),
    "keyrings": ("ubuntu-archive-keyring.gpg",),
    "directories": ("ubuntu", "ubuntu-ports"),
    "architectures": ("amd64", "i386"),
}
DEBIAN = {
    "id": "debian",
    "pockets": ("updates", "proposed-updates", "backports", "backports-sloppy", "security"),
    "components": ("main", "contrib", "non-free", "non-free-firmware"),
    "keyrings": ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"),
    "directories": ("debian", "debian-security"),
}


def sources_after(files: Mapping[str, str], codename: str, mirror: str) -> list[str]:
    """Return what apt reads once the mirror is set: type, options, address, suite and component of each definition."""
    data: dict[str, Any] = UBUNTU if codename in ("jammy", "noble") else DEBIAN
    distribution = sources.Distribution(codename=codename, security_pocket="security", **data)
    planned = sources.plan(sources.survey(files, distribution, {}), mirror)
    found = []
    for path, text in {**files, **planned}.items():
        for entry in [block.entry for block in sources.parse(path, text or "") if block.entry]:
            options = "".join(f"{name}={value.strip()} " for name, value in entry.options if name == "Architectures")
            found += [
                f"{kind} {options}{uri} {suite} {component}"
                for kind in entry.types
                for uri in entry.uris
                for suite in entry.suites
                for component in entry.components
            ]
    return sorted(found)


def index_after(text: str, url: str, command: str = "global") -> dict[str, str]:
    """Return the options that pip has for a command, once the role has set its index (pip's Configuration)."""
    parser = configparser.RawConfigParser()
    parser.read_string(pip_conf.set_index(text, url))
    sections = [name for name in ("global", command) if parser.has_section(name)]
    found = {name: value for section in sections for name, value in parser.items(section)}
    return {name.replace("_", "-"): " ".join(value.split()) for name, value in found.items()}


def installable(text: str) -> list[str]:
    """Return the packages that apt can install, from `apt-cache policy`."""
    return sorted(packages.parse_policy(text))


def origins(text: str, places: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return where the versions of each package come from, from `apt-cache policy`."""
    return {
        name: {row["version"]: row["origins"] for row in rows}
        for name, rows in package_facts.parse_policy(text, places).items()
    }


def cuda_repositories(files: Mapping[str, str]) -> list[str]:
    """Return the addresses of NVIDIA's repository in the sources of apt."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            Path(folder + path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder + path).write_text(text, encoding="utf-8")
        return [row["url"] for row in package_facts.read_repositories(Tree(folder))]
