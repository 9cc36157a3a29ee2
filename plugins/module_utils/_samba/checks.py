# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of a request for shares: of the request itself, and on this host. Pure.

Pure: the module samba_plan reads the host and hands in what it saw.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import is_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import config, users

Params = t.Mapping[str, t.Any]

# From the oldest to the newest (smb.conf(5), "server max protocol").
PROTOCOLS = ("SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11")
OLDEST_THAT_ENCRYPTS = "SMB3_00"

RESERVED = {
    "global": "the section of the whole server",
    "homes": "which would share every home on the host",
    "printers": "which would share every printer",
    "print$": "for the drivers of printers",
    "ipc$": "by which clients ask for the list of shares",
    "admin$": "a share of Windows itself",
}
# MS-FSCC 2.1.6, and what smb.conf would take for syntax or for a variable.
SHARE_NAME = re.compile(r'[^\x00-\x1f\x7f"%*+,/:;<=>?\[\\\]|]{1,80}')
# A shell and Samba read the path in the command that looks for its disk.
PATH = re.compile(r'/[^\x00-\x1f\x7f"%$`\\]*')
MODE = re.compile("0?[0-7]{3,4}")
SIZE = re.compile("[1-9][0-9]*[KMGTP]?")
NETBIOS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
LINE = re.compile(r"[^\x00-\x1f\x7f]*")
MODULE = re.compile(r"[a-z0-9_]+(:[a-z0-9_]+)?")
# What is no data, wherever the allowed roots are.
SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr")


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the host is. ``real``: the paths of shares and roots with their links resolved; ``directories``: those that are one;
    ``links``: a link on them that is not root's.

    ``mounts``: where a disk has to be mounted, by the share's path; ``mounted``: those of these where it is. ``modules``: the VFS
    modules that Samba has, None where it is not installed. ``unknown``: what testparm ignores. ``open_settings``: settings of open access.
    ``given_up``: shares of the host's own smb.conf that the role's does not have.
    ``check``: nothing is done, and what an earlier role makes is not there; ``planned``: directories that one would make.
    """

    uids: t.Mapping[str, int]
    groups: t.Collection[str]
    real: t.Mapping[str, str]
    directories: t.Collection[str]
    links: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mounts: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mounted: t.Collection[str] = ()
    modules: t.Collection[str] | None = None
    unknown: t.Sequence[str] = ()
    open_settings: t.Sequence[str] = ()
    given_up: t.Sequence[str] = ()
    refused: str = ""
    accounts: t.Mapping[str, users.Account] = dataclasses.field(default_factory=dict)
    record: t.Collection[str] = ()
    connected: t.Collection[str] = ()
    check: bool = False
    planned: t.Collection[str] = ()


def networks_of(params: Params) -> list[config.Network]:
    """Return the valid networks; :func:`problems_of_request` reports the others."""
    found = []
    for text in params["networks"]:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError:
            continue
    return found


def inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def mount_for(share: Params, real: str, points: t.Iterable[str], required: t.Mapping[str, str]) -> str:
    """Return where the disk of a share has to be mounted; empty for the root file system.

    :param points: where something is mounted, or should be by fstab(5).
    :param required: what an earlier run has found, by path: a disk that is missing today was one yesterday.
    """
    if share["mount"] == "none":
        return ""
    if share["mount"] != "auto":
        return str(share["mount"]).rstrip("/")
    found = [point for point in {*points, *filter(None, [required.get(share["path"])])} if inside(real, point)]
    return max((point for point in found if point != "/"), key=len, default="")


# --- What is wrong by itself ---


def problems_of_request(params: Params) -> t.Iterator[Problem]:
    """Yield the problems of the request that need no host, as the action ``require`` takes them."""
    yield from _global_problems(params)
    yield from _network_problems(params)
    yield from _option_problems("samba_global_options", params["global_options"], "global")
    names = [config.canonical(share["name"]) for share in params["shares"]]
    twice = sorted({share["name"] for share in params["shares"] if names.count(config.canonical(share["name"])) > 1})
    if twice:
        yield problem(
            "samba_shares",
            f"has two shares of a name: {', '.join(twice)}",
            "give each a name of its own; capitals and blanks make no difference",
        )
    yield from _rights_problems(params)
    for share in params["shares"]:
        yield from _share_problems(params, share)


def _rights_problems(params: Params) -> t.Iterator[Problem]:
    """Refuse different rights for one directory: it has one owner, however many shares it is."""
    rights: dict[str, set[tuple[t.Any, ...]]] = {}
    for share in params["shares"]:
        rights_of_share = (share["owner"], share["group"], share["mode"], share["default_acl"])
        if any(rights_of_share):
            rights.setdefault(os.path.normpath(share["path"]), set()).add(rights_of_share)
    for path in sorted(path for path, rights_of_share in rights.items() if len(rights_of_share) > 1):
        yield problem(
            "samba_shares",
            f"gives {path} different rights in two shares",
            "set the same owner, group, mode and default_acl in both, or in one alone",
        )


def _global_problems(params: Params) -> t.Iterator[Problem]:
    protocol = params["min_protocol"]
    if protocol not in PROTOCOLS:
        yield problem(
            "samba_min_protocol",
            f"is {protocol}, and this role serves {', '.join(PROTOCOLS)}"
            + (": anything older can be read and changed on its way" if protocol else ""),
            "leave it at SMB3_11, which every system since Windows 10 and macOS 10.13 has; give an older device a server of its own",
        )
    elif params["encrypt"] == "required" and protocol < OLDEST_THAT_ENCRYPTS:
        yield problem(
            "samba_min_protocol",
            f"is {protocol}, which cannot encrypt, and samba_encrypt is required",
            f"set it to {OLDEST_THAT_ENCRYPTS} or newer",
        )
    if not NETBIOS.fullmatch(params["workgroup"]):
        yield problem("samba_workgroup", "is no name of a workgroup", "use up to 15 letters, digits and dashes")
    if not LINE.fullmatch(params["server_string"]) or config.goes_on(params["server_string"]):
        yield problem("samba_server_string", "is not a line of text", "write one line that does not end with \\")
    for root in params["allowed_roots"]:
        plain = "/" + os.path.normpath(root).lstrip("/")
        if not PATH.fullmatch(root) or plain == "/" or any(inside(plain, directory) for directory in SYSTEM):
            yield problem(
                "samba_allowed_roots",
                f"allows {root}, in which the system itself lies",
                "list directories of data, such as /data",
            )


def _network_problems(params: Params) -> t.Iterator[Problem]:
    for text in params["networks"]:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield problem(
                "samba_networks", f"has {text!r}: {error}", "write networks such as 192.168.1.0/24 or fd00:1::/64"
            )
            continue
        if network.prefixlen == 0:
            yield problem(
                "samba_networks",
                f"has {text}, which is the whole internet",
                "name the networks of your clients; from elsewhere, connect through the frp tunnel or a VPN",
            )

    if params["discovery"] == "wsdd" and not params["networks"]:
        yield problem(
            "samba_discovery",
            "is wsdd, but samba_networks is empty: only this host can connect to Samba",
            "name the networks of your clients in samba_networks, or leave samba_discovery at auto",
        )


def _option_problems(variable: str, options: t.Mapping[str, t.Any], section: str) -> t.Iterator[Problem]:
    for name, value in options.items():
        instead = config.OWN[section].get(config.canonical(name))
        values = [str(value_line) for value_line in (value if isinstance(value, list) else [value])]
        if instead:
            name_of_option = instead if instead.startswith("no ") else f"`{instead}`"
            yield problem(variable, f"sets `{name}`, which the role writes itself", f"use {name_of_option}")
        elif not LINE.fullmatch(name) or re.search(r"[=\[\]]", name) or name.strip()[:1] in ("", "#", ";"):
            yield problem(variable, f"has {name!r}, which is no parameter", "take names from smb.conf(5)")
        elif isinstance(value, dict) or not all(
            LINE.fullmatch(value_line) and not config.goes_on(value_line) for value_line in values
        ):
            yield problem(
                variable,
                f"has a value for `{name}` that is not a line of text",
                "write one line that does not end with \\",
            )


def _share_problems(params: Params, share: Params) -> t.Iterator[Problem]:
    name = share["name"]
    variable = f"samba_shares ({name})"
    reserved = RESERVED.get(config.canonical(name))
    if reserved:
        yield problem(variable, f"has a name that Samba keeps for itself: {reserved}", "take another name")
    elif not SHARE_NAME.fullmatch(name) or name != name.strip():
        yield problem(variable, "is no name of a share", "use letters, digits, blanks, dots, dashes and underscores")
    if not LINE.fullmatch(share["comment"]) or config.goes_on(share["comment"]):
        yield problem(variable, "has a comment that is not a line of text", "write one line that does not end with \\")
    if not PATH.fullmatch(share["path"]) or share["path"].endswith(" "):
        yield problem(
            variable,
            f"has the path {share['path']!r}",
            'write a path that begins with / and has none of " % $ ` \\ in it',
        )
    if share["mode"] and not (isinstance(share["mode"], str) and MODE.fullmatch(share["mode"])):
        yield problem(variable, f"has the mode {share['mode']}", 'write octal digits in quotes, such as "2775"')
    elif share["mode"] and int(share["mode"], 8) & 0o002:
        yield problem(
            variable, f"has the mode {share['mode']}, with which everybody on the host writes there", "use a group"
        )
    if share["encrypt"] == "required" and params["min_protocol"] < OLDEST_THAT_ENCRYPTS:
        yield problem(
            variable,
            f"is to be encrypted, and samba_min_protocol is {params['min_protocol']}, which cannot",
            f"set samba_min_protocol to {OLDEST_THAT_ENCRYPTS} or newer",
        )
    if share["mount"] not in ("auto", "none") and not (
        PATH.fullmatch(share["mount"]) and share["mount"] != "/" and inside(share["path"], share["mount"].rstrip("/"))
    ):
        yield problem(
            variable,
            f"waits for {share['mount']}, on which {share['path']} does not lie",
            "set `mount` to the mount point above the path, or to auto or none",
        )
    odd = [module for module in share["vfs_objects"] if not MODULE.fullmatch(module)]
    if odd:
        yield problem(
            variable, f"has VFS modules of odd names: {', '.join(map(repr, odd))}", "list names such as shadow_copy2"
        )
    yield from _time_machine_problems(share, variable)
    yield from _member_problems(params, share, variable)
    yield from _option_problems(variable, share["options"], "share")


def _time_machine_problems(share: Params, variable: str) -> t.Iterator[Problem]:
    if share["time_machine"]:
        if not SIZE.fullmatch(share["max_size"]):
            yield problem(
                variable,
                f"is for Time Machine, and its max_size is {share['max_size'] or 'missing'}",
                "set `max_size`, such as 2T: a Mac fills whatever it is given",
            )
        if share["read_only"] and not share["write_list"]:
            yield problem(
                variable, "is for Time Machine, and nobody may write", "set `read_only: false` or `write_list`"
            )
    elif share["max_size"]:
        yield problem(
            variable,
            "has a max_size, which only Time Machine knows",
            "set `time_machine: true`, or limit the share by a quota of its file system",
        )


def _member_problems(params: Params, share: Params, variable: str) -> t.Iterator[Problem]:
    here = {user["name"] for user in params["users"] if users.is_present(user)}
    named = {*share["valid_users"], *share["write_list"]}
    odd = sorted(name for name in named if not is_name(name[name.startswith("@") :]))
    unknown = sorted(name for name in named - set(odd) if not name.startswith("@") and name not in here)
    if odd:
        yield problem(
            variable, f"names {', '.join(map(repr, odd))}", "write the names of users, and @ before that of a group"
        )
    if unknown:
        yield problem(
            variable,
            f"names {', '.join(unknown)}, missing in samba_users",
            "add them there with a password, or take them off the share",
        )
    if not here and not share["valid_users"]:
        yield problem(variable, "has no users, so nobody can connect to it", "list users in samba_users")
    plain = not any(name.startswith("@") for name in named)
    shut_out = sorted(set(share["write_list"]) - set(share["valid_users"]))
    if share["valid_users"] and plain and shut_out:
        yield problem(
            variable,
            f"has {', '.join(shut_out)} in `write_list` but not in `valid_users`, so they cannot connect",
            "list them in `valid_users` as well, or take them off",
        )


# --- What is wrong on this host ---


def problems_on_host(params: Params, facts: Facts) -> t.Iterator[Problem]:
    roots = [facts.real.get(root, root) for root in params["allowed_roots"]]
    for share in params["shares"]:
        if PATH.fullmatch(share["path"]):
            yield from _path_problems(params, share, facts, roots)
        yield from _name_problems(share, facts)
        if facts.modules is not None:
            missing = [
                module for module in config.vfs_objects(params, share) if module.partition(":")[0] not in facts.modules
            ]
            if missing:
                yield problem(
                    f"samba_shares ({share['name']})",
                    f"needs VFS modules that Samba does not have here: {', '.join(missing)}",
                    "install what brings them; with a module missing Samba starts, and refuses every client of the share",
                )
    for output in facts.unknown:
        yield problem(
            "samba_global_options or samba_shares",
            f"has a parameter that Samba does not know and would ignore: {output}",
            "look it up in smb.conf(5)",
        )
    for output in facts.open_settings:
        yield problem(
            "samba_global_options or samba_shares",
            f"sets `{output}`: clients could connect without a name or as root, or leave the share",
            "remove the option that sets it",
        )
    if facts.refused:
        yield problem(
            "samba_global_options or samba_shares", f"is refused by testparm: {facts.refused}", "fix what it names"
        )


def _path_problems(params: Params, share: Params, facts: Facts, roots: t.Sequence[str]) -> t.Iterator[Problem]:
    path, variable = share["path"], f"samba_shares ({share['name']})"
    real = facts.real.get(path, path)
    where = path if real == os.path.normpath(path) else f"{path}, which leads to {real},"
    if path in facts.links:
        yield problem(
            variable,
            f"shares {where} by the link {facts.links[path]}, which is not root's: whose it is, has it lead anywhere",
            "share the path that it leads to, or have root make the link (`chown --no-dereference root`)",
        )
    if not PATH.fullmatch(real):
        yield problem(
            variable, f"leads to the path {real!r}", 'share a directory that has none of " % $ ` \\ in its path'
        )
    elif real == "/" or any(inside(real, allowed) for allowed in SYSTEM):
        yield problem(variable, f"shares {where} where the system itself lies", "share a directory of data")
    elif not any(inside(real, root) for root in roots):
        yield problem(
            variable,
            f"shares {where} outside of {', '.join(params['allowed_roots'])}",
            "move the data there, or add the directory above it to samba_allowed_roots",
        )
    elif path not in facts.directories and not facts.check and facts.mounts.get(path, "") in ("", *facts.mounted):
        yield problem(
            variable, f"shares {where} which is no directory", "make it first (ansible.builtin.file), or fix the path"
        )


def _name_problems(share: Params, facts: Facts) -> t.Iterator[Problem]:
    variable = f"samba_shares ({share['name']})"
    groups = {name[1:] for name in (*share["valid_users"], *share["write_list"]) if name.startswith("@")}
    unknown = sorted(name for name in {*groups, *filter(None, [share["group"]])} if name not in facts.groups)
    if unknown:
        yield problem(
            variable,
            f"names groups that this host does not have: {', '.join(unknown)}",
            "make them first (ansible.builtin.group)",
        )
    if share["owner"] and share["owner"] not in facts.uids:
        yield problem(variable, f"is to belong to {share['owner']}, who is no user of this host", "make the user first")


# --- Findings ---
