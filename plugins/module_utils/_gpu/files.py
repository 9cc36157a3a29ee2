# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What modules keep of GPUs on the disk: a file is read whole or refused, and written whole or not at all."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# By the UUID of the card.
ByCard = dict[str, dict[str, t.Any]]


def home(module: str) -> str:
    # A directory of its own: config_files keeps /var/lib/rigwright for itself.
    return f"/var/lib/rigwright_{module}"


def text(gpus: t.Mapping[str, dict[str, t.Any]], **beside: str) -> bytes:
    return f"{json.dumps({**beside, 'gpus': gpus}, indent=1, sort_keys=True)}\n".encode()


def read(tree: Tree, path: str) -> dict[str, t.Any]:
    """What :func:`text` made. Where there is no file, nothing is kept of any card.

    :raises Refusal: the file is damaged.
    """
    # An empty file is what a loss of power may leave. Taking it for nothing would lose what other tasks have declared.
    if not tree.exists(path):
        return {"gpus": {}}
    try:
        found: dict[str, t.Any] = json.loads(tree.text(path))
        gpus = found.get("gpus") if isinstance(found, dict) else None
        if not isinstance(gpus, dict) or not all(one and isinstance(one, dict) for one in gpus.values()):
            raise ValueError("nothing by GPU")
    except ValueError as error:
        raise Refusal(f"{path} is damaged ({error}): restore it, or remove it and declare all GPUs again") from error
    return found
