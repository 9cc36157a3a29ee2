# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of locked clocks: NVML does not report them."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files

NAME = "gpu_mode"
LOCKED = f"{files.home(NAME)}/locked.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MODULE = "/sys/module/nvidia"


def loaded_since(tree: Tree) -> str:
    """Return an id of this load of the driver. It changes with each boot and each load: the kernel never reuses an inode of sysfs."""
    inode = os.stat(tree.at(MODULE)).st_ino if tree.exists(MODULE) else 0
    return f"{tree.text(BOOT_ID).strip()}/{inode}"


def read_locked(tree: Tree) -> files.ByCard:
    """Read the clocks that were locked since the driver was loaded. Earlier locks no longer hold.

    :raises Refusal: the file is damaged.
    """
    record = files.read(tree, LOCKED)
    return record["gpus"] if record.get("loaded") == loaded_since(tree) else {}


def write_locked(tree: Tree, gpus: files.ByCard) -> None:
    """Write the record; without any lock, remove it."""
    kept = {uuid: settings for uuid, settings in gpus.items() if settings}
    tree.replace(LOCKED, files.text(kept, loaded=loaded_since(tree)) if kept else None)
