# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell machines apart in what they share: repositories, tunnels, certificates, messages.

The inventory of README calls every machine `localhost`, and so do images whose host name was never set. Roles take the name from
`__common_host_name` (roles/common/vars/main/identity.yml), and refuse one that is everybody's.
"""

from __future__ import annotations

import hashlib
import hmac
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem

# The same list as in roles/common/vars/main/identity.yml.
EVERYBODYS = frozenset(["localhost", "localhost.localdomain", "127.0.0.1", "::1"])
MACHINE_ID = "/etc/machine-id"
_OF_MACHINES = b"rigwright.workstation: tells machines apart"
_DIGITS = 16


def is_everybodys(name: str) -> bool:
    """Return whether each machine may have this name."""
    return name.strip().lower() in EVERYBODYS or not name.strip()


def problems_of_name(variable: str, name: str) -> t.Iterator[Problem]:
    """Yield why a name does not tell this machine from others."""
    if is_everybodys(name):
        yield problem(
            variable,
            f"is {name!r}, which every machine can be called",
            f"set {variable} to a name that no other machine has, or give the machine a host name (`hostnamectl hostname NAME`)",
        )


def machine_key(machine_id: str) -> str:
    """Return what stands for a machine where others can read it: its id is for nobody else (machine-id(5)). Empty without one."""
    text = machine_id.strip().encode()
    if not text or text == b"uninitialized":
        return ""
    return hmac.new(text, _OF_MACHINES, hashlib.sha256).hexdigest()[:_DIGITS]
