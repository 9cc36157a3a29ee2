# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of NVSwitches in the kernel's log."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import sxid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.sxid_log import Sxid

HEAD = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0):"


def test_line_has_switch_code_and_text() -> None:
    assert log.parse_line(f"{HEAD} 20034, Fatal, Link 30 LTSSM Fault Up", 5.0) == Sxid(
        20034, "nvswitch3", "0000:05:00.0", 5.0, "Fatal, Link 30 LTSSM Fault Up"
    )


@pytest.mark.parametrize(
    "text", [f"{HEAD} 20034, Severity 1 Engine instance 30", f"{HEAD} 20034, Data {{0x1}}", "SXid", ""]
)
def test_details_and_other_lines_are_no_sxid(text: str) -> None:
    assert log.parse_line(text) is None


@pytest.mark.parametrize(
    ("code", "text", "verdict"),
    [
        (12028, "Non-fatal, Link 32 egress non-posted PRIV error", "MONITOR"),
        (22013, "Minion Link 40 DLREQ interrupt", "MONITOR"),
        (20034, "Fatal, Link 30 LTSSM Fault Up", "RESET_GPU"),
        (22003, "Fatal, Minion Halt", "REBOOT"),
        (10003, "Host_unhandled_interrupt", "REBOOT"),
    ],
)
def test_fatal_sxid_resets_and_fabric_sxid_reboots(code: int, text: str, verdict: str) -> None:
    sxid = Sxid(code, "nvswitch0", "0000:05:00.0", text=text)
    assert sxid.verdict == verdict and sxid.next_step
