# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: frp_text_requirements
short_description: Refuse values that frp would run as a template
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - frp reads its configuration as a Go template before it reads it as TOML, so two opening braces in any value would be run, not read.
  - Makes requirements for M(rigwright.workstation.require). No value is shown, for it may be secret.
options:
  _input:
    description: Values of any depth, by the variable that they come from.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse a token that frp would run
  rigwright.workstation.require:
    that: "{{ {'frp_server_token': frp_server_token} | rigwright.workstation.frp_text_requirements }}"
"""

RETURN = r"""
_value:
  description: One requirement a variable, met or not.
  type: list
  elements: dict
"""

from collections.abc import Iterator, Mapping
from typing import Any


def frp_text_requirements(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a requirement for each variable: no text in it, key or value, has two opening braces."""
    return [
        {
            "ok": not any("{{" in text for text in _texts(value)),
            "variable": name,
            "problem": "holds two opening braces, which frp would run as a template",
            "remedy": "choose another value",
        }
        for name, value in values.items()
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"frp_text_requirements": frp_text_requirements}
