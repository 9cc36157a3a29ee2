# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether the planned rules have to be loaded, from the facts of the facts. Pure."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import Login

Opened = dict[str, list[rules.Range]]


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts of the facts. ``text``: the planned rules with all included files. ``trial``: the table that they give in a network namespace
    of their own, None without nft. ``refusal``: why nft refuses them. ``in_force``: the table of the kernel. ``outside``: interfaces of
    firewall_bridges that lead to other machines. ``unknown_bridges``: those that may. ``others``: other firewalls, and other tables
    that drop what comes in. ``unread``: what may be one, and what to do to read it. ``confirmed_is_current``:
    whether the planned rules are the confirmed ones, which boots and declarations load."""

    text: str = ""
    ssh_ports: t.Sequence[int] = (22,)
    connection: Login | None = None
    listeners: t.Sequence[Listener] = ()
    own_addresses: t.Collection[str] = ()
    passing_ports: tuple[int, int] = (32768, 60999)
    outside: t.Sequence[str] = ()
    unknown_bridges: t.Sequence[str] = ()
    installed: bool = True
    no_kernel: str = ""
    refusal: str = ""
    trial: t.Sequence[t.Any] | None = None
    in_force: t.Sequence[t.Any] = ()
    unconfirmed: bool = False
    program_is_current: bool = True
    confirmed_is_current: bool = True
    units_are_up: bool = True
    others: t.Sequence[str] = ()
    unread: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    docker_lost: bool = False


def must_load(facts: Facts) -> bool:
    """Return whether the kernel has other rules than the files, or would have after a boot."""
    differs = facts.trial is None or list(facts.trial) != list(facts.in_force)
    return differs or facts.unconfirmed or not facts.program_is_current or not facts.confirmed_is_current


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    return bool(ipaddress.ip_address(address).is_loopback)


def covers(ranges: t.Iterable[rules.Range], port: int) -> bool:
    """Return whether a port is in one of the ranges."""
    return any(first <= port <= last for first, last in ranges)
