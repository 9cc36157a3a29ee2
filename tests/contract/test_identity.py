# SPDX-License-Identifier: GPL-3.0-or-later
"""The name in the inventory is `localhost` on every machine that runs Ansible for itself: nothing that machines share is named by it."""

from __future__ import annotations

import re
from pathlib import Path

from .sources import CHECKOUT

OWN = "the names of machines are made of it here"
HOSTS = "hosts of one run, which differ by it"
MESSAGE = "a message on the controller, which has the name of the inventory"
# Files of roles that use the name in the inventory, and why.
USERS = {
    "common/vars/main/identity.yml": OWN,
    "common/vars/main/requirements.yml": MESSAGE,
    "backup/vars/main.yml": OWN,
    "frp_client/vars/main.yml": HOSTS,
    "frp_server/tasks/configure.yml": "the name of an authority that is kept: clients trust its key",
    "nvidia_driver/vars/main.yml": MESSAGE,
    "nvidia_driver/tasks/reboot.yml": MESSAGE,
    "xrdp/tasks/configure_gnome.yml": "the name of an authority that is kept: clients trust its key",
    "xrdp/tasks/configure_xrdp.yml": "the name of an authority that is kept: clients trust its key",
}
NAME = re.compile(r"\binventory_hostname\b")


def users(roles: Path) -> set[str]:
    files = [
        path for kind in ("defaults", "meta", "tasks", "templates", "vars") for path in roles.glob(f"*/{kind}/**/*")
    ]
    return {str(path.relative_to(roles)) for path in files if path.is_file() and NAME.search(path.read_text())}


def test_nothing_shared_is_named_by_the_inventory() -> None:
    assert users(CHECKOUT / "roles") <= set(USERS)


def test_default_by_the_inventory_is_found(tmp_path: Path) -> None:
    file = tmp_path / "x" / "defaults" / "main.yml"
    file.parent.mkdir(parents=True)
    file.write_text('x_name: "{{ inventory_hostname }}"\n')
    assert users(tmp_path) == {"x/defaults/main.yml"}
