# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of all modules."""

from __future__ import annotations

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.locale import LOCALE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec


class HostModule(AnsibleModule):
    """A module whose programs have the one locale, and the umask by which all users can read what they install."""

    def __init__(self, argument_spec: Spec, **options: t.Any) -> None:
        super().__init__(argument_spec, **options)
        self.run_command_environ_update = dict(LOCALE)
        # A login of root has 027 or 077 on hardened hosts.
        os.umask(0o022)
