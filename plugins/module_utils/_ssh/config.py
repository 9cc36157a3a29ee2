# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""How sshd reads its configuration, and which file makes it do something else than it was asked.

sshd itself is asked for the outcome (``sshd -T``); the files are read only to lay them out for a trial, to know which connections
may differ (``Match``), and to name the line that is to blame. The rules are those of OpenSSH's servconf.c and sshd_config(5).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import os
import re
import typing as t

CONFIG_DIRECTORY = "/etc/ssh"
MAIN_CONFIG = f"{CONFIG_DIRECTORY}/sshd_config"
INCLUDE = f"Include {CONFIG_DIRECTORY}/sshd_config.d/*.conf"
INCLUDE_NOTE = "# Added by rigwright.workstation, role ssh: what stands in the directory wins over this file."
# SERVCONF_MAX_DEPTH of servconf.c: sshd refuses includes in includes that go deeper.
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

# What sshd does where it cannot be asked since it is not installed yet (sshd_config(5), and UsePAM of Debian's file).
DEFAULTS: dict[str, t.Any] = {
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

# What a Match block may set for itself: nobody gets in by it who would not otherwise.
HARMLESS = frozenset(("clientalivecountmax", "clientaliveinterval", "loglevel", "maxauthtries"))
# Of these `no` is never the looser answer.
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

# A stranger on the internet: a name and an address kept for documentation (RFC 2606, RFC 5737), so no rule is made for it.
STRANGER = {"host": "stranger.example", "address": "203.0.113.1"}
LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"

Config = t.Mapping[str, t.Any]
# A connection by the criteria of Match: user, host, address, localaddress, localport. None: one that no Match block fits.
Connection = t.Optional[t.Mapping[str, str]]


class Line(t.NamedTuple):
    """A setting in the files of sshd. ``match`` holds what follows the word Match above it, nothing where there is none."""

    path: str
    number: int
    keyword: str
    value: str
    match: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.number}" + (f" below `Match {self.match}`" if self.match else "")


@dataclasses.dataclass(frozen=True)
class Override:
    """A setting of which sshd has other values than were asked for; ``connections`` says for whom, ``lines`` may be to blame."""

    keyword: str
    wanted: frozenset[str]
    found: frozenset[str]
    connections: tuple[t.Mapping[str, str], ...]
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        said = ", ".join(sorted(self.found)) or "nothing"
        who = sorted({f"{one['user']} from {one['address']}" for one in self.connections})
        whom = f" for {', '.join(who[:3])}{' and others' if len(who) > 3 else ''}" if who else ""
        where = " (" + "; ".join(str(line) for line in self.lines) + ")" if self.lines else ""
        return f"{self.keyword} is {said}{whom} and not {', '.join(sorted(self.wanted))}{where}"


def parse_config(text: str) -> dict[str, t.Any]:
    """Read the output of ``sshd -T``, or lines like it: a string a keyword, a list for those that may be given several times."""
    config: dict[str, t.Any] = {keyword: [] for keyword in REPEATED}
    for line in text.splitlines():
        word, _space, value = line.partition(" ")
        keyword = word.lower()
        if keyword in REPEATED:
            config[keyword].append(value)
        elif keyword:
            config[keyword] = value
    return config


def ensure_include(text: str) -> str:
    """The main configuration file with the drop-in directory included before any other keyword; first match wins."""
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words:
            if words[0].lower() == "include" and INCLUDE.split()[1] in (word.strip('"') for word in words[1:]):
                return text
            break
    return f"{INCLUDE_NOTE}\n{INCLUDE}\n\n{text}"


def read_lines(
    path: str, read: t.Callable[[str], str], expand: t.Callable[[str], t.Iterable[str]], match: str = "", depth: int = 0
) -> t.Iterator[Line]:
    """The settings of a file and of those that it includes, in the order in which sshd reads them.

    :param expand: gives the files that fit a pattern, as glob(7) does.
    """
    outside = match
    for number, text in enumerate(read(path).splitlines(), 1):
        keyword, value = split_setting(text)
        if not keyword:
            continue
        if keyword == "match":
            # A Match block ends with its file, and one in an included file holds within the one around it.
            match = f"{outside} {value}".strip()
        yield Line(path, number, keyword, value, match)
        if keyword == "include" and depth < INCLUDE_DEPTH:
            for pattern in words(value):
                for file in sorted(expand(os.path.join(CONFIG_DIRECTORY, pattern))):
                    yield from read_lines(file, read, expand, match, depth + 1)


def split_setting(text: str) -> tuple[str, str]:
    """Keyword, in lower case and its usual spelling, and value of a line; empty when the line says nothing."""
    found = re.match(r"\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*(?:\s#.*)?$", text)
    if found is None:
        return "", ""
    keyword = found[1].lower()
    return ALIASES.get(keyword, keyword), found[2]


def words(value: str) -> list[str]:
    return value.replace('"', " ").split()


def reroot(text: str, root: str) -> str:
    """A configuration file whose includes lead to copies below another root."""

    def moved(line: str) -> str:
        keyword, value = split_setting(line)
        if keyword != "include":
            return line
        return "Include " + " ".join(root + os.path.join(CONFIG_DIRECTORY, pattern) for pattern in words(value))

    return "".join(f"{moved(line)}\n" for line in text.splitlines())


def criteria(lines: t.Iterable[Line]) -> dict[str, list[str]]:
    """What the Match lines ask for: the patterns by criterion, such as ``{"user": ["alice", "b*"]}``."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.keyword != "match":
            continue
        rest = iter(words(line.value.replace("=", " ")))
        for name in rest:
            if name.lower() not in ("all", "canonical", "final", "invalid-user"):
                found.setdefault(name.lower(), []).extend(next(rest, "").split(","))
    return found


def matches(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern of sshd, in which only ``*`` and ``?`` are special (match.c)."""
    expression = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(expression, name) is not None


def representatives(users: t.Mapping[str, t.Collection[str]], asked: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """A user for all those whom no Match block tells apart; each is asked about for every address, and hosts have hundreds.

    :param users: the groups of each.
    :param asked: the patterns by criterion.
    """
    found: dict[tuple[bool, ...], str] = {}
    for user, groups in users.items():
        names = {"user": [user], "group": groups}
        fits = (
            any(matches(name, pattern.lstrip("!")) for name in names[criterion])
            for criterion in names
            for pattern in asked.get(criterion, [])
        )
        found.setdefault(tuple(fits), user)
    return list(found.values())


def connections(lines: t.Sequence[Line], users: t.Mapping[str, t.Collection[str]]) -> list[Connection]:
    """The connections for which sshd is asked: beside one that fits no Match, one user of each kind as a stranger, from this host,
    and from wherever a Match block speaks of.

    :param users: the groups of each.
    """
    asked = criteria(lines)
    if not any(line.keyword == "match" for line in lines):
        return [None]
    named = {name: [sample(name, pattern) for pattern in patterns] for name, patterns in asked.items()}

    def of(name: str, *usual: str) -> list[str]:
        return list(dict.fromkeys([*usual, *filter(None, named.get(name, []))]))

    values = {
        "user": of("user", *(representatives(users, asked) or ["root"])),
        "host": of("host", STRANGER["host"]),
        "address": of("address", STRANGER["address"], LOOPBACK),
        "localaddress": of("localaddress", LOOPBACK),
        "localport": of("localport", "22"),
    }
    return [None, *(dict(zip(values, chosen)) for chosen in itertools.product(*values.values()))]


def sample(name: str, pattern: str) -> str:
    """Something that fits a pattern of Match; nothing for one that only excludes."""
    if pattern.startswith("!"):
        return ""
    if name.endswith("address") and "/" in pattern:
        try:
            network = ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return ""
        return str(network[1] if network.num_addresses > 1 else network[0])
    return pattern.replace("*", "1").replace("?", "1")


def specification(connection: Connection) -> str:
    """A connection as ``sshd -C`` takes it."""
    if connection is None:
        # No block fits what is left out, but for the port: where one asks for it, sshd ends without. No sshd has this one.
        return "lport=1"
    names = {"user": "user", "host": "host", "addr": "address", "laddr": "localaddress", "lport": "localport"}
    return ",".join(f"{short}={connection[name]}" for short, name in names.items())


def expected(settings: t.Iterable[str]) -> dict[str, frozenset[str]]:
    """The values of each setting, in lower case and as ``sshd -T`` spells them."""
    found: dict[str, frozenset[str]] = {}
    for setting in settings:
        keyword, value = split_setting(setting)
        value = value.lower().replace("prohibit-password", "without-password")
        found[keyword] = found.get(keyword, frozenset()) | {value}
    return found


def endpoints(addresses: t.Iterable[str], ports: t.Iterable[int]) -> frozenset[str]:
    """Where sshd listens, as ``sshd -T`` spells it under ``listenaddress``.

    :raises ValueError: something is no IP address.
    """
    found = [ipaddress.ip_address(address) for address in addresses]
    hosts = [f"[{address}]" if address.version == 6 else str(address) for address in found]
    return frozenset(f"{host}:{port}" for host in hosts for port in ports)


def door(config: Config) -> str:
    """An address of this host at which sshd answers, by IPv4 where it does."""
    hosts = [endpoint.rpartition(":")[0].strip("[]") for endpoint in config.get("listenaddress", [])]
    host = min(hosts or ["0.0.0.0"], key=lambda one: ":" in one)  # noqa: S104 - where sshd listens, not we
    return {"0.0.0.0": LOOPBACK, "::": LOOPBACK_6}.get(host, host)  # noqa: S104


def overrides(
    wanted: t.Mapping[str, frozenset[str]], effective: t.Sequence[tuple[Connection, Config]], lines: t.Sequence[Line]
) -> list[Override]:
    """Where sshd has, for one of the connections, other values than wanted.

    Settings that add up (ports, groups) must be exactly those wanted. A Match block may be stricter, never looser.
    """
    found: dict[tuple[str, frozenset[str]], list[Connection]] = {}
    for connection, config in effective:
        for keyword, values in wanted.items():
            value = config.get(keyword, [])
            now = frozenset(one.lower() for one in (value if isinstance(value, list) else [value]))
            if now != values and not (connection is not None and _harmless(keyword, values, now)):
                found.setdefault((keyword, now), []).append(connection)
    return [
        # What holds for every connection needs no list of them.
        Override(keyword, wanted[keyword], now, () if None in asked else tuple(filter(None, asked)), tuple(blame))
        for (keyword, now), asked in found.items()
        for blame in [_to_blame(keyword, wanted[keyword], lines, everybody=None in asked)]
    ]


def _to_blame(keyword: str, wanted: frozenset[str], lines: t.Sequence[Line], *, everybody: bool) -> list[Line]:
    """The lines that say something else; outside of Match only the first counts, but where values add up."""
    keywords = ("port", keyword) if keyword == "listenaddress" else (keyword,)
    others = [
        line
        for line in lines
        if line.keyword in keywords
        and (line.match in ("", "all") if everybody else line.match != "")
        and not all(says(value, wanted) for value in (words(line.value) if keyword in REPEATED else [line.value]))
    ]
    return others[:1] if everybody and keyword not in REPEATED else others


def says(value: str, wanted: frozenset[str]) -> bool:
    """Whether a value is one of those wanted; of an endpoint, address or port will do."""
    value = value.lower().replace("prohibit-password", "without-password")
    return any(value in (one, *one.rsplit(":", 1), one.rsplit(":", 1)[0].strip("[]")) for one in wanted)


def _harmless(keyword: str, wanted: frozenset[str], now: frozenset[str]) -> bool:
    return keyword in HARMLESS or (keyword in SWITCHES and (now == {"no"} or wanted == {"yes"}))
