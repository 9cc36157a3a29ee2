# SPDX-License-Identifier: GPL-3.0-or-later
"""What restic's ends mean, by what 0.14 of Debian 12 and 0.18 of Debian 13 really said."""

from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import restic_outcome as restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import Done, nanoseconds

LOCATION = "\nIs there a repository at the following location?\n/x"
OPEN = "Fatal: unable to open config file: "


@pytest.mark.parametrize(
    ("rc", "err", "kind"),
    [
        (1, f"{OPEN}stat /x/config: no such file or directory{LOCATION}", "missing"),
        (
            10,
            f"Fatal: repository does not exist: unable to open config file: stat /x/config: no such file or directory{LOCATION}",
            "missing",
        ),
        (1, f"{OPEN}Lstat: file does not exist{LOCATION}", "missing"),
        (10, f"Fatal: repository does not exist: {OPEN}Lstat a/config: file does not exist{LOCATION}", "missing"),
        (1, f"{OPEN}Stat: The specified key does not exist.{LOCATION}", "missing"),
        (1, f"{OPEN}<config/> does not exist{LOCATION}", "missing"),
        (
            10,
            f"Fatal: repository does not exist: unable to open config file: <config/> does not exist{LOCATION}",
            "missing",
        ),
        (1, f"{OPEN}The specified bucket does not exist{LOCATION}", "missing"),
        (1, "Fatal: wrong password or no key found", "wrong_password"),
        (12, "Fatal: wrong password or no key found", "wrong_password"),
        (
            1,
            f'{OPEN}client.Head: Head "http://h/config": dial tcp 127.0.0.1:1: connect: connection refused{LOCATION}',
            "unreachable",
        ),
        (1, f'{OPEN}client.Head: Head "http://h/config": dial tcp: lookup h: no such host{LOCATION}', "unreachable"),
        (
            10,
            f'Fatal: repository does not exist: {OPEN}Head "http://h/config": connect: connection refused{LOCATION}',
            "unreachable",
        ),
        (
            1,
            "Fatal: unable to open repository at sftp:a@b:/x: unable to start the sftp session, error: EOF",
            "unreachable",
        ),
        (1, f"{OPEN}unexpected HTTP response (401): 401 Unauthorized{LOCATION}", "denied"),
        (
            1,
            "unable to create lock in backend: repository is already locked exclusively by PID 26406 on vm by root (UID 0, GID 0)",
            "locked",
        ),
        (
            11,
            "unable to create lock in backend: repository is already locked by PID 1 on vm by root (UID 0, GID 0)",
            "locked",
        ),
        (1, "Fatal: unable to save snapshot: write /x/data/ab/abc: no space left on device", "full"),
        (1, "Pack ID does not match, want 6f1161c1, got ff44d415\nFatal: repository contains errors", "damaged"),
        (3, "Warning: at least one source file could not be read", "partial"),
        (130, "", "cancelled"),
        (-15, "", "cancelled"),
        (1, "Fatal: something new", "failed"),
        (0, "", "ok"),
        # 0.18 ends well when a server that only appends has kept what was to go.
        (
            0,
            "Remove(<snapshot/676e>) failed: unexpected HTTP response (403): 403 Forbidden\n"
            "unable to remove snapshot/676e from the repository",
            "denied",
        ),
    ],
)
def test_an_end_means_one_thing_in_all_versions(rc: int, err: str, kind: str) -> None:
    outcome = restic.judge(Done(rc, "", err))
    assert outcome.kind == kind
    assert outcome.ok or outcome.remedy


def test_restic_that_is_ended_while_it_tries_again_says_why() -> None:
    err = 'Stat(<config/>) returned error, retrying after 1.1s: Head "http://h/config": connect: connection refused\n'
    assert restic.judge(Done(1, "", err + OPEN + "context canceled" + LOCATION, timed_out=True)).kind == "unreachable"
    forbidden = (
        "Remove(<key/4d87>) returned error, retrying after 5.6s: blob not removed, server response: 403 Forbidden (403)"
    )
    assert restic.judge(Done(-15, "", forbidden, timed_out=True)).kind == "denied"
    full = "Save(<data/c041>) returned error, retrying after 4.5s: server response unexpected: 507 Insufficient Storage (507)"
    assert restic.judge(Done(-15, "", full, timed_out=True)).kind == "full"
    bucket = "Stat(<config/>) returned error, retrying after 16.7s: Stat: The specified bucket does not exist"
    assert restic.judge(Done(-15, "", bucket, timed_out=True)).kind == "missing"
    assert restic.judge(Done(-15, "", "", timed_out=True)).kind == "timeout"
    # restic 0.14 hangs in about one of a hundred runs that fill a disk.
    assert restic.judge(Done(-15, "", "", timed_out=True, free=4 << 20)).kind == "full"
    assert restic.judge(Done(-15, "", "", timed_out=True, free=4 << 30)).kind == "timeout"


def test_json_on_stderr_is_a_message() -> None:
    err = json.dumps(
        {"message_type": "exit_error", "code": 1, "message": "Fatal: all source directories/files do not exist"}
    )
    assert restic.judge(Done(1, "", err)).message == "Fatal: all source directories/files do not exist"


def test_versions_are_read() -> None:
    assert restic.parse_version("restic 0.14.0 compiled with go1.19.8 on linux/amd64") == (0, 14, 0)
    assert restic.parse_version("restic 0.18.0-dev (compiled manually)") == (0, 18, 0)
    assert restic.parse_version("bash: restic: not found") == ()


def test_times_are_those_of_their_zone() -> None:
    assert nanoseconds("1970-01-01T01:00:00.5+01:00") == 500_000_000
    assert nanoseconds("1970-01-01T00:00:10Z") == 10 * 10**9
    assert nanoseconds("someday") == -1


def test_name_of_a_file_says_nothing_about_the_repository() -> None:
    error = {"message_type": "error", "error": {"message": "open /home/a/wrong password or no key found: x"}}
    text = json.dumps({**error, "item": "/home/a/wrong password or no key found"})
    assert restic.judge(restic.Done(1, "", text)).kind == "failed"
