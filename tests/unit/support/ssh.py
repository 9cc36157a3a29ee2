# SPDX-License-Identifier: GPL-3.0-or-later
"""A request for sshd and the facts of a host, for the tests of the plan, its checks and its findings."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import Line
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import Facts, Peer, Service

REQUEST: Any = {
    "state": "present",
    "proof": "none",
    "ports": [22],
    "listen_addresses": [],
    "passwords": "auto",
    "permit_root_login": "no",
    "authorized_keys": [],
    "allow_groups": [],
    "allow_tcp_forwarding": "local",
    "allow_agent_forwarding": False,
    "x11_forwarding": False,
    "max_auth_tries": 4,
    "client_alive_interval": 120,
    "client_alive_count_max": 3,
    "log_level": "VERBOSE",
    "extra_options": {},
    "fail2ban": True,
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
}

SSHD: Listener = {"protocol": "tcp", "address": "::", "port": 22, "process": "sshd", "pid": 7, "unit": "ssh.service"}

PYTHON: Listener = {**SSHD, "port": 8022, "process": "python3", "pid": 9, "unit": None}

BY_SSH = Peer("owner", "192.0.2.9", "192.0.2.7", 22)

BY_SSH_6 = BY_SSH._replace(address="2001:db8::7")

ANSWER = "SSH-2.0-OpenSSH_9.2p1"

# An administrator with a key and a guest with a password; sshd listens on 22, and Ansible runs on the machine itself.
FACTS = Facts(
    service=Service(active=True, pid=7, ports=(22,)),
    listeners=[SSHD],
    connection=None,
    passwords_accepted=True,
    users_now=["guest", "owner"],
    key_users=["owner"],
    password_users=["guest"],
    admins=["owner"],
    key_problems=[],
    invalid_keys=[],
    unknown_users=[],
    main_config="",
    main_config_added=False,
)

ON_DEMAND = Service(active=True, pid=7, socket_active=True, socket_ports=(22,))


def request(**params: Any) -> Any:
    """Return the request with changes."""
    return {**REQUEST, **params}


def asks(methods: str, match: str = "") -> Line:
    """Return a line of AuthenticationMethods."""
    return Line("/etc/ssh/sshd_config", 9, "authenticationmethods", methods, match)


def facts(**found: Any) -> Facts:
    """Return the facts with changes."""
    return dataclasses.replace(FACTS, **found)
