# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks promise (docs/security.md, docs/gpu_accept.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import rows

CHECKOUT = Path(__file__).parents[2]
ROLES = sorted(path.name for path in (CHECKOUT / "roles").iterdir() if (path / "tasks").is_dir())
# They only read or measure, also on a rented container without systemd, which roles refuse; `report` connects to no host.
WITHOUT_ROLES = ("gpu_report", "gpu_accept", "report")


@pytest.mark.parametrize("name", WITHOUT_ROLES)
def test_playbook_that_only_measures_uses_no_role(name: str) -> None:
    text = (CHECKOUT / f"playbooks/{name}.yml").read_text()
    assert re.findall(r"^\s*(?:- )?(?:roles|ansible\.builtin\.(?:include|import)_role):", text, re.MULTILINE) == []


def test_no_play_has_files_of_variables() -> None:
    """Ansible reads them again for each task and host: a third of the controller's work (docs/performance.md)."""
    assert [path.name for path in (CHECKOUT / "playbooks").glob("*.yml") if "vars_files:" in path.read_text()] == []


@pytest.mark.parametrize("play", rows.PLAYS)
def test_play_of_the_site_is_for_the_groups_that_rows_name(play: str) -> None:
    before = (CHECKOUT / "playbooks/site.yml").read_text().partition(f"# begin {play}: ")[0]
    assert re.findall(r"^  hosts: (.*)", before, re.MULTILINE)[-1] == (":".join(rows.PLAYS[play].groups) or "all")


@pytest.mark.parametrize("role", ROLES)
def test_threat_model_has_a_row_for_each_role(role: str) -> None:
    rows = [
        line.split("|")[1] for line in (CHECKOUT / "docs/security.md").read_text().splitlines() if line.startswith("|")
    ]
    assert any(f"`{role}`" in row for row in rows)
