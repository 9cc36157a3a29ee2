# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu-who prints, from files alone."""

from __future__ import annotations

import calendar
import csv
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, sums, who
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

from tests.unit.plugins.module_utils._system.test_gpu_snapshot import GPU, HEADER, PROCESS

NOW = float(calendar.timegm((2026, 11, 25, 12, 0, 0)))
Show = Callable[..., tuple[int, str, str]]
HOSTILE = {
    **PROCESS,
    "pid": 1,
    "user": "",
    "kind": "container",
    "name": "=cmd|' /C calc'!A0",
    "command": "\x1b[2Jx",
    "share_percent": None,
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for folder in (days.HOME, gpu_snapshot.HOME):
        (tmp_path / folder.lstrip("/")).mkdir(parents=True)
    return Tree(str(tmp_path))


@pytest.fixture
def show(tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    monkeypatch.setattr(time, "time", lambda: NOW)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = who.main(tree, arguments)
        found = capsys.readouterr()
        return status, found.out, found.err

    return run


def write_snapshot(tree: Tree, *gpus: dict[str, Any], **header: Any) -> None:
    text = gpu_snapshot.as_text({**HEADER, "time": NOW - 5, **header}, gpus)
    Path(tree.at(gpu_snapshot.PATH)).write_text(text)


def write_day(tree: Tree, name: str, rows: dict[tuple[str, str, str], sums.Use]) -> None:
    gpus = {"GPU-1": sums.Total("NVIDIA H200", 86400.0, 7.2e6)}
    days.write_day(tree, sums.Day(name, 86400.0, gpus, rows))


def test_now_shows_gpus_and_their_users(tree: Tree, show: Show) -> None:
    idle = {
        **PROCESS,
        "pid": 4712,
        "user": "bob",
        "kind": "unit",
        "name": "train.service",
        "share_percent": 0,
        "idle_s": 7500,
    }
    write_snapshot(tree, {**GPU, "processes": [PROCESS, idle]}, {**GPU, "index": 1, "processes": []})
    assert show() == (
        0,
        "GPU 0  NVIDIA H200  17.6 of 140.4 GiB  93 % busy\n"
        "  alice  ssh                 python3  4711  17.6 GiB  90 %\n"
        "  bob    unit train.service  python3  4712  17.6 GiB   0 %  idle 2 h 5 min\n"
        "GPU 1  NVIDIA H200  17.6 of 140.4 GiB  93 % busy\n"
        "  free\n",
        "",
    )


def test_hostile_names_are_text(tree: Tree, show: Show) -> None:
    write_snapshot(tree, {**GPU, "processes": [HOSTILE]})
    _status, text, _error = show()
    assert "\x1b" not in text and "(unknown)" in text
    (row,) = csv.DictReader(io.StringIO(show("--csv")[1]))
    assert row["name"].startswith("'=cmd") and row["share_percent"] == ""


def test_spreadsheet_is_printable_too(tree: Tree, show: Show) -> None:
    write_snapshot(tree, {**GPU, "processes": [HOSTILE]})
    write_day(tree, "2026-11-25", {("\x1b[2J", "ssh\u202e", "GPU-1"): sums.Use(3600)})
    assert "\x1b" not in show("--csv")[1]
    for shape in (), ("--csv",):
        status, text, _error = show("day", *shape)
        assert status == 0 and "?[2J" in text and "ssh?" in text and "\x1b" not in text


def test_locale_that_lacks_a_character_is_enough(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    write_snapshot(tree, {**GPU, "processes": [{**PROCESS, "user": "zoë", "command": "日本"}]})
    output = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", output)
    assert who.main(tree, []) == 0
    assert "zoë" in output.buffer.getvalue().decode("latin-1")


def test_snapshot_of_the_future_is_stale(tree: Tree, show: Show) -> None:
    write_snapshot(tree, GPU, time=NOW + 3600)
    assert show()[1].startswith("STALE: its time is in the future")


def test_stale_snapshot_and_problem_come_first(tree: Tree, show: Show) -> None:
    write_snapshot(tree, time=NOW - 46, problem="NVML does not answer")
    status, text, _error = show()
    assert status == 0
    assert text.startswith("STALE: the sampler has written nothing for 46 s.")
    assert "\nPROBLEM: NVML does not answer\n" in text
    assert json.loads(show("--json")[1])["stale"] is True


def test_missing_or_damaged_snapshot_is_an_error(tree: Tree, show: Show) -> None:
    assert show()[0] == 1
    assert "has written no snapshot" in show()[2]
    Path(tree.at(gpu_snapshot.PATH)).write_text('{"format": 2}')
    assert show() == (
        1,
        "",
        "gpu-who: the GPU snapshot has format 2, and this program reads 1: apply gpu_usage and status again\n",
    )
    Path(tree.at(gpu_snapshot.PATH)).unlink()
    Path(tree.at(gpu_snapshot.PATH)).symlink_to("/etc/shadow")
    assert show()[0] == 1 and "is a link" in show()[2]


def test_day_has_hours_by_user(tree: Tree, show: Show) -> None:
    write_day(
        tree,
        "2026-11-25",
        {
            ("alice", "ssh", "GPU-1"): sums.Use(36000.0, 18000.0, 36000.0 * 16, 3.6e6),
            ("", "container", "GPU-1"): sums.Use(3600.0, 0.0, 3600.0, 0.0),
        },
    )
    assert show("day") == (
        0,
        "2026-11-25 (UTC), 24.0 GPU hours observed on 1 days\n"
        "user       kind       GPU hours  busy  GiB hours   kWh\n"
        "alice      ssh             10.0   5.0      160.0  1.00\n"
        "(unknown)  container        1.0   0.0        1.0  0.00\n"
        "All GPUs: 2.00 kWh, of which 1.00 while nobody computed\n",
        "",
    )
    assert show("day", "--csv")[1] == (
        "user,kind,gpu_hours,busy_gpu_hours,gib_hours,kwh,unknown_gpu_hours\n"
        "alice,ssh,10.0,5.0,160.0,1.0,0.0\n,container,1.0,0.0,1.0,0.0,0.0\n"
    )


def test_week_sums_seven_days(tree: Tree, show: Show) -> None:
    for number in range(15, 26):
        write_day(tree, f"2026-11-{number}", {("alice", "ssh", "GPU-1"): sums.Use(3600.0)})
    found = json.loads(show("week", "--json")[1])
    assert (found["from"], found["to"], found["days"]) == ("2026-11-19", "2026-11-25", 7)
    assert [(row["user"], row["gpu_hours"]) for row in found["rows"]] == [("alice", 7.0)]
    assert json.loads(show("month", "--until", "2026-11-16", "--json")[1])["rows"][0]["gpu_hours"] == 2.0


@pytest.mark.parametrize(
    ("last", "days_before"),
    [
        ("2028-03-01", ["2028-02-28", "2028-02-29", "2028-03-01"]),
        ("2026-03-29", ["2026-03-27", "2026-03-28", "2026-03-29"]),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"])
def test_days_are_the_same_in_every_time_zone(
    last: str, days_before: list[str], zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    assert who.days_of("week", last)[-3:] == days_before
    monkeypatch.undo()
    time.tzset()


def test_damaged_day_is_left_out_and_reported(tree: Tree, show: Show) -> None:
    write_day(tree, "2026-11-24", {("alice", "ssh", "GPU-1"): sums.Use(3600.0)})
    Path(tree.at(days.path_of("2026-11-25"))).write_text("{")
    status, text, error = show("week")
    assert (status, "alice" in text) == (1, True)
    assert "2026-11-25.json" in error and "its day is left out" in error


def test_nobody_used_a_gpu(show: Show) -> None:
    assert "nobody used a GPU\n" in show("day")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("year",),
        ("--json", "--csv"),
        ("now", "--until", "2026-11-25"),
        ("day", "--until", "yesterday"),
        ("day", "--hours"),
    ],
)
def test_wrong_command_line_has_status_2(show: Show, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as error:
        show(*arguments)
    assert error.value.code == 2


def test_day_that_the_calendar_does_not_have_is_an_error(show: Show) -> None:
    assert show("day", "--until", "2026-02-30")[0] == 1


def test_help_says_what_hours_mean(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        show("--help")
    assert error.value.code == 0
    assert "Days are those of UTC" in capsys.readouterr().out
