# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine is called where others see it, also where its inventory calls it `localhost`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROLES = Path(__file__).parents[3] / "roles"


@pytest.mark.parametrize(
    ("reached", "name"),
    [
        ({}, "tower"),
        ({"ansible_host": "127.0.0.1"}, "tower"),
        ({"ansible_host": "tower.example.org"}, "tower.example.org"),
    ],
    ids=["no address", "a tunnel", "an address"],
)
def test_machine_is_named_by_its_own_host_name(run_tasks: Any, reached: dict[str, str], name: str) -> None:
    defaults = [ROLES / f"{role}/defaults/main.yml" for role in ("frp_client", "frp_server", "xrdp")]
    tasks = [
        *({"ansible.builtin.include_vars": str(file)} for file in (ROLES / "common/vars/main/identity.yml", *defaults)),
        {
            "ansible.builtin.assert": {
                "that": ["[frp_client_user] + frp_server_tls_subject_alt_names + xrdp_tls_names == expected"]
            },
            "vars": {"ansible_facts": {"nodename": "tower"}},
        },
    ]
    run = run_tasks(tasks, "-e", json.dumps({**reached, "expected": ["tower", name, name]}))
    assert run.rc == 0, run.output


def test_arguments_are_validated_before_facts_are_there(run_tasks: Any) -> None:
    tasks = [
        {"ansible.builtin.include_vars": str(ROLES / "common/vars/main/identity.yml")},
        {
            "ansible.builtin.assert": {"that": ["__common_host_name == inventory_hostname"]},
            "vars": {"ansible_facts": {}},
        },
    ]
    run = run_tasks(tasks)
    assert run.rc == 0, run.output


def test_no_default_is_the_name_of_every_machine() -> None:
    found = {
        line.partition(":")[0]
        for file in ROLES.glob("*/defaults/main.yml")
        for line in file.read_text().splitlines()
        if "inventory_hostname" in line and not line.startswith("#")
    }
    assert found == set()
