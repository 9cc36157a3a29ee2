# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of ``rigwright-gpu-mig.service``: it restores the MIG layouts that gpu_mig has declared. It needs no Ansible."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, wait_for_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

# The boot program of gpu_mig, by name. The module imports this file, so that Ansible sends it to the host.
PROGRAM = "_gpu.mig.boot"


class Host:
    """The host of the program: it starts programs, and warns in the journal."""

    check_mode = False

    def run_command(self, args: list[str], *_rest: t.Any, **options: t.Any) -> tuple[int, str, str]:
        """Run a program.

        :raises Refusal: the program is missing, or it failed and the option check_rc is set.
        """
        try:
            done = programs.run(args)
        except OSError as error:
            raise Refusal(f"`{' '.join(args)}`: {error}") from error
        if options.get("check_rc") and done.returncode:
            raise Refusal(f"`{' '.join(args)}` has failed: {done.stderr.strip()}")
        return done.returncode, done.stdout, done.stderr

    def warn(self, warning: str) -> None:
        log(warning)


def log(text: str) -> None:
    """Write a line to the journal."""
    os.write(1, f"{text}\n".encode())


def restore(params: dict[str, t.Any], root: str) -> None:
    """Restore one GPU, as a transaction of its own.

    :raises Refusal: the GPU cannot meet its declaration, or only with a reset that is not allowed.
    """
    with Nvml() as nvml:
        result = mig_run.run(Host(), nvml, params, PROGRAM, root)
    for row in result["gpus"]:
        log(f"{row['name']} {row['pci_address']}: {', '.join(row['changes']) or 'is as declared'}")
        if row["needs"] != "none":
            raise Refusal(
                f"MIG is {row['mode']}, and a change needs a {row['needs'].replace('_', ' ')}: see allow_reset"
            )


def main(root: str = "/") -> int:
    """Restore all declared GPUs; a failure of one does not stop the others."""
    status = 0
    try:
        declared = boot.read_declared(Tree(root), mig_run.NAME)
        wait_for_driver()
    except (NvmlError, Refusal) as error:
        log(str(error))
        return 1
    for uuid, params in declared.items():
        try:
            restore(params, root)
        except (NvmlError, Refusal, mig_run.Stopped) as error:
            log(f"{uuid}: {error}")
            status = 1
    return status
