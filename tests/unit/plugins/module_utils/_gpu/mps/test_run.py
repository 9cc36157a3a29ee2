# SPDX-License-Identifier: GPL-3.0-or-later
"""What a diff shows of a daemon. Whole runs are in the tests of gpu_mps."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live, Steps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.run import after, described

HOST = Host(lambda *_words: (0, "", ""), "none", "program", "/etc/nvidia-mps")


def test_diff_has_only_the_environment_of_mps() -> None:
    live = Live(environment={"CUDA_MPS_PIPE_DIRECTORY": "/run/team", "HOME": "/root"})
    shown = described(live, {"/etc/team.sh": "x\n", "/etc/gone": None})
    assert shown["environment"] == {"CUDA_MPS_PIPE_DIRECTORY": "/run/team"}
    assert (shown["state"], shown["files"]) == ("stopped", {"/etc/team.sh": "x\n"})


def test_daemon_without_steps_stays_as_it_is() -> None:
    before = described(Live(), {})
    assert after(Daemon("team"), Steps(), before, HOST) == before


def test_stopped_daemon_has_neither_options_nor_environment() -> None:
    before: Any = {
        "state": "started",
        "options": ["-d"],
        "environment": {"A": "b"},
        "not_as_declared": ["x"],
        "files": {},
    }
    stopped = after(Daemon("team", state="stopped"), Steps(verbs=["stop"]), before, HOST)
    assert (stopped["state"], stopped["options"], stopped["environment"]) == ("stopped", [], {})
