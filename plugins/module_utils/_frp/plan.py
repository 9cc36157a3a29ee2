# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a frp server and a frp client: what is wrong with the request, and which steps are due."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import certificate_run, release_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan, stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import checks, server_ports
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import NO_PORT, tunnels

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

PKI = "/etc/frps/pki"
SERVER_UNIT = "/etc/systemd/system/frps.service"
CLIENT_UNIT = "/etc/systemd/system/frpc.service"

Params = t.Mapping[str, t.Any]


def plan_server(module: Runner, request: Params) -> Plan:
    """Return the plan of a server; config.py has files. A certificate or unit of the same name that the role did not make stays."""
    is_present = request["state"] == "present"
    wanted = {"state": request["state"], "directory": PKI, "names": request["tls_subject_alt_names"]}
    is_certificate_due = (is_present or request["managed"]) and certificate_run.is_due(module, **wanted)
    found = server_ports.listening(server_ports.config_of(request))
    values = {
        "release_due": is_release_due(request, "frp_server"),
        "certificate_due": is_certificate_due,
        "ca_certificate": read_ca(),
        "privileged": found["privileged"],
    }
    if not is_present:
        return Plan(units=stopped("frps.service") if request["managed"] else (), values=values)
    requirements = checks.server_problems(request, request["listeners"])
    (program,) = request["programs"]
    units = _server_units(program)
    return Plan(
        requirements=requirements,
        directories=[{"path": folder} for folder in ("/etc/frps", *rules.FOLDERS)],
        files=[]
        if requirements
        else [{"path": SERVER_UNIT}, rules.file(found["opened"], request["networks"], "frp_server")],
        # A certificate that is due comes in between: its directory is one of these, and frps starts with it.
        units=[] if is_certificate_due else units,
        values={**values, "units_with_certificate": units},
    )


def _server_units(program: str) -> list[UnitRow]:
    return [
        {
            "name": "frps.service",
            "enabled": True,
            "restart_on": ["/etc/frps/frps.toml", "/etc/frps/token", f"{PKI}/server.crt", program, SERVER_UNIT],
            "validate": f"{program} verify -c /etc/frps/frps.toml",
        }
    ]


def plan_client(request: Params) -> Plan:
    """Return the plan of a client; config.py has files. A unit of the same name that the role did not make stays."""
    is_release = is_release_due(request, "frp_client")
    if request["state"] != "present":
        units = stopped("frpc.service") if request["managed"] else ()
        return Plan(units=units, values={"release_due": is_release})
    wanted = tunnels(request["services"], request["visitors"], request["secret_key"], request["allow_users"])
    ports = [visitor["bindPort"] for visitor in wanted["visitors"] if visitor["bindPort"] != NO_PORT]
    (program,) = request["programs"]
    return Plan(
        requirements=[
            *checks.client_problems(request, wanted, request["listeners"]),
            *checks.peer_problems(wanted, request["offered"], request["server_host"], request["allow_ports"]),
        ],
        directories=[{"path": "/etc/frpc"}, {"path": "/etc/frpc/conf.d"}],
        files=[{"path": "/etc/frpc/ca.crt", "content": request["ca"]}, {"path": CLIENT_UNIT}],
        checks=[f"{program} verify -c /etc/frpc/frpc.toml"],
        units=_client_units(program),
        # Other users cannot take a port below 1024 while frpc does not run.
        values={"release_due": is_release, "privileged": min([request["admin_port"], *ports]) < 1024},
    )


def _client_units(program: str) -> list[UnitRow]:
    return [
        {
            "name": "frpc.service",
            "enabled": True,
            "restart_on": ["/etc/frpc/frpc.toml", "/etc/frpc/token", "/etc/frpc/ca.crt", program, CLIENT_UNIT],
            # Open connections through other tunnels stay.
            "reload_on": ["/etc/frpc/conf.d"],
            "validate": f"{program} verify -c /etc/frpc/frpc.toml",
        }
    ]


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
