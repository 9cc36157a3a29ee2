# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the roles frp_server and frp_client, as their plans have them by default."""

from __future__ import annotations

from typing import Any

SERVER: dict[str, Any] = {
    "token": "t" * 32,
    "tls_subject_alt_names": ["gateway.example.org"],
    "bind_address": "0.0.0.0",  # noqa: S104 - the default of the role
    "bind_port": 7000,
    "proxy_bind_address": "127.0.0.1",
    "networks": ["0.0.0.0/0", "::/0"],
    "allow_ports": [],
    "dashboard_password": "",
    "dashboard_user": "admin",
    "dashboard_address": "127.0.0.1",
    "dashboard_port": 7500,
    "extra": {},
}
CLIENT: dict[str, Any] = {
    "server_address": "gateway.example.org",
    "token": "t" * 32,
    "user": "tower",
    "secret_key": "s" * 16,
    "admin_port": 574,
    "services": [],
    "visitors": [],
    "extra": {},
}
