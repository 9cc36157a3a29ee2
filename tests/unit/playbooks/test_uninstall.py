# SPDX-License-Identifier: GPL-3.0-or-later
"""The real playbook on made-up roles: which are removed from which host, in which order, and what is shown."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.unit.support.made_up_roles import ROOT, make_collection, write

ORDER = [row["role"] for row in yaml.safe_load((ROOT / "playbooks/vars/site.yml").read_text())["__site_roles"]]
ROLES = [role for role in ORDER if role != "smoke_test"]
FACTS = """\
- ansible.builtin.set_fact:
    cacheable: true
    rigwright: {nvidia_gpus: [], managed: "{{ sets | default([]) }}"}
"""
# The facts of a host on which a set has no role that removed it.
HOST_FACTS = """\
from ansible.module_utils.basic import AnsibleModule

AnsibleModule({}, supports_check_mode=True).exit_json(ansible_facts={"rigwright": {"managed": ["notify"]}})
"""
ROLE = """\
- ansible.builtin.debug: {msg: "ROLE of {{ inventory_hostname }}: {{ ROLE_state }}"}
- name: Break
  ansible.builtin.fail:
  when: broken | default('') == 'ROLE'
- name: Lose the connection
  ansible.builtin.raw: "true"
  vars: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
  when: connection is defined and 'ROLE' == 'frp_client'
"""
TUNNEL = {"connection": "127.0.0.1 40000 127.0.0.1 22", "frp_client_server_address": "gateway"}
CLIENTS = {
    "tower": {
        **TUNNEL,
        "sets": ["backup", "docker", "docker_packages", "docker_rootless", "frp_client", "ssh", "storage"],
    },
    "laptop": {"sets": ["frp_client", "ssh", "status"]},
}
GATEWAY = {"sets": ["firewall", "frp_server", "ssh"]}
VARIABLES = {
    "ansible_become": False,
    "__common_prepared": {"platform_files": [], "role": ""},
    # In place of the result of the command, which is the same for all hosts here.
    "__uninstall_connection": {"stdout": "{{ connection | default('192.0.2.7 40000 192.0.2.9 22') }}"},
}


@pytest.fixture
def uninstall(run_plays, tmp_path):
    """Run the playbook on workstations with these variables."""
    collection = make_collection(tmp_path, ROLES)
    write(collection / "roles/common/tasks/prepare.yml", FACTS)
    write(collection / "plugins/modules/host_facts.py", HOST_FACTS)
    for role in ROLES:
        write(collection / f"roles/{role}/tasks/main.yml", ROLE.replace("ROLE", role))

    def run(*options, **hosts):
        groups = {"workstations": {"hosts": hosts}}
        (tmp_path / "groups.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
        plays = [{"import_playbook": "rigwright.workstation.uninstall"}]
        return run_plays(plays, "-i", "groups.yml", "-e", json.dumps(VARIABLES), *options, hosts=tuple(hosts))

    return run


def applied(run):
    """Return roles, hosts and states in the order in which the roles were applied."""
    return re.findall(r'"(\w+) of (\w+): (\w+)"', run.output)


def shown(run, host):
    """Return the lines of the message at the end."""
    return json.loads(re.findall(rf'ok: \[{host}\] => \{{\s*"msg": (\[.*?\])', run.output, re.DOTALL)[-1])


def test_roles_are_removed_in_reverse_order(uninstall):
    run = uninstall(gateway=GATEWAY, **CLIENTS, attic={"sets": ROLES})
    assert run.rc == 0, run.output
    assert {state for _role, _host, state in applied(run)} == {"absent"}
    hosts = ("gateway", *CLIENTS, "attic")
    first = [role for role in reversed(ROLES) if role not in ("ssh", "frp_client", "frp_server")]
    # The connection to tower ends with its tunnel.
    assert {host: [role for role, name, _state in applied(run) if name == host] for host in hosts} == {
        "gateway": ["firewall", "frp_server", "ssh"],
        "tower": ["backup", "docker", "storage", "ssh", "frp_client"],
        "laptop": ["status", "frp_client", "ssh"],
        "attic": [*first, "frp_client", "frp_server", "ssh"],
    }
    tunnels = [(role, host) for role, host, _state in applied(run) if role.startswith("frp")]
    assert tunnels[0] == ("frp_client", "tower")
    assert [role for role, _host in tunnels] == ["frp_client"] * 3 + ["frp_server"] * 2


def test_only_what_has_left_something_is_removed(uninstall):
    interrupted = {"frp_client_server_address": "gateway"}
    run = uninstall("--check", tower={"sets": ["docker"]}, fresh={}, laptop=interrupted)
    assert applied(run) == [("docker", "tower", "absent"), ("frp_client", "laptop", "absent")]
    assert shown(run, "tower") == ["Would be removed: docker", "Stays: images, containers and volumes"]
    assert shown(run, "fresh") == ["Would be removed: nothing"]


def test_a_role_that_fails_keeps_later_roles_and_all_tunnels(uninstall):
    run = uninstall("-e", "broken=docker", gateway=GATEWAY, **CLIENTS)
    assert run.rc != 0
    assert [role for role, host, _state in applied(run) if host == "tower"] == ["backup", "docker"]
    assert {(role, host) for role, host, _state in applied(run) if host != "tower"} == {
        ("firewall", "gateway"),
        ("status", "laptop"),
    }
    assert shown(run, "gateway")[-1] == "Tunnels and ssh stay: the next run may need them to reach tower"
    assert "docker stays: `Break` failed, see above." in " ".join(run.output.split())


def test_a_role_that_the_command_line_keeps_stays(uninstall):
    run = uninstall("-e", "docker_state=present", tower={"sets": ["docker", "conda"]})
    assert applied(run) == [("conda", "tower", "absent")]
    assert shown(run, "tower")[-1] == "Records still name: notify"
