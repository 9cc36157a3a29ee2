# SPDX-License-Identifier: GPL-3.0-or-later
"""One role is planned or proved: what reaches its code, and what becomes of its result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, NeedsPython, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._system import role_run

from tests.unit.support.plan import run_role

Request = dict[str, Any]


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make up the code of a role `web`."""
    code = ModuleType(f"{role_run.ROLES}.web")

    def plan(request: Request, host: Host) -> dict[str, Any]:
        if request["port"] == 0:
            raise Refused("no port", {"next_step": "set web_port"})
        host.warn("the page is empty")
        return {"requirements": [], "planned": request["planned"], "checked": host.check_mode}

    def verify(request: Request, host: Host) -> list[dict[str, str]]:
        status, _out, text = host.run_client([request["client"]])
        return [{"id": "web.page", "status": "pass" if status == 0 else "fail", "evidence": text}]

    vars(code).update(plan=plan, verify=verify)
    monkeypatch.setitem(sys.modules, code.__name__, code)
    return code


@pytest.mark.parametrize("check", [False, True])
def test_what_earlier_tasks_would_make_counts_in_check_mode(
    run_module: Callable[..., Any], web: ModuleType, check: bool
) -> None:
    found = run_role(run_module, web, {"port": 80, "planned": {"mounts": ["/data"]}}, check)
    assert found["planned"] == ({"mounts": ["/data"]} if check else {})
    assert (found["checked"], found["changed"], found["configured_sets"]) == (check, False, {})
    assert found["warnings"] == ["the page is empty"]


def test_a_refusal_fails_with_its_text(run_module: Callable[..., Any], web: ModuleType) -> None:
    found = run_role(run_module, web, {"port": 0})
    assert (found["failed"], found["msg"], found["next_step"]) == (True, "no port", "set web_port")


def test_a_reader_warns_in_the_result(
    run_module: Callable[..., Any], web: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = ["of the module"]
    monkeypatch.setattr(role_run, "get_warning_messages", lambda: tuple(warned))

    def plan(_request: Request, _host: Host) -> Request:
        warned.append("`nft` printed another line")
        return {}

    vars(web)["plan"] = plan
    assert run_role(run_module, web, {})["warnings"] == ["`nft` printed another line"]


@pytest.mark.parametrize(
    ("client", "status", "evidence"),
    [("true", "pass", ""), ("no-such-client", "fail", "no-such-client: No such file or directory")],
)
def test_a_client_that_is_not_installed_is_evidence(
    run_module: Callable[..., Any], web: ModuleType, client: str, status: str, evidence: str
) -> None:
    found = run_role(run_module, web, {"client": client}, kind="verify")
    assert found["findings"] == [{"id": "web.page", "status": status, "evidence": evidence}]


def test_what_others_put_out_of_force_of_a_role_is_found(
    run_module: Callable[..., Any], web: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {"id": "web.drop_ins", "status": "warn", "evidence": "other files put out of force: ..."}
    monkeypatch.setattr(role_run.drop_ins, "findings", lambda _tree, role: [lost] if role == "web" else [])
    found = run_role(run_module, web, {"client": "true"}, kind="verify")
    assert [row["id"] for row in found["findings"]] == ["web.page", "web.drop_ins"]


def test_a_damaged_record_loses_no_proof(
    run_module: Callable[..., Any], web: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_tree: object, _role: str) -> list[Any]:
        raise config_files_plan.Refused("manifest.json is damaged")

    monkeypatch.setattr(role_run.drop_ins, "findings", damaged)
    found = run_role(run_module, web, {"client": "true"}, kind="verify")["findings"]
    assert [(row["id"], row["status"]) for row in found] == [("web.page", "pass"), ("web.drop_ins", "fail")]


def test_another_python_is_needed_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("module")
    vars(module).update(check_mode=False, run_command=None, get_bin_path=None)
    Host(module).need_python("/nowhere/python3")
    with pytest.raises(NeedsPython, match=sys.executable):
        Host(module).need_python(sys.executable)
