# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings about a host that serves shares."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.checks import MODE, PROTOCOLS, Facts, Params
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.config import CONFIGURATION


def findings(params: Params, facts: Facts) -> list[Finding]:
    missing = [
        f"{share['name']} ({facts.mounts[share['path']]})"
        for share in params["shares"]
        if facts.mounts.get(share["path"], "") not in ("", *facts.mounted)
    ]
    on_disks = [share for share in params["shares"] if facts.mounts.get(share["path"], "")]
    listed = {user["name"].lower() for user in params["users"]}
    others = sorted(
        name for name in facts.accounts if name.lower() not in {*listed, *(added.lower() for added in facts.record)}
    )
    gone = sorted(name for name in others if facts.accounts[name].uid < 0)
    able = [name for name in others if facts.accounts[name].enabled and name not in gone]
    unmanaged = [
        *([f"let in by somebody else: {', '.join(able)}"] if able else []),
        *([f"no longer users of the host: {', '.join(gone)}"] if gone else []),
    ]
    found = [
        finding(
            "samba.disks",
            "warn" if missing else "pass" if on_disks else "skip",
            f"refused until their disk is mounted: {', '.join(missing)}"
            if missing
            else "every share on a disk has it"
            if on_disks
            else "no share is on a disk of its own",
            "mount the disk; `findmnt` and `dmesg` show where it is",
        ),
        finding(
            "samba.unmanaged",
            "warn" if unmanaged else "pass" if facts.accounts else "skip",
            f"Samba knows users who are not in samba_users: {'; '.join(unmanaged)}"
            if unmanaged
            else "Samba knows the users of samba_users and no others"
            if facts.accounts
            else "Samba knows no user",
            "add them to samba_users, or set `state: absent` there",
        ),
        _read_only_finding(params),
        finding(
            "samba.overridden",
            "warn" if facts.given_up else "pass",
            f"not in force since the role has replaced {CONFIGURATION}: {', '.join(facts.given_up)}"
            if facts.given_up
            else f"the {CONFIGURATION} of the host had no other shares",
            "declare shares in samba_shares, or leave them; a member of a domain needs its own file: samba_state: absent restores it",
        ),
    ]
    existing = {*facts.directories, *facts.planned}
    unmade = sorted(
        share["path"]
        for share in params["shares"]
        if facts.check and share["path"] not in existing and facts.mounts.get(share["path"], "") in ("", *facts.mounted)
    )
    if unmade:
        found.append(
            finding(
                "samba.paths",
                "warn",
                f"not there now: {', '.join(unmade)}",
                "make them first: the run is refused unless an earlier task does",
            )
        )
    if params["min_protocol"] in PROTOCOLS[:-1]:
        found.append(
            finding(
                "samba.protocol",
                "warn",
                f"clients of {params['min_protocol']} are served, whose start of a connection can be tampered with",
                "set samba_min_protocol to SMB3_11 once the last old device is gone",
            )
        )
    return found


def _read_only_finding(params: Params) -> Finding:
    """Report shares that nobody can write to, and those of them whose directory allows a group to write."""
    closed = [share for share in params["shares"] if share["read_only"] and not share["write_list"]]
    contrary = [share for share in closed if share["default_acl"] or _group_writes(share["mode"])]
    if contrary:
        evidence = "nobody can write over the network, although the rights of the directory say that a group may"
    else:
        evidence = "read-only for everybody" if closed else "each share has somebody who can write to it"
    names = ", ".join(share["name"] for share in contrary or closed)
    return finding(
        "samba.read_only",
        "warn" if contrary else "pass" if params["shares"] else "skip",
        f"{evidence}: {names}" if names else evidence if params["shares"] else "no share is declared",
        "set `read_only: false`, or name those who may write in `write_list`",
    )


def _group_writes(mode: t.Any) -> bool:
    return isinstance(mode, str) and bool(MODE.fullmatch(mode)) and bool(int(mode, 8) & 0o020)
