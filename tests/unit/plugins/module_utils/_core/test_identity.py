from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._core.identity import (
    EVERYBODYS,
    is_everybodys,
    machine_key,
    problems_of_name,
)

CHECKOUT = Path(__file__).parents[5]


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "localhost.localdomain", "127.0.0.1", "::1", "", " "])
def test_everybodys_name_is_refused(name: str) -> None:
    (problem,) = problems_of_name("backup_host", name)
    assert problem["variable"] == "backup_host"
    assert "set backup_host" in problem["remedy"]


@pytest.mark.parametrize("name", ["ws1", "ws1.example.org", "localhost-2", "192.0.2.7"])
def test_own_name_is_taken(name: str) -> None:
    assert not is_everybodys(name)
    assert not list(problems_of_name("backup_host", name))


def test_role_common_has_the_same_names() -> None:
    variables = yaml.safe_load((CHECKOUT / "roles/common/vars/main/identity.yml").read_text())
    assert set(variables["__common_names_of_everybody"]) == EVERYBODYS


def test_machine_key_tells_machines_apart() -> None:
    key, other = machine_key(f"{'a' * 32}\n"), machine_key("b" * 32)
    assert key != other
    assert key == machine_key("a" * 32)
    assert "a" * 8 not in key


@pytest.mark.parametrize("text", ["", "\n", "uninitialized\n"])
def test_machine_without_id_has_no_key(text: str) -> None:
    assert machine_key(text) == ""
