# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbooks of the site, the real ends of frp_server and the real guard of frp_client, around roles that do nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import rows
from tests.unit.support.made_up_roles import make_collection, write

CHECKOUT = Path(__file__).parents[3]
REFUSED = "frp_client_server_host: is one, which has failed earlier in this run"
ROWS = rows.read()
GPU_ROLES = {row.role for row in ROWS if {"__site_gpu", "__site_gpu_containers"} & {*row.when}} - {"gpu_sharing"}
# Roles that run where one of their variables is set, with such a variable.
DECLARED: dict[str, dict[str, Any]] = {
    "storage": {"storage_directories": []},
    "samba": {"samba_shares": []},
    "xrdp": {"remote_desktop_backend": "xrdp"},
    "status": {"status_console": ""},
    "firewall": {"firewall_allow": []},
    "backup": {"backup_jobs": []},
}
EVERYWHERE = {row.role for row in ROWS if not row.when} | {"frp_client"}
HOSTS = ("one", "two", "tower")
GROUPS: dict[str, Any] = {"gateways": {"hosts": {"one": {}, "two": {}}}, "workstations": {"hosts": {"tower": {}}}}
GPU = {"gpus": ["0000:01:00.0"]}
# Workstations by what is special about them, and gateways with the same variables.
CASES: dict[str, dict[str, Any]] = {
    "no_gpu": {},
    "gpu": GPU,
    "gpu_to_come": {"workstation_gpu": True},
    "gpu_unwanted": {**GPU, "workstation_gpu": False},
    "gpu_shared": {**GPU, "gpu_sharing_gpus": []},
    "gpu_without_docker": {**GPU, "docker_state": "absent"},
    "shares": DECLARED["storage"] | DECLARED["samba"] | DECLARED["status"],
    "desktops": DECLARED["xrdp"] | DECLARED["firewall"] | DECLARED["backup"],
    "misspelled": {"samba_shraes": [1], "storage_x": 1, "remote_desktop_backnd": "", "backup_now_jobs": "home"},
}
VARIABLES: dict[str, Any] = {
    # Roles take the facts of LOOK.
    "__common_prepared": {"platform_files": [], "role": ""},
    # The role's own has no host.
    "__frp_client_verify_context": {"host": "{{ inventory_hostname }}"},
    "ansible_become": False,
    "frp_client_server_address": "one",
    "frp_server_state": "present",
    "__frp_server_plan": {"release_due": False},
}
FAIL = "- ansible.builtin.fail:\n  when: inventory_hostname == 'one' and broken | default('') == '{}'\n"
LOOK = """\
- ansible.builtin.set_fact:
    cacheable: true
    rigwright: {nvidia_gpus: "{{ gpus | default([]) }}", uid: 0, managed: "{{ managed | default([]) }}"}
"""
# The facts of a host on which a role has failed. Only docker is set up there.
HOST_FACTS = """\
from ansible.module_utils.basic import AnsibleModule

facts = {"rigwright": {"nvidia_gpus": [], "uid": 0, "managed": ["docker", "samba"]}}
AnsibleModule({}, supports_check_mode=True).exit_json(ansible_facts=facts)
"""
# In place of a plan, roles give their proof.
PLANNED = """\
- ansible.builtin.debug:
    msg: "planned: {{ __common_plans.plans.values() | map(attribute='plan.findings.0.evidence') | join(', ') }}"
"""
GUARD = """\
- rigwright.workstation.require: {that: "{{ __frp_client_requirements_others[:1] }}"}
- ansible.builtin.debug: {msg: the client goes on}
"""


@pytest.fixture
def site(run_plays, tmp_path):
    """Run the site on two gateways and a client of the first; one of the first's roles fails."""
    collection = make_collection(tmp_path, [row.role for row in ROWS])
    files = {
        "common/tasks/prepare.yml": LOOK,
        "common/vars/main/identity.yml": None,
        "mirrors/tasks/main.yml": FAIL.format("mirrors"),
        "ssh/tasks/main.yml": PLANNED,
        "frp_server/tasks/main.yml": None,
        "frp_server/tasks/plan.yml": "[]",
        "frp_server/tasks/configure.yml": FAIL.format("frp_server"),
        "frp_server/tasks/remove.yml": "[]",
        "frp_client/defaults/main.yml": None,
        "frp_client/meta/argument_specs.yml": None,
        "frp_client/vars/main.yml": None,
        "frp_client/tasks/main.yml": GUARD,
    }
    for role in (row.role for row in ROWS):
        files.setdefault(
            f"{role}/tasks/main.yml",
            f"- ansible.builtin.debug: {{msg: '{role} for {{{{ inventory_hostname }}}}'}}\n"
            f"- name: Break\n  ansible.builtin.fail:\n  when: broken | default('') == '{role}'\n",
        )
    for role in DECLARED:
        files[f"{role}/meta/argument_specs.yml"] = None
    for name, text in files.items():
        write(collection / "roles" / name, text if text is not None else (CHECKOUT / "roles" / name).read_text())
    modules = collection / "plugins/modules"
    write(modules / "host_facts.py", HOST_FACTS)
    # A step of frp_server that does not run here.
    write(modules / "release_archive.py", HOST_FACTS)
    for role in ("ssh", "cuda", "docker"):
        file = collection / f"plugins/module_utils/_roles/{role}.py"
        file.write_text(
            f"{file.read_text()}\n\ndef plan(request, host):\n    return {{'findings': verify(request, host)}}\n"
        )
    (tmp_path / "variables.yml").write_text(yaml.safe_dump(VARIABLES))

    def run(*options, playbook="site", cases=None):
        hosts, groups = HOSTS, GROUPS
        if cases:
            hosts = (*cases, *(f"gateway_{name}" for name in cases))
            groups = {
                "workstations": {"hosts": cases},
                "gateways": {"hosts": {f"gateway_{name}": variables for name, variables in cases.items()}},
            }
        (tmp_path / "groups.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
        plays = [{"import_playbook": f"rigwright.workstation.{playbook}"}]
        done = run_plays(plays, "-i", "groups.yml", "-e", "@variables.yml", *options, hosts=hosts)
        return replace(done, output=" ".join(done.output.split()))

    return run


def proven(run, host):
    """Return the roles that are proven on a host: by their own proof, and by nothing else."""
    findings = run.report["hosts"][host]["findings"]
    roles = {finding["id"].partition(".")[0] for finding in findings}
    assert {(finding["evidence"], finding["status"]) for finding in findings} == {
        (f"proof of {role} for {host}", "pass") for role in roles
    }
    return roles


@pytest.mark.parametrize("broken", ["mirrors", "frp_server"])
def test_the_client_of_a_gateway_that_failed_is_refused(site, broken):
    shown = site("-e", f"broken={broken}").output
    assert REFUSED in shown
    assert "the client goes on" not in shown


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="the gateway is well"),
        pytest.param(("-e", "frp_server_state=absent"), id="it is no server any more"),
        pytest.param(("-e", "broken=mirrors", "--skip-tags", "frp_server"), id="its server is not asked for"),
    ],
)
def test_otherwise_the_client_goes_on(site, options):
    shown = site(*options).output
    assert REFUSED not in shown
    assert "the client goes on" in shown


def test_each_host_gets_the_roles_that_its_variables_ask_for(site):
    run = site("-e", "frp_client_server_address=gateway_no_gpu", cases=CASES)

    def named(host):
        return set(re.findall(rf'"(\w+) for {host}"', run.output))

    for host in CASES:
        assert not named(f"gateway_{host}") & GPU_ROLES, "gateways get no roles for GPUs"
    gpu_roles = {name: named(name) & (GPU_ROLES | {"gpu_sharing"}) for name in CASES}
    for name in ("no_gpu", "gpu_unwanted", "shares", "desktops", "misspelled"):
        assert gpu_roles[name] == set()
    for name in ("gpu", "gpu_to_come"):
        assert gpu_roles[name] == GPU_ROLES
    assert gpu_roles["gpu_shared"] == GPU_ROLES | {"gpu_sharing"}
    assert gpu_roles["gpu_without_docker"] == GPU_ROLES - {"nvidia_container_toolkit"}

    declared = {name: named(name) & {*DECLARED} for name in CASES}
    assert declared == {
        **{name: set() for name in CASES},
        "shares": {"storage", "samba", "status"},
        "desktops": {"xrdp", "firewall", "backup"},
    }
    # Gateways have a firewall and backups too, and nothing else of these.
    assert {name for name in CASES if named(f"gateway_{name}") & {*DECLARED}} == {"desktops"}
    assert named("gateway_desktops") & {*DECLARED} == {"firewall", "backup"}

    # What is applied is proven, and nothing else.
    on_workstations = EVERYWHERE - {"frp_server"}
    for name in CASES:
        expected = on_workstations | gpu_roles[name] | declared[name]
        assert proven(run, name) == expected - ({"docker"} if name == "gpu_without_docker" else set())


@pytest.mark.parametrize("managed", [[], ["ssh"]], ids=["a new host", "a host with a role"])
def test_a_host_with_roles_has_all_of_its_roles_planned_ahead(site, managed):
    shown = site("-e", json.dumps({"managed": managed})).output
    on_tower = "proof of ssh for tower, proof of docker for tower"
    expected = ["proof of ssh for one", on_tower, "proof of ssh for two"] if managed else [""] * len(HOSTS)
    assert sorted(re.findall(r'"planned: (.*?)"', shown)) == expected


def test_a_run_that_begins_after_the_first_play_is_refused(site):
    shown = site("-e", json.dumps(GPU), "--start-at-task", "Back up, check and drill").output
    assert "use --tags, as in --tags docker" in " ".join(shown.split())


def test_the_upgrade_of_drivers_heeds_it_too(site):
    cases = {"wanted": {"workstation_gpu": True}, "unwanted": {**GPU, "workstation_gpu": False}}
    shown = site(playbook="nvidia_driver_upgrade", cases=cases).output
    assert [name for name in cases if f"nvidia_driver for {name}" in shown] == ["wanted"]


def test_one_of_the_gpu_roles_alone(site):
    shown = site("-e", '{"gpus": ["0000:01:00.0"]}', "--tags", "cuda").output
    assert '"cuda for tower"' in shown
    assert "cudnn for tower" not in shown


@pytest.mark.parametrize("check", [False, True], ids=["a run", "check mode"])
def test_what_is_set_up_is_proven_although_a_later_role_failed(site, check):
    # A run looks at the host again when a role has failed.
    failed = {"broken": "samba", "__common_prepared": {"platform_files": [], "role": "samba"}}
    variables = {**failed, "managed": ["docker"] if check else [], **DECLARED["samba"], **DECLARED["backup"]}
    run = site("-e", json.dumps(variables), *(["--check"] if check else []))
    (recap,) = re.findall(r"tower : ok=\d+ .*?rescued=\d+", run.output)
    assert ("failed=1" in recap, "rescued=1" in recap) == (True, True)
    assert '"backup for tower"' not in run.output
    assert proven(run, "tower") == (set() if check else {"docker"})
    assert "A role failed at `Break`" in run.output
