# SPDX-License-Identifier: GPL-3.0-or-later
"""States of files that belong to the user who runs the tests."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import State

ME = (os.getuid(), os.getgid())


def file(text: str, mode: int = 0o644) -> State:
    return State("file", text.encode(), mode, *ME)


def directory(mode: int = 0o755) -> State:
    return State("directory", None, mode, *ME)


OLD, NEW = file("old\n"), file("new\n")
