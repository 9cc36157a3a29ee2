# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: port_requirements
short_description: Refuse ports that a service could not listen on
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Makes requirements for M(rigwright.workstation.require) of the ports that a role's service is to listen on. A port must be one,
    be asked for once, and not be held by another program.
  - The service's own listeners are no obstacle, so that the second run passes.
positional: _input, listeners, unit
options:
  _input:
    description: "Ports by the variable that asks for them, as C({frp_server_bind_port: 7000}). The value may be a list."
    type: dict
    required: true
  listeners:
    description: Who listens on the host, C(ansible_facts['rigwright']['listeners']) of M(rigwright.workstation.host_facts).
    type: list
    elements: dict
    required: true
  unit:
    description: The systemd unit of the service.
    type: str
    required: true
  protocol:
    description: The protocol of the ports.
    type: str
    choices: [tcp, udp]
    default: tcp
"""

EXAMPLES = r"""
- name: Refuse a port that something else has
  rigwright.workstation.require:
    that: "{{ {'web_port': 8080} | rigwright.workstation.port_requirements(ansible_facts['rigwright']['listeners'], 'web.service') }}"
"""

RETURN = r"""
_value:
  description: Three requirements a variable, met or not.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any


def port_requirements(
    wanted: Mapping[str, int | Sequence[int]], listeners: Sequence[Mapping[str, Any]], unit: str, protocol: str = "tcp"
) -> list[dict[str, Any]]:
    """Return requirements for each variable: its ports are ports, nobody else's, and asked for once."""
    holders: dict[int, set[str]] = {}
    for listener in listeners:
        if listener["protocol"] == protocol and listener["unit"] != unit:
            # A process outside of this container cannot be seen.
            holders.setdefault(listener["port"], set()).add(listener["process"] or "a program that cannot be seen")
    ports = {name: [value] if isinstance(value, int) else list(value) for name, value in wanted.items()}
    requested = [port for values in ports.values() for port in values]
    return [
        requirement for name, values in ports.items() for requirement in _of(name, values, requested, holders, protocol)
    ]


def _of(
    name: str, ports: list[int], requested: list[int], holders: Mapping[int, set[str]], protocol: str
) -> list[dict[str, Any]]:
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


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"port_requirements": port_requirements}
