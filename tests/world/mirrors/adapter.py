# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of the role mirrors, and those of what apt prints."""

from __future__ import annotations

import configparser
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import (
    archive,
    mirror_plan,
    packages,
    pip_conf,
    sources,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_facts

ROLE = Path(__file__).parents[3] / "roles/mirrors"
REFUSALS = (pip_conf.Unreadable, archive.NoArchive)
# What is a template there.
OF_HOST: dict[str, dict[str, Any]] = {"Ubuntu": {"architectures": ["amd64", "i386"]}, "Debian": {}}


def _distribution(name: str, codename: str) -> archive.Distribution:
    """Return the data of the role."""
    text = (ROLE / "vars" / f"{name}.yml").read_text(encoding="utf-8")
    data: dict[str, Any] = {**yaml.safe_load(text)["__mirrors_distribution"], **OF_HOST[name], "codename": codename}
    del data["security_suffix"]
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return archive.Distribution(**values)


def sources_after(
    files: Mapping[str, str], codename: str, mirror: str, releases: Mapping[str, str] | None = None
) -> list[str]:
    """Return what apt reads once the mirror is set: type, options, address, suite and component of each definition.

    :param releases: the Release files that apt has fetched, by address and suite.
    """
    distribution = _distribution("Ubuntu" if codename in ("jammy", "noble") else "Debian", codename)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(mirror_plan, "ROOT", folder):
        for place, release in (releases or {}).items():
            fetched = Path(folder + mirror_plan.LISTS, mirror_plan.list_name(*place.split(" ")))
            fetched.parent.mkdir(parents=True, exist_ok=True)
            fetched.write_text(release)
        fetched_releases = mirror_plan.read_releases(dict(files))
    planned = archive.plan(archive.survey(files, distribution, fetched_releases), mirror)
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
