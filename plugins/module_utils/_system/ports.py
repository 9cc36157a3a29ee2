# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the ports of a service against the listeners of the host."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener


def port_requirements(
    wanted: t.Mapping[str, int | t.Sequence[int]],
    listeners: t.Sequence[Listener],
    unit: str,
    protocol: str = "tcp",
) -> list[Problem]:
    """Return requirements for each variable: its ports are valid, free, and requested once."""
    holders: dict[int, set[str]] = {}
    for listener in listeners:
        if listener["protocol"] == protocol and listener["unit"] != unit:
            # A process outside of this container is not visible.
            holders.setdefault(listener["port"], set()).add(listener["process"] or "an unknown program")
    ports = {name: [value] if isinstance(value, int) else list(value) for name, value in wanted.items()}
    requested = [port for values in ports.values() for port in values]
    return [
        requirement for name, values in ports.items() for requirement in _of(name, values, requested, holders, protocol)
    ]


def port_problems(
    wanted: t.Mapping[str, int | t.Sequence[int]],
    listeners: t.Sequence[Listener],
    unit: str,
    protocol: str = "tcp",
) -> list[Problem]:
    """Return the requirements that are not met."""
    return [row for row in port_requirements(wanted, listeners, unit, protocol) if not row["ok"]]


def _of(
    name: str, ports: list[int], requested: list[int], holders: t.Mapping[int, set[str]], protocol: str
) -> list[Problem]:
    impossible = sorted({port for port in ports if not 1 <= port <= 65535})
    twice = sorted({port for port in ports if requested.count(port) > 1})
    taken = sorted({port for port in ports if port in holders})
    programs = sorted({holder for port in taken for holder in holders[port]})
    return [
        {
            "ok": not impossible,
            "variable": name,
            "problem": f"is not a {protocol.upper()} port: {_joined(impossible)}",
            "remedy": "choose one from 1 to 65535",
        },
        {
            "ok": not twice,
            "variable": name,
            "problem": f"wants port {_joined(twice)}, which is asked for twice",
            "remedy": "give each listener a port of its own",
        },
        {
            "ok": not taken,
            "variable": name,
            "problem": f"wants port {_joined(taken)}, which is taken by {', '.join(programs)}",
            "remedy": "stop that program, or choose another port",
        },
    ]


def _joined(ports: list[int]) -> str:
    return ", ".join(map(str, ports))
