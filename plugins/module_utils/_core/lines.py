# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of a program line by line: a line of no known form is reported, never left out in silence."""

from __future__ import annotations

import re
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

_SHOWN = 3
_WIDTH = 120


class Parsed(t.NamedTuple):
    """The lines of a known form, each with its name and match, in their order; and the others."""

    matched: list[tuple[str, re.Match[str]]]
    unmatched: list[str]


def match_lines(text: str, forms: t.Mapping[str, str]) -> Parsed:
    """Match each line that is not blank with the first form that fits it as a whole.

    :param forms: regular expressions by name.
    """
    parsed = Parsed([], [])
    for line in text.splitlines():
        found = ((name, re.fullmatch(form, line)) for name, form in forms.items())
        name, match = next(((name, match) for name, match in found if match), ("", None))
        if match:
            parsed.matched.append((name, match))
        elif line.strip():
            parsed.unmatched.append(line)
    return parsed


def parse(program: str, text: str, forms: t.Mapping[str, str], secret: bool = False) -> list[tuple[str, re.Match[str]]]:
    """Return the lines of a known form, and warn of the others.

    :param secret: whether lines may have secrets that do not look like one, as hashes; the warning then has no line.
    """
    parsed = match_lines(text, forms)
    if parsed.unmatched:
        some = "; ".join(shown(line.strip(), _WIDTH) for line in parsed.unmatched[:_SHOWN])
        _warn(
            f"`{program}` printed lines of a form that is not known here ({len(parsed.unmatched)}){'' if secret else f': {some}'}"
        )
    return parsed.matched


def _warn(text: str) -> None:
    """Warn in the result of the module; on standard error where there is no Ansible."""
    try:
        from ansible.module_utils.common.warnings import warn
    except ImportError:
        sys.stderr.write(f"{text}\n")
    else:
        warn(text)
