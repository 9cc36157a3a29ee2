# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbooks of the site, the real ends of frp_server and the real guard of frp_client, around roles that do nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
REFUSED = "frp_client_server_host: is one, which has failed earlier in this run"
GPU_ROLES = ("nvidia_driver", "cuda", "cudnn", "gpu_health", "nvidia_container_toolkit", "gpu_usage")
# Roles that run where one of their variables is set, with such a variable.
DECLARED: dict[str, dict[str, Any]] = {
    "storage": {"storage_directories": []},
    "samba": {"samba_shares": []},
    "xrdp": {"remote_desktop_backend": "xrdp"},
    "status": {"status_console": ""},
    "firewall": {"firewall_allow": []},
    "backup": {"backup_jobs": []},
}
EVERYWHERE = ("mirrors", "ssh", "frp_server", "frp_client", "docker", "conda", "smoke_test")
HOSTS = ("one", "two", "tower")
GROUPS: dict[str, Any] = {"gateways": {"hosts": {"one": {}, "two": {}}}, "workstations": {"hosts": {"tower": {}}}}
VARIABLES: dict[str, Any] = {
    # Roles take the facts of LOOK.
    "__common_prepared": {"platform_files": []},
    "ansible_become": False,
    "frp_client_server_address": "one",
    "frp_server_state": "present",
    "__frp_server_plan": {"release_due": True},
}
FAIL = "- ansible.builtin.fail:\n  when: inventory_hostname == 'one' and broken | default('') == '{}'\n"
LOOK = """\
- ansible.builtin.set_fact:
    cacheable: true
    rigwright: {nvidia_gpus: "{{ gpus | default([]) }}", uid: 0}
"""
GUARD = """\
- rigwright.workstation.require: {that: "{{ __frp_client_requirements_others[:1] }}"}
- ansible.builtin.debug: {msg: the client goes on}
"""


@pytest.fixture
def site(run_plays, tmp_path):
    """Run the site on two gateways and a client of the first; one of the first's roles fails."""
    collection = tmp_path / "collections/ansible_collections/rigwright/workstation"
    files = {
        "common/tasks/look_at_host.yml": LOOK,
        "mirrors/tasks/main.yml": FAIL.format("mirrors"),
        "ssh/tasks/main.yml": "[]",
        "frp_server/tasks/main.yml": None,
        "frp_server/tasks/plan.yml": "[]",
        "frp_server/tasks/install.yml": FAIL.format("frp_server"),
        "frp_server/tasks/configure.yml": "[]",
        "frp_server/tasks/remove.yml": "[]",
        "frp_client/defaults/main.yml": None,
        "frp_client/vars/main.yml": None,
        "frp_client/tasks/main.yml": GUARD,
    }
    for role in ("docker", "conda", "gpu_sharing", *DECLARED, *GPU_ROLES):
        files[f"{role}/tasks/main.yml"] = (
            f"- ansible.builtin.debug: {{msg: '{role} for {{{{ inventory_hostname }}}}'}}\n"
            f"- name: Break\n  ansible.builtin.fail:\n  when: broken | default('') == '{role}'\n"
        )
    for role in (*EVERYWHERE, "gpu_sharing", *DECLARED, *GPU_ROLES):
        files[f"{role}/tasks/verify.yml"] = f"- ansible.builtin.debug: {{msg: 'proof of {role}'}}\n"
    for role in DECLARED:
        files[f"{role}/meta/argument_specs.yml"] = None
    for name, text in files.items():
        file = collection / "roles" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text is not None else (CHECKOUT / "roles" / name).read_text())
    for part in ("galaxy.yml", "meta", "playbooks", "plugins"):
        (collection / part).symlink_to(CHECKOUT / part)
    (tmp_path / "groups.yml").write_text(yaml.safe_dump({"all": {"children": GROUPS}}))
    (tmp_path / "variables.yml").write_text(yaml.safe_dump(VARIABLES))

    def run(*options, playbook="site"):
        plays = [{"import_playbook": f"rigwright.workstation.{playbook}"}]
        done = run_plays(plays, "-i", "groups.yml", "-e", "@variables.yml", *options, hosts=HOSTS)
        return " ".join(done.output.split())

    return run


@pytest.mark.parametrize("broken", ["mirrors", "frp_server"])
def test_the_client_of_a_gateway_that_failed_is_refused(site, broken):
    shown = site("-e", f"broken={broken}")
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
    shown = site(*options)
    assert REFUSED not in shown
    assert "the client goes on" in shown


def runs_gpu_roles(shown):
    """Return True if the workstation got all the roles for GPUs; no other host ever does."""
    assert not re.search(r"(nvidia_driver|cuda|cudnn|gpu_health|gpu_usage) for (one|two)", shown)
    (all_or_none,) = {f"{role} for tower" in shown for role in GPU_ROLES}
    return all_or_none


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, False, id="no GPU"),
        pytest.param({"gpus": ["0000:01:00.0"]}, True, id="a GPU"),
        pytest.param({"workstation_gpu": True}, True, id="asked for, for a GPU to come"),
        pytest.param({"gpus": ["0000:01:00.0"], "workstation_gpu": False}, False, id="not wanted"),
    ],
)
def test_a_workstation_with_a_gpu_gets_the_roles_for_it(site, variables, expected):
    assert runs_gpu_roles(site("-e", json.dumps(variables))) is expected


@pytest.mark.parametrize("playbook", ["gpu", "nvidia_driver_upgrade"])
@pytest.mark.parametrize("wanted", [True, False])
def test_the_playbooks_for_gpus_heed_it_too(site, playbook, wanted):
    shown = site("-e", json.dumps({"workstation_gpu": wanted}), playbook=playbook)
    assert ("nvidia_driver for tower" in shown) is wanted


def test_one_of_the_gpu_roles_alone(site):
    shown = site("-e", '{"gpus": ["0000:01:00.0"]}', "--tags", "cuda")
    assert "cuda for tower" in shown
    assert "cudnn for tower" not in shown


@pytest.mark.parametrize("gpus", [[], ["0000:01:00.0"]], ids=["no GPU", "a GPU"])
def test_what_is_applied_is_proven(site, gpus):
    shown = site("-e", json.dumps({"gpus": gpus}))
    proven = set(re.findall(r"proof of (\w+)", shown))
    assert proven == {*EVERYWHERE, *(GPU_ROLES if gpus else ())}


@pytest.mark.parametrize("declared", [False, True])
def test_gpus_are_shared_where_that_is_declared(site, declared):
    variables = {"gpus": ["0000:01:00.0"], **({"gpu_sharing_gpus": []} if declared else {})}
    shown = site("-e", json.dumps(variables))
    assert ("gpu_sharing for tower" in shown) is declared
    assert ("proof of gpu_sharing" in shown) is declared


@pytest.mark.parametrize(
    "declared", [(), ("storage", "samba", "status"), ("xrdp", "firewall", "backup")], ids=" and ".join
)
def test_roles_that_are_declared_run_where_they_are(site, declared):
    shown = site("-e", json.dumps({name: value for role in declared for name, value in DECLARED[role].items()}))
    assert {role for role in DECLARED if f"{role} for tower" in shown} == set(declared)
    assert {role for role in DECLARED if f"proof of {role}" in shown} == set(declared)
    # Gateways have a firewall and backups too, and nothing else of these.
    assert {role for role in DECLARED if f"{role} for one" in shown} == {"firewall", "backup"} & set(declared)


def test_a_name_that_no_role_has_asks_for_no_role(site):
    shown = site("-e", '{"samba_shraes": [1], "storage_x": 1, "remote_desktop_backnd": "", "backup_now_jobs": "home"}')
    assert not [role for role in DECLARED if f"{role} for tower" in shown]


@pytest.mark.parametrize("check", [False, True], ids=["a run", "check mode"])
def test_what_is_set_up_is_proven_although_a_later_role_failed(site, check):
    # The facts of a real host name what is set up there.
    variables = {"broken": "samba", "__site_prove_only": ["docker"], **DECLARED["samba"], **DECLARED["backup"]}
    shown = site("-e", json.dumps(variables), *(["--check"] if check else []))
    (recap,) = re.findall(r"tower : ok=\d+ .*?rescued=\d+", shown)
    assert ("failed=1" in recap, "rescued=1" in recap) == (True, True)
    assert "backup for tower" not in shown
    proven = re.findall(r"proof of (\w+)", shown.split("PLAY [Configure firewalls]")[0])
    assert proven == ([] if check else ["docker"])
    assert "A role failed at `Break`" in shown


def test_without_docker_no_gpu_is_given_to_containers(site):
    shown = site("-e", json.dumps({"gpus": ["0000:01:00.0"], "docker_state": "absent"}))
    assert "docker for tower" in shown
    assert "nvidia_container_toolkit for tower" not in shown
    assert "proof of docker" not in shown
