# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role firewall in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t


class FirewallAllow(t.TypedDict, total=False):
    port: t.Any
    protocol: str
    networks: list[str]
    comment: str | None


class FirewallOptions(t.TypedDict):
    state: str
    ssh_networks: list[str]
    ssh_ports: list[int]
    allow: list[FirewallAllow]
    containers: list[FirewallAllow]
    bridges: list[str]
    bridges_reach_host: bool
    log: bool
    confirm_seconds: int
