# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a role plans and proves with: programs of the host, warnings for the user, check mode."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import another_python, config_files_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

Outcome = tuple[int, str, str]


class Refused(config_files_plan.Refused):
    """A role cannot be planned or proved; the text says why, and what to do.

    :param result: more keys for the result of the module.
    """

    def __init__(self, text: str, result: JsonObject | None = None) -> None:
        super().__init__(text)
        self.result = dict(result or {})


class NeedsPython(BaseException):
    """The role needs another Python of the host; the module is started again with it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Host:
    """The host of one plan or proof. Its warnings go into the result of the role."""

    def __init__(self, module: AnsibleModule) -> None:
        self.check_mode: bool = module.check_mode
        self.get_bin_path = module.get_bin_path
        self.run_command = module.run_command
        self.warnings: list[str] = []

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    def need_python(self, path: str) -> None:
        """Go on with another Python, where the host has it and this is not the one.

        :raises NeedsPython: for the module, which starts itself again.
        """
        if another_python.may_start(path):
            raise NeedsPython(path)

    def run_client(self, command: list[str], **options: t.Any) -> Outcome:
        """Run a program; one that is not installed ends with status 127 instead of ending the module."""
        try:
            outcome: Outcome = self.run_command(command, handle_exceptions=False, **options)
        except OSError as error:
            return 127, "", f"{command[0]}: {error.strerror}"
        return outcome
