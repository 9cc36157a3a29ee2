# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a role's variables for fail2ban, and read whether fail2ban is in use."""

from __future__ import annotations

import configparser
import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import show

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# jail.conf(5), "TIME ABBREVIATION FORMAT", without the long names of the units.
TIME = re.compile(r"-1|[0-9]+([smhdwy]|mo)?( [0-9]+([smhdwy]|mo))*")
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
# Letters somewhere: digits and dots alone are an address that is wrong.
HOST_NAME = re.compile(rf"(?=.*[A-Za-z]){_LABEL}(\.{_LABEL})*")


UNIT = "fail2ban.service"
# The note that a role installed fail2ban, under its name of before 0.1.0. roles/common/tasks/note_fail2ban.yml writes it under the new one.
FORMER_NOTE = "/var/lib/rigwright_fail2ban/brought"
FOLDER = "/etc/fail2ban"
# Debian's own file in jail.d.
PACKAGED = ("defaults-debian.conf",)
# The file of the package, for people to copy, and what it says as long as nobody has changed it.
MAIN = f"{FOLDER}/jail.conf"
OF_PACKAGE = {"bantime": "10m", "findtime": "10m", "maxretry": "5"}
OPTIONS = ("bantime", "findtime", "maxretry", "ignoreip")
# Of the units, by their first letters.
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "mo": 2629800, "y": 31557600}
ALWAYS_IGNORED = ("127.0.0.1/8", "::1", "127.0.0.0/8")


def is_note_due(run_command: t.Callable[..., tuple[int, str, str]], tree: Tree) -> bool:
    """Return whether a role has to note that it installs fail2ban, or that it did under the former name of the note."""
    return is_idle(run_command) or tree.exists(FORMER_NOTE)


class JailOptions(t.TypedDict):
    """The options of a role for its jail."""

    fail2ban: bool
    fail2ban_bantime: str
    fail2ban_findtime: str
    fail2ban_maxretry: int
    fail2ban_ignoreip: list[str]


def _values(params: JailOptions) -> dict[str, str | int | list[str]]:
    """Return the values by the names that fail2ban has for them, in the order of OPTIONS."""
    found = (
        params["fail2ban_bantime"],
        params["fail2ban_findtime"],
        params["fail2ban_maxretry"],
        params["fail2ban_ignoreip"],
    )
    return dict(zip(OPTIONS, found))


def is_idle(run_command: t.Callable[..., tuple[int, str, str]]) -> bool:
    """Return True if fail2ban neither runs nor starts at boot, also if it is not installed."""
    shown = show(run_command, [UNIT], ("ActiveState", "UnitFileState"))[UNIT]
    return shown["ActiveState"] in (["inactive"], ["failed"]) and shown.get("UnitFileState") != ["enabled"]


def problems(role: str, params: JailOptions) -> t.Iterator[Problem]:
    """Yield the problems, as the action ``require`` takes them."""
    for name, value in (("bantime", params["fail2ban_bantime"]), ("findtime", params["fail2ban_findtime"])):
        if not TIME.fullmatch(value):
            yield problem(
                f"{role}_fail2ban_{name}",
                f"is {value!r}, which is not a time that fail2ban reads",
                "write it as 600, 10m, 1h or 1d 12h; -1 is for good",
            )
    if params["fail2ban_maxretry"] < 1:
        yield problem(f"{role}_fail2ban_maxretry", f"is {params['fail2ban_maxretry']}", "set it to 1 or more")
    odd = [entry for entry in params["fail2ban_ignoreip"] if not (_is_network(entry) or HOST_NAME.fullmatch(entry))]
    if odd:
        yield problem(
            f"{role}_fail2ban_ignoreip",
            f"has {', '.join(map(repr, odd))}, which is no address, network or host name",
            "write an address such as 192.0.2.10 or a network such as 192.0.2.0/24",
        )


class Setting(t.NamedTuple):
    """A value in a file of the host. ``wins``: that file is read after the role's own."""

    value: str
    place: str
    wins: bool


def overridden(tree: Tree, jail: str, own: str, params: JailOptions) -> list[str]:
    """Return what the host's own files say of a jail, and what the role's file puts out of force.

    :param own: the role's file in jail.d.
    """
    try:
        found = _settings(tree, jail, own)
    except configparser.Error as error:
        # The rest of the message has the line itself, which may be an action with its token.
        reason = str(error).partition("\n")[0].rstrip(".")
        lines = [getattr(error, "lineno", 0), *(number for number, _line in getattr(error, "errors", ()))]
        where = ", ".join(str(number) for number in lines if number)
        return [f"{error.source}, which cannot be read: {reason} (line {where})"]  # type: ignore[attr-defined]
    ours = _values(params)
    return _named({key: (_lost(each.value, ours[key]), each) for key, each in found.items() if not each.wins})


def stronger(tree: Tree, jail: str, own: str, params: JailOptions) -> list[str]:
    """Return what the host's own files say of a jail, and what puts the role's values out of force. Parameters as of ``overridden``."""
    try:
        found = _settings(tree, jail, own)
    except configparser.Error:
        return []
    ours = _values(params)
    return _named({key: (_winning(each.value, ours[key]), each) for key, each in found.items() if each.wins})


def jail_finding(role: str, jail: str, own: str, lost: t.Sequence[str], winning: t.Sequence[str]) -> Finding:
    """Return the finding on what other files say of a jail.

    :param lost: as ``overridden`` returns it.
    :param winning: as ``stronger`` returns it.
    """
    parts = [f"not in force for {jail} because of {own}: {'; '.join(lost)}"] * bool(lost)
    parts += [f"in force for {jail} instead of what {own} says: {'; '.join(winning)}"] * bool(winning)
    variables = [f"{role}_fail2ban_{name}" for name in ("ignoreip", "bantime", "findtime", "maxretry")]
    return finding(
        f"{role}.jail_overridden",
        "warn" if parts else "pass",
        "; ".join(parts) or f"{own} overrides no other file of fail2ban",
        f"set the same by {', '.join(variables[:-1])} or {variables[-1]}, or remove it there",
    )


def _named(values: t.Mapping[str, tuple[str, Setting]]) -> list[str]:
    return [f"{key} = {value} ({each.place})" for key, (value, each) in values.items() if value]


def _settings(tree: Tree, jail: str, own: str) -> dict[str, Setting]:
    """Return the values in force without the role's file; those that are in force with it as well win."""
    found: dict[str, Setting] = {}
    # jail.conf(5): the last value counts, and that of a jail before that of all.
    names = sorted(
        {own, *(f"{FOLDER}/jail.d/{name}" for name in tree.names(f"{FOLDER}/jail.d") if name not in PACKAGED)}
    )
    local = [name for name in names if name.endswith(".local")]
    parsers = []
    later = False
    for path in [MAIN, *(name for name in names if name.endswith(".conf")), f"{FOLDER}/jail.local", *local]:
        later = later or path == own
        if path != own and tree.exists(path):
            parser = configparser.RawConfigParser(strict=False, default_section="", inline_comment_prefixes=(";",))
            parser.read_string(tree.text(path), path)
            parsers.append((path, later, parser))
    for section in ("DEFAULT", jail):
        for path, wins, parser in parsers:
            for key in OPTIONS:
                if parser.has_option(section, key):
                    value = " ".join(re.split(r"[,\s]+", parser.get(section, key).strip()))
                    if path == MAIN and _seconds(value) == _seconds(OF_PACKAGE.get(key, "")):
                        continue
                    found[key] = Setting(value, f"{path} [{section}]", wins and section == jail)
    return found


def _lost(value: str, ours: str | int | list[str]) -> str:
    """Return what the role's value does not have: of a list the words that are missing."""
    if isinstance(ours, list):
        kept = {*ALWAYS_IGNORED, *ours}
        return " ".join(word for word in value.split() if word not in kept and "%(" not in word)
    return "" if _seconds(value) == _seconds(str(ours)) or "%(" in value else value


def _winning(value: str, ours: str | int | list[str]) -> str:
    """Return a value that is in force instead of the role's; of a list, one that lacks a word of the role's."""
    if isinstance(ours, list):
        return "" if {*ours} <= {*ALWAYS_IGNORED, *value.split()} or "%(" in value else value
    return _lost(value, ours)


def _seconds(text: str) -> int | str:
    """Return a time of fail2ban in seconds, and what is none as it is."""
    parts = re.findall(r"(\d+)\s*([a-z]*)", text)
    if not re.fullmatch(r"(\d+\s*[a-z]*\s*)+", text):
        return text
    units = [SECONDS.get(unit[:2] if unit.startswith("mo") else unit[:1]) for _number, unit in parts]
    return text if None in units else sum(int(number) * (unit or 0) for (number, _unit), unit in zip(parts, units))


def _is_network(text: str) -> bool:
    """Return True for a network or an address."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
