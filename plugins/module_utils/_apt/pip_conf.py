# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Set the index in a pip.conf, read as pip reads it; every other line stays. Pure."""

from __future__ import annotations

import configparser
import re
import typing as t

PATH = "/etc/pip.conf"
SECTION, OPTION = "global", "index-url"


class Unreadable(Exception):
    """pip does not read the file, or would not read what is wanted; the text is the reason."""


class _Line(t.NamedTuple):
    """A line, its section, and its option; ``first``: the option begins with it; ``header``: the section does."""

    text: str
    section: str = ""
    option: str = ""
    first: bool = False
    header: bool = False

    @property
    def indent(self) -> str:
        return self.text[: len(self.text) - len(self.text.lstrip())]


def set_index(text: str, url: str) -> str:
    """Return the text with this index for all of pip: a section of a command that has one of its own gets it, too.

    :raises Unreadable: pip refuses the file, or would read something else.
    """
    before = _options(text)
    result: list[str] = []
    found: list[_Line] = []
    for line in _lines(text):
        # pip takes index_url for the same option; written alike, it would be there twice.
        again = any((each.section, each.option) == (line.section, OPTION) for each in found)
        if line.option != OPTION or (line.first and line.section != SECTION and not again):
            found.append(line)
    for line in found:
        result.append(f"{line.indent}{OPTION} = {url}\n" if line.option == OPTION else line.text)
        if line.section == SECTION and line.header:
            # With less space in front than the options after it, those would be a part of its value.
            indent = next((each.indent for each in found if each.section == SECTION and each.first), "")
            result.append(f"{indent}{OPTION} = {url}\n")
    if SECTION not in before:
        result += ["\n"] * bool(result) + [f"[{SECTION}]\n", f"{OPTION} = {url}\n"]
    after = "".join(result)
    wanted = {name: {**options, **({OPTION: url} if OPTION in options else {})} for name, options in before.items()}
    wanted[SECTION] = {**wanted.get(SECTION, {}), OPTION: url}
    if _options(after) != wanted:
        raise Unreadable(f"`{OPTION}` cannot be set without a change of other options")
    return after


def _options(text: str) -> dict[str, dict[str, str]]:
    """Return the options by section, as pip's parser has them."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, PATH)
    except configparser.Error as error:
        raise Unreadable(f"pip does not read it: {' '.join(str(error).split())}") from error
    return {name: {_normal(key): value for key, value in parser.items(name)} for name in parser.sections()}


def _normal(option: str) -> str:
    """Return an option as pip compares it."""
    name = option.strip().lower().replace("_", "-")
    return name[2:] if name.startswith("--") else name


def _lines(text: str) -> t.Iterator[_Line]:
    """Yield the lines with their section and option, by the rules of configparser."""
    section = option = ""
    level = 0
    for line in text.splitlines(keepends=True):
        whole = line if line.endswith("\n") else f"{line}\n"
        content = line.strip()
        depth = len(line) - len(line.lstrip())
        if not content or content[0] in "#;":
            yield _Line(whole, section)
        elif section and option and depth > level:
            yield _Line(whole, section, option)
        else:
            level, header = depth, re.match(r"\[(.+)\]", content)
            section, option = (header[1], "") if header else (section, _normal(re.split("[=:]", content)[0]))
            yield _Line(whole, section, option, first=not header, header=bool(header))
