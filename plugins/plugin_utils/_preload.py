# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load the plugins of most tasks once. Ansible forks a worker for each task and host, and each would load and compile them."""

from __future__ import annotations

import contextlib
from functools import partial

from ansible import constants as C
from ansible.plugins import loader

# Any filter: Ansible looks for it in all files with filters of its collection.
FILTER = "rigwright.workstation.release"
LOOKUPS = ("rigwright.workstation.unknown_variables", "ansible.builtin.template")


def preload() -> None:
    """Load plugins into the process from which workers are forked. What cannot be loaded fails in the task that needs it."""
    loads = (
        partial(loader.filter_loader.get, FILTER),
        partial(loader.test_loader.get, "ansible.builtin.defined"),
        *(partial(loader.lookup_loader.get, name, class_only=True) for name in LOOKUPS),
        partial(loader.connection_loader.get, C.DEFAULT_TRANSPORT, class_only=True),
        partial(loader.become_loader.get, C.DEFAULT_BECOME_METHOD, class_only=True),
        partial(loader.shell_loader.get, "ansible.builtin.sh", class_only=True),
    )
    for load in loads:
        # A third-party plugin may raise any exception when it is imported.
        with contextlib.suppress(Exception):
            load()
