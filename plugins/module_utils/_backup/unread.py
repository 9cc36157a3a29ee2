# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What restic could not read, of its messages on stderr: a loss, or what users have changed meanwhile. Pure."""

from __future__ import annotations

import errno
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import coverage
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import messages
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount, is_within

# What users do meanwhile is no loss: a file was deleted, or something else took its place.
_CHANGED = {
    errno.ENOENT: "no such file or directory",
    errno.ENOTDIR: "not a directory",
    errno.ELOOP: "too many levels of symbolic links",
}
# restic's own words for it.
_EXCHANGED = "changed type, refusing to archive"
# A server that is gone. That is a loss where the job reads what is mounted there.
_STALE = {errno.ESTALE: "stale NFS file handle"}


def unread(err: str, job: Job, mounts: t.Sequence[Mount] = ()) -> tuple[list[str], set[str]]:
    """Return what restic could not read, and what changed before restic read it or is a user's own mount, which is no loss.

    Paths of the job are a loss in any case, and so is what a user mounts where the job asks for it.
    """
    lost = [line for line in err.split("\n") if re.match(r"error|[^{].* does not exist, skipping", line)]
    of_users = [mount.target for mount in mounts if mount.user and not coverage.names(job, mount)]
    gone = set()  # what restic misses when it counts, it may miss once more when it reads
    for message in messages(err):
        if message.get("message_type") != "error":
            continue
        error = message.get("error") or {}
        item = str(message.get("item") or error.get("Path") or "")
        text = str(error.get("message") or error.get("Err") or "")
        # A user chooses the name: nothing is read out of it. The reason is at the end.
        reason = (text.replace(item, "") if item else text).strip()
        reasons = _CHANGED if coverage.reads(job, item, mounts) else {**_CHANGED, **_STALE}
        harmless = error.get("Err") in reasons or reason.endswith((*reasons.values(), _EXCHANGED))
        harmless = harmless or any(is_within(item, place) for place in of_users)
        if harmless and item and item not in job.paths:
            gone.add(item)
        else:
            lost.append(item or text or "something")
    return lost, gone
