# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requirements of a request: what the actions require and plan refuse. Works on the controller."""

from __future__ import annotations

from collections.abc import Mapping

_TYPES: dict[str, type] = {"ok": bool, "variable": str, "problem": str, "remedy": str}


def unmet(that: object) -> list[str]:
    """Return a line for each requirement that is not met.

    Raises ValueError for a list that is not one of requirements. No value of a variable is ever shown: it may be secret.
    """
    if not isinstance(that, list):
        raise ValueError("that must be a list of requirements")
    for number, requirement in enumerate(that, start=1):
        if not isinstance(requirement, Mapping) or requirement.keys() != _TYPES.keys():
            raise ValueError(f"requirement {number} of that must have exactly the keys {', '.join(_TYPES)}")
        for key, type_ in _TYPES.items():
            if not isinstance(requirement[key], type_):
                kind = "boolean" if type_ is bool else "string"
                raise ValueError(f"{key} of requirement {number} of that must be a {kind}")
    return [
        f"{requirement['variable']}: {requirement['problem'].rstrip('.')}; {requirement['remedy'].rstrip('.')}."
        for requirement in that
        if not requirement["ok"]
    ]


def refusal(that: object) -> str:
    """Return the message that refuses the request; empty if all requirements are met."""
    lines = unmet(that)
    return "\n".join(["The request is refused:", *lines]) if lines else ""
