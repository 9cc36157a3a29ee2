# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host with a configured firewall, for the tests of its plan, checks and findings."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.plan import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import Request, text

LAN = ["192.168.1.0/24"]

TABLE = [{"table": {"name": "rigwright"}}]

CONFIGURED = Facts(text=text(Request()), trial=TABLE, in_force=TABLE)


def listener(
    port: int,
    protocol: str = "tcp",
    address: str = "::",
    process: str | None = "python3",
    unit: str = "x.service",
) -> Listener:
    """Return a listener as host_facts has it."""
    return {"protocol": protocol, "address": address, "port": port, "process": process, "pid": 1, "unit": unit}
