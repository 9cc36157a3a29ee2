# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the role docker, as its plan has them by default."""

from __future__ import annotations

from typing import Any

PARAMS: Any = {
    "state": "present",
    "edition": "auto",
    "version": "",
    "hold": False,
    "packages": {
        "docker.io": ["docker.io", "docker-cli"],
        "docker-ce": ["docker-ce", "docker-ce-cli", "containerd.io", "ca-certificates"],
    },
    "repository": {
        "url": "https://repo.example/linux/debian",
        "key_url": "https://repo.example/gpg",
        "fingerprints": ["A" * 40],
        "suite": "trixie",
        "architecture": "amd64",
    },
    "users": [],
    "rootless_users": [],
    "data_root": "",
    "containerd_root": "",
    "free_bytes": 5 << 30,
    "log_driver": "local",
    "log_max_size": "50m",
    "log_max_files": 5,
    "live_restore": True,
    "bind_ip": "127.0.0.1",
    "address_pools": [{"base": "10.250.0.0/16", "size": 24}],
    "registry_mirrors": [],
    "shm_size": "1g",
    "daemon_options": {},
    "coming_parts": {},
    "allow_disruption": False,
    "planned": {},
}
