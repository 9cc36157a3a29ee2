# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role_variables import (
    OF_PLAYBOOKS,
    declared,
    requirements,
    unknown,
)

CHECKOUT = Path(__file__).parents[4]
ROLES = CHECKOUT / "roles"


@pytest.mark.parametrize(
    ("name", "role", "nearest"),
    [
        ("ssh_pasword", "ssh", "ssh_passwords"),
        ("ssh_port", "ssh", "ssh_ports"),
        ("samba_shraes", "samba", "samba_shares"),
        ("gpu_helth", "", ""),
        ("gpu_health_intervall_s", "gpu_health", "gpu_health_interval_s"),
        ("gpu_sharing_gpu", "gpu_sharing", "gpu_sharing_gpus"),
        ("remote_desktop_backnd", "xrdp", "remote_desktop_backend"),
        ("backup_now_job", "backup", "backup_now_jobs"),
        ("ssh_known_hosts", "ssh", ""),
        ("ssh_result", "ssh", ""),
        ("backup_of_mine", "backup", ""),
        ("docker_compose_version", "docker", ""),
        ("docker_install_compose_plugin", "docker", ""),
        ("cuda_visible_devices", "cuda", ""),
        ("workstation_gpus", "common", "workstation_gpu"),
    ],
)
def test_nearest_variable(name, role, nearest):
    found = unknown(ROLES, [name])
    if not role:
        assert found == {}
    else:
        assert found == {name: (role, nearest)}


@pytest.mark.parametrize(
    "name", ["ssh", "sshd_port", "__ssh_plan", "my_ssh_port", "backup_now_jobs", "ansible_ssh_port"]
)
def test_other_names_are_free(name):
    assert unknown(ROLES, [name]) == {}


def test_every_variable_of_a_role_is_known():
    names = {name for role in ROLES.iterdir() for name in declared(ROLES, role.name)}
    assert {"ssh_state", "workstation_releases", "remote_desktop_backend"} < names
    assert unknown(ROLES, names) == {}


def test_every_variable_of_a_playbook_is_known():
    """Read the variables that playbooks take by -e from their code."""
    texts = [file.read_text() for file in CHECKOUT.glob("playbooks/**/*.yml")]
    code = " ".join(part for text in texts for part in re.findall(r"\{\{.*?\}\}|when: .*", text, re.DOTALL))
    names = set(re.findall(r"(?<![\w.'/])[a-z]\w*_\w+(?![\w'(])", code))
    assert set(OF_PLAYBOOKS) <= names
    assert unknown(ROLES, names) == {}


def test_requirement_names_the_remedy_and_the_setting():
    (item,) = requirements(unknown(ROLES, ["samba_shraes", "samba_shares", "docker_compose_version"]))
    assert item == {
        "ok": False,
        "variable": "samba_shraes",
        "problem": "is no variable of the role samba",
        "remedy": "write samba_shares, or set workstation_unknown_variables to warn or ignore",
    }
