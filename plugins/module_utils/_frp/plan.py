# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a frp server and a frp client: what is wrong with the request, and which steps are due."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import certificate_run, release_run
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import checks, server_ports
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import NO_PORT, tunnels

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

PKI = "/etc/frps/pki"

Params = t.Mapping[str, t.Any]
Plan = dict[str, t.Any]


def plan_server(module: Runner, request: Params) -> Plan:
    """Return the plan of a server."""
    state = request["state"]
    wanted = {"state": state, "directory": PKI, "names": request["tls_subject_alt_names"]}
    # A certificate of the same place that the role did not make stays.
    certificate_due = state == "present" or request["managed"]
    return {
        "requirements": checks.server_problems(request, request["listeners"]) if state == "present" else [],
        "release_due": is_release_due(request, "frp_server"),
        "certificate_due": certificate_due and certificate_run.is_due(module, **wanted),
        "ca_certificate": read_ca(),
        **server_ports.listening(server_ports.config_of(request)),
    }


def plan_client(request: Params) -> Plan:
    """Return the plan of a client."""
    requirements, ports = [], [request["admin_port"]]
    if request["state"] == "present":
        wanted = tunnels(request["services"], request["visitors"], request["secret_key"], request["allow_users"])
        requirements = [
            *checks.client_problems(request, wanted, request["listeners"]),
            *checks.peer_problems(wanted, request["offered"], request["server_host"], request["allow_ports"]),
        ]
        ports += [visitor["bindPort"] for visitor in wanted["visitors"] if visitor["bindPort"] != NO_PORT]
    return {
        "requirements": requirements,
        "release_due": is_release_due(request, "frp_client"),
        # Other users cannot take a port below 1024 while frpc does not run.
        "privileged": min(ports) < 1024,
    }


def is_release_due(request: Params, user: str) -> bool:
    """Return whether the release has to be installed or removed; True for a release that the action refuses."""
    release = {"name": "frp", "user": user, "state": request["state"]}
    if request["state"] == "present":
        chosen = request["release"]
        release.update({name: chosen[name] for name in ("version", "url", "checksum")}, programs=request["programs"])
    return release_run.is_due(**release)


def read_ca() -> str:
    """Return the certificate of the CA, which clients of the same run trust; empty where there is none yet."""
    path = os.path.join(PKI, "ca.crt")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii") as file:
        return file.read()
