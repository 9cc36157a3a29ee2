# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of all roles (roles/common/vars/main/requirements.yml)."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = Path(__file__).parents[3] / "roles/common/vars/main"


@pytest.mark.parametrize(("options", "refused"), [(("--check",), True), ((), False)], ids=["check mode", "a run"])
def test_check_mode_asks_for_package_lists(run_tasks, options, refused):
    facts = {
        "distribution": "Debian",
        "distribution_version": "13",
        "distribution_major_version": "13",
        "service_mgr": "systemd",
        "rigwright": {"uid": 0, "free_bytes": {"/": 1 << 40}, "package_lists": False},
    }
    tasks = [
        {"ansible.builtin.set_fact": {"ansible_facts": facts}},
        *({"ansible.builtin.include_vars": str(VARIABLES / name)} for name in ("platforms.yml", "requirements.yml")),
        {"rigwright.workstation.require": {"that": "{{ __common_requirements }}"}, "vars": {"ansible_facts": facts}},
    ]
    run = run_tasks(tasks, *options)
    assert ("run `apt-get update` there first" in run.output) is refused
    assert (run.rc != 0) is refused
