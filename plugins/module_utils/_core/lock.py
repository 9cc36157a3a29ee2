# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serialize modules that keep records on a host, so that two runs at once cannot mix their changes.

The kernel releases a lock when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

DIRECTORY = "/run/rigwright"
WAIT_SECONDS = 600


class Busy(Exception):
    """Another run holds the lock."""


@contextlib.contextmanager
def host_lock(name: str, wait: float | None = None) -> t.Iterator[None]:
    """Hold the lock *name* of this host: one name for each record, so that a long download delays no other module.

    :param wait: seconds to wait for another run, ``WAIT_SECONDS`` unless given.
    :raises Busy: another run held the lock for all that time.
    """
    wait = WAIT_SECONDS if wait is None else wait
    os.makedirs(DIRECTORY, exist_ok=True)
    path = os.path.join(DIRECTORY, f"{name}.lock")
    # Readable by root alone: a user who can open the file can hold its lock.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Busy(f"another run has held {path} for {wait:.0f} s: wait for it, or end it") from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def module_lock(module: AnsibleModule, name: str, wait: float | None = None) -> t.Iterator[None]:
    """Hold the lock *name* while a module reads, plans and changes; check mode changes nothing and waits for nobody.

    Take it after a respawn: the process that started the module again waits for it.
    """
    with contextlib.ExitStack() as held:
        if not module.check_mode:
            try:
                held.enter_context(host_lock(name, wait))
            except Busy as error:
                module.fail_json(msg=f"{error}. Nothing was changed.")
        yield
