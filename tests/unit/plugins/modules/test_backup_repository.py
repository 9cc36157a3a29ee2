# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as the role calls it; what it does to a repository: test__backup_open.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.modules import backup_repository

from tests.unit.backup_hosts import PASSWORD, restic

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def call(tmp_path: Path, run_module: Run) -> Callable[..., dict[str, Any]]:
    for parent in [tmp_path, *tmp_path.parents]:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)

    def ask(
        check: bool = False, password: str = PASSWORD, names: list[str] | None = None, program: str | None = None
    ) -> dict[str, Any]:
        return run_module(
            backup_repository,
            check=check,
            repositories=[{"name": "disk", "url": str(tmp_path / "repository"), "password": password}],
            names=["disk"] if names is None else names,
            program=program or restic(),
            user="nobody",
            folder=str(tmp_path / "secrets"),
            record=str(tmp_path / "state/repositories.json"),
        )

    return ask


def test_check_mode_needs_no_restic_and_names_the_record(call: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = call(check=True)
    assert (found["changed"], found["changed_paths"]) == (True, [str(tmp_path / "state/repositories.json")])
    assert list(tmp_path.iterdir()) == []
    assert call(check=True, names=[])["changed"] is False


def test_a_repository_is_made_remembered_and_then_left_alone(
    call: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    made = call()
    assert (made["changed"], made["repositories"]) == (True, {"disk": "made"})
    assert {*json.loads((tmp_path / "state/repositories.json").read_text())["disk"]} == {"id", "place"}
    again = call()
    assert (again["changed"], again["repositories"], again["changed_paths"]) == (False, {"disk": "opened"}, [])

    refused = call(password="not the password")
    assert (
        refused["failed"]
        and "does not take its password" in refused["msg"]
        and "not the password" not in refused["msg"]
    )


def test_without_restic_it_says_so(call: Callable[..., dict[str, Any]]) -> None:
    assert "run the role backup" in call(program="/no/such/restic")["msg"]
