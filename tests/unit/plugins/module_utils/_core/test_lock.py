# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock, module_lock


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "DIRECTORY", str(tmp_path / "run"))
    return tmp_path / "run"


def test_second_run_is_refused_after_its_wait(place: Path) -> None:
    with host_lock("x"), pytest.raises(Busy, match=r"x\.lock"), host_lock("x", wait=0):
        pass
    with host_lock("x", wait=0):
        assert (place / "x.lock").stat().st_mode & 0o777 == 0o600


def test_locks_of_different_records_do_not_wait_for_each_other() -> None:
    with host_lock("x"), host_lock("y", wait=0):
        pass


def test_second_run_begins_when_the_first_has_ended() -> None:
    order: list[str] = []

    def second() -> None:
        with host_lock("x"):
            order.append("second")

    with host_lock("x"):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_link_in_place_of_the_lock_is_refused(place: Path, tmp_path: Path) -> None:
    place.mkdir()
    (place / "x.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"), host_lock("x"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def module(check: bool = False) -> Any:
    def fail(msg: str) -> None:
        raise SystemExit(msg)

    return SimpleNamespace(check_mode=check, fail_json=fail)


def test_module_fails_while_another_run_holds_the_lock() -> None:
    refused = pytest.raises(SystemExit, match=r"another run .*x\.lock.*Nothing was changed")
    with host_lock("x"), refused, module_lock(module(), "x", wait=0):
        pytest.fail("two at once")
    with module_lock(module(), "x", wait=0):
        pass


def test_check_mode_waits_for_nobody() -> None:
    with host_lock("x"), module_lock(module(check=True), "x", wait=0):
        pass


def test_error_of_a_module_is_not_taken_for_a_lock() -> None:
    with pytest.raises(Busy, match="its own"), module_lock(module(), "x"):
        raise Busy("its own")
