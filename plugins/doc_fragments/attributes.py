# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What the attributes of modules mean. Each module says itself how far it supports those of the target."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Reports what would change, without changing anything on the target.
  diff_mode:
    description: Shows what changed, or in check mode would change.
"""

    FACTS = r"""
attributes:
  facts:
    description: Returns C(ansible_facts), which become facts of the host.
    support: full
"""

    # Actions that start no module on the target.
    CONTROLLER = r"""
attributes:
  action:
    description: Works on the controller.
    support: full
  async:
    description: Can be used with the keyword C(async).
    support: none
  become:
    description: Can be used with the keyword C(become).
    support: none
  bypass_host_loop:
    description: Runs once for all hosts.
    support: none
  connection:
    description: Connects to the target.
    support: none
  delegation:
    description: Can be used with the keyword C(delegate_to).
    support: none
  platform:
    description: Systems on which it runs.
    platforms: all
    support: full
"""
