# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""sshd's configuration files, and the lines in them that override what the role asks for.

``sshd -T`` gives the effective settings. The files are read for three reasons: to copy them for a trial, to find the connections
that may differ (``Match``), and to name the line that causes a setting. The rules are those of servconf.c and sshd_config(5).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import ipaddress
import itertools
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

CONFIG_DIRECTORY = "/etc/ssh"
MAIN_CONFIG = f"{CONFIG_DIRECTORY}/sshd_config"
INCLUDE = f"Include {CONFIG_DIRECTORY}/sshd_config.d/*.conf"
DROP_IN = f"{CONFIG_DIRECTORY}/sshd_config.d/00-rigwright.conf"
INCLUDE_NOTE = "# Added by rigwright.workstation, role ssh: what stands in the directory wins over this file."  # kept: hosts have this line
# SERVCONF_MAX_DEPTH of servconf.c: sshd refuses deeper nested includes.
INCLUDE_DEPTH = 16

# Keywords of which `sshd -T` prints a line each time they are given; all others have one value.
REPEATED = frozenset(
    (
        "acceptenv",
        "allowgroups",
        "allowusers",
        "denygroups",
        "denyusers",
        "hostkey",
        "listenaddress",
        "port",
        "setenv",
        "subsystem",
    )
)

# What `sshd -T` prints: a text for each keyword, a list for those of REPEATED.
Config = JsonObject

# The defaults where sshd is not installed yet (sshd_config(5), and UsePAM of Debian's file).
DEFAULTS: Config = {
    "authorizedkeysfile": ".ssh/authorized_keys .ssh/authorized_keys2",
    "passwordauthentication": "yes",
    "kbdinteractiveauthentication": "no",
    "permitrootlogin": "prohibit-password",
    "pubkeyacceptedalgorithms": ",".join(
        (
            "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521",
            "sk-ssh-ed25519@openssh.com,sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256",
        )
    ),
    "pubkeyauthentication": "yes",
    "requiredrsasize": "1024",
    "strictmodes": "yes",
    "usepam": "yes",
}

# Other spellings of a keyword (the table `keywords` of servconf.c).
ALIASES = {"challengeresponseauthentication": "kbdinteractiveauthentication"}

# A Match block is allowed to set these: they let nobody in who could not log in otherwise.
HARMLESS = frozenset(("clientalivecountmax", "clientaliveinterval", "loglevel", "maxauthtries"))
# For these, `no` is always at least as strict as any other value.
SWITCHES = frozenset(
    (
        "allowagentforwarding",
        "allowtcpforwarding",
        "kbdinteractiveauthentication",
        "passwordauthentication",
        "permitemptypasswords",
        "permitrootlogin",
        "x11forwarding",
    )
)

# An unknown client on the internet. No rule names it: the name is reserved (RFC 2606), the address is for documentation (RFC 5737).
UNKNOWN_CLIENT = {"host": "unknown.example", "address": "203.0.113.1"}
LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"

# A connection by the criteria of Match: user, host, address, localaddress, localport. None: one that no Match block fits.
Connection = t.Optional[t.Mapping[str, str]]


class Line(t.NamedTuple):
    """A setting in the files of sshd. ``match`` holds the criteria of the Match block around it, and is empty outside of one."""

    path: str
    number: int
    keyword: str
    value: str
    match: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.number}" + (f" below `Match {self.match}`" if self.match else "")


def listed(lines: t.Iterable[Line]) -> str:
    """Return the values of lines, each with its place."""
    return ", ".join(f"{line.value} ({line})" for line in lines)


@dataclasses.dataclass(frozen=True)
class Override:
    """A setting with other values than requested. ``connections``: the ones with these values. ``lines``: the possible causes.

    ``untried``: the values are read from a Match block, since no connection was found that the block is for.
    """

    keyword: str
    wanted: frozenset[str]
    found: frozenset[str]
    connections: tuple[t.Mapping[str, str], ...]
    lines: tuple[Line, ...]
    untried: bool = False

    def __str__(self) -> str:
        values = ", ".join(sorted(self.found)) or "nothing"
        who = sorted({f"{connection['user']} from {connection['address']}" for connection in self.connections})
        whom = f" for {', '.join(who[:3])}{' and others' if len(who) > 3 else ''}" if who else ""
        where = " (" + "; ".join(str(line) for line in self.lines) + ")" if self.lines else ""
        if self.untried:
            whom = " for those whom the block is for (no user of this host and no address of the block reaches it now)"
        return f"{self.keyword} is {values}{whom} and not {', '.join(sorted(self.wanted))}{where}"


def parse_config(text: str) -> Config:
    """Parse the output of ``sshd -T``, or lines like it: a string for each keyword, a list for those that can be repeated."""
    config: Config = {keyword: [] for keyword in REPEATED}
    for line in text.splitlines():
        word, _space, value = line.partition(" ")
        keyword = word.lower()
        if keyword in REPEATED:
            config[keyword].append(value)
        elif keyword:
            config[keyword] = value
    return config


def ensure_include(text: str) -> str:
    """Return the main file with the role's drop-in included before any other keyword; sshd uses the first value.

    A later Include of the directory stays where it is. The whole directory is not included in front of it as well: sshd refuses a
    ``Subsystem`` that it reads twice, and other drop-ins would win over lines that win over them now.
    """
    # Earlier versions of the role wrote the whole directory.
    text = text.removeprefix(f"{INCLUDE_NOTE}\n{INCLUDE}\n\n")
    settings = [setting for setting in map(split_setting, text.splitlines()) if setting[0]]
    reached = [number for number, setting in enumerate(settings) if _includes_drop_in(*setting)]
    if reached[:1] == [0]:
        return text
    return f"{INCLUDE_NOTE}\n{f'Include {DROP_IN}' if reached else INCLUDE}\n\n{text}"


def _includes_drop_in(keyword: str, value: str) -> bool:
    patterns = [os.path.join(CONFIG_DIRECTORY, word) for word in split_values(value) if keyword == "include"]
    return any(fnmatch.fnmatchcase(DROP_IN, each) and each.count("/") == DROP_IN.count("/") for each in patterns)


def read_lines(
    path: str, read: t.Callable[[str], str], expand: t.Callable[[str], t.Iterable[str]], match: str = "", depth: int = 0
) -> t.Iterator[Line]:
    """Yield the settings of a file and of the files that it includes, in the order in which sshd reads them.

    :param expand: returns the files that match a pattern, as glob(7) does.
    """
    outside = match
    for number, text in enumerate(read(path).splitlines(), 1):
        keyword, value = split_setting(text)
        if not keyword:
            continue
        if keyword == "match":
            # A Match block ends with its file. In an included file it applies within the block around the Include.
            match = f"{outside} {value}".strip()
        yield Line(path, number, keyword, value, match)
        if keyword == "include" and depth < INCLUDE_DEPTH:
            for pattern in split_values(value):
                for file in sorted(expand(os.path.join(CONFIG_DIRECTORY, pattern))):
                    yield from read_lines(file, read, expand, match, depth + 1)


def split_setting(text: str) -> tuple[str, str]:
    """Split a line into keyword (in lower case, aliases resolved) and value; both are empty when the line has no setting."""
    found = re.match(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*(?:\s#.*)?$", text)
    if found is None:
        return "", ""
    keyword = found[1].lower()
    return ALIASES.get(keyword, keyword), found[2]


def split_values(value: str) -> list[str]:
    """Split a value at spaces; what is between double quotes is one word."""
    return [word.replace('"', "") for word in re.findall(r'(?:"[^"]*"|[^\s"])+', value)]


def reroot(text: str, root: str) -> str:
    """Return a configuration file whose includes point to copies below another root."""

    def moved(line: str) -> str:
        keyword, value = split_setting(line)
        if keyword != "include":
            return line
        paths = [root + os.path.join(CONFIG_DIRECTORY, pattern) for pattern in split_values(value)]
        return "Include " + " ".join(f'"{word}"' if " " in word else word for word in paths)

    return "".join(f"{moved(line)}\n" for line in text.splitlines())


def conditions(match: str) -> list[tuple[str, list[str]]]:
    """Return the criteria of a Match line and the patterns of each; ``all`` and other words that take no patterns have none."""
    found: list[tuple[str, list[str]]] = []
    parts = iter(split_values(match))
    for word in parts:
        name, _equals, value = word.partition("=")
        if name.lower() in ("all", "canonical", "final", "invalid-user"):
            found.append((name.lower(), []))
        else:
            value = next((each for each in itertools.chain((value,), parts) if each not in ("", "=")), "")
            found.append((name.lower(), value.lstrip("=").split(",")))
    return found


def criteria(lines: t.Iterable[Line]) -> dict[str, list[str]]:
    """Return the patterns of the Match lines by criterion, such as ``{"user": ["alice", "b*"]}``."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for name, patterns in conditions(line.value) if line.keyword == "match" else ():
            if patterns:
                found.setdefault(name, []).extend(patterns)
    return found


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern of sshd, in which only ``*`` and ``?`` are special (match.c)."""
    expression = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(expression, name) is not None


def representatives(users: t.Mapping[str, t.Collection[str]], patterns: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return one user of each set that no Match block distinguishes: sshd runs for every user and address, and hosts have many users.

    :param users: the groups of each user.
    :param patterns: the patterns by criterion.
    """
    found: dict[tuple[bool, ...], str] = {}
    for user, groups in users.items():
        names = {"user": [user], "group": groups}
        fits = (
            any(matches(name, pattern.lstrip("!")) for name in names[criterion])
            for criterion in names
            for pattern in patterns.get(criterion, [])
        )
        found.setdefault(tuple(fits), user)
    return list(found.values())


def connections(lines: t.Sequence[Line], users: t.Mapping[str, t.Collection[str]]) -> list[Connection]:
    """Return the connections for which sshd evaluates its configuration.

    These are one that matches no block, and one user of each kind from an unknown address, from this host, and from each address
    in a Match block.

    :param users: the groups of each user.
    """
    matched = criteria(lines)
    if not any(line.keyword == "match" for line in lines):
        return [None]
    named: dict[str, list[str]] = {}
    for line in lines:
        for name, patterns in conditions(line.value) if line.keyword == "match" else ():
            named.setdefault(name, []).extend(sample(name, pattern, patterns) for pattern in patterns)

    def of(name: str, *usual: str) -> list[str]:
        return list(dict.fromkeys([*usual, *filter(None, named.get(name, []))]))

    values = {
        "user": of("user", *(representatives(users, matched) or ["root"])),
        "host": of("host", UNKNOWN_CLIENT["host"]),
        "address": of("address", UNKNOWN_CLIENT["address"], LOOPBACK),
        "localaddress": of("localaddress", LOOPBACK),
        "localport": of("localport", "22"),
    }
    return [None, *(dict(zip(values, chosen)) for chosen in itertools.product(*values.values()))]


def sample(name: str, pattern: str, patterns: t.Sequence[str] = ()) -> str:
    """Return a value that matches a pattern of Match; empty for a pattern that only excludes.

    :param patterns: all patterns of the criterion: the value is in no network that they exclude.
    """
    if pattern.startswith("!"):
        return ""
    if name.endswith("address") and "/" in pattern:
        try:
            network = ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return ""
        excluded = []
        for each in patterns:
            # One address is a network as well. A pattern such as `!10.*` is none.
            with contextlib.suppress(ValueError):
                excluded += [ipaddress.ip_network(each[1:], strict=False)] if each.startswith("!") else []
        # Where any address is left, one of these is: the first of the network, or one that follows an excluded part.
        firsts = [network[min(1, network.num_addresses - 1)], network[0]]
        firsts += [part[-1] + 1 for part in excluded if int(part[-1]) + 1 < 1 << part.max_prefixlen]
        free = (each for each in firsts if each in network and not any(each in part for part in excluded))
        return str(next(free, ""))
    return pattern.replace("*", "1").replace("?", "1")


def specification(connection: Connection) -> str:
    """Format a connection for ``sshd -C``."""
    if connection is None:
        # No block matches criteria that are left out. sshd exits when a block needs a missing port, so name one that no sshd has.
        return "lport=1"
    names = {"user": "user", "host": "host", "addr": "address", "laddr": "localaddress", "lport": "localport"}
    return ",".join(f"{short}={connection[name]}" for short, name in names.items())


def expected(settings: t.Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the values of each setting, in lower case and as ``sshd -T`` spells them."""
    found: dict[str, frozenset[str]] = {}
    for setting in settings:
        keyword, value = split_setting(setting)
        value = value.lower().replace("prohibit-password", "without-password")
        found[keyword] = found.get(keyword, frozenset()) | {value}
    return found


def endpoints(addresses: t.Iterable[str], ports: t.Iterable[int]) -> frozenset[str]:
    """Format addresses and ports as ``sshd -T`` prints them under ``listenaddress``.

    :raises ValueError: something is not an IP address.
    """
    found = [ipaddress.ip_address(address) for address in addresses]
    hosts = [f"[{address}]" if address.version == 6 else str(address) for address in found]
    return frozenset(f"{host}:{port}" for host in hosts for port in ports)


def local_address(config: Config) -> str:
    """Return an address of this host at which sshd answers, preferably IPv4."""
    hosts = [endpoint.rpartition(":")[0].strip("[]") for endpoint in config.get("listenaddress", [])]
    host = min(hosts or ["0.0.0.0"], key=lambda address: ":" in address)  # noqa: S104 - an address that sshd listens on
    return {"0.0.0.0": LOOPBACK, "::": LOOPBACK_6}.get(host, host)  # noqa: S104


def overrides(
    wanted: t.Mapping[str, frozenset[str]], effective: t.Sequence[tuple[Connection, Config]], lines: t.Sequence[Line]
) -> list[Override]:
    """Find settings that have other values than wanted for one of the connections.

    Settings that accumulate (ports, groups) must be exactly those wanted. A Match block is allowed to be stricter, never looser.
    """
    found: dict[tuple[str, frozenset[str]], list[Connection]] = {}
    for connection, config in effective:
        for keyword, values in wanted.items():
            value = config.get(keyword, [])
            now = frozenset(entry.lower() for entry in (value if isinstance(value, list) else [value]))
            if now != values and not (connection is not None and is_harmless(keyword, values, now)):
                found.setdefault((keyword, now), []).append(connection)
    return [
        # A setting of every connection needs no list of connections.
        Override(
            keyword, wanted[keyword], now, () if None in affected else tuple(filter(None, affected)), tuple(causes)
        )
        for (keyword, now), affected in found.items()
        for causes in [_causes(keyword, wanted[keyword], lines, everybody=None in affected)]
    ]


def _causes(keyword: str, wanted: frozenset[str], lines: t.Sequence[Line], *, everybody: bool) -> list[Line]:
    """Return the lines with other values. Outside of Match only the first one counts, unless the values accumulate."""
    keywords = ("port", keyword) if keyword == "listenaddress" else (keyword,)
    others = [
        line
        for line in lines
        if line.keyword in keywords
        and (line.match in ("", "all") if everybody else line.match != "")
        and not all(
            includes(value, wanted)
            for value in (split_values(line.value) if keyword in REPEATED else [" ".join(split_values(line.value))])
        )
    ]
    return others[:1] if everybody and keyword not in REPEATED else others


def includes(value: str, wanted: frozenset[str]) -> bool:
    """Return whether a value is one of those wanted; for an endpoint, its address or its port is enough."""
    value = value.lower().replace("prohibit-password", "without-password")
    return any(value in (entry, *entry.rsplit(":", 1), entry.rsplit(":", 1)[0].strip("[]")) for entry in wanted)


def is_harmless(keyword: str, wanted: frozenset[str], now: frozenset[str]) -> bool:
    """Return whether a Match block is allowed to set these values."""
    return keyword in HARMLESS or (keyword in SWITCHES and (now == {"no"} or wanted == {"yes"}))
