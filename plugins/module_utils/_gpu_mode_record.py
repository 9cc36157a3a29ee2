# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What is declared for each boot, and which clocks were locked since the driver was loaded: NVML has no way to ask for those."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_gpu_mode"
DECLARED = f"{HOME}/declared.json"
LOCKED = f"{HOME}/locked.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MODULE = "/sys/module/nvidia"

# Settings by the UUID of their card.
ByCard = dict[str, dict[str, t.Any]]


def loaded_since(tree: Tree) -> str:
    """Another one after each boot and each time that the driver is loaded: the kernel never gives an inode of sysfs twice."""
    inode = os.stat(tree.at(MODULE)).st_ino if tree.exists(MODULE) else 0
    return f"{tree.text(BOOT_ID).strip()}/{inode}"


def read_declared(tree: Tree) -> ByCard:
    """:raises Refusal: the file is damaged."""
    return t.cast("ByCard", _read(tree, DECLARED).get("gpus", {}))


def read_locked(tree: Tree) -> ByCard:
    """Clocks that were locked since the driver was loaded. What was locked before that is gone.

    :raises Refusal: the file is damaged.
    """
    record = _read(tree, LOCKED)
    return t.cast("ByCard", record.get("gpus", {})) if record.get("loaded") == loaded_since(tree) else {}


def declared_text(gpus: ByCard) -> str:
    """Empty where nothing is declared: there is no file then."""
    return _text({"gpus": gpus}) if gpus else ""


def write_locked(tree: Tree, gpus: ByCard) -> None:
    kept = {uuid: settings for uuid, settings in gpus.items() if settings}
    write(tree, LOCKED, _text({"loaded": loaded_since(tree), "gpus": kept}).encode() if kept else b"")


def _text(content: dict[str, t.Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _read(tree: Tree, path: str) -> dict[str, t.Any]:
    if not tree.exists(path):
        return {}
    try:
        content = json.loads(tree.text(path))
    except ValueError as error:
        raise Refusal(
            f"{path} is damaged ({error}): restore it, or remove it and declare the modes of all GPUs again"
        ) from error
    gpus = content.get("gpus") if isinstance(content, dict) else None
    if not isinstance(gpus, dict) or not all(isinstance(settings, dict) for settings in gpus.values()):
        raise Refusal(
            f"{path} is damaged (no settings by GPU): restore it, or remove it and declare the modes of all GPUs again"
        )
    return t.cast("dict[str, t.Any]", content)


def write(tree: Tree, path: str, content: bytes, mode: int = 0o644) -> None:
    """As a whole, or not at all. Empty content removes the file."""
    place = tree.at(path)
    if not content:
        if os.path.lexists(place):
            os.unlink(place)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(f"{place}.new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(f"{place}.new", mode)
    os.replace(f"{place}.new", place)
