# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and change xrdp.ini and sesman.ini as xrdp reads them, and keep the options of the installed version. Pure.

xrdp's own reader (common/file.c) takes the first section of a name, in any case, and ends a line at the first ``#`` or ``;``, also
within a value. A value that begins with ``$`` is the name of a variable of xrdp's environment.
"""

from __future__ import annotations

import re
import typing as t

# The values of one section by name; a list is an option with several lines.
Options = t.Mapping[str, t.Union[str, t.Sequence[str]]]

HEADING = re.compile(r"\s*\[(.+?)\]")
# xrdp ignores the rest.
SIZE_LIMIT = 32 * 1024
LINE_LIMIT = 2048

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]*")


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """Parse a file as xrdp does: the values by section and option, both in lower case."""
    found: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in text.splitlines():
        plain = re.split("[#;]", line, maxsplit=1)[0]
        heading = HEADING.match(plain)
        if heading:
            current = {}
            found.setdefault(heading[1].lower(), current)
        elif plain.strip():
            name, _equals, value = plain.partition("=")
            current.setdefault(name.strip().lower(), []).append(value.strip())
    return found


def merge(text: str, wanted: t.Mapping[str, Options], without: t.Collection[str] = ()) -> str:
    """Return a file with these options set and some sections removed. Everything else stays, including comments."""
    blocks = [block for block in _blocks(text) if _name(block) not in {name.lower() for name in without}]
    for section, options in wanted.items():
        block = next((entry for entry in blocks if _name(entry) == section.lower()), None)
        if block is None:
            block = [f"[{section}]"]
            blocks.append(block)
        for name, value in options.items():
            _set(block, name, [value] if isinstance(value, str) else list(value))
    return "\n\n".join("\n".join(_trimmed(block)) for block in blocks if _trimmed(block)) + "\n"


def problem(section: str, name: str, value: str) -> str:
    """Return why xrdp would not read this option as it is; empty when it does."""
    if not _SECTION.fullmatch(section):
        return f"the section {section!r} is not a valid name"
    if not _WORD.fullmatch(name):
        return f"the option {name!r} of {section} is not a valid name"
    if "\0" in value or len(f"{value}.".splitlines()) > 1:
        return f"{name} of {section} has a line break"
    if "#" in value or ";" in value:
        return f"{name} of {section} has a # or ;, at which xrdp stops reading the line"
    if value.startswith("$"):
        return f"{name} of {section} begins with $, which xrdp takes for a variable of its own environment"
    if value != value.strip() or len(f"{name}={value}".encode()) >= LINE_LIMIT:
        return f"{name} of {section} is longer than xrdp reads, or has spaces around it, which xrdp drops"
    return ""


def _blocks(text: str) -> list[list[str]]:
    """Split a text into the lines before the first heading and the lines of each section."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if HEADING.match(re.split("[#;]", line, maxsplit=1)[0]):
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _name(block: t.Sequence[str]) -> str:
    heading = HEADING.match(block[0]) if block else None
    return heading[1].lower() if heading else ""


def _trimmed(block: list[str]) -> list[str]:
    while block and not block[-1].strip():
        block.pop()
    return block


def _set(block: list[str], name: str, values: t.Sequence[str]) -> None:
    """Set an option in its first line, or at the end of the section, and remove its other lines."""
    places = [number for number, line in enumerate(block) if _option(line) == name.lower()]
    place = places[0] if places else len(_trimmed(block))
    for number in reversed(places):
        del block[number]
    block[place:place] = [f"{name}={value}" for value in values]


def _option(line: str) -> str:
    name, equals, _value = re.split("[#;]", line, maxsplit=1)[0].partition("=")
    return name.strip().lower() if equals else ""
