# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON files that modules keep by GPU. A damaged file is refused; a file is replaced in one step."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# The parameters of a module for a card, by their names; and those of all cards, by the UUID.
Declared = dict[str, t.Any]
ByCard = dict[str, Declared]


class Record(t.TypedDict):
    """A file of parameters. `loaded`: the load of the driver that they are of."""

    gpus: ByCard
    loaded: t.NotRequired[str]


def home(module: str) -> str:
    """Return the directory of a module's files."""
    # A directory of its own: config_files keeps /var/lib/rigwright for itself.
    return f"/var/lib/rigwright_{module}"


def text(gpus: t.Mapping[str, Declared], **others: str) -> bytes:
    """Return the content of a file.

    :param others: further keys of the file.
    """
    return f"{json.dumps({**others, 'gpus': gpus}, indent=1, sort_keys=True)}\n".encode()


def read(tree: Tree, path: str) -> Record:
    """Read a file that :func:`text` made. Without a file no card has an entry.

    :raises Refusal: the file is damaged.
    """
    # A loss of power may leave an empty file. To accept it would drop the declarations of other tasks.
    if not tree.exists(path):
        return {"gpus": {}}
    try:
        found = json_text.parse(tree.text(path))
        gpus = found.get("gpus") if isinstance(found, dict) else None
        if not isinstance(gpus, dict) or not all(entry and isinstance(entry, dict) for entry in gpus.values()):
            raise ValueError("it has no entries by GPU")
    except ValueError as error:
        raise Refusal(f"{path} is damaged ({error}): restore it, or remove it and declare all GPUs again") from error
    return t.cast("Record", found)
