# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry point of the role common that installs the packages of a plan: what it does for the calling role, and what it plans again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Packages, Plan

from tests.unit.support.made_up_roles import write

MAIN = """\
- ansible.builtin.import_tasks: plan.yml
- ansible.builtin.include_role: {name: rigwright.workstation.common, tasks_from: packages, rolespec_validate: false}
  vars: {common_plan: "{{ __web_plan }}"}
- ansible.builtin.debug: {msg: "edition {{ __web_plan.edition }}"}
"""
PLAN = """\
- ansible.builtin.set_fact:
    __web_plan: "{{ first if __web_plan is undefined else again }}"
"""
MARK = '#!/bin/sh\necho "$@" >> "$MARKED"\n'


def planned(edition: str, **packages: Any) -> dict[str, Any]:
    return Plan(packages=Packages(**packages), values={"edition": edition}).result()


@pytest.fixture
def run(run_plays: Callable[..., Any], tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Apply a role with a plan before and after the installation; return what apt-mark was called with, and the output."""
    write(tmp_path / "roles/web/tasks/main.yml", MAIN)
    write(tmp_path / "roles/web/tasks/plan.yml", PLAN)
    write(tmp_path / "bin/apt-mark", MARK)
    (tmp_path / "bin/apt-mark").chmod(0o755)
    marked = tmp_path / "marked"

    def run(first: dict[str, Any], again: dict[str, Any], *options: str) -> tuple[str, str]:
        (tmp_path / "vars.yml").write_text(yaml.safe_dump({"first": first, "again": again}, default_flow_style=False))
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        play = {"hosts": "all", "gather_facts": False, "environment": {"PATH": path, "MARKED": str(marked)}}
        found = run_plays([{**play, "roles": ["web"]}], "-e", "@vars.yml", *options)
        assert found.rc == 0, found.output
        return marked.read_text() if marked.exists() else "", found.output

    return run


def as_lists(plan: dict[str, Any]) -> dict[str, Any]:
    packages = {name: [*part] if isinstance(part, tuple) else part for name, part in plan["packages"].items()}
    return {"packages": packages, "edition": plan["edition"]}


FIRST, AGAIN = as_lists(planned("none", unhold=["web", "lib"])), as_lists(planned("new", hold=["web"]))


def test_holds_are_those_of_the_plan_made_again(run: Callable[..., tuple[str, str]]) -> None:
    marked, output = run(FIRST, AGAIN)
    assert marked == "unhold web lib\nhold web\n"
    assert "edition new" in output


def test_check_mode_changes_no_hold(run: Callable[..., tuple[str, str]]) -> None:
    marked, output = run(FIRST, AGAIN, "--check")
    assert marked == "" and "edition none" in output


def test_check_mode_names_the_packages(run: Callable[..., tuple[str, str]]) -> None:
    first = as_lists(planned("none", install=["web=1.2", "lib"]))
    assert "web=1.2, lib" in run(first, AGAIN, "--check")[1]
