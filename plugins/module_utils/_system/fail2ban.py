# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a role's variables for fail2ban, and read whether fail2ban is in use."""

from __future__ import annotations

import configparser
import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import show

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# jail.conf(5), "TIME ABBREVIATION FORMAT", without the long names of the units.
TIME = re.compile(r"-1|[0-9]+([smhdwy]|mo)?( [0-9]+([smhdwy]|mo))*")
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
# Letters somewhere: digits and dots alone are an address that is wrong.
HOST_NAME = re.compile(rf"(?=.*[A-Za-z]){_LABEL}(\.{_LABEL})*")


UNIT = "fail2ban.service"
FOLDER = "/etc/fail2ban"
# Debian's own file in jail.d.
PACKAGED = ("defaults-debian.conf",)
OPTIONS = ("bantime", "findtime", "maxretry", "ignoreip")
ALWAYS_IGNORED = ("127.0.0.1/8", "::1", "127.0.0.0/8")


def is_idle(run_command: t.Callable[..., tuple[int, str, str]]) -> bool:
    """Return True if fail2ban neither runs nor starts at boot, also if it is not installed."""
    shown = show(run_command, [UNIT], ("ActiveState", "UnitFileState"))[UNIT]
    return shown["ActiveState"] in (["inactive"], ["failed"]) and shown.get("UnitFileState") != ["enabled"]


def problems(role: str, params: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Yield the problems, as the action ``require`` takes them.

    :param params: fail2ban_bantime, fail2ban_findtime, fail2ban_maxretry and fail2ban_ignoreip.
    """
    for name in ("bantime", "findtime"):
        value = params[f"fail2ban_{name}"]
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


def overridden(tree: Tree, jail: str, own: str, params: t.Mapping[str, t.Any]) -> list[str]:
    """Return what the host's own files say of a jail, and what the role's file puts out of force.

    :param own: the role's file in jail.d.
    :param params: as for ``problems``.
    """
    found: dict[str, tuple[str, str]] = {}
    # jail.conf(5): the last value counts, and that of a jail before that of all.
    names = [f"jail.d/{name}" for name in tree.names(f"{FOLDER}/jail.d") if name not in PACKAGED]
    local = [name for name in names if name.endswith(".local")]
    parsers = []
    for name in [*(name for name in names if name.endswith(".conf")), "jail.local", *local]:
        path = f"{FOLDER}/{name}"
        if path != own and tree.exists(path):
            parser = configparser.RawConfigParser(strict=False, default_section="", inline_comment_prefixes=(";",))
            try:
                parser.read_string(tree.text(path), path)
            except configparser.Error as error:
                return [f"{path}, which cannot be read: {' '.join(str(error).split())}"]
            parsers.append((path, parser))
    for section in ("DEFAULT", jail):
        for path, parser in parsers:
            for key in OPTIONS:
                if parser.has_option(section, key):
                    found[key] = (
                        " ".join(re.split(r"[,\s]+", parser.get(section, key).strip())),
                        f"{path} [{section}]",
                    )
    ours = {key: params[f"fail2ban_{key}"] for key in OPTIONS}
    lost = {key: _lost(value, ours[key]) for key, (value, _place) in found.items()}
    return [f"{key} = {value} ({found[key][1]})" for key, value in lost.items() if value]


def _lost(value: str, ours: t.Any) -> str:
    """Return what the role's value does not have: of a list the words that are missing."""
    if isinstance(ours, list):
        kept = {*ALWAYS_IGNORED, *ours}
        return " ".join(word for word in value.split() if word not in kept and "%(" not in word)
    return "" if value == str(ours) or "%(" in value else value


def _is_network(text: str) -> bool:
    """Return True for a network or an address."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
