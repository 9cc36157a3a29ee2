# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_health on this machine's GPUs, compared with nvidia-smi. Needs a GPU and its driver, no root; changes nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness import adhoc

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
# Values of `nvidia-smi -q -x`, by their names in gpu_info.
ACTIONS = {
    "None": "none",
    "Reset": "reset",
    "Reboot": "reboot",
    "Drain P2P": "drain_p2p",
    "Drain and Reset": "drain_and_reset",
}


def look(state: Path) -> dict[str, Any]:
    return adhoc.result_of("gpu_health", {"state_file": str(state), "remember": True})


@pytest.fixture(scope="session")
def checks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Check twice; the second check compares with the first."""
    state = tmp_path_factory.mktemp("gpu_health") / "state.json"
    return [look(state), look(state)]


def test_every_gpu_that_nvidia_smi_shows_is_judged(checks: list[dict[str, Any]], nvidia_smi: Any) -> None:
    shown = {row["uuid"] for row in nvidia_smi("uuid")}
    for result in checks:
        assert result["reasons"] == []
        assert {gpu["uuid"] for gpu in result["gpus"] if gpu["uuid"]} == shown


def test_computing_gpu_needs_no_reset_or_reboot(checks: list[dict[str, Any]]) -> None:
    for result in checks:
        for gpu in result["gpus"]:
            assert gpu["verdict"] in ("PASS", "MONITOR", "RESTART_APP"), gpu["reasons"]


def test_recovery_action_is_that_of_nvidia_smi(checks: list[dict[str, Any]]) -> None:
    output = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"<gpu_recovery_action>(.+?)</", output)
    if not found:
        pytest.skip("this driver's nvidia-smi reports no recovery action")
    ours = [gpu["card"]["counters"]["recovery_action"] for gpu in checks[0]["gpus"] if gpu["uuid"]]
    assert ours == [ACTIONS.get(word.strip()) for word in found]


def test_second_check_compares_with_the_first(checks: list[dict[str, Any]]) -> None:
    first, second = checks
    assert second["since"] == first["time"]
    for gpu in second["gpus"]:
        if gpu["uuid"]:
            assert gpu["since_last_check"]["seconds"] > 0
            assert gpu["since_last_check"]["pcie_replays"] in (None, 0)


def test_unread_facts_have_a_remedy(checks: list[dict[str, Any]]) -> None:
    for message in checks[0]["unread"]:
        assert re.search(r"root|systemd-journal|install|says", message)
