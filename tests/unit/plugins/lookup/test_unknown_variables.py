# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest

LOOK = [
    {"ansible.builtin.include_role": {"name": "rigwright.workstation.common", "tasks_from": "prepare"}},
]
ROLE = [{"ansible.builtin.include_role": {"name": "rigwright.workstation.ssh"}}]
MISSPELLED = {"ssh_pasword": True, "samba_shraes": [1], "workstation_gpus": False, "note": "a"}


@pytest.mark.parametrize("tasks", [LOOK, ROLE], ids=["a playbook", "a role"])
def test_misspelled_variables_are_refused_before_any_module_runs(run_tasks, tasks):
    run = run_tasks(tasks, "-e", json.dumps(MISSPELLED))
    assert run.rc == 2
    output = " ".join(run.output.split())
    assert "ssh_pasword: is no variable of the role ssh; write ssh_passwords, or set" in output
    assert "samba_shraes: is no variable of the role samba; write samba_shares, or set" in output
    assert "workstation_gpus: is no variable of the role common; write workstation_gpu, or set" in output
    assert "note:" not in output
    runs = [role["module_runs"] for role in run.report["hosts"]["localhost"]["roles"].values()]
    assert sum(runs) == 0


def query(setting, run_tasks):
    tasks = [{"rigwright.workstation.require": {"that": "{{ query('rigwright.workstation.unknown_variables') }}"}}] * 2
    variables = {"samba_shraes": [1]} | ({"workstation_unknown_variables": setting} if setting else {})
    run = run_tasks(tasks, "-e", json.dumps(variables))
    return run.rc, " ".join(run.output.split())


@pytest.mark.parametrize(
    ("setting", "rc", "message"),
    [
        (None, 2, "samba_shraes: is no variable of the role samba; write samba_shares, or set"),
        ("refuse", 2, "samba_shraes: is no variable"),
        ("warn", 0, "[WARNING]: samba_shraes is no variable of the role samba: write samba_shares, or set"),
        ("ignore", 0, ""),
    ],
)
def test_setting(run_tasks, setting, rc, message):
    ended, output = query(setting, run_tasks)
    assert ended == rc
    assert message in output
    assert ("samba_shraes" in output) is bool(message)
    assert output.count("[WARNING]: samba_shraes") == (setting == "warn")


def test_setting_is_one_of_its_choices(run_tasks):
    ended, output = query("wran", run_tasks)
    assert ended == 2
    assert "wran" in output


def test_variables_of_other_people_pass(run_plays, tmp_path):
    """Accept defaults of another role, results and facts of tasks, and with one warning variables of plays, inventory and -e."""
    defaults = tmp_path / "roles/other.docker/defaults/main.yml"
    defaults.parent.mkdir(parents=True)
    defaults.write_text("docker_install_compose_plugin: true\n")
    tasks = [
        {"ansible.builtin.set_fact": {"ssh_port": 22}, "register": "ssh_passwrods"},
        {"rigwright.workstation.require": {"that": "{{ query('rigwright.workstation.unknown_variables') }}"}},
        {"ansible.builtin.assert": {"that": "docker_install_compose_plugin"}},
    ]
    play = {"hosts": "all", "gather_facts": False, "vars": {"cuda_visible_devices": 0}, "tasks": tasks}
    play["roles"] = [str(tmp_path / "roles/other.docker")]
    run = run_plays([play], "-e", json.dumps({"docker_compose_version": 2, "ssh_known_hosts": []}), hosts=("a", "b"))
    output = " ".join(run.output.split())
    assert run.rc == 0, run.output
    assert (
        output.count(
            "[WARNING]: No role of rigwright.workstation has cuda_visible_devices, docker_compose_version, ssh_known_hosts,"
        )
        == 1
    )
    for name in ("docker_install_compose_plugin", "ssh_passwrods", "ssh_port"):
        assert name not in output


def test_play_variable_of_a_vars_file_and_of_a_task_warns(run_plays, tmp_path):
    (tmp_path / "more.yml").write_text("samba_of_mine: 1\n")
    task = {"rigwright.workstation.require": {"that": "{{ query('rigwright.workstation.unknown_variables') }}"}}
    play = {"hosts": "all", "gather_facts": False, "vars_files": ["more.yml"]}
    run = run_plays([{**play, "tasks": [{**task, "vars": {"ssh_of_mine": 1}}]}])
    assert run.rc == 0, run.output
    assert "[WARNING]: No role of rigwright.workstation has samba_of_mine, ssh_of_mine," in " ".join(run.output.split())


@pytest.mark.parametrize("where", ["play", "inventory"])
def test_misspelled_variable_of_a_play_and_of_the_inventory(run_plays, tmp_path, where):
    tasks = [{"rigwright.workstation.require": {"that": "{{ query('rigwright.workstation.unknown_variables') }}"}}]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    if where == "play":
        play["vars"] = {"ssh_port": 22}
    else:
        (tmp_path / "group_vars").mkdir()
        (tmp_path / "group_vars/all.yml").write_text("ssh_port: 22\n")
    run = run_plays([play])
    assert run.rc == 2
    assert "ssh_port: is no variable of the role ssh; write ssh_ports, or set" in " ".join(run.output.split())
