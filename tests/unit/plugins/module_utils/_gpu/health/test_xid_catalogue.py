# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of Xids: its verdicts where tools disagree, and the mistakes of other tools."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data

# gpu.md 3.8: NVIDIA's catalogue where the tools were compared.
COMPARED = {
    13: "RESTART_APP",
    31: "RESTART_APP",
    43: "MONITOR",
    45: "MONITOR",
    48: "RESET_GPU",
    62: "RESET_GPU",
    63: "PASS",
    64: "RESET_GPU",
    68: "RESTART_APP",
    74: "RESET_GPU",
    79: "REBOOT",
    92: "MONITOR",
    94: "RESTART_APP",
    95: "RESET_GPU",
    109: "RESET_GPU",
    119: "RESET_GPU",
    120: "RESET_GPU",
    140: "RESET_GPU",
}


@pytest.mark.parametrize(("code", "verdict"), COMPARED.items())
def test_nvidias_catalogue_decides_where_tools_disagree(code: int, verdict: str) -> None:
    row = data.find(code)
    assert (row.verdict, row.source) == (verdict, data.CATALOG)


def test_every_line_is_complete_and_unique() -> None:
    codes = [row.code for row in data.XIDS]
    assert codes == sorted(set(codes))
    assert not data.UNUSED & set(codes)
    # The catalogue goes from 1 to 172, the driver's list (595.45.04) to 176, without a gap.
    assert data.UNUSED | set(codes) == set(range(1, 177))
    subsystems = {"application", "bus", "display", "engine", "firmware", "link", "memory", "other", "power"}
    for row in data.XIDS:
        assert row.name and row.source.startswith("https://") and row.subsystem in subsystems
        assert row.verdict in data.VERDICTS


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        ("RESTART_APP", {"RESTART_APP"}),
        ("RESET_GPU", {"RESET_GPU"}),
        ("RESTART_BM", {"REBOOT"}),
        ("RESTART_VM", {"REBOOT"}),
        ("IGNORE", {"PASS", "MONITOR"}),
        ("CONTACT_SUPPORT", {"MONITOR"}),
        ("", {"MONITOR", "RESTART_APP", "RESET_GPU"}),
    ],
)
def test_verdict_follows_the_catalogues_action(action: str, verdict: set[str]) -> None:
    assert {row.verdict for row in data.XIDS if row.action == action} == verdict


def test_unknown_xid_is_monitored() -> None:
    assert [data.find(code).verdict for code in (15, 177, 99999)] == ["MONITOR"] * 3
    assert [data.find(code).name for code in (15, 99999)] == ["Unused", "Unknown"]


@pytest.mark.parametrize(
    ("code", "subsystem", "verdict"),
    [
        (56, "display", "MONITOR"),
        (58, "memory", "RESET_GPU"),
        (59, "firmware", "RESET_GPU"),
        (61, "firmware", "MONITOR"),
        (65, "engine", "RESTART_APP"),
        (73, "engine", "RESTART_APP"),
        (81, "display", "MONITOR"),
        (113, "display", "MONITOR"),
        (125, "firmware", "MONITOR"),
        (173, "link", "RESET_GPU"),
        (174, "application", "RESTART_APP"),
        (175, "memory", "RESET_GPU"),
        (176, "bus", "MONITOR"),
    ],
)
def test_older_gpus_displays_and_new_drivers_have_xids(code: int, subsystem: str, verdict: str) -> None:
    row = data.find(code)
    assert (row.subsystem, row.verdict) == (subsystem, verdict)
    assert code not in data.UNUSED


def test_halted_micro_controllers_are_reset() -> None:
    assert data.find(62).name == data.find(169).name
    assert data.find(62).verdict == data.find(169).verdict == "RESET_GPU"


@pytest.mark.parametrize(
    ("codes", "dcgm", "ours"),
    [
        ((38, 39, 42), "bus", ["firmware", "engine", "engine"]),
        ((60, 61, 62), "thermal", ["engine", "firmware", "firmware"]),
        ((56, 57, 58, 78), "power", ["display", "memory", "memory", "other"]),
    ],
)
def test_dcgm_files_xids_under_wrong_subsystems(codes: tuple[int, ...], dcgm: str, ours: list[str]) -> None:
    assert [data.find(code).subsystem for code in codes] == ours
    assert dcgm not in ours


def test_xid_109_is_a_reset_unlike_the_k8s_plugin() -> None:
    # internal/rm/health.go ignores 13, 31, 43, 45, 68 and 109.
    assert data.find(109).verdict == "RESET_GPU"
    assert {data.find(code).verdict for code in (13, 31, 43, 45, 68)} == {"RESTART_APP", "MONITOR"}


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        (0, "PASS"),
        (1, "RESET_GPU"),
        (2, "REBOOT"),
        (3, "RESTART_APP"),
        (4, "RESET_GPU"),
        (5, "RESET_GPU"),
        (6, "RESET_GPU"),
        (7, "REBOOT"),
    ],
)
def test_recovery_actions_have_verdict_and_next_step(action: int, verdict: str) -> None:
    row = data.recovery(action)
    assert row.verdict == verdict
    assert bool(row.next_step) is (verdict != "PASS")


def test_unknown_recovery_action_is_not_healthy() -> None:
    assert data.recovery(99).verdict == "RESET_GPU"
    assert "99" in data.recovery(99).name
