# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for the files that a module leaves on the disk, also after an interruption."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

# Each changes what a directory holds, in one step.
STEPS = ("link", "mkdir", "rename", "replace", "rmdir", "symlink", "unlink")

KILLED = 9


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, tuple[int, Any]]]:
    """Return the mode and content of everything below a directory, to compare with a later snapshot."""

    def take(root: Path) -> dict[str, tuple[int, Any]]:
        return {
            str(path.relative_to(root)): (
                path.lstat().st_mode,
                path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            )
            for path in sorted(root.rglob("*"))
        }

    return take


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], bool]:
    """Return a function that returns True if a file or directory was synced, under any name."""
    inodes: set[int] = set()
    sync = os.fsync

    def noted(descriptor: int) -> None:
        inodes.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return lambda path: path.stat().st_ino in inodes


@pytest.fixture
def run_killed() -> Callable[..., bool]:
    """End the process of a module before its nth change of a directory.

    run_killed(module, n, **params) returns False when the module was done before. No `finally` runs, as with SIGKILL.
    """

    def run(module: ModuleType, step: int, **params: Any) -> bool:
        process = os.fork()
        if process == 0:
            steps = itertools.count(1)
            for name in STEPS:
                setattr(os, name, _dying(getattr(os, name), lambda: next(steps) == step))
            try:
                with patch_module_args(params):
                    module.main()
            except SystemExit:
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert code in (0, KILLED)
        return code == KILLED

    return run


def _dying(change: Callable[..., None], is_last: Callable[[], bool]) -> Callable[..., None]:
    def wrapped(*arguments: Any, **options: Any) -> None:
        if is_last():
            os._exit(KILLED)
        change(*arguments, **options)

    return wrapped
