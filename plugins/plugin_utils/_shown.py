# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show diffs and warnings, which have texts of hosts, so that nothing in them changes the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

KEPT = "\n\t"


class Shown:
    """Methods of a callback of Ansible, in front of its own."""

    _display: Any

    def _get_diff(self, difflist: Any) -> Any:
        return super()._get_diff(shown_all(difflist))  # type: ignore[misc]

    def _handle_warnings(self, res: Any) -> None:
        display, self._display = self._display, Display(self._display)
        try:
            super()._handle_warnings(res)  # type: ignore[misc]
        finally:
            self._display = display


class Display:
    """A display of Ansible that shows warnings of a result."""

    def __init__(self, display: Any) -> None:
        self._display = display

    def __getattr__(self, name: str) -> Any:
        return getattr(self._display, name)

    def _warning(self, warning: Any) -> None:
        self._display._warning(shown_all(warning))

    def _deprecated(self, warning: Any) -> None:
        self._display._deprecated(shown_all(warning))


def shown_all(value: Any) -> Any:
    """Return a value whose texts a terminal can show: of dictionaries, lists and dataclasses, too."""
    if isinstance(value, str):
        return shown(value, keep=KEPT)
    if isinstance(value, Mapping):
        return {key: shown_all(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(shown_all, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        changed = {name: new for name, each in fields.items() if (new := shown_all(each)) != each}
        return dataclasses.replace(value, **changed) if changed else value
    return value
