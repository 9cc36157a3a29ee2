# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide who can log in by ssh, by the same rules as sshd and from the configuration that ``sshd -T`` prints.

The rules are those of OpenSSH's auth.c (``allowed_user``), auth2-pubkeyfile.c, misc.c (``safe_path``) and match.c, with the patch
user-group-modes of Debian and Ubuntu.
A rule that depends on something unknown, such as a pattern for the client's address, counts as no access.
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

# Shells that exit at once: sshd accepts the login and the session ends immediately.
NO_SHELLS = frozenset(("nologin", "false", "true", "sync"))

# The proleptic ordinal of 1970-01-01.
EPOCH = datetime.date(1970, 1, 1).toordinal()


class Account(t.NamedTuple):
    """A user of the host. ``expires`` is in days since 1970, None for never; ``password`` is the field of shadow(5)."""

    name: str
    uid: int
    home: str
    shell: str
    password: str
    expires: int | None
    groups: frozenset[str]


class HostReader(t.NamedTuple):
    """The functions that read the host to decide on a login; tests pass their own."""

    stat: t.Callable[[str], os.stat_result]
    read: t.Callable[[str], str]
    today: int
    members: t.Callable[[int], t.AbstractSet[str]]


class Access(t.NamedTuple):
    """The ways in which a user can log in. ``refusal``: why there is none. ``problems``: why sshd would not accept some keys."""

    key: bool = False
    password: bool = False
    refusal: str | None = None
    problems: tuple[str, ...] = ()


def parse_shadow(text: str) -> dict[str, tuple[str, int | None]]:
    """Parse shadow(5): the password field and the day of expiry of each user."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 8:
            found[fields[0]] = (fields[1], int(fields[7]) if fields[7].isdigit() else None)
    return found


def matches_any(names: t.Iterable[str], patterns: t.Sequence[str]) -> bool:
    """Return whether one of the names matches the patterns; a pattern with ``!`` that matches rejects all of them."""
    names = list(names)
    if any(pattern.startswith("!") and any(matches(name, pattern[1:]) for name in names) for pattern in patterns):
        return False
    return any(matches(name, pattern) for name in names for pattern in patterns)


def _user_patterns(patterns: t.Sequence[str], client: str | None, *, careful: bool) -> list[str]:
    """Return the patterns for user names. Of the form USER@HOST, those count whose host has the client.

    Where the client is not known, they deny, and they allow nobody.
    """
    found = []
    for pattern in patterns:
        user, at, place = pattern.rpartition("@")
        if not at:
            found.append(pattern)
        elif place == "*" or (matches_address([place], client) if client else not careful):
            found.append(user)
    return found


def refusal(account: Account, config: Config, host: HostReader, client: str | None = None) -> str | None:
    """Return why sshd, or the session, refuses a user with any credentials; None when it does not."""
    if not _is_program(account.shell or "/bin/sh", host) or os.path.basename(account.shell) in NO_SHELLS:
        return f"the shell {account.shell} ends at once or is not a program"
    if account.expires is not None and account.expires <= host.today:
        return "the account has expired"
    if config["usepam"] != "yes" and account.password.startswith("!"):
        return "the account is locked"
    if matches_any([account.name], _user_patterns(config.get("denyusers", []), client, careful=False)):
        return "DenyUsers names the user"
    if matches_any(account.groups, config.get("denygroups", [])):
        return "DenyGroups names a group of the user"
    allowed = _user_patterns(config.get("allowusers") or [], client, careful=True)
    if config.get("allowusers") and not matches_any([account.name], allowed):
        return "AllowUsers does not name the user"
    if config.get("allowgroups") and not matches_any(account.groups, config["allowgroups"]):
        return "AllowGroups names no group of the user"
    return None


def access(
    account: Account, config: Config, host: HostReader, managed: t.Sequence[str] = (), client: str | None = None
) -> Access:
    """Determine how a user can log in.

    :param config: what ``sshd -T`` prints, or would print.
    :param managed: keys in the file that the role writes.
    :param client: the address from which the user is logged in now, None when there is no such login.
    """
    problem = refusal(account, config, host, client)
    if problem:
        return Access(refusal=problem)
    root_login = config["permitrootlogin"] if account.uid == 0 else "yes"
    problems: list[str] = []
    keys = 0
    if config["pubkeyauthentication"] == "yes" and root_login in ("yes", "prohibit-password", "without-password"):
        lines = [("the role's keys", line) for line in managed]
        for path in key_files(account, config["authorizedkeysfile"]):
            lines += _read_keys(path, account, config, host, problems)
        for source, line in lines:
            problem = key_problem(line, config, host.today) or _not_from_everywhere(line, client)
            if problem:
                problems.append(f"{source}: {problem}")
            else:
                keys += 1
    return Access(keys > 0, root_login == "yes" and has_password(account), None, tuple(problems))


def has_password(account: Account) -> bool:
    """Return whether the account has a usable password: a hash, not the marks for none (``*``) or a lock (``!``)."""
    return account.password.startswith(("$", "_")) or re.fullmatch(r"[./0-9A-Za-z]{13}", account.password) is not None


def key_files(account: Account, setting: str) -> list[str]:
    """Return the files of AuthorizedKeysFile for a user (sshd_config(5), TOKENS)."""
    tokens = {"%%": "%", "%h": account.home, "%u": account.name, "%U": str(account.uid)}
    paths = [
        re.sub("%.", lambda found: tokens.get(found.group(), found.group()), word)
        for word in setting.split()
        if word != "none"
    ]
    return [os.path.join(account.home, path) for path in paths]


def _read_keys(
    path: str, account: Account, config: Config, host: HostReader, problems: list[str]
) -> list[tuple[str, str]]:
    try:
        if config["strictmodes"] == "yes":
            problem = path_problem(path, account, host)
            if problem:
                problems.append(f"{path}: {problem}")
                return []
        text = host.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        # For example a home on NFS that root cannot enter, or a loop of links.
        problems.append(f"{path}: {error.strerror or error}")
        return []
    lines = (line.strip() for line in text.splitlines())
    return [(path, line) for line in lines if line and not line.startswith("#")]


def path_problem(path: str, account: Account, host: HostReader) -> str | None:
    """Return why StrictModes refuses a file of keys (misc.c): others can write to it or to a directory between it and the home.

    A group whose only member is the user is allowed to write.

    :raises OSError: the file does not exist or cannot be read.
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
    """Return why nobody can log in with a line of an authorized_keys file; None when somebody can.

    :param today: days since 1970.
    """
    options, kind, encoded = split_key(line)
    if kind is None or encoded is None:
        return "not a public key"
    given = _options(options)
    forced = [name for name in ("cert-authority", "command") if name in given]
    if forced:
        return f"the option {forced[0]} makes it unusable for a login"
    expiry = re.match(r"(\d{4})(\d\d)(\d\d)", given.get("expiry-time", ""))
    try:
        if expiry and datetime.date(*map(int, expiry.groups())) <= datetime.date.fromordinal(EPOCH + today):
            return "its expiry-time has passed"
    except ValueError:
        return "its expiry-time is not a date"
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
    # OpenSSH has the option since 9.1; before, 1024 was built in.
    if bits is not None and bits < int(config.get("requiredrsasize", 1024)):
        return f"an RSA key of {bits} bits is shorter than RequiredRSASize"
    return None


def _not_from_everywhere(line: str, client: str | None) -> str | None:
    """Return why a key with the option ``from`` may not work: it is limited to addresses, and the user is not known to have one."""
    options, _kind, _data = split_key(line)
    networks = _options(options).get("from")
    if networks is None or (client and matches_address([pattern.strip() for pattern in networks.split(",")], client)):
        return None
    return "its option from may exclude the user's address"


def matches_address(patterns: t.Sequence[str], address: str) -> bool:
    """Return whether the patterns of ``from=`` match an address; host names match none (``UseDNS no``)."""

    def resolve(pattern: str) -> str:
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(address) in ipaddress.ip_network(pattern.lstrip("!"), strict=False):
                return pattern[: pattern.startswith("!")] + address
        return pattern

    return matches_any([address], [resolve(pattern) for pattern in patterns])


def split_key(line: str) -> tuple[str, str | None, str | None]:
    """Split a line of authorized_keys (sshd(8)) into options, type and data; options may hold spaces between double quotes."""
    kind = r"(?P<kind>(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)"
    found = re.match(
        rf"(?:(?P<options>(?:\"(?:\\\"|[^\"])*\"|[^\"\s])+)\s+)?{kind}\s+(?P<data>[A-Za-z0-9+/]+=*)(?:\s|$)", line
    )
    return (found["options"] or "", found["kind"], found["data"]) if found else ("", None, None)


def _options(options: str) -> dict[str, str]:
    """Return the options of a key by their names in small letters, without the quotes of their values."""
    entries = re.findall(r'(?:"(?:\\"|[^"])*"|[^",])+', options)
    return {name.lower(): value[1:-1] for name, _equals, value in (word.partition("=") for word in entries)}


def _fields(blob: bytes) -> list[bytes]:
    """Split a public key into its strings (RFC 4251, section 5).

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


def _is_program(path: str, host: HostReader) -> bool:
    try:
        mode = host.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def grants_root(listing: str, *, password: bool) -> bool:
    """Return whether the output of ``sudo -l -U USER`` (in the C locale) allows every command as root.

    :param password: whether the user has a password. Without one, only a rule that asks for none counts.
    """
    found = re.findall(
        r"^\s+\(([^):]*)[^)]*\)\s+((?:(?:[A-Z_]+:|(?:ROLE|TYPE|CWD)=\S+|APPARMOR_PROFILE=unconfined)\s*)*)ALL\s*$",
        listing,
        re.MULTILINE,
    )
    rules = [tags for users, tags in found if _includes_root(users)]
    # sudoers(5): with these options sudo asks for no password, or for the password of another user.
    options = set(re.findall(r"!?\b[a-z]+", listing.partition("may run the following")[0]))
    answered = password and not options & {"rootpw", "runaspw", "targetpw"}
    needs_password = {"NOPASSWD": False, "PASSWD": True}
    default = "!authenticate" not in options
    tags = (re.findall("([A-Z_]+):", rule) for rule in rules)
    return any(
        answered or not next((needs_password[tag] for tag in found if tag in needs_password), default) for found in tags
    )


def _includes_root(users: str) -> bool:
    """Return whether a list of users of sudoers(5) includes root: the last one that is about root counts."""
    about = [user for user in map(str.strip, users.split(",")) if user.lstrip("!") in ("ALL", "root", "#0")]
    return bool(about) and not about[-1].startswith("!")


def listen_port(value: str) -> int | None:
    """Return the port in a socket unit's Listen, such as ``[::]:22 (Stream)``; None for a path."""
    found = re.match(r"(?:\S*:)?(\d+) \(Stream\)", value)
    return int(found.group(1)) if found else None


class Login(t.NamedTuple):
    """The ssh connection that started this process: the user id of its login, and both ends."""

    uid: int
    client: str
    address: str
    port: int


def connection(environments: t.Iterable[tuple[int, t.Mapping[str, str]]]) -> Login | None:
    """Find the ssh connection that started this process, in its ancestors' user ids and environments, nearest first.

    The farthest ancestor is the login itself; nearer ones may run under sudo as another user.
    """
    found = None
    for uid, environment in environments:
        fields = environment.get("SSH_CONNECTION", "").split()
        if len(fields) == 4:
            found = Login(uid, fields[0], fields[2], int(fields[3]))
    return found
