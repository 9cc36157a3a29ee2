# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""restic as a program: the features of its versions, and the meaning of its exit.

Debian 12 has 0.14, Debian 13 has 0.18, and a pinned release may be newer: the differences are only in SINCE and in the rules of `judge`.
"""

from __future__ import annotations

import calendar
import json
import re
import signal
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

# From which version on restic can do something.
SINCE: dict[str, tuple[int, ...]] = {
    "sparse": (0, 15),
    "retry_lock": (0, 16),
    "exit_codes": (0, 17, 1),
    "overwrite": (0, 17),
}

# restic uploads packs of 16 MiB, and at times a little more: where less is free, none is written.
PACK = 20 << 20

# The kinds of outcomes. Every kind but OK is a failure, and is reported with its remedy.
OK = "ok"
PARTIAL = "partial"
MISSING = "missing"
LOCKED = "locked"
WRONG_PASSWORD = "wrong_password"  # noqa: S105 - the name of an outcome
UNREACHABLE = "unreachable"
DENIED = "denied"
FULL = "full"
DAMAGED = "damaged"
CANCELLED = "cancelled"
TIMEOUT = "timeout"
FAILED = "failed"

REMEDIES: dict[str, str] = {
    PARTIAL: "make these files readable, or exclude them in backup_jobs",
    MISSING: "see whether the address is right and the disk mounted; the role makes a new one, but where `init` is false",
    LOCKED: "see who works on the repository; `rigwright-backup restic REPOSITORY unlock` removes locks whose owner is gone",
    WRONG_PASSWORD: "set the password in backup_repositories to the one that the repository was made with; it was not replaced",
    UNREACHABLE: "see whether the server runs and can be reached from here; the next run tries again",
    DENIED: "see the credentials in backup_repositories; a server that only appends refuses to remove anything, which is its purpose",
    FULL: "make room where the repository lies: `rigwright-backup prune REPOSITORY` (there, if it only appends), or a larger disk",
    DAMAGED: "keep a copy of the repository, then follow restic's page on troubleshooting (`restic repair packs`), and back up again",
    CANCELLED: "run it again, if that was not wanted",
    TIMEOUT: "look at what it waited for; `timeout_s` in backup_jobs is how long it may take",
    FAILED: "look at the unit's journal",
}

# Exit codes with a meaning of their own, from SINCE["exit_codes"] on.
_CODES = {3: PARTIAL, 10: MISSING, 11: LOCKED, 12: WRONG_PASSWORD, 130: CANCELLED}

_MISSING = (
    r"unable to open config file: ([\w.]+: )?(stat \S.*: no such file or directory|(Lstat[^:]*: )?file does not exist"
    r"|<config/> does not exist|The specified (key|bucket) does not exist)"
    r"|<config/>\) returned error, retrying after \S+: .*The specified bucket does not exist"
)

# Before, and for what has no code: message on stderr, the first that fits. `Is there a repository` alone says nothing: it follows
# a refused connection as well. So a repository is missing only where a place that answered has said so.
_WORDS = (
    (WRONG_PASSWORD, r"wrong password or no key found"),
    (LOCKED, r"repository is already locked"),
    (MISSING, _MISSING),
    (
        FULL,
        r"no space left on device|disk quota exceeded|507 Insufficient|\b413 \b|minimum free (drive|disk) threshold|storage cap exceeded"
        r"|storage quota|storageQuotaExceeded",
    ),
    (
        DAMAGED,
        r"repository contains errors|ID does not match|ciphertext verification failed|invalid data returned|hash does not match"
        r"|unexpected pack id|damaged pack|load\S* returned error.*wrong|does not match hash|decompress|not found in (repository|index)",
    ),
    (
        DENIED,
        r"401 Unauthorized|403 Forbidden|Access Denied|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|permission denied"
        # ssh, which runs before there is a session; B2, Google and Azure.
        r"|Permission denied \((publickey|password|keyboard)|Host key verification failed|b2_\w+: 40[13]\b|AuthenticationFailed"
        r"|googleapi: Error 40[13](?!.*([Rr]ate ?[Ll]imit|Quota exceeded))|SSH_FX_PERMISSION_DENIED",
    ),
    (
        UNREACHABLE,
        r"connection refused|no such host|i/o timeout|network is unreachable|no route to host|connection reset|broken pipe|x509:"
        r"|server misbehaving|unable to start the sftp session|connection lost|unexpected EOF|50[0-9] \w|retrying after|Client\.Timeout"
        # Too many questions, and a line that is too slow or goes away.
        r"|[Rr]ate ?[Ll]imit|Quota exceeded for quota metric|429 \w|ssh command exited|failed to refresh lock",
    ),
)


class Outcome(t.NamedTuple):
    """The meaning of a run's end."""

    kind: str
    message: str

    @property
    def ok(self) -> bool:
        return self.kind == OK

    @property
    def remedy(self) -> str:
        return REMEDIES.get(self.kind, REMEDIES[FAILED])


class Done(t.NamedTuple):
    """The exit status and the output of restic."""

    rc: int
    out: str
    err: str
    timed_out: bool = False
    dropped: int = 0  # lines of stderr that were too many to be kept: what they said is not known
    free: int = -1  # bytes that are free where the repository lies; -1 if it is not on this machine


def parse_version(text: str) -> tuple[int, ...]:
    """Return the version in the output of `restic version`; empty if there is none."""
    found = re.match(r"restic (\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def nanoseconds(text: str) -> int:
    """Convert a time of restic, such as 2026-11-22T16:54:23.367991635+01:00, to nanoseconds since the epoch; -1 if it is none."""
    found = re.fullmatch(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text)
    if not found:
        return -1
    year, month, day, hour, minute, second = (int(found[number]) for number in range(1, 7))
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    if found[8] != "Z":
        sign = -1 if found[8][0] == "-" else 1
        seconds -= sign * (int(found[8][1:3]) * 3600 + int(found[8][4:6]) * 60)
    return seconds * 10**9 + int((found[7] or "0").ljust(9, "0"))


def messages(err: str) -> list[JsonObject]:
    """Return the lines of JSON on stderr."""
    found = []
    for line in err.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def plain(err: str) -> str:
    """Return stderr as plain text."""
    lines = []
    for line in err.splitlines():
        text = line.replace("\x1b[2K", "").strip()
        if text.startswith("{"):
            try:
                data = json.loads(text)
            except ValueError:
                data = {}
            error = data.get("error")
            text = str(data.get("message") or (error.get("message") if isinstance(error, dict) else "") or text)
            # A user chooses the names of files: no message is read out of them.
            for name in (data.get("item"), error.get("Path") if isinstance(error, dict) else None):
                text = text.replace(name, "a file") if isinstance(name, str) and name else text
        if text:
            lines.append(shown(text, keep="\n"))
    return "\n".join(lines)


def judge(done: Done) -> Outcome:
    """Return the meaning of a run's end. Codes and messages of all versions are handled together: none has two meanings."""
    text = plain(done.err)
    # Messages about single errors come before the one about the end.
    lines = [line for line in text.splitlines() if not line.startswith("Is there a repository")]
    fatal = [line for line in lines if line.startswith("Fatal:")]
    message = (fatal or lines or [f"restic ended with {done.rc}"])[-1][:400]
    if done.rc == 0:
        # restic 0.18 ends well when a server that only appends has kept what `forget` was to remove.
        refused = [line for line in lines if line.startswith("unable to remove")]
        return (
            Outcome(DENIED, f"{len(refused)} could not be removed: {refused[0][:200]}") if refused else Outcome(OK, "")
        )
    if done.timed_out:
        waited = [line for line in lines if "retrying after" in line]
        # restic tries again for a quarter of an hour, also what will not do: why, it says each time.
        kinds = [kind for kind, pattern in _WORDS if waited and re.search(pattern, waited[-1])]
        if kinds:
            return Outcome(kinds[0], waited[-1][:400])
        if 0 <= done.free < PACK:
            # restic 0.14 can wait forever for its own upload that has found no room, and says nothing.
            return Outcome(
                FULL, f"restic did not end, and only {done.free >> 20} MiB are free where the repository lies"
            )
        return Outcome(TIMEOUT, message)
    # "Does not exist" is as well what follows from a connection that was cut while it was opened.
    if done.rc in _CODES and (done.rc != 10 or re.search(_MISSING, text)):
        return Outcome(_CODES[done.rc], message)
    if done.rc in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL):
        return Outcome(CANCELLED, f"restic was ended by signal {-done.rc}")
    for kind, pattern in _WORDS:
        found = re.search(pattern, text)
        if found:
            line = next((line for line in lines if found[0].splitlines()[0] in line), message)
            return Outcome(kind, line[:400])
    return Outcome(FAILED, message)
