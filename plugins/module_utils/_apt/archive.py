# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell the distribution's own archive among APT's sources, and plan it with other addresses. Pure.

The role sets the addresses of the distribution's packages. Suites, components and keys are read from the host's files on each
run, so changes by a person or a distribution upgrade stay.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import posixpath
import re
import typing as t
import urllib.parse

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import (
    SOURCES_LIST,
    SOURCES_PARTS,
    Block,
    Entry,
    parse,
    render,
)

HEADER = "# The Ansible role mirrors sets the URIs here. Suites, Components and other fields may be edited: they are kept.\n\n"
KEY_BLOCK = "-----BEGIN PGP"


class NoArchive(Exception):
    """No file defines the distribution's own archive, so there is nothing to take suites and keys from."""


class Release(t.NamedTuple):
    """What a Release file that apt has fetched says of itself."""

    origin: str
    codename: str = ""


Releases = t.Mapping[tuple[str, str], Release]


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Identifies a distribution's own archive; data of the role (``vars/<platform>.yml``).

    ``keyrings`` are patterns. ``others`` are hosts, by the first part of their name, that only look like the archive: of debug
    symbols, which the same key signs and no mirror has, and of PPAs.
    """

    id: str
    codename: str
    pockets: tuple[str, ...]
    security_pocket: str
    components: tuple[str, ...]
    keyrings: tuple[str, ...]
    directories: tuple[str, ...]
    others: tuple[str, ...] = ()
    # Those that the archive of this host has, where others are in an archive of their own; empty for all.
    architectures: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the deb822 file of the distribution itself, which gets the one definition."""
        return f"{SOURCES_PARTS}/{self.id}.sources"

    @property
    def suites(self) -> set[str]:
        return {self.codename, *(f"{self.codename}-{pocket}" for pocket in self.pockets)}

    def is_security(self, suite: str) -> bool:
        # Also as stable-security, where suites are named so.
        return suite.endswith(f"-{self.security_pocket}")


def is_archive(
    entry: Entry, path: str, distribution: Distribution, releases: Releases, suites: t.Collection[str] = ()
) -> bool:
    """Return True if an entry defines the distribution's own archive, and not a third party's with the same suite names.

    Nor is it one for other architectures alone, which the archive of this host does not have.

    ``releases`` has what apt itself fetched and checked, by (uri, suite). If apt has no Release file, the key decides; an entry
    without a key, or with one in itself, counts only in the distribution's own files. A suite such as ``stable`` counts by the
    codename in its Release file, or where an earlier run found it so (``suites``).
    """
    fetched = {
        (uri, suite): releases[uri, suite] for uri in entry.uris for suite in entry.suites if (uri, suite) in releases
    }
    named = {suite for (_uri, suite), release in fetched.items() if release.codename in distribution.suites}
    own = distribution.suites | named | ({*suites} if path == distribution.file else set())
    if not set(entry.suites) <= own or not set(entry.components) <= set(distribution.components):
        return False
    if any(_is_elsewhere(uri, distribution) for uri in entry.uris):
        return False
    architectures = set(entry.option("Architectures").split())
    if architectures and distribution.architectures and not architectures & set(distribution.architectures):
        return False
    if fetched:
        return all(release.origin.split()[:1] == [distribution.id.capitalize()] for release in fetched.values())
    key = entry.option("Signed-By")
    own_place = {posixpath.basename(uri.rstrip("/")) for uri in entry.uris} <= set(distribution.directories)
    if KEY_BLOCK in key:
        return path in (distribution.file, SOURCES_LIST) and own_place
    if key:
        files = map(posixpath.basename, re.split(r"[\s,]+", key))
        return any(fnmatch.fnmatchcase(file, pattern) for file in files for pattern in distribution.keyrings)
    return path == distribution.file or (path == SOURCES_LIST and own_place)


def _is_elsewhere(uri: str, distribution: Distribution) -> bool:
    """Return whether an address is none of the archive, whatever it is signed by: a disc, or a host for something else."""
    if uri.startswith("cdrom:"):
        return True
    return (urllib.parse.urlsplit(uri).hostname or "").partition(".")[0] in distribution.others


@dataclasses.dataclass(frozen=True)
class Cell:
    """The smallest unit that can be defined twice: one type, suite and component."""

    type: str
    suite: str
    component: str
    uris: tuple[str, ...]
    options: tuple[tuple[str, str], ...]

    @property
    def architectures(self) -> str:
        return dict(self.options).get("Architectures", "")


def cells_of(entries: t.Iterable[Entry]) -> list[Cell]:
    """Return every cell once. Of two definitions the first stays, but one for all architectures replaces those for some."""
    cells: dict[tuple[str, str, str, str], Cell] = {}
    for entry in entries:
        for kind in entry.types:
            for suite in entry.suites:
                for component in entry.components or ("",):
                    cell = Cell(kind, suite, component, entry.uris, entry.options)
                    cells.setdefault((kind, suite, component, cell.architectures), cell)
    return [
        cell
        for (kind, suite, component, arch), cell in cells.items()
        if not arch or (kind, suite, component, "") not in cells
    ]


def entries_of(cells: t.Iterable[Cell]) -> list[Entry]:
    """Return the cells as few entries: join components first, then types, then suites."""
    groups: dict[tuple[t.Any, ...], list[str]] = {}
    for cell in cells:
        groups.setdefault((cell.uris, cell.options, cell.type, cell.suite), []).append(cell.component)
    types: dict[tuple[t.Any, ...], list[str]] = {}
    for (uris, options, kind, suite), components in groups.items():
        types.setdefault((uris, options, suite, tuple(components)), []).append(kind)
    suites: dict[tuple[t.Any, ...], list[str]] = {}
    for (uris, options, suite, components_), kinds in types.items():
        suites.setdefault((uris, options, components_, tuple(kinds)), []).append(suite)
    return [
        Entry(kinds_, uris, tuple(names), tuple(component for component in components_ if component), options)
        for (uris, options, components_, kinds_), names in suites.items()
    ]


@dataclasses.dataclass(frozen=True)
class Survey:
    """A host's source files, with the entries of the distribution's own archive."""

    distribution: Distribution
    files: dict[str, list[Block]]
    archive: dict[str, list[Entry]]

    @property
    def cells(self) -> list[Cell]:
        """Return the cells of the distribution's archive. Its own file comes first, so a moved definition keeps its fields."""
        paths = sorted(self.archive, key=lambda path: (path != self.distribution.file, path))
        return cells_of(entry for path in paths for entry in self.archive[path])

    @property
    def security_uris(self) -> list[str]:
        return list(
            dict.fromkeys(uri for cell in self.cells if self.distribution.is_security(cell.suite) for uri in cell.uris)
        )

    def suites(self, security: bool) -> list[str]:
        """Return the suites that a mirror has to have: the security suite only if *security* is true."""
        return list(
            dict.fromkeys(
                cell.suite for cell in self.cells if security or not self.distribution.is_security(cell.suite)
            )
        )


def survey(
    texts: t.Mapping[str, str], distribution: Distribution, releases: Releases, suites: t.Collection[str] = ()
) -> Survey:
    """Read all source files.

    :param suites: those that an earlier run wrote into the distribution's own file.
    :raises NoArchive: none of them defines the distribution's own archive for its release.
    """
    files = {path: parse(path, text) for path, text in texts.items()}
    archive = {
        path: [
            block.entry
            for block in blocks
            if block.entry and is_archive(block.entry, path, distribution, releases, suites)
        ]
        for path, blocks in files.items()
    }
    if not any(archive.values()):
        raise NoArchive(f"no file in /etc/apt defines the archive of {distribution.id} {distribution.codename}")
    return Survey(distribution, files, {path: entries for path, entries in archive.items() if entries})


def plan(
    found: Survey, uri: str, security_uris: t.Sequence[str] = (), managed: t.Collection[str] = ()
) -> dict[str, str | None]:
    """Return the wanted source files by path; None for a file that should not exist.

    The archive is defined once, in the distribution's own file, with ``uri``; security suites keep their address unless
    ``security_uris`` says otherwise. Other files lose their definition of it and keep the rest; one that has nothing else goes.
    Files without one are not named, except those that an earlier plan named (``managed``).
    """
    cells = [
        dataclasses.replace(cell, uris=tuple(security_uris) or cell.uris) if found.distribution.is_security(cell.suite)
        else dataclasses.replace(cell, uris=(uri,))
        for cell in found.cells
    ]  # fmt: skip
    own = found.distribution.file
    parts = [HEADER + render(entries_of(cells)), _without(found, own)]
    wanted: dict[str, str | None] = {own: "\n".join(part for part in parts if part)}
    for path in sorted({*found.archive, *managed} - {own}):
        wanted[path] = _without(found, path) or None
    return wanted


def _without(found: Survey, path: str) -> str:
    """Return the text of a file without the distribution's archive; empty if only comments remain."""
    ours = found.archive.get(path, [])
    kept = [block for block in found.files.get(path, []) if block.entry is None or block.entry not in ours]
    if path.endswith(".sources"):
        # Disabled stanzas stay; comments without a stanza belonged to the removed ones.
        kept = [
            block
            for block in kept
            if any(line.strip() and not line.startswith("#") for line in block.text.splitlines())
        ]
        return "\n".join(block.text.rstrip("\n") + "\n" for block in kept)
    return "".join(block.text for block in kept) if any(block.entry for block in kept) else ""
