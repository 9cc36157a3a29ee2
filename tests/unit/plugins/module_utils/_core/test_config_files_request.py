# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import (
    MISSING,
    State,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_request import (
    Request,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused

DEFAULTS = {"mode": "0644", "owner": "root", "group": "root", "state": "present", "secret": False, "validate": None}


def request(*files: dict, check_mode: bool = False, state: str = "present", directories: tuple = ()) -> Request:
    params: Any = {
        "state": state,
        "files": [{**DEFAULTS, **item} for item in files],
        "directories": [{**DEFAULTS, "mode": "0755", **item} for item in directories],
    }
    return Request(params, {item["path"]: b"x\n" for item in files}, check_mode)


def test_directories_come_before_files():
    wanted = request({"path": "/d/a"}, directories=({"path": "/d"},)).wanted()
    assert wanted == [
        Wanted("/d", State("directory", None, 0o755, 0, 0)),
        Wanted("/d/a", State("file", b"x\n", 0o644, 0, 0)),
    ]


def test_absent_and_released_files():
    wanted = request({"path": "/a", "state": "absent"}, {"path": "/b", "state": "released"}).wanted()
    assert [(item.state == MISSING, item.released) for item in wanted] == [(True, False), (False, True)]


def test_absent_set_has_no_paths():
    assert request({"path": "/a", "mode": 420}, state="absent").wanted() == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([{"path": "/a"}, {"path": "/a"}], "listed twice: /a"),
        ([{"path": "a"}], "not an absolute, plain path: a"),
        ([{"path": "/x/../a"}], "not an absolute, plain path: /x/../a"),
        ([{"path": "/a", "mode": 0o644}], 'in quotes, such as "0644", and is 420'),
        ([{"path": "/a", "group": "nobody-yet"}], "/a: there is no group nobody-yet"),
    ],
)
def test_unusable_request_is_refused(files, message):
    with pytest.raises(Refused) as refused:
        request(*files).wanted()
    assert message in str(refused.value)


def test_check_mode_accepts_a_user_to_come():
    (wanted,) = request({"path": "/a", "owner": "nobody-yet"}, check_mode=True).wanted()
    assert (wanted.state.uid, wanted.state.gid) == (-1, os.stat("/").st_gid)
