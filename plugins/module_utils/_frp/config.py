# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of frps and frpc. Both have secrets: these files are made on the controller. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.server_ports import merged
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import tunnels

Request = t.Mapping[str, t.Any]

# frps reads its files as systemd credentials: root owns them, and the service's own user exists only while it runs.
CREDENTIALS = "/run/credentials/frps.service"


def _token(path: str) -> dict[str, t.Any]:
    return {"method": "token", "tokenSource": {"type": "file", "file": {"path": path}}}


def server_files(request: Request) -> list[FileRow]:
    """Return the files of frps that have secrets, also those that frp_server_extra may have."""
    (program,) = request["programs"]
    return [
        {
            "path": "/etc/frps/frps.toml",
            "data": merged(_server(request), request["extra"]),
            "mode": "0600",
            "secret": True,
            "validate": f"{program} verify -c %s",
        },
        {"path": "/etc/frps/token", "content": request["token"], "mode": "0600", "secret": True},
    ]


def _server(request: Request) -> dict[str, t.Any]:
    config = {
        "bindAddr": request["bind_address"],
        "bindPort": request["bind_port"],
        "proxyBindAddr": request["proxy_bind_address"],
        "maxPortsPerClient": request["max_ports_per_client"],
        # An empty list means every port to frps, an empty range none.
        "allowPorts": request["allow_ports"] or [{"start": 1, "end": 0}],
        "auth": _token(f"{CREDENTIALS}/token"),
        # Without force, a client may connect without TLS, and its login could be recorded and replayed.
        "transport": {
            "tls": {"force": True, "certFile": f"{CREDENTIALS}/certificate", "keyFile": f"{CREDENTIALS}/key"}
        },
        "log": {"disablePrintColor": True},
    }
    if request["dashboard_password"]:
        config["webServer"] = {
            "addr": request["dashboard_address"],
            "port": request["dashboard_port"],
            "user": request["dashboard_user"],
            "password": request["dashboard_password"],
        }
        config["enablePrometheus"] = True
    return config


def client_files(request: Request) -> list[FileRow]:
    """Return the files of frpc that have secrets, also those that options named extra may have.

    frpc has a user of its own, unlike frps: a reload reads the files again, and systemd credentials are those of the start.
    """
    wanted = tunnels(request["services"], request["visitors"], request["secret_key"], request["allow_users"])
    files: list[FileRow] = [
        {"path": "/etc/frpc/frpc.toml", "data": merged(_client(request), request["extra"])},
        {"path": "/etc/frpc/conf.d/tunnels.toml", "data": wanted},
        {"path": "/etc/frpc/token", "content": request["token"]},
    ]
    return [{**file, "mode": "0640", "group": request["account"], "secret": True} for file in files]


def _client(request: Request) -> dict[str, t.Any]:
    return {
        "user": request["user"],
        "serverAddr": request["server_address"],
        "serverPort": request["server_port"],
        # Without this, a client that starts while the server is unreachable ends and does not try again.
        "loginFailExit": False,
        "includes": ["/etc/frpc/conf.d/*.toml"],
        "auth": _token("/etc/frpc/token"),
        # Without a CA to trust, frpc accepts any certificate.
        "transport": {"tls": {"trustedCaFile": "/etc/frpc/ca.crt"}},
        "webServer": {
            "addr": "127.0.0.1",
            "port": request["admin_port"],
            "user": "admin",
            # frp reads its file as a template: this is the variable of its environment that the unit makes at each start.
            "password": "{{ .Envs.FRPC_ADMIN_PASSWORD }}",
        },
        "log": {"disablePrintColor": True},
    }
