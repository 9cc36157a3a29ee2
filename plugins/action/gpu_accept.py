# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module gpu_accept, and show its progress meanwhile: a measurement takes minutes for each GPU."""

from __future__ import annotations

import threading

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables

PERIOD_S = 5.0
# No host is worth a flood of lines.
MOST_LINES = 2000


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        if self._task.async_val:
            return self._execute_module(task_vars=task_vars, wrap_async=True)
        host = str((task_vars or {}).get("inventory_hostname", ""))
        path = self._connection._shell.join_path(self._make_tmp_path(), "progress")
        ended = threading.Event()
        # A thread of its own: a module says nothing before it ends.
        follower = threading.Thread(target=self._follow, args=(path, host, ended), daemon=True)
        follower.start()
        try:
            arguments = {**self._task.args, "progress_file": path}
            return self._execute_module(module_args=arguments, task_vars=task_vars)
        finally:
            ended.set()
            follower.join(PERIOD_S)

    def _follow(self, path: str, host: str, ended: threading.Event) -> None:
        """Show new lines of the module until it has ended."""
        count = 0
        while count < MOST_LINES:
            is_last = ended.wait(PERIOD_S)
            lines = self._read_lines(path)
            for line in lines[count:]:
                Display().display(f"{host}: {line}")
            count = max(count, len(lines))
            if is_last:
                return

    def _read_lines(self, path: str) -> list[str]:
        """Read the progress as the user who logs in; empty where that fails."""
        try:
            status, output, _error = self._connection.exec_command(f"cat {path}", sudoable=False)
        # The measurement goes on without its progress.
        except (AnsibleError, OSError):
            return []
        # The text is of our own module, without names of others.
        return output.decode(errors="replace").splitlines() if status == 0 else []
