# SPDX-License-Identifier: GPL-3.0-or-later
"""When config_files starts no module: the plan of the role found the very request carried out, and nothing changed since."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.action import config_files
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _unchanged

ARGUMENTS = {"name": "web", "files": [{"path": "/etc/web", "content": "words\n"}]}
Run = Callable[..., tuple[bool, str]]


@pytest.fixture(autouse=True)
def planned() -> Any:
    _unchanged.note_plan("ws1", "web", "")
    yield
    _unchanged.note_change_anywhere()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the action; return whether it starts the module, and the digest that it hands over."""

    def run(configured: dict[str, str], role: str = "web", check: bool = False, **arguments: Any) -> tuple[bool, str]:
        started: list[dict[str, Any]] = []

        def start(_self: object, module_args: dict[str, Any], **_options: Any) -> dict[str, Any]:
            started.append(json.loads(module_args["contents"]))
            return {"changed": False}

        monkeypatch.setattr(config_files.ActionModule, "_execute_module", start)
        owner = SimpleNamespace(get_name=lambda: f"rigwright.workstation.{role}")
        task = SimpleNamespace(
            args={**ARGUMENTS, **arguments}, _role=owner, check_mode=check, diff=False, async_val=0, action="x"
        )
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""))
        action = config_files.ActionModule(task, connection, None, None, None, None)
        plan = {"__web_plan": {"configured_sets": configured}}
        result = action.run(task_vars={"inventory_hostname": "ws1", **plan})
        if not started:
            assert result == config_files.UNCHANGED
        return bool(started), started[0]["digest"] if started else ""

    return run


@pytest.fixture
def digest(run: Run) -> str:
    found = run({})[1]
    _unchanged.note_plan("ws1", "web", "")
    return found


@pytest.mark.parametrize("check", [False, True])
def test_module_is_not_started_for_what_is_done(run: Run, digest: str, check: bool) -> None:
    assert run({"web": digest}, check=check) == (False, "")


@pytest.mark.parametrize(
    "arguments",
    [
        {"files": [{"path": "/etc/web", "content": "others\n"}]},
        {"files": [{"path": "/etc/web", "content": "words\n", "mode": "0600"}]},
        {"files": [{"path": "/etc/web", "content": "words\n", "state": "released"}]},
        {"files": [*ARGUMENTS["files"], {"path": "/etc/web2", "data": {"a": 1}, "format": "json"}]},
        {"directories": [{"path": "/srv"}]},
        {"units": [{"name": "web.service"}]},
        {"checks": ["true"]},
        {"changed_paths": ["/etc/web"]},
        {"name": "web_2"},
        {"state": "absent"},
    ],
)
def test_another_request_starts_it(run: Run, digest: str, arguments: dict[str, Any]) -> None:
    assert run({"web": digest}, **arguments)[0]


def test_order_of_units_counts(run: Run) -> None:
    units = [{"name": "a.service"}, {"name": "b.service"}]
    assert run({}, units=units)[1] != run({}, units=units[::-1])[1]


def test_nobody_guesses_a_secret_by_its_digest(run: Run) -> None:
    files = [{"path": "/etc/web", "content": "a password\n", "secret": True}]
    (_, first), (_, second) = run({}, files=files), run({}, files=files)
    assert first != second, "each has a salt"
    _unchanged.note_plan("ws1", "web", "")
    assert run({"web": first}, files=files) == (False, "")
    assert run({"web": first}, files=[{**files[0], "content": "another\n"}])[0]
    _unchanged.note_plan("ws1", "web", "")
    assert run({"web": first}, files=[{**files[0], "secret": False}])[0]


def test_without_a_plan_nothing_is_noted(run: Run) -> None:
    assert run({}, role="mail") == (True, "")


def test_a_change_since_the_plan_starts_it(run: Run, digest: str) -> None:
    _unchanged.note_change("ws2")
    assert not run({"web": digest})[0]
    _unchanged.note_change("ws1")
    assert run({"web": digest})[0]


def test_the_second_item_of_a_loop_starts_it(run: Run, digest: str) -> None:
    assert run({"web": digest}, files=[{"path": "/etc/web", "content": "others\n"}])[0]
    assert run({"web": digest})[0]


def test_new_code_starts_it(run: Run, digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "_sources", lambda: b"new")
    assert run({"web": digest})[0]


def test_the_plan_of_another_role_counts_for_nothing(run: Run, digest: str) -> None:
    assert run({"web": digest}, role="mail")[0]
    _unchanged.note_change("ws1")
    _unchanged.note_plan("ws1", "mail", "")
    assert run({"web": digest})[0]
