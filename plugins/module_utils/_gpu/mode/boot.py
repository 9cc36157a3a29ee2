# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of ``rigwright-gpu-mode.service``: it restores the modes that gpu_mode has declared. It needs no Ansible."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.locked_clocks import NAME
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.apply import NOT_THERE, Failed, Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, wait_for_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

# The boot program of gpu_mode, by name. The module imports this file, so that Ansible sends it to the host.
PROGRAM = "_gpu.mode.boot"


def run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = programs.run(command)
    except OSError as error:
        # A missing program must not stop the other cards.
        return NOT_THERE, "", str(error)
    return done.returncode, done.stdout, done.stderr


def restore(host: Host, declared: ByCard) -> t.Iterator[tuple[bool, str]]:
    """Restore each declared card, and yield success and message; a failure of one does not stop the others."""
    for uuid, wanted in sorted(declared.items()):
        try:
            card = host.nvml.find(uuid)
            plan = modes.plan(host.read(card, "time_slice" in wanted), wanted, uuid)
            if plan.problems:
                yield False, "; ".join(plan.problems)
                continue
            host.carry_out([plan], {uuid: card})
        except (NvmlError, Refusal, Failed) as error:
            yield False, f"{uuid}: {error}"
        else:
            changes = [f"{change.setting} {modes.shown(change.setting, change.after)}" for change in plan.changes]
            yield True, f"{plan.state.label}: {', '.join(changes) or 'is as declared'}"


def main(root: str = "/") -> int:
    """Run the unit's program. Its output goes to the journal."""
    tree = Tree(root)
    try:
        declared = boot.read_declared(tree, NAME)
        wait_for_driver()
        with Nvml() as nvml:
            lines = list(restore(Host(nvml, tree, run), declared))
    except (NvmlError, Refusal) as error:
        lines = [(False, str(error))]
    for _ok, line in lines:
        os.write(1, f"{line}\n".encode())
    return 0 if all(ok for ok, _line in lines) else 1
