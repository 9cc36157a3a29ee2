# SPDX-License-Identifier: GPL-3.0-or-later
"""What config_files takes from the plan of a role, and the findings that it records."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.rigwright.workstation.plugins.action import config_files
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Pending, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

SECRET = "nobody-may-see-this"
FINDING: Finding = {"id": "web.open", "status": "pass", "evidence": "all is well", "remedy": ""}
PLAN = Plan(
    findings=[FINDING],
    directories=[{"path": "/etc/web"}],
    files=[
        {"path": "/etc/web/port", "content": "80\n"},
        {"path": "/etc/web/token", "mode": "0600", "content": SECRET, "secret": True},
        {"path": "/etc/web/keys.json", "data": {"key": SECRET}, "secret": True},
    ],
    checks=["web --check"],
    units=[{"name": "web.service", "enabled": True}],
    pending=Pending("web.pending", "still has older options: 2 clients", "all is loaded", "run again later"),
)
Run = Callable[..., tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the action in the role web; return its result, and the arguments of the module."""

    def run(check: bool = False, done: dict[str, Any] | None = None, **arguments: Any) -> tuple[Any, Any]:
        started: list[dict[str, Any]] = []

        def start(_self: object, module_args: dict[str, Any], **_options: Any) -> dict[str, Any]:
            started.append(module_args)
            return {"changed": True, "pending": [], **(done or {})}

        monkeypatch.setattr(config_files.ActionModule, "_execute_module", start)
        owner = SimpleNamespace(get_name=lambda: "rigwright.workstation.web")
        task = SimpleNamespace(args=arguments, _role=owner, check_mode=check, diff=False, async_val=0, action="x")
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""))
        action = config_files.ActionModule(task, connection, None, None, None, None)
        return action.run(task_vars={"inventory_hostname": "ws1"}), started[0]

    return run


def test_set_of_the_role_is_that_of_the_plan(run: Run) -> None:
    _result, module = run(plan=PLAN.result())
    assert (module["name"], module["state"]) == ("web", "present")
    assert [item["path"] for item in module["directories"]] == ["/etc/web"]
    assert [item["path"] for item in module["files"]] == [file["path"] for file in PLAN.files]
    assert (module["checks"], module["units"][0]["name"]) == (["web --check"], "web.service")
    payload = json.loads(module["contents"])
    assert payload["files"]["/etc/web/token"] == SECRET
    assert json.loads(payload["files"]["/etc/web/keys.json"]) == {"key": SECRET}
    assert SECRET in payload["secrets"] and SECRET not in str(module["files"])


def test_task_replaces_a_part_of_the_plan(run: Run) -> None:
    _result, module = run(plan=PLAN.result(), units=[], changed_paths=["/usr/bin/web"])
    assert (module["units"], module["changed_paths"], module["checks"]) == ([], ["/usr/bin/web"], ["web --check"])


@pytest.mark.parametrize(("waiting", "status"), [(["web.service"], "warn"), ([], "pass")])
def test_findings_of_the_plan_are_recorded(run: Run, waiting: list[str], status: str) -> None:
    result, _module = run(plan=PLAN.result(), done={"pending": waiting})
    assert result["changed"] is True
    assert [(found["id"], found["status"]) for found in result["findings"]] == [
        ("web.open", "pass"),
        ("web.pending", status),
    ]
    assert result["ansible_facts"]["rigwright_findings"] == result["findings"]
    if waiting:
        assert result["findings"][1]["evidence"] == "web.service still has older options: 2 clients"


@pytest.mark.parametrize(("changed", "status"), [(True, "skip"), (False, "pass")])
def test_check_mode_records_no_pass_before_the_change(run: Run, changed: bool, status: str) -> None:
    result, _module = run(check=True, plan=PLAN.result(), done={"changed": changed})
    assert {found["status"] for found in result["findings"]} == {status}


@pytest.mark.parametrize("done", [{"failed": True}, {}], ids=["failed", "removed"])
def test_nothing_is_recorded_of_what_was_not_configured(run: Run, done: dict[str, Any]) -> None:
    state = {} if done else {"state": "absent"}
    result, module = run(plan=PLAN.result(), done=done, **state)
    assert "findings" not in result and module["units"][0]["name"] == "web.service"
    # A program of the role that is gone keeps nobody from having the own files back.
    assert module["checks"] == (["web --check"] if done else [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"plan": {"files": []}}, "plan must be the registered result"),
        ({"plan": "x"}, "plan must be the registered result"),
    ],
)  # fmt: skip
def test_what_is_refused(run: Run, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(AnsibleActionFail, match=text) as error:
        run(**arguments)
    assert SECRET not in str(error.value)
