# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""smb.conf: the text for a request, and what Samba says of a text.

Pure. Only what smbd cannot take over while it runs is in a file of its own, so that everything else needs a reload alone.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip, shown

CONFIGURATION = "/etc/samba/smb.conf"
# The sockets: smbd opens them when it starts (smb.conf(5), "interfaces").
LISTEN = "/etc/samba/rigwright-listen.conf"
MOUNTPOINT = "/usr/bin/mountpoint"
# Of the shares of users, which are shown: characters of a name (Windows takes 80), and names.
_NAME, _SHARES = 80, 20

PREEXEC = re.compile(re.escape(MOUNTPOINT) + r' -q -- "(.+)"')

# vfs_fruit(8): in this order, after all others, and on every share or on none.
MACOS_MODULES = ("catia", "fruit", "streams_xattr")

Params = t.Mapping[str, t.Any]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Section = dict[str, str]


def canonical(name: str) -> str:
    """Return a name as Samba compares it: without capitals and blanks."""
    return "".join(name.lower().split())


# Parameters that the role writes, by their variable; with the other names that Samba takes for them.
OWN_GLOBAL = {
    "workgroup": "samba_workgroup",
    "server string": "samba_server_string",
    "server min protocol": "samba_min_protocol",
    "min protocol": "samba_min_protocol",
    "server max protocol": "samba_min_protocol",
    "max protocol": "samba_min_protocol",
    "protocol": "samba_min_protocol",
    "server smb encrypt": "samba_encrypt",
    "smb encrypt": "samba_encrypt",
    "smb ports": "samba_port",
    "interfaces": "samba_networks",
    "bind interfaces only": "samba_networks",
    "hosts allow": "samba_networks",
    "allow hosts": "samba_networks",
    "include": "samba_global_options",
    "config file": "samba_global_options",
    "config backend": "samba_global_options",
    "registry shares": "samba_shares",
    "copy": "samba_global_options",
    "multicast dns register": "samba_macos",
    "disable netbios": "no variable: netbios stays off",
    "server role": "no variable: the server stands alone",
    "security": "no variable: users log in",
    "passdb backend": "samba_users",
    "server signing": "no variable: every packet is signed",
    "restrict anonymous": "no variable: nobody is let in unnamed",
    "map to guest": "no variable: nobody is let in unnamed",
    "guest account": "no variable: nobody is let in unnamed",
    "ntlm auth": "no variable: older logins can be broken",
    "lanman auth": "no variable: older logins can be broken",
    "raw NTLMv2 auth": "no variable: older logins can be broken",
    "encrypt passwords": "no variable: passwords never travel",
    "null passwords": "no variable: everybody has a password",
    "usershare max shares": "samba_shares",
    "usershare allow guests": "samba_shares",
    "unix password sync": "no variable: the passwords of the host are not Samba's",
    "allow insecure wide links": "no variable: links do not lead out of a share",
}
OWN_SHARE = {
    "path": "path",
    "directory": "path",
    "comment": "comment",
    "valid users": "valid_users",
    "username": "valid_users",
    "user": "valid_users",
    "users": "valid_users",
    "only user": "valid_users",
    "read only": "read_only",
    "writeable": "read_only",
    "writable": "read_only",
    "write ok": "read_only",
    "write list": "write_list",
    "admin users": "write_list",
    "browseable": "browseable",
    "browsable": "browseable",
    "server smb encrypt": "encrypt",
    "smb encrypt": "encrypt",
    "force group": "group",
    "group": "group",
    "vfs objects": "vfs_objects",
    "vfs object": "vfs_objects",
    "root preexec": "mount",
    "root preexec close": "mount",
    "guest ok": "no key: nobody is let in unnamed",
    "public": "no key: nobody is let in unnamed",
    "guest only": "no key: nobody is let in unnamed",
    "only guest": "no key: nobody is let in unnamed",
    "guest account": "no key: nobody is let in unnamed",
    "wide links": "no key: links do not lead out of a share",
    "include": "no key: the request is the whole share",
    "copy": "no key: the request is the whole share",
    "hosts allow": "samba_networks",
    "allow hosts": "samba_networks",
    "available": "samba_shares",
}
OWN = {
    "global": {canonical(name): variable for name, variable in {**OWN_SHARE, **OWN_GLOBAL}.items()},
    "share": {canonical(name): variable for name, variable in OWN_SHARE.items()},
}


def goes_on(value: str) -> bool:
    """Return whether Samba reads the next line as a part of this value, and so misses what it says."""
    return value.rstrip().endswith("\\")


# What makes a share known to the Finder as one of its own (wiki.samba.org, "Configure Samba to Work Better with Mac OS X").
_MACOS = {
    "fruit:metadata": "stream",
    "fruit:model": "MacSamba",
    "fruit:veto_appledouble": "no",
    "fruit:nfs_aces": "no",
    "fruit:wipe_intentionally_left_blank_rfork": "yes",
    "fruit:delete_empty_adfiles": "yes",
}


def macos(params: Params) -> bool:
    """Return whether Macs are served as such: on all shares as soon as on one, since they take the first answer for all."""
    return bool(params["macos"]) or any(share["time_machine"] for share in params["shares"])


def host_list(networks: t.Iterable[Network]) -> str:
    """Return ``hosts allow``. Samba reads a prefix length of three digits as an address, and then /128 allows nobody."""
    hosts = ["127.0.0.1", "::1"]
    for network in networks:
        if network.prefixlen == network.max_prefixlen:
            hosts.append(str(network.network_address))
        elif network.prefixlen > 99:
            hosts.append(f"{network.network_address}/{network.netmask}")
        else:
            hosts.append(str(network))
    return " ".join(hosts)


def option_lines(options: t.Mapping[str, t.Any]) -> Section:
    return {name: _value(value) for name, value in options.items()}


def _value(value: t.Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def listen_section(params: Params) -> Section:
    """Return the section that Samba reads only at its start: it listens on all addresses as soon as a network is named."""
    alone = {"interfaces": "lo", "bind interfaces only": "yes"}
    return {"smb ports": str(params["port"]), **({} if params["networks"] else alone)}


def global_section(params: Params, networks: t.Iterable[Network]) -> Section:
    return {
        "workgroup": params["workgroup"],
        "server string": params["server_string"],
        "server role": "standalone server",
        "passdb backend": "tdbsam",
        "server min protocol": params["min_protocol"],
        "server signing": "mandatory",
        "server smb encrypt": params["encrypt"],
        "ntlm auth": "ntlmv2-only",
        "map to guest": "never",
        "restrict anonymous": "2",
        "usershare max shares": "0",
        # An account that has expired on the host has expired here.
        "obey pam restrictions": "yes",
        "unix password sync": "no",
        "hosts allow": host_list(networks),
        "disable netbios": "yes",
        # smbd would do so only when it starts: avahi has a file of its own.
        "multicast dns register": "no",
        "load printers": "no",
        "printing": "bsd",
        "printcap name": "/dev/null",
        "disable spoolss": "yes",
        "logging": "systemd",
        **({"vfs objects": " ".join(MACOS_MODULES), **_MACOS} if macos(params) else {}),
        **option_lines(params["global_options"]),
    }


def share_section(params: Params, share: Params, mount: str) -> Section:
    """Return the section of a share."""
    section = {"comment": share["comment"], "path": share["path"]}
    section["valid users"] = " ".join(share["valid_users"] or _everybody(params))
    section["read only"] = _value(share["read_only"])
    if share["write_list"]:
        section["write list"] = " ".join(share["write_list"])
    section["browseable"] = _value(share["browseable"])
    section["guest ok"] = "no"
    if share["encrypt"]:
        section["server smb encrypt"] = share["encrypt"]
    if share["group"]:
        section["force group"] = share["group"]
    if share["mode"]:
        mode = int(share["mode"], 8)
        section.update({"create mask": f"{mode & 0o666:04o}", "force create mode": f"{mode & 0o660:04o}"})
        section.update({"directory mask": f"{mode:04o}", "force directory mode": f"{mode & 0o2770:04o}"})
    if mount:
        # Without its disk the share is refused, when a client comes: smbd has the others, and this one as soon as it is mounted.
        section.update({"root preexec": f'{MOUNTPOINT} -q -- "{mount}"', "root preexec close": "yes"})
    if share["vfs_objects"]:
        section["vfs objects"] = " ".join(vfs_objects(params, share))
    if share["time_machine"]:
        section.update({"fruit:time machine": "yes", "fruit:time machine max size": share["max_size"]})
    section.update(option_lines(share["options"]))
    return {name: value for name, value in section.items() if value}


def vfs_objects(params: Params, share: Params) -> list[str]:
    own = [name for name in share["vfs_objects"] if not (macos(params) and name in MACOS_MODULES)]
    return [*own, *(MACOS_MODULES if macos(params) else ())]


def _everybody(params: Params) -> list[str]:
    return [user["name"] for user in params["users"] if user.get("state", "present") == "present"]


def text_of(name: str, section: Section) -> str:
    return f"[{name}]\n" + "".join(f"\t{key} = {value}\n" for key, value in section.items())


# --- What Samba says ---


def read_sections(text: str) -> dict[str, Section]:
    """Return the sections of a smb.conf that the role or testparm has written, with one parameter a line."""
    found: dict[str, Section] = {}
    section: Section = {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = found.setdefault(line[1:-1], {})
        elif "=" in line and not line.startswith(("#", ";")):
            key, _equals, value = line.partition("=")
            section[key.strip()] = value.strip()
    return found


def given_up(
    text: str,
    wanted: t.Collection[str],
    packaged: str = "",
    usershares: t.Mapping[str, str] | None = None,
) -> list[str]:
    """Return the shares of an smb.conf, and the files that it includes, which another one with *wanted* shares does not have.

    :param packaged: Debian's smb.conf, whose own shares nobody has declared.
    :param usershares: the files by which users share their own folders (``net usershare``, desktops), which any of them can write.
    """
    theirs, kept = _foreign_sections(packaged), {canonical(name) for name in wanted}
    found = [
        name
        for name, lines in _foreign_sections(text).items()
        if canonical(name) not in {"global", *kept} and lines != theirs.get(name)
    ]
    every = [line for lines in _foreign_sections(text).values() for line in lines]
    more = 0
    if not any(re.match(r"usershare max shares\s*=\s*0$", line, re.IGNORECASE) for line in every):
        names = [_usershare(name, content) for name, content in (usershares or {}).items()]
        taken = {*kept, *map(canonical, found)}
        theirs_now = sorted({clip(shown(name, _NAME + 1), _NAME) for name in names if canonical(name) not in taken})
        # Any member of sambashare writes them: they must not fill a report.
        found += theirs_now[:_SHARES]
        more = len(theirs_now) - _SHARES
    return sorted(found) + [f"{more} shares more of users"] * (more > 0) + sorted(filter(_hands_over, every))


def _hands_over(line: str) -> bool:
    """Return whether a line brings shares from elsewhere: other files, or the registry (smb.conf(5), "REGISTRY-BASED CONFIGURATION").

    Or users: those of a domain that the machine is a member or the controller of.
    """
    name, _equals, value = line.partition("=")
    value = value.strip().lower()
    if canonical(name) == canonical("registry shares"):
        return value in ("yes", "true", "1", "on")
    if canonical(name) == canonical("server role"):
        return value not in ("auto", "standalone server", "standalone")
    if canonical(name) == "security":
        return value in ("ads", "domain")
    return canonical(name) in {canonical(each) for each in ("include", "config backend", "config file")}


def _usershare(name: str, text: str) -> str:
    """Return the name of a user's share: older files have none, and are called like it."""
    named = re.search(r"^sharename=(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else name


def _foreign_sections(text: str) -> dict[str, list[str]]:
    """Return the lines of each section of an smb.conf that a person wrote, by the name as it is there."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    # A line that ends with a backslash goes on in the next one, also where that begins like a comment; a comment does not.
    without_comments = re.sub(r"^(?<!\\\n)[ \t]*[#;].*", "", text, flags=re.MULTILINE)
    for line in map(str.strip, re.sub(r"\\\n", " ", without_comments).splitlines()):
        header = re.match(r"\[([^]]*)\]", line)
        if header:
            lines = found.setdefault(header[1].strip(), [])
        elif line:
            lines.append(" ".join(line.split()))
    return found


def backend(text: str) -> str:
    """Return the database of users that an smb.conf names; empty for none."""
    return read_sections(text).get("global", {}).get("passdb backend", "")


def mounts_required(text: str) -> dict[str, str]:
    """Return where the shares of a smb.conf of the role need a disk to be mounted, by the path of the share."""
    found = {}
    for section in read_sections(text).values():
        required = PREEXEC.fullmatch(section.get("root preexec", ""))
        if required and "path" in section:
            found[section["path"]] = required[1]
    return found


# testparm(1) passes all of these with exit status 0.
_IGNORED = re.compile(
    r'Unknown parameter encountered: "(.+)"|Ignoring unknown parameter "(.+)"|Ignoring badly formed line[^:]*: (.+)'
    r"|Global parameter (.+) found in service section"
)


def unknown_parameters(output: str) -> list[str]:
    found = (next(filter(None, match.groups())) for match in _IGNORED.finditer(output))
    return list(dict.fromkeys(found))


# What must not come about in any way: parameter (as testparm writes it) and the value that is right.
_NEVER = {
    "guest ok": "no",
    "guest only": "no",
    "wide links": "no",
    "allow insecure wide links": "no",
    "map to guest": "never",
    "null passwords": "no",
    "admin users": "",
}


def open_settings(effective: t.Mapping[str, Section], is_root: t.Callable[[str], bool]) -> list[str]:
    """Return settings by which clients connect without a name or as root, or leave the share."""
    return [
        f"[{name}] {key} = {section[key]}"
        for name, section in effective.items()
        for key in section
        if section[key].lower() != _NEVER.get(key, section[key].lower())
        or (key == "force user" and any(map(is_root, _spellings(section[key].strip('"')))))
    ]


def _spellings(user: str) -> tuple[str, ...]:
    """Return the names by which Samba looks for a user."""
    return user, user.lower(), user.upper()
