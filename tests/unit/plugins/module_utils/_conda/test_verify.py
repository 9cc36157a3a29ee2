# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about conda environments."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import compare, verify
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import conda as conda_role

from harness.sandbox.lab import ROOT
from tests.unit.support.plan import run_plan

REQUEST: dict[str, Any] = {
    "prefix": "/opt/conda",
    "environments": [{"name": "base", "state": "present", "packages": ["conda"]}, {"name": "old", "state": "absent"}],
    "program": "echo",
}
SAME: dict[str, Any] = {"added": [], "removed": [], "replaced": []}


def compared(drift: list[str], **rows: dict[str, Any]) -> tuple[str, str]:
    row = verify.environments({"environments": rows, "drift": drift}, "")
    return row["status"], row["evidence"]


def test_environments_as_requested_pass() -> None:
    assert compared([], base=SAME) == ("pass", "1 environments are as requested, file by file")
    assert compared([])[0] == "skip"


def test_every_difference_is_listed() -> None:
    status, evidence = compared(
        ["base: bin/python3 of python was removed"],
        base={**SAME, "added": ["mamba 2.0 0"], "replaced": ["conda 1.0 0 -> 2.0 0"]},
        old={**SAME, "removed": ["numpy 2.1 0"]},
    )
    assert status == "fail"
    assert evidence.split("; ") == [
        "base: bin/python3 of python was removed",
        "mamba 2.0 0 is missing",
        "numpy 2.1 0 is too many",
        "conda 1.0 0 -> 2.0 0",
    ]


def test_an_error_is_the_evidence() -> None:
    row = verify.environments({"environments": {}, "drift": []}, "data cannot be solved")
    assert (row["status"], row["evidence"]) == ("fail", "data cannot be solved")
    assert len(compared(["x" * 1000])[1]) == 800


@pytest.mark.parametrize(
    ("outcome", "rows", "status", "evidence"),
    [
        ((0, "base: Python 3.12.1 of /opt/conda/envs/base\n", ""), [{}], "pass", "base: Python 3.12.1 of /opt/conda/envs/base"),
        ((1, "base: used\ndata fails: no\n", "bash: x\n"), [{}], "fail", "base: used; data fails: no;  bash: x"),
        ((127, "", "setpriv: No such file or directory"), [{}], "fail", "setpriv: No such file or directory"),
        ((0, "", ""), [], "skip", "no environment"),
    ],
)  # fmt: skip
def test_what_users_can_do(outcome: tuple[int, str, str], rows: list[Any], status: str, evidence: str) -> None:
    row = verify.users(outcome, {**REQUEST, "environments": rows})
    assert (row["status"], row["evidence"]) == (status, evidence)


def test_environments_are_used_as_nobody() -> None:
    calls: list[Any] = []

    def run(command: list[str], data: str) -> tuple[int, str, str]:
        calls.append((command[-5:], data))
        return 0, "", ""

    verify.use(run, REQUEST)
    assert calls == [(["bash", "--login", "-s", "/opt/conda/envs", "base"], "echo")]


def test_a_host_without_environments_is_skipped(
    run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _command, **_options: (0, "", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    context = {"environments": [], "channel_alias": "", "program": ""}
    result = run_plan(run_module, conda_role, kind="verify", context=context)
    assert [(row["id"], row["status"]) for row in result["findings"]] == [
        ("conda.environments", "skip"),
        ("conda.users", "skip"),
    ]


def test_a_refused_request_is_the_evidence(
    run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise CondaError("/opt/conda is a conda of its own")

    monkeypatch.setattr(compare, "check_place", refuse)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _command, **_options: (0, "", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    context = {"environments": [], "channel_alias": "", "program": ""}
    found = run_plan(run_module, conda_role, kind="verify", context=context)["findings"][0]
    assert (found["status"], found["evidence"]) == (
        "fail",
        "/opt/conda is a conda of its own. Every environment is as it was.",
    )


def test_environment_that_nothing_can_solve_fails(
    run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, open_path: Path
) -> None:
    monkeypatch.setattr(compare, "PYTHON", str(open_path / "missing/python3"))
    monkeypatch.setattr(conda_role.rattler, "is_available", lambda: False)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _command, **_options: (0, "", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    context = {
        "environments": [{"name": "base", "packages": ["conda"], "state": "present"}],
        "channel_alias": "",
        "program": "",
    }
    found = run_plan(run_module, conda_role, kind="verify", context={**context, "prefix": str(open_path / "conda")})[
        "findings"
    ][0]
    assert (found["id"], found["status"]) == ("conda.environments", "fail")
    assert "has no py-rattler, and these are not as requested: base" in found["evidence"]
    assert found["remedy"].startswith("run the role again")


def test_missing_environment_fails_without_conda(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-s", str(tmp_path), "data"],
        input=(ROOT / "roles/conda/files/use_environments.sh").read_text(),
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, f"data fails: there is no {tmp_path}/data\n")
