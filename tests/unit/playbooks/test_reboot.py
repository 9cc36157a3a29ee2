# SPDX-License-Identifier: GPL-3.0-or-later
"""The real reboot of the role nvidia_driver on the host that the play runs on, with another `shutdown`."""

from __future__ import annotations

import pytest


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def shutdown(tmp_path, log):
    """Return a search path with a `shutdown` that only logs its arguments, never the machine's own."""
    program = tmp_path / "bin/shutdown"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "shutdown $*" >>{log}\n')
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def test_the_controller_reboots_after_all_of_its_roles(run_plays, shutdown, log):
    driver = {"name": "rigwright.workstation.nvidia_driver", "tasks_from": "reboot"}
    tasks = [{"include_role": driver}, {"shell": f"echo 'the next role' >>{log}"}]
    play = {"hosts": "all", "gather_facts": False, "environment": {"PATH": shutdown}, "tasks": tasks}

    run = run_plays([play])

    assert run.rc == 0, run.output
    next_role, reboot = log.read_text().splitlines()
    assert next_role == "the next role"
    assert reboot.startswith("shutdown --reboot +5 ")
