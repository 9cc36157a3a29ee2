# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse APT's source files, one-line and deb822 (sources.list(5)), and write them. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

SOURCES_LIST = "/etc/apt/sources.list"
SOURCES_PARTS = "/etc/apt/sources.list.d"

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
    r"^(?P<type>deb|deb-src)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>(?:\[[^\]]*\]|[^\s\[])+)\s+(?P<suite>\S+)"
    r"(?P<components>[^#]*)(?:#.*)?$"
)


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
