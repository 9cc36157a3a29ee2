# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a user of samba_users, which the role samba has, too."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec

USER: Spec = {
    "name": {"type": "str", "required": True},
    # Not `str`, which would take 012345 for another password.
    "password": {"type": "raw", "no_log": True},
    "nt_hash": {"type": "raw", "no_log": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "enabled": {"type": "bool", "default": True},
}
