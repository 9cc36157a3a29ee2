# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for an environment. Environments that are really created: ../../modules/test_python_environment.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.venv import (
    RECEIPT,
    Facts,
    VenvError,
    is_complete,
    make,
    name_of,
    plan,
    read_facts,
    remove,
)

PATH = "/opt/rigwright/python"
OLD, NEW = name_of(PATH, "a==1\n"), name_of(PATH, "a==2\n")


def facts(current: str = "", *existing: str, complete: tuple[str, ...] = (), users: tuple[str, ...] = ()) -> Facts:
    return Facts(PATH, current, existing, complete or existing, frozenset(users))


def test_environment_in_place_is_left_alone() -> None:
    steps = plan(facts(OLD, OLD, users=("conda",)), "a==1\n", "conda", True)
    assert (steps.changed, steps.must_make, steps.wanted) == (False, False, OLD)


def test_another_list_makes_another_environment() -> None:
    steps = plan(facts(OLD, OLD, users=("conda",)), "a==2\n", "conda", True)
    assert (steps.must_make, steps.wanted, steps.surplus) == (True, NEW, [OLD])


def test_incomplete_environment_is_made_again() -> None:
    assert plan(facts(OLD, OLD, complete=(NEW,), users=("conda",)), "a==1\n", "conda", True).must_make


def test_environment_stays_while_another_role_needs_it() -> None:
    steps = plan(facts(OLD, OLD, users=("conda", "gpu")), "", "conda", False)
    assert (steps.wanted, sorted(steps.users), list(steps.surplus)) == (OLD, ["gpu"], [])
    last = plan(facts(OLD, OLD, users=("gpu",)), "", "gpu", False)
    assert (last.wanted, sorted(last.users), list(last.surplus)) == ("", [], [OLD])


def test_facts_name_complete_environments(tmp_path: Path) -> None:
    path = str(tmp_path / "python")
    directory = Path(name_of(path, "a==1\n"))
    (directory / "bin").mkdir(parents=True)
    Path(path).symlink_to(directory.name)
    assert read_facts(path, "").complete == []
    (directory / "bin/python3").touch()
    (directory / RECEIPT).touch()
    assert read_facts(path, "").complete == [str(directory)]


def test_foreign_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VenvError, match="is in the way"):
        read_facts(str(tmp_path), "")


def test_venv_that_fails_names_its_package(tmp_path: Path) -> None:
    def run(*_arguments: Any, **_options: Any) -> tuple[int, str, str]:
        return 1, "", "ensurepip is not available"

    with pytest.raises(VenvError, match="Install the package python3-venv"):
        make(str(tmp_path / "python-1"), "a==1\n", "", run)


@pytest.mark.parametrize("again", [False, True])
def test_removal_cut_short_leaves_no_complete_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    class Killed(BaseException):
        pass

    directory = Path(name_of(str(tmp_path / "python"), "a==1\n"))
    (directory / "bin").mkdir(parents=True)
    (directory / "bin/python3").touch()
    (directory / RECEIPT).touch()
    assert is_complete(str(directory))

    def killed(*_arguments: Any, **_options: Any) -> Any:
        raise Killed

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(Killed):
        make(str(directory), "a==1\n", "", killed) if again else remove(str(directory))
    assert (directory / "bin/python3").exists()
    assert not is_complete(str(directory))
