# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Who can log in by ssh, decided as sshd decides it, from what sshd itself says its configuration is.

The rules are those of OpenSSH's auth.c (``allowed_user``), auth2-pubkeyfile.c, misc.c (``safe_path``) and match.c, with the patch
user-group-modes of Debian and Ubuntu.
Where they cannot be known beforehand (a pattern for the client's address) the answer is the careful one: no access.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import ipaddress
import os
import re
import stat
import struct
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import Config, matches

# Shells that end at once: sshd lets the user in, and the session is over.
NO_SHELLS = frozenset(("nologin", "false", "true", "sync"))

# 1970-01-01 in the count of datetime.
EPOCH = datetime.date(1970, 1, 1).toordinal()


class Account(t.NamedTuple):
    """A user of the host. ``expires`` counts days since 1970, None for never; ``password`` is the field of shadow(5)."""

    name: str
    uid: int
    home: str
    shell: str
    password: str
    expires: int | None
    groups: frozenset[str]


class Host(t.NamedTuple):
    """What must be read from the host to decide on a login, so that tests can hand in their own."""

    stat: t.Callable[[str], os.stat_result]
    read: t.Callable[[str], str]
    today: int
    members: t.Callable[[int], t.AbstractSet[str]]


class Access(t.NamedTuple):
    """How a user gets in; ``refusal`` says why not at all, ``problems`` what is wrong with keys that sshd would not accept."""

    key: bool = False
    password: bool = False
    refusal: str | None = None
    problems: tuple[str, ...] = ()


def parse_shadow(text: str) -> dict[str, tuple[str, int | None]]:
    """Read shadow(5): for each user the password field and the day on which the account ends."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 8:
            found[fields[0]] = (fields[1], int(fields[7]) if fields[7].isdigit() else None)
    return found


def matches_any(names: t.Iterable[str], patterns: t.Sequence[str]) -> bool:
    """Whether one of the names fits the patterns; a pattern that begins with ``!`` and fits says no to all."""
    names = list(names)
    if any(pattern.startswith("!") and any(matches(name, pattern[1:]) for name in names) for pattern in patterns):
        return False
    return any(matches(name, pattern) for name in names for pattern in patterns)


def _user_patterns(patterns: t.Sequence[str], *, careful: bool) -> list[str]:
    """The patterns for user names. Those of the form USER@HOST depend on the client: they deny, and they allow nobody."""
    return [
        pattern.split("@")[0] for pattern in patterns if "@" not in pattern or not careful or pattern.endswith("@*")
    ]


def refusal(account: Account, config: Config, host: Host) -> str | None:
    """Why sshd, or the session behind it, refuses a user whatever his credentials; None when it does not."""
    if not _is_program(account.shell or "/bin/sh", host) or os.path.basename(account.shell) in NO_SHELLS:
        return f"the shell {account.shell} ends at once or is not a program"
    if account.expires is not None and account.expires <= host.today:
        return "the account has expired"
    if config["usepam"] != "yes" and account.password.startswith("!"):
        return "the account is locked"
    if matches_any([account.name], _user_patterns(config.get("denyusers", []), careful=False)):
        return "DenyUsers names the user"
    if matches_any(account.groups, config.get("denygroups", [])):
        return "DenyGroups names a group of the user"
    if config.get("allowusers") and not matches_any([account.name], _user_patterns(config["allowusers"], careful=True)):
        return "AllowUsers does not name the user"
    if config.get("allowgroups") and not matches_any(account.groups, config["allowgroups"]):
        return "AllowGroups names no group of the user"
    return None


def access(
    account: Account, config: Config, host: Host, managed: t.Sequence[str] = (), client: str | None = None
) -> Access:
    """Which ways into the host a user has.

    :param config: what ``sshd -T`` says, or would say.
    :param managed: keys that lie, or will lie, in a file that belongs to root.
    :param client: the address from which the user is logged in now, None when he is not.
    """
    problem = refusal(account, config, host)
    if problem:
        return Access(refusal=problem)
    root_login = config["permitrootlogin"] if account.uid == 0 else "yes"
    problems: list[str] = []
    keys = 0
    if config["pubkeyauthentication"] == "yes" and root_login in ("yes", "prohibit-password", "without-password"):
        lines = [("the keys of the role", line) for line in managed]
        for path in key_files(account, config["authorizedkeysfile"]):
            lines += _read_keys(path, account, config, host, problems)
        for source, line in lines:
            fault = key_problem(line, config, host.today) or _not_from_everywhere(line, client)
            if fault:
                problems.append(f"{source}: {fault}")
            else:
                keys += 1
    return Access(keys > 0, root_login == "yes" and has_password(account), None, tuple(problems))


def has_password(account: Account) -> bool:
    """Whether a password exists that fits: a hash, not the marks for none (``*``) or a lock (``!``)."""
    return account.password.startswith(("$", "_")) or re.fullmatch(r"[./0-9A-Za-z]{13}", account.password) is not None


def key_files(account: Account, setting: str) -> list[str]:
    """The files of AuthorizedKeysFile for a user (sshd_config(5), TOKENS)."""
    tokens = {"%%": "%", "%h": account.home, "%u": account.name, "%U": str(account.uid)}
    paths = [
        re.sub("%.", lambda found: tokens.get(found.group(), found.group()), word)
        for word in setting.split()
        if word != "none"
    ]
    return [os.path.join(account.home, path) for path in paths]


def _read_keys(path: str, account: Account, config: Config, host: Host, problems: list[str]) -> list[tuple[str, str]]:
    try:
        if config["strictmodes"] == "yes":
            fault = path_problem(path, account, host)
            if fault:
                problems.append(f"{path}: {fault}")
                return []
        text = host.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        # A home on NFS that root may not enter, links that lead in a circle.
        problems.append(f"{path}: {error.strerror or error}")
        return []
    lines = (line.strip() for line in text.splitlines())
    return [(path, line) for line in lines if line and not line.startswith("#")]


def path_problem(path: str, account: Account, host: Host) -> str | None:
    """Why StrictModes refuses a file of keys: it, or a directory above it up to the home, is writable by others (misc.c).

    A group in which the user is alone, and is, may write.

    :raises OSError: there is no such file, or it cannot be looked at.
    """
    home = os.path.realpath(account.home)
    path = os.path.realpath(path)
    if not stat.S_ISREG(host.stat(path).st_mode):
        return "is not a regular file"
    while True:
        found = host.stat(path)
        if found.st_uid not in (0, account.uid):
            return f"{path} belongs to user id {found.st_uid}: StrictModes wants {account.name} or root"
        if found.st_mode & 0o002 or (found.st_mode & 0o020 and host.members(found.st_gid) != {account.name}):
            return f"{path} is writable by others: StrictModes refuses it"
        if path in (home, "/"):
            return None
        path = os.path.dirname(path)


def key_problem(line: str, config: Config, today: int) -> str | None:
    """Why a line of an authorized_keys file is no key with which a person can log in; None when it is one.

    :param today: days since 1970.
    """
    options, kind, encoded = split_key(line)
    if kind is None or encoded is None:
        return "not a public key"
    forced = [
        name for name in ("cert-authority", "command") if re.search(rf"(^|,){name}(=|,|$)", options, re.IGNORECASE)
    ]
    if forced:
        return f"the option {forced[0]} makes it no key for a login"
    expiry = re.search(r'(?:^|,)expiry-time="(\d{4})(\d\d)(\d\d)', options, re.IGNORECASE)
    try:
        if expiry and datetime.date(*map(int, expiry.groups())) <= datetime.date.fromordinal(EPOCH + today):
            return "its expiry-time is over"
    except ValueError:
        return "its expiry-time is no date"
    try:
        fields = _fields(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return "damaged: its data is not that of a public key"
    if len(fields) < 2 or fields[0] != kind.encode():
        return f"damaged: its data is not that of a {kind} key"
    accepted = config["pubkeyacceptedalgorithms"].split(",")
    names = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa") if kind == "ssh-rsa" else (kind, f"webauthn-{kind}")
    if not any(name in accepted for name in names):
        return f"sshd accepts no key of type {kind}"
    bits = int.from_bytes(fields[2], "big").bit_length() if kind == "ssh-rsa" and len(fields) == 3 else None
    # OpenSSH has the option from 9.1 on, and 1024 built in before.
    if bits is not None and bits < int(config.get("requiredrsasize", 1024)):
        return f"an RSA key of {bits} bits is shorter than RequiredRSASize"
    return None


def _not_from_everywhere(line: str, client: str | None) -> str | None:
    """Why it is not known that a key opens the door: it does from some places, and the user is not known to come from one."""
    options, _kind, _data = split_key(line)
    found = re.search(r'(?:^|,)from="([^"]*)"', options, re.IGNORECASE)
    if found is None or (client and lets_in([one.strip() for one in found[1].split(",")], client)):
        return None
    return "the option from leaves open whether it opens the door"


def lets_in(patterns: t.Sequence[str], address: str) -> bool:
    """Whether the patterns of ``from=`` fit an address; names of hosts fit none (``UseDNS no``)."""

    def spelt(pattern: str) -> str:
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(address) in ipaddress.ip_network(pattern.lstrip("!"), strict=False):
                return pattern[: pattern.startswith("!")] + address
        return pattern

    return matches_any([address], [spelt(pattern) for pattern in patterns])


def split_key(line: str) -> tuple[str, str | None, str | None]:
    """Options, type and data of a line of authorized_keys (sshd(8)); options may hold spaces between double quotes."""
    kind = r"(?P<kind>(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)"
    found = re.match(
        rf"(?:(?P<options>(?:\"(?:\\\"|[^\"])*\"|[^\"\s])+)\s+)?{kind}\s+(?P<data>[A-Za-z0-9+/]+=*)(?:\s|$)", line
    )
    return (found["options"] or "", found["kind"], found["data"]) if found else ("", None, None)


def _fields(blob: bytes) -> list[bytes]:
    """The strings of RFC 4251, section 5, that a public key is made of.

    :raises ValueError: the lengths do not fit.
    """
    fields = []
    while blob:
        if len(blob) < 4:
            raise ValueError("a length is cut off")
        (length,) = struct.unpack(">I", blob[:4])
        if len(blob) < 4 + length:
            raise ValueError("a field is cut off")
        fields.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    return fields


def _is_program(path: str, host: Host) -> bool:
    try:
        mode = host.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def grants_root(listing: str, *, password: bool) -> bool:
    """Whether the output of ``sudo -l -U USER`` (in the C locale) allows every command as root.

    :param password: whether the user has a password. Without one, only a rule that asks for none counts.
    """
    rules = re.findall(r"^\s+\((?:ALL|root)(?:\s*:\s*[^)]*)?\)\s+((?:[A-Z_]+:\s*)*)ALL\s*$", listing, re.MULTILINE)
    # sudoers(5): with these options sudo asks for no password, or for that of another user.
    options = set(re.findall(r"!?\b[a-z]+", listing.partition("may run the following")[0]))
    answered = password and not options & {"rootpw", "runaspw", "targetpw"}
    asked = {"NOPASSWD": False, "PASSWD": True}
    default = "!authenticate" not in options
    tags = (re.findall("[A-Z_]+", rule) for rule in rules)
    return any(answered or not next((asked[tag] for tag in found if tag in asked), default) for found in tags)


def listen_port(value: str) -> int | None:
    """The port of a value of a socket unit's Listen, such as ``[::]:22 (Stream)``; None for a path."""
    found = re.match(r"(?:\S*:)?(\d+) \(Stream\)", value)
    return int(found.group(1)) if found else None


def connection(environments: t.Iterable[tuple[int, t.Mapping[str, str]]]) -> dict[str, t.Any] | None:
    """The ssh connection by which this process was started, from its ancestors' user ids and environments, nearest first.

    The ancestor farthest away is the login itself: those nearer may run under sudo, as another user.
    """
    found = None
    for uid, environment in environments:
        words = environment.get("SSH_CONNECTION", "").split()
        if len(words) == 4:
            found = {"uid": uid, "client": words[0], "address": words[2], "port": int(words[3])}
    return found
