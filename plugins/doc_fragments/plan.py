# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """A plan module: internal to its role, called by the action plan alone."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Reports what would change, without changing anything on the target.
    support: full
  diff_mode:
    description: Shows what changed, or in check mode would change.
    support: none
    details:
      - Nothing is ever changed.
options:
  request:
    description: The options of the role, by their names without the prefix of the role. Its argument spec describes them.
    type: dict
    required: true
  context:
    description: Facts of the platform from the variables of the role, such as names of packages and units.
    type: dict
    default: {}
  secrets:
    description: The options that hold secrets, as one JSON text, so that no part of it reaches a log.
    type: str
    default: ""
"""
