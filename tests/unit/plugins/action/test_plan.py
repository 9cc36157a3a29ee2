# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plan in a real run: what it refuses before a module starts, and what it never shows."""

from __future__ import annotations

import datetime
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SECRET = "nobody-may-see-this-password"
USERS = [{"name": "alice", "password": SECRET, "passphrase": "x"}]


def plan_of_samba(**variables: Any) -> list[dict[str, Any]]:
    include = {"name": "rigwright.workstation.samba", "tasks_from": "plan"}
    return [{"ansible.builtin.include_role": include, "vars": {"__samba_context": {}, **variables}}]


def test_all_wrong_values_are_refused_before_a_module_starts(run_tasks: Run) -> None:
    run = run_tasks(plan_of_samba(samba_users=USERS, samba_port="many", samba_encrypt="perhaps"), "-vvv")
    assert run.rc == 2 and "The request is refused" in run.output
    for name in ("samba_port", "samba_encrypt", "passphrase"):
        assert name in run.output
    assert SECRET not in run.output.replace("\n", "")
    assert run.report["hosts"]["localhost"]["roles"]["samba"]["module_runs"] == 0


def test_it_is_for_roles_alone(run_tasks: Run) -> None:
    run = run_tasks([{"rigwright.workstation.plan": {}}])
    assert run.rc == 2 and "call it from a role" in " ".join(run.output.split())


@pytest.mark.parametrize("action", ["plan", "verify"])
def test_an_unknown_argument_is_refused(run_tasks: Run, action: str) -> None:
    run = run_tasks([{f"rigwright.workstation.{action}": {"that": []}}])
    assert run.rc == 2 and "that" in run.output


AHEAD = {"rigwright.workstation.plan": {"roles": ["status", "storage"]}, "register": "__common_plans"}
OWN = {"ansible.builtin.include_role": {"name": "rigwright.workstation.status", "tasks_from": "plan"}}
CHANGE = {"ansible.builtin.command": "true"}
FACTS = {"rigwright.workstation.host_facts": None}


def module_runs(run: Any) -> tuple[int, int]:
    """Return how many modules ran for the plans ahead, and for the role's own."""
    host = run.report["hosts"]["localhost"]
    return host["outside_roles"]["module_runs"], host["roles"]["status"]["module_runs"]


def test_plans_ahead_are_one_module_run_and_the_role_has_none(run_tasks: Run) -> None:
    used = {
        "ansible.builtin.assert": {"that": "__status_plan.requirements == [] and __status_plan.configured_sets == {}"}
    }
    run = run_tasks([AHEAD, OWN, used])
    assert (run.rc, module_runs(run)) == (0, (1, 0)), run.output


@pytest.mark.parametrize(
    ("tasks", "own"),
    [
        pytest.param([AHEAD, CHANGE, OWN], 1, id="the host has changed"),
        pytest.param([AHEAD, {**OWN, "vars": {"status_html": True}}], 1, id="another request"),
        pytest.param([AHEAD, OWN, OWN], 1, id="again"),
        pytest.param([AHEAD, CHANGE, OWN, OWN], 2, id="again after a change"),
        pytest.param([AHEAD, CHANGE, AHEAD, OWN], 0, id="planned ahead again"),
        pytest.param([{**AHEAD, "vars": {"status_html": "perhaps"}}, OWN], 1, id="refused ahead"),
        pytest.param([AHEAD, {**CHANGE, "changed_when": False}, OWN], 1, id="a task decides what a change is"),
    ],
)
def test_otherwise_a_role_plans_itself(run_tasks: Run, tasks: list[dict[str, Any]], own: int) -> None:
    run = run_tasks(tasks)
    assert (run.rc, module_runs(run)[1]) == (0, own), run.output


def test_a_problem_is_for_the_role_to_refuse(run_tasks: Run) -> None:
    wrong = {"vars": {"status_console": "tty99"}}
    run = run_tasks([{**AHEAD, **wrong}, {**OWN, **wrong}])
    assert run.rc == 2 and "status_console" in run.output.partition("Validate the displays")[2]
    assert module_runs(run) == (1, 0)


def test_plans_ahead_show_no_secret(run_tasks: Run) -> None:
    roles = {"rigwright.workstation.plan": {"roles": ["samba", "frp_server"]}, "register": "__common_plans"}
    secret = {"samba_users": [{"name": "alice", "password": SECRET}], "frp_server_token": SECRET}
    planned = {"ansible.builtin.assert": {"that": "__common_plans.plans | length == 2"}}
    run = run_tasks([FACTS, {**roles, "vars": secret}, planned], "-vvvv")
    assert run.rc == 0, run.output
    assert SECRET not in run.output.replace("\n", "")


@pytest.mark.parametrize(("options", "planned"), [(["--check"], {"groups": ["lab"]}), ([], {})])
def test_check_mode_counts_what_earlier_roles_make(run_tasks: Run, options: list[str], planned: dict[str, Any]) -> None:
    include = {"name": "rigwright.workstation.storage", "tasks_from": "plan"}
    plan = {"ansible.builtin.include_role": include, "vars": {"__ssh_members": {"groups": {"lab": ["alice"]}}}}
    used = {"ansible.builtin.assert": {"that": f"__storage_plan.planned == {planned}"}}
    run = run_tasks([FACTS, plan, used], *options)
    assert run.rc == 0, run.output


def test_secret_files_are_made_on_the_controller_and_not_shown(run_tasks: Run) -> None:
    include = {"name": "rigwright.workstation.backup", "tasks_from": "plan"}
    job = {"name": "home", "paths": ["/home"], "post": [{"command": ["mysql", f"-p{SECRET}"]}]}
    request = {
        "backup_repositories": [{"name": "disk", "url": "/srv", "password": SECRET}],
        "backup_jobs": [job],
        "digest": hashlib.sha256(f"{SECRET}\n".encode()).hexdigest(),
    }
    files = "__backup_plan.files | selectattr('secret', 'defined') | list"
    password = {
        "ansible.builtin.assert": {"that": f"digest in {files} | map(attribute='content') | map('hash', 'sha256')"}
    }
    loud = {"ansible.builtin.debug": {"msg": f"{{{{ {files} | map(attribute='path') }}}}"}}
    plan = {"ansible.builtin.include_role": include, "vars": request}
    run = run_tasks([FACTS, plan, {**password, "vars": request}, loud], "-vvvv")
    assert run.rc == 0, run.output
    assert "/etc/rigwright/backup/commands.json" in run.output
    assert SECRET not in run.output.replace("\n", "")


# What the connection ssh of ansible-core does with -vvv, on this machine.
LOUD = """\
DOCUMENTATION = \'\'\'
name: loud
short_description: Show what modules return
description: Show it.
author: none
extends_documentation_fragment: [connection_pipelining]
\'\'\'
from ansible.plugins.connection.local import Connection as Local
from ansible.utils.display import Display


class Connection(Local):
    transport = "loud"

    def exec_command(self, *arguments, **options):
        found = super().exec_command(*arguments, **options)
        Display().vvv("censored" if self._play_context.no_log else str(found), host="localhost")
        return found
"""


def test_a_connection_does_not_show_what_a_plan_returns(run_tasks: Run, tmp_path: Path) -> None:
    """Hide the output of the module: a plan has secrets that it found on the host, as those of daemon.json."""
    (tmp_path / "connection_plugins").mkdir()
    (tmp_path / "connection_plugins/loud.py").write_text(LOUD)
    run = run_tasks([FACTS, AHEAD, OWN, CHANGE, OWN], "-vvv", "-e", "ansible_connection=loud")
    assert run.rc == 0, run.output
    assert "by_role" not in run.output
    assert "free_bytes" in run.output and "censored" in run.output


def test_plans_ahead_are_registered_for_the_roles(run_tasks: Run) -> None:
    run = run_tasks([{"rigwright.workstation.plan": {"roles": []}}])
    assert run.rc == 2 and "register __common_plans" in run.output


def test_nobody_plans_ahead_where_nobody_notes_changes(plays_command: Callable[..., Any]) -> None:
    used = {"ansible.builtin.assert": {"that": "__common_plans.plans == {} and __status_plan.requirements == []"}}
    command = plays_command([{"hosts": "all", "gather_facts": False, "tasks": [AHEAD, OWN, used]}])
    environment = {**command.environment, "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.minimal"}
    done = subprocess.run(
        command.arguments, cwd=command.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_nothing_needs_private_parts_of_ansible(run_tasks: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGWRIGHT_REPORT_INTERNALS", "false")
    used = {"ansible.builtin.assert": {"that": "__common_plans.plans == {} and __status_plan.requirements == []"}}
    proof = {"rigwright.workstation.verify": {"roles": ["status", "storage"]}}
    run = run_tasks([FACTS, AHEAD, OWN, used, proof])
    assert (run.rc, module_runs(run)) == (0, (0, 0)), run.output
    assert "modules were not counted" in run.output
    assert any(row["id"].startswith("status.") for row in run.report["hosts"]["localhost"]["findings"])


@pytest.mark.parametrize("environment", [{"RELEASED": datetime.date(2026, 1, 1)}, {"A": "x", 1: "y"}, {"A": {1, 2}}])
def test_odd_values_are_for_their_own_role(run_tasks: Run, environment: dict[Any, Any]) -> None:
    """YAML has dates, numbers as keys, and sets."""
    variables = {"storage_environment": environment}
    proof = {"rigwright.workstation.verify": {"roles": ["status", "storage"]}}
    run = run_tasks([{**AHEAD, "vars": variables}, OWN, {**proof, "vars": variables}])
    assert (run.rc, module_runs(run)) == (0, (1, 0)), run.output
    assert any(row["id"].startswith("status.") for row in run.report["hosts"]["localhost"]["findings"])


def test_a_batch_that_fails_leaves_planning_to_the_roles(run_tasks: Run) -> None:
    run = run_tasks([{**AHEAD, "vars": {"ansible_python_interpreter": "/bin/false"}}, OWN])
    assert (run.rc, module_runs(run)) == (0, (1, 1)), run.output
    assert "The roles were not planned ahead, so each plans itself" in run.output


def test_a_batch_that_fails_names_its_reason(run_tasks: Run) -> None:
    proof = {"rigwright.workstation.verify": {"roles": ["status", "storage"]}}
    run = run_tasks([{**proof, "vars": {"ansible_python_interpreter": "/nowhere/python3"}}])
    assert run.rc == 2 and "/nowhere/python3" in run.output
