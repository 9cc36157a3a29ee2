# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.role_contract import CHECKS, Role

ROLES = Path(__file__).parents[2] / "roles"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", sorted(path.name for path in ROLES.iterdir() if path.name != "common"))
def test_role_obeys_the_contract(name, check):
    assert list(check(Role(ROLES / name))) == []


def test_common_reads_no_result_of_a_role():
    roles = "|".join(path.name for path in ROLES.iterdir() if path.name != "common")
    files = [path for path in (ROLES / "common").rglob("*.yml") if path.is_file()]
    assert [found for file in files for found in re.findall(rf"\b__(?:{roles})_\w+", file.read_text())] == []
