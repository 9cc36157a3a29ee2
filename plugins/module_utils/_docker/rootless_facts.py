# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the users of a host, what their dockers run, and the role's record of them."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.facts import RunCommand
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_show, parse_time

ROOT = "/"
SILENT = "(docker does not answer)"
RECORD = "/var/lib/rigwright_docker/rootless_users.json"


def read_record(tree: Tree) -> rootless.Record:
    """Read what the role has added for users.

    :raises ValueError: the record is damaged.
    """
    remedy = "restore it, or remove it, and what the role has done for users counts as their own"
    found: rootless.Record = record.read(tree.at(RECORD), remedy, {str: dict}) or {}
    return found


def escaped(name: str) -> str:
    """Return the name of a file of logind for a user: as C writes it, with octal numbers for what is not ASCII."""
    text = name.replace("\\", "\\\\")
    return "".join(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in text.encode())


def read_user(run: RunCommand, name: str, files: t.Iterable[str]) -> rootless.User | None:
    """Read a user and the state of their docker; None for an unknown user."""
    uid = accounts.uid_of(name)
    if uid is None:
        return None
    tree = Tree(ROOT)
    lingers = tree.exists(f"/var/lib/systemd/linger/{escaped(name)}")
    if not tree.exists(f"/run/user/{uid}/systemd/private"):
        return rootless.User(uid, lingers)
    show = ["show", "--property=Id,Names,ActiveState,ActiveEnterTimestamp", rootless.UNIT]
    _rc, out, _err = run(
        rootless.read_as_user(name, uid, "systemctl", "--user", *show),
        environ_update={"TZ": "UTC"},
    )
    try:
        unit = {key: values[0] for key, values in parse_show(out, [rootless.UNIT])[rootless.UNIT].items()}
        started = parse_time(unit.get("ActiveEnterTimestamp", ""))
    except (KeyError, ValueError, OverflowError):
        # The manager is the user's, and so is what it says.
        return rootless.User(uid, lingers, silent=True)
    rc, listed, _err = run(
        rootless.read_as_user(
            name, uid, "env", f"DOCKER_HOST=unix:///run/user/{uid}/docker.sock", "docker", "ps", "--format={{.Names}}"
        )
    )
    active = unit.get("ActiveState") == "active"
    # What a docker that does not answer runs is not known.
    containers = sorted(map(shown, listed.split())) if rc == 0 or not active else [SILENT]
    return rootless.User(
        uid,
        lingers,
        active=active,
        older=any(tree.exists(path) and os.lstat(tree.at(path)).st_ctime > started for path in files),
        containers=tuple(containers),
    )
