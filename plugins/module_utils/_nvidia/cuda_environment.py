# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of a CUDA toolkit: PATH and CUDA_HOME for login shells, sessions and services.

The lines of /etc/environment that belong to others stay as they are.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow

# Debian has no /etc/environment of its own; this is what Ubuntu puts there (package base-files), less snap.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games"


def environment_files(root: str, environment: str) -> list[FileRow]:
    """Return the files by which programs find the toolkit, wherever they are started from (docs/cuda.md, "Environment")."""
    profile = (
        "# Login shells. Everything else: docs/cuda.md of the collection rigwright.workstation.\n"
        f'export CUDA_HOME="{root}"\n'
        f'case ":$PATH:" in *":{root}/bin:"*) ;; *) PATH="{root}/bin:$PATH" ;; esac\n'
    )
    plain = f"CUDA_HOME={root}\nPATH={root}/bin:{SYSTEM_PATH}\n"
    return [
        {"path": "/etc/environment", "content": set_environment(environment, root), "merged": True},
        {"path": "/etc/profile.d/rigwright-cuda.sh", "content": profile},
        {"path": "/etc/environment.d/60-rigwright-cuda.conf", "content": f"CUDA_HOME={root}\nPATH={root}/bin:$PATH\n"},
        {"path": "/etc/default/cuda", "content": plain},
        {"path": "/etc/ld.so.conf.d/rigwright-cuda.conf", "content": f"{root}/lib64\n"},
    ]


def set_environment(text: str, root: str) -> str:
    """Return the text of /etc/environment with the toolkit first on its PATH. All other settings stay."""
    return "".join(after for _name, _before, after in _rewrite(text, root))


def unset_environment(text: str, root: str, before: str) -> str:
    """Undo ``set_environment``: the toolkit's lines are as they were before it. What others have added to them stays."""
    if text == set_environment(before, root):
        return before
    for name, old, new in _rewrite(before, root):
        if new == old:
            continue
        # The last one: the same line can also be further up.
        start, intact, end = f"\n{text}".rpartition(f"\n{new}")
        changed = [_without(line, name, old, root) for line in _read_lines(text)]
        text = f"{start}\n{old}{end}"[1:] if intact else "".join(changed)
    return text


class _Line(t.NamedTuple):
    """A line of /etc/environment; *value* is None where it sets nothing. *start* is what is before the name."""

    text: str
    start: str = ""
    name: str = ""
    value: str | None = None
    comment: str = ""

    def saying(self, value: str) -> str:
        # A comment gets a line of its own: up to Linux-PAM 1.5 the blank before it keeps the last quote in the value.
        """Return the line with another value."""
        return (f"{self.comment}\n" if self.comment else "") + f'{self.start}{self.name}="{value}"\n'


# pam_env reads it so: a backslash joins a line with the next, `export ` is allowed first, and `#` ends the line, even in quotes.
_LINES = re.compile(r"(?:[^\n#]*\\[ \t]*\n)*[^\n]*\n")
_JOIN = re.compile(r"\\[ \t]*\n")
_SETTING = re.compile(r"([ \t]*(?:export )?)([A-Za-z0-9_]+)(?:=([^#]*))?(#.*)?")


def _read_lines(text: str) -> list[_Line]:
    return [_read_line(line) for line in _LINES.findall(text if text.endswith("\n") else f"{text}\n") if text]


def _read_line(text: str) -> _Line:
    match = _SETTING.fullmatch(_JOIN.sub("", text[:-1]))
    if match is None:
        return _Line(text)
    start, name, value, comment = match.groups()
    return _Line(text, start, name, None if value is None else _unquoted(value.rstrip()), comment or "")


def _unquoted(value: str) -> str:
    """Remove quotes as pam_env does: one at the end only if one of any kind is at the start."""
    if value[:1] not in ("'", '"'):
        return value
    return value[1:-1] if value[1:].endswith(("'", '"')) else value[1:]


def _rewrite(text: str, root: str) -> list[tuple[str, str, str]]:
    """Return for each line the name that it sets, its text, and its text with the toolkit. The last line for a name counts."""
    lines = _read_lines(text)
    rows = [(line.name, line.text, line.text) for line in lines]
    for name in ("PATH", "CUDA_HOME"):
        at = max((number for number, line in enumerate(lines) if line.name == name), default=len(lines))
        line = lines[at] if at < len(lines) and lines[at].value is not None else _Line("", name=name)
        # An empty PATH leads to the current directory.
        value = ":".join([f"{root}/bin", *_others(line.value or SYSTEM_PATH, root)]) if name == "PATH" else root
        row = (name, line.text, line.saying(value))
        if line.text:
            rows[at] = row
        else:
            rows.append(row)
    return rows


def _without(line: _Line, name: str, old: str, root: str) -> str:
    """Return a line that others have changed since, without the toolkit. *old* is the line before the toolkit."""
    value = line.value or ""
    if line.name != name or (value != root and f"{root}/bin" not in value.split(":")):
        return line.text
    others = _others(value, root)
    if name == "CUDA_HOME" or others == _others(_read_line(old).value or SYSTEM_PATH, root):
        return old
    return line.saying(":".join(others)) if others else ""


def _others(path: str, root: str) -> list[str]:
    """Return the directories of a PATH that are not the toolkit's."""
    return [place for place in path.split(":") if place != f"{root}/bin"]
