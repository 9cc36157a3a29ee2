# SPDX-License-Identifier: GPL-3.0-or-later
"""The action verify: a module that shows a secret, and several roles in one module run."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.action.verify import ActionModule

from harness.sandbox.lab import ROOT

TOKEN = "nobody-may-see-this-token-of-frps"


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the result of frp_server's verify, whose proof has the token in a finding."""

    def execute(_action: ActionModule, module_args: dict[str, Any], **_options: Any) -> dict[str, Any]:
        assert TOKEN in module_args["calls"], "it reaches the module"
        shown = {**module_args, "calls": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}
        remedy = f"set frp_server_token to {TOKEN}"
        finding = {
            "id": "frp_server.login",
            "status": "fail",
            "evidence": f"token {TOKEN!r} is wrong",
            "remedy": remedy,
        }
        by_role = {"frp_server": {"changed": False, "findings": [finding], "warnings": []}}
        return {"changed": False, "by_role": by_role, "invocation": {"module_args": shown}}

    monkeypatch.setattr(ActionModule, "_execute_module", execute)
    role = SimpleNamespace(
        get_name=lambda: "rigwright.workstation.frp_server", _role_path=str(ROOT / "roles/frp_server")
    )
    task = SimpleNamespace(_role=role, args={}, check_mode=False, async_val=0)
    connection: Any = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/tmp"))
    templar: Any = SimpleNamespace(template=lambda value: value)
    action = ActionModule(task, connection, None, None, templar, None)
    result: dict[str, Any] = action.run(task_vars={"frp_server_token": TOKEN})
    return result


def test_no_secret_shows_in_the_result(verified: dict[str, Any]) -> None:
    assert TOKEN not in json.dumps(verified)


def test_findings_are_recorded_and_seen(verified: dict[str, Any]) -> None:
    (finding,) = verified["ansible_facts"]["rigwright_findings"]
    assert (finding["status"], finding["evidence"]) == ("fail", "token '********' is wrong")
    assert "_ansible_no_log" not in verified


def verify(*roles: str, **variables: Any) -> list[dict[str, Any]]:
    facts = {"rigwright.workstation.host_facts": None}
    return [facts, {"rigwright.workstation.verify": {"roles": list(roles)}, "vars": variables}]


def found(run: Any, role: str) -> dict[str, str]:
    findings = run.report["hosts"]["localhost"]["findings"]
    return {row["id"]: row["evidence"] for row in findings if row["id"].startswith(f"{role}.")}


def test_several_roles_are_one_module_run(run_tasks: Callable[..., Any]) -> None:
    run = run_tasks(verify("status", "storage", "samba", samba_state="absent"))
    assert run.rc == 0, run.output
    assert found(run, "status") and found(run, "storage")
    assert not found(run, "samba"), "it is not there to be verified"
    assert run.report["hosts"]["localhost"]["outside_roles"]["verify_module_runs"] == 1


@pytest.mark.parametrize(
    ("role", "variables", "evidence"),
    [
        ("status", {"status_html": "perhaps"}, "status_html"),
        ("conda", {"conda_prefix": "{{ nowhere }}"}, "nowhere"),
        ("web", {}, "this collection has no role web"),
    ],
)
def test_a_role_that_cannot_be_verified_is_a_finding(
    run_tasks: Callable[..., Any], role: str, variables: dict[str, Any], evidence: str
) -> None:
    run = run_tasks(verify(role, "storage", **variables))
    assert run.rc == 0, run.output
    assert evidence in found(run, role)[f"{role}.verification"]
    assert found(run, "storage"), "the others are verified"


def test_a_module_that_ends_badly_is_a_finding(run_tasks: Callable[..., Any]) -> None:
    broken = {"smoke_test_user": "nobody-of-that-name", "smoke_test_images": []}
    run = run_tasks(verify("smoke_test", "storage", **broken))
    assert "There is no user nobody-of-that-name" in found(run, "smoke_test")["smoke_test.verification"]
    assert found(run, "storage")


def test_no_secret_shows_of_several_roles(run_tasks: Callable[..., Any]) -> None:
    run = run_tasks([*verify("frp_server", "status", frp_server_token=TOKEN)], "-vvvv")
    assert found(run, "frp_server"), run.output
    assert TOKEN not in run.output.replace("\n", "")
