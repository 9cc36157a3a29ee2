# SPDX-License-Identifier: GPL-3.0-or-later
"""The action verify with a module that shows a secret."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.action.verify import ActionModule

from harness.sandbox.lab import ROOT

TOKEN = "nobody-may-see-this-token-of-frps"


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the result of frp_server's verify, whose module has the token in a finding."""

    def execute(_action: ActionModule, module_args: dict[str, Any], **_options: Any) -> dict[str, Any]:
        shown = {**module_args, "secrets": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}
        remedy = f"set frp_server_token to {TOKEN}"
        finding = {
            "id": "frp_server.login",
            "status": "fail",
            "evidence": f"token {TOKEN!r} is wrong",
            "remedy": remedy,
        }
        return {"changed": False, "findings": [finding], "invocation": {"module_args": shown}}

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
