# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the unit rigwright-gpu-containers: it writes names and users of running containers for the sampler.

A uid in a container is that of an account of the host only where `docker run --user` named it, and not the image.

Docker's group has the rights of root. So the sampler does not have it, and this program does nothing else.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask

# The file that _gpu.usage.proc reads.
PATH = "/run/rigwright-gpu-containers/containers.json"
# The user who is to be charged, as `docker run --label rigwright.user=$USER`.
LABEL = "rigwright.user"
INTERVAL_S = 15
_NAME = 64


class Container(t.TypedDict):
    """A row of docker's list of containers."""

    Id: str
    Names: list[str] | None
    Labels: dict[str, str] | None


def names_of(containers: t.Iterable[Container], uids: t.Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Return name, user and uid of each container, by its id.

    :param uids: the uids of containers that are known already.
    """
    earlier = uids or {}
    return {
        str(row["Id"]): {
            "name": shown(str((row.get("Names") or [""])[0]).lstrip("/"), _NAME),
            # A long label would make the file larger than the sampler reads.
            "user": shown(str((row.get("Labels") or {}).get(LABEL, "")), _NAME),
            "uid": earlier[row["Id"]] if row["Id"] in earlier else uid_of(str(row["Id"])),
        }
        for row in containers
    }


def uid_of(identifier: str) -> str:
    """Return the uid that `docker run --user` has given to a container; empty where its image has its user, or names one."""
    try:
        container = ask(f"/containers/{identifier}/json")
        user = str(container["Config"]["User"])
        default = str((ask(f"/images/{container['Image']}/json")["Config"] or {}).get("User", ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    uid = user.partition(":")[0]
    return uid if uid.isdecimal() and user != default else ""


def write_names(path: str, last: str) -> str:
    """Write the file if it is not as it was, and return its text. Without docker it has no container.

    :param last: the text of the last call: the uid of a container that is in it is not asked for again.

    :raises OSError: it cannot be written.
    """
    try:
        earlier = json.loads(last)["containers"] if last else {}
        found = names_of(ask("/containers/json"), {identifier: row["uid"] for identifier, row in earlier.items()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        found = {}
    text = json.dumps({"containers": found}, sort_keys=True) + "\n"
    if text != last:
        write_file(path, text)
    return text


def main() -> int:
    """Write the names for ever."""
    text = ""
    while True:
        try:
            text = write_names(PATH, text)
        except OSError as error:
            sys.stderr.write(f"{PATH} cannot be written: {error}\n")
            return 1
        time.sleep(INTERVAL_S)
