# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse APT's source files, one-line and deb822 (sources.list(5)), and plan them with other addresses. Pure.

The role sets the addresses of the distribution's packages. Suites, components and keys are read from the host's files on each
run, so changes by a person or a distribution upgrade stay.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

SOURCES_LIST = "/etc/apt/sources.list"
SOURCES_PARTS = "/etc/apt/sources.list.d"

HEADER = "# The Ansible role mirrors sets the URIs here. Suites, Components and other fields may be edited: they are kept.\n\n"

# sources.list(5), "THE DEB AND DEB-SRC TYPES: OPTIONS": the options whose deb822 name is not the option itself.
FIELD_OF_OPTION = {
    "arch": "Architectures",
    "arch+": "Architectures-Add",
    "arch-": "Architectures-Remove",
    "lang": "Languages",
    "lang+": "Languages-Add",
    "lang-": "Languages-Remove",
    "target": "Targets",
    "target+": "Targets-Add",
    "target-": "Targets-Remove",
    "pdiffs": "PDiffs",
}
LIST_FIELDS = ("Types", "URIs", "Suites", "Components")
ONE_LINE = re.compile(
    r"^(?P<type>deb|deb-src)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>[^#]*)(?:#.*)?$"
)


class NoArchive(Exception):
    """No file defines the distribution's own archive, so there is nothing to take suites and keys from."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Identifies a distribution's own archive; data of the role (``vars/<platform>.yml``)."""

    id: str
    codename: str
    pockets: tuple[str, ...]
    security_pocket: str
    components: tuple[str, ...]
    keyrings: tuple[str, ...]
    directories: tuple[str, ...]
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
        return suite == f"{self.codename}-{self.security_pocket}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A stanza of a deb822 file, or a line of a one-line file. Options have their deb822 names."""

    types: tuple[str, ...]
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str) -> str:
        return dict(self.options).get(name, "")


@dataclasses.dataclass(frozen=True)
class Block:
    """A piece of a file as it stands; without an entry it is a comment, blank, disabled, or not understood."""

    text: str
    entry: Entry | None = None


def parse(path: str, text: str) -> list[Block]:
    """Return the blocks of a file; their texts joined are the file."""
    return _parse_deb822(text) if path.endswith(".sources") else _parse_one_line(text)


def _parse_one_line(text: str) -> list[Block]:
    return [Block(line, _entry_of_line(line)) for line in text.splitlines(keepends=True)]


def _entry_of_line(line: str) -> Entry | None:
    match = ONE_LINE.match(line.strip())
    if match is None:
        return None
    options = []
    for option in (match["options"] or "").split():
        name, _equals, value = option.partition("=")
        field = FIELD_OF_OPTION.get(name.lower(), name.title())
        # Lists are separated by commas here and by blanks in deb822.
        options.append(
            (field, value.replace(",", " ") if name.lower().rstrip("+-") in ("arch", "lang", "target") else value)
        )
    return Entry(
        (match["type"],), (match["uri"],), (match["suite"],), tuple(match["components"].split()), tuple(options)
    )


def _parse_deb822(text: str) -> list[Block]:
    blocks: list[Block] = []
    stanza: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.strip():
            stanza.append(line)
            continue
        if stanza:
            blocks.append(Block("".join(stanza), _entry_of_stanza(stanza)))
            stanza = []
        blocks.append(Block(line))
    if stanza:
        blocks.append(Block("".join(stanza), _entry_of_stanza(stanza)))
    return blocks


def _entry_of_stanza(lines: t.Sequence[str]) -> Entry | None:
    fields: dict[str, str] = {}
    names: dict[str, str] = {}
    last = ""
    for line in lines:
        if line.startswith("#"):
            continue
        if line[0] in " \t":
            if last:
                fields[last] += "\n" + line.rstrip()
            continue
        name, colon, value = line.partition(":")
        if not colon:
            return None
        last = name.strip().lower()
        names[last] = name.strip()
        fields[last] = value.strip()
    if fields.pop("enabled", "yes").lower() in ("0", "no", "false", "without", "off", "disable"):
        return None
    lists = [tuple(fields.pop(name.lower(), "").split()) for name in LIST_FIELDS]
    if not all(lists[:3]):
        return None
    canonical = {field.lower(): field for field in (*FIELD_OF_OPTION.values(), "Signed-By")}
    options = tuple((canonical.get(name, names[name]), value) for name, value in fields.items())
    return Entry(lists[0], lists[1], lists[2], lists[3], options)


def render(entries: t.Iterable[Entry]) -> str:
    """Return the entries as deb822 stanzas."""
    stanzas = []
    for entry in entries:
        lists = zip(LIST_FIELDS, (entry.types, entry.uris, entry.suites, entry.components))
        fields = [(name, " ".join(values)) for name, values in lists if values] + list(entry.options)
        stanzas.append("".join(f"{name}:{'' if value.startswith(chr(10)) else ' '}{value}\n" for name, value in fields))
    return "\n".join(stanzas)


def is_archive(entry: Entry, path: str, distribution: Distribution, origins: t.Mapping[tuple[str, str], str]) -> bool:
    """Return True if an entry defines the distribution's own archive, and not a third party's with the same suite names.

    Nor is it one for other architectures alone, which the archive of this host does not have.

    ``origins`` has what apt itself fetched and checked: (uri, suite) to the ``Origin`` of the Release file. If apt has no
    Release file, the key decides; an entry without a key counts only in the distribution's own files.
    """
    if not set(entry.suites) <= distribution.suites or not set(entry.components) <= set(distribution.components):
        return False
    architectures = set(entry.option("Architectures").split())
    if architectures and distribution.architectures and not architectures & set(distribution.architectures):
        return False
    signed = {origins[uri, suite] for uri in entry.uris for suite in entry.suites if (uri, suite) in origins}
    if signed:
        return all(origin.split()[:1] == [distribution.id.capitalize()] for origin in signed)
    key = entry.option("Signed-By")
    if key:
        return posixpath.basename(key) in distribution.keyrings
    directories = {posixpath.basename(uri.rstrip("/")) for uri in entry.uris}
    return path == distribution.file or (path == SOURCES_LIST and directories <= set(distribution.directories))


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


def survey(texts: t.Mapping[str, str], distribution: Distribution, origins: t.Mapping[tuple[str, str], str]) -> Survey:
    """Read all source files.

    :raises NoArchive: none of them defines the distribution's own archive for its release.
    """
    files = {path: parse(path, text) for path, text in texts.items()}
    archive = {
        path: [block.entry for block in blocks if block.entry and is_archive(block.entry, path, distribution, origins)]
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
