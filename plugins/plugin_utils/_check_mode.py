# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an action knows in check mode of the tasks before it. Works on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changes(task_vars: Mapping[str, Any], role: str = "") -> bool:
    """Return whether a registered result says that its task would change something.

    :param role: short name of the role whose results (``__<role>_...``) count; empty: those of all roles.
    """
    prefix = f"__{role}_" if role else "__"
    return any(
        isinstance(value, Mapping) and value.get("changed") is True
        for name, value in task_vars.items()
        if name.startswith(prefix)
    )
