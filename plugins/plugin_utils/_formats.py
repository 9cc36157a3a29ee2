# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Render data as configuration text: TOML, JSON, INI, YAML.

TOML is written here because neither Python nor ansible-core can write it, and a dependency would have to be installed
by every user of the collection; tests hold it to Python's own ``tomllib``.
"""

from __future__ import annotations

import json
import re
import typing as t

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

# TOML 1.0, "String": what a basic string must escape.
TOML_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def to_json(data: t.Any) -> str:
    """JSON with sorted keys, so that the order in which variables were merged never shows as a change."""
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def to_yaml(data: t.Any) -> str:
    # On the controller only, where PyYAML is installed with ansible-core.
    import yaml

    return yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=True, allow_unicode=True, explicit_start=True)


def to_ini(data: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """Render sections of options. A list becomes a repeated option, as systemd and apt read it.

    :raises ValueError: a value that INI cannot hold (a line break, a mapping).
    """
    sections = []
    for name, options in data.items():
        lines = [f"[{name}]"]
        for option, value in options.items():
            for item in value if isinstance(value, list) else [value]:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                if isinstance(item, (dict, list)) or "\n" in text:
                    raise ValueError(f"{name}.{option}: INI holds single lines of text, numbers and booleans")
                lines.append(f"{option} = {text}")
        sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def to_toml(data: t.Mapping[str, t.Any]) -> str:
    """Render a TOML document: plain values first, then tables and arrays of tables, in the given order.

    :raises ValueError: a value that TOML does not have (null, a mixed list of tables and values).
    """
    return "\n".join(_toml_table(data, ())).lstrip("\n") + "\n"


def _toml_table(table: t.Mapping[str, t.Any], path: tuple[str, ...]) -> list[str]:
    lines, tables = [], []
    for key, value in table.items():
        here = (*path, str(key))
        if isinstance(value, dict):
            tables += ["", f"[{_toml_path(here)}]", *_toml_table(value, here)]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                tables += ["", f"[[{_toml_path(here)}]]", *_toml_table(item, here)]
        else:
            lines.append(f"{_toml_key(str(key))} = {_toml_value(value, here)}")
    return lines + tables


def _toml_value(value: t.Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, list) and not any(isinstance(item, dict) for item in value):
        return "[" + ", ".join(_toml_value(item, path) for item in value) + "]"
    raise ValueError(f"{'.'.join(path)}: TOML has no value for {type(value).__name__}")


def _toml_string(text: str) -> str:
    def escape(char: str) -> str:
        if char in TOML_ESCAPES:
            return TOML_ESCAPES[char]
        return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char

    return '"' + "".join(escape(char) for char in text) + '"'


def _toml_key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _toml_string(key)


def _toml_path(path: tuple[str, ...]) -> str:
    return ".".join(_toml_key(key) for key in path)


WRITERS: dict[str, t.Callable[[t.Any], str]] = {"toml": to_toml, "json": to_json, "ini": to_ini, "yaml": to_yaml}

# The ending of a path decides when no format is named.
ENDINGS = {
    ".toml": "toml",
    ".json": "json",
    ".ini": "ini",
    ".conf": "ini",
    ".local": "ini",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def format_of(path: str) -> str | None:
    """Return the format of a path's ending, or None."""
    return next((name for ending, name in ENDINGS.items() if path.endswith(ending)), None)
