# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_diff import diff, is_program
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import MISSING, State, Step


def file(text: str, mode: int = 0o644) -> State:
    return State("file", text.encode(), mode, 0, 0)


def test_content_is_shown_before_and_after():
    shown = diff(Step("/etc/a", file("1\n"), file("2\n", 0o600)), "0.2.0")
    assert (shown["before"], shown["after"]) == ("1\n", "2\n")
    assert shown["after_header"] == "/etc/a (file, mode 0600, owner 0:0)"


def test_secrets_and_controls_of_the_host_are_not_shown():
    shown = diff(Step("/etc/a", file("x\ty\npassword = hunter2\n"), file("\x1b[2Jx\n")), "")
    assert (shown["before"], shown["after"]) == ("x\ty\npassword = ***\n", "?[2Jx\n")


def test_only_the_mode_is_shown_where_the_content_stays():
    shown = diff(Step("/etc/a", file("1\n"), file("1\n", 0o600)), "")
    assert (shown["before"], shown["after"]) == ("file, mode 0644, owner 0:0\n", "file, mode 0600, owner 0:0\n")


def test_content_of_a_secret_file_is_not_shown():
    shown = diff(Step("/etc/a", MISSING, file("hunter2\n"), secret=True), "")
    assert (shown["before"], shown["after"]) == ("", "(the content after is secret)\n")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("/etc/xrdp/startwm.sh", "#!/bin/sh\n", False),
        ("/usr/local/sbin/tool", "#!/bin/sh\n", True),
        ("/usr/local/lib/tool.pyz", "", True),
        ("/usr/share/x.conf", "a = 1\n", False),
    ],
)
def test_script_in_etc_is_configuration(path, text, expected):
    assert is_program(path, text) is expected
