# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of days of faked time: what is in the snapshot, the metrics and the day files."""

from __future__ import annotations

import calendar
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.child import Unanswered
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sampler import (
    METRICS,
    Sampler,
    Settings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

UUID = "GPU-1"
MORNING = float(calendar.timegm((2028, 2, 29, 9, 0, 0)))
POWER_W = 100.0


def process(pid: int, user: str = "alice", share: int | None = 50, memory_mib: int = 2048, start: float = 1.0) -> Any:
    return {
        "pid": pid,
        "user": user,
        "uid": 1000,
        "owner_uid": 1000,
        "kind": "ssh",
        "name": "",
        "command": "python3",
        "memory_mib": memory_mib,
        "share_percent": share,
        "graphics": False,
        "ended": False,
        "start": start,
        "started": 0.0,
    }


class Host:
    """A host with one GPU, which draws 100 W. Its clocks are the test's."""

    def __init__(self, root: Path) -> None:
        for folder in (days.HOME, gpu_snapshot.HOME):
            (root / folder.lstrip("/")).mkdir(parents=True)
        self.tree = Tree(str(root))
        self.time, self.clock = MORNING, 1000.0
        self.energy_offset = 0.0
        self.processes: list[Any] = []
        self.problem = ""
        self.hangs = False
        self.sent: list[tuple[int, str]] = []
        self.notified: list[tuple[str, str]] = []
        self.notify_problem = ""
        self.lines: list[str] = []
        self.settings = Settings("ws1", idle_memory_mib=1024, idle_after_s=7200)
        self.start()

    def start(self) -> None:
        self.sampler = Sampler(self.settings, self.tree, self.ask, self.send, self.lines.append, self.notify)
        self.sampler.resume(self.time)

    def send(self, uid: int, text: str) -> int:
        self.sent.append((uid, text))
        return 1

    def notify(self, title: str, text: str) -> str:
        self.notified.append((title, text))
        return self.notify_problem

    def ask(self) -> Any:
        if self.hangs:
            raise Unanswered("NVML does not answer within 10 s")
        gpu = {
            "index": 0,
            "uuid": UUID,
            "name": "NVIDIA H200",
            "memory_total_mib": 143771,
            "memory_used_mib": 2048,
            "utilization_percent": 50,
            "temperature_c": 40,
            "power_w": POWER_W,
            "power_limit_w": 700.0,
            "energy_j": self.clock * POWER_W - self.energy_offset,
            "processes": [dict(row) for row in self.processes],
        }
        return {"driver": "580.95.05", "problem": self.problem, "gpus": [] if self.problem else [gpu]}

    def run(self, samples: int, step: float = 15.0) -> None:
        for _number in range(samples):
            self.time += step
            self.clock += step
            self.sampler.sample(self.time, self.clock)

    def day(self, name: str = "2028-02-29") -> Any:
        self.sampler.save(self.clock)
        found: Any = json.loads(self.tree.text(days.path_of(name)))
        return found

    def row(self, name: str = "2028-02-29", user: str = "alice") -> dict[str, float]:
        (row,) = (row for row in self.day(name)["rows"] if row["user"] == user)
        return {key: row[key] for key in ("held_s", "busy_s", "gib_s", "joules")}

    def snapshot(self) -> Any:
        return gpu_snapshot.parse(self.tree.text(gpu_snapshot.PATH))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    # Thousands of samples would wait for the disk; on a host two of three files are in memory.
    monkeypatch.setattr("os.fsync", lambda _handle: None)
    return Host(tmp_path)


def test_first_sample_has_a_snapshot_and_counts_nothing(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1)
    found = host.snapshot()
    assert (found["host"], found["driver"], found["problem"]) == ("ws1", "580.95.05", "")
    assert [(row["pid"], row["user"], row["idle_s"]) for row in found["gpus"][0]["processes"]] == [(42, "alice", 0)]
    assert [path.name for path in Path(host.tree.at(days.HOME)).iterdir()] == []


def test_hour_is_an_hour(host: Host) -> None:
    host.processes = [process(42, share=50), process(43, "bob", share=0, memory_mib=1024)]
    host.run(1 + 240)
    assert host.row() == {"held_s": 3600.0, "busy_s": 1800.0, "gib_s": 7200.0, "joules": 360000.0}
    assert host.row(user="bob") == {"held_s": 3600.0, "busy_s": 0.0, "gib_s": 3600.0, "joules": 0.0}
    day = host.day()
    assert (day["observed_s"], day["gpus"][UUID]["joules"]) == (3600.0, 360000.0)


def test_leap_day_is_complete_and_ends_at_midnight(host: Host) -> None:
    host.processes = [process(42)]
    host.time = MORNING + 14.5 * 3600 + 5
    host.run(1 + 119 + 40)
    # From 23:30:20 on.
    assert host.row()["held_s"] == host.day()["observed_s"] == 1780.0
    assert host.row("2028-03-01")["held_s"] == 605.0


def test_restart_goes_on_with_the_day_and_does_not_count_the_gap(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1 + 240)
    host.sampler.save(host.clock)
    host.time, host.clock = host.time + 1800, host.clock + 1800
    host.start()
    host.run(1 + 240)
    assert host.row() == {"held_s": 7200.0, "busy_s": 3600.0, "gib_s": 14400.0, "joules": 720000.0}


def test_crash_loses_a_minute_at_most(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1 + 239)
    host.start()
    host.run(1)
    assert 3600.0 - 75.0 <= host.row()["held_s"] <= 3600.0


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_clock_step_loses_and_adds_nothing(host: Host, step: float) -> None:
    host.processes = [process(42)]
    host.run(1 + 120)
    host.time += step
    host.run(120)
    assert host.row()["held_s"] == 3600.0


def test_clock_that_was_in_the_future_keeps_no_room(host: Host) -> None:
    """Users make room a day after their last process, also when that was in a wrong year."""
    host.time += 10 * 365 * 86400
    host.processes = [process(42)]
    host.run(2)
    host.time -= 10 * 365 * 86400
    assert [*host.sampler.metrics.active.values()] == [host.clock]


def test_clock_set_back_a_day_goes_on_with_that_day(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1 + 4)
    host.time -= 86400
    host.run(4)
    host.time += 86400
    host.run(4)
    assert (host.row("2028-02-28")["held_s"], host.row()["held_s"]) == (60.0, 120.0)


def test_sleep_of_the_host_is_not_counted(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1 + 4)
    host.run(1, step=8 * 3600.0)
    host.run(4)
    assert host.day()["observed_s"] == 120.0
    assert host.row()["joules"] == 120 * POWER_W


def test_process_counts_from_its_start(host: Host) -> None:
    host.run(1)
    host.processes = [process(42, start=host.clock + 10)]
    host.run(1)
    assert host.row()["held_s"] == 5.0


def test_new_driver_starts_the_energy_counter_again(host: Host) -> None:
    host.processes = [process(42)]
    host.run(1 + 4)
    host.energy_offset = host.clock * POWER_W
    host.run(4)
    assert host.row()["joules"] == 7 * 15 * POWER_W


def test_missing_energy_counter_is_replaced_by_the_power(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = host.ask

    def without() -> Any:
        found = answer()
        found["gpus"][0]["energy_j"] = None
        return found

    host.processes = [process(42)]
    host.sampler.ask = without
    host.run(1 + 4)
    assert host.row()["joules"] == 60 * POWER_W


def test_hanging_nvml_is_in_the_snapshot_and_in_the_journal_once(host: Host) -> None:
    host.processes = [process(42)]
    host.run(5)
    host.hangs = True
    host.run(20)
    found = host.snapshot()
    assert found["problem"] == "NVML does not answer within 10 s (since 2028-02-29 09:01 UTC)"
    assert (found["gpus"], found["time"]) == ([], host.time)
    assert "rigwright_gpu_usage_up 0\n" in host.tree.text(METRICS)
    assert "memory_bytes{" not in host.tree.text(METRICS)
    host.hangs = False
    host.run(5)
    assert host.snapshot()["problem"] == ""
    assert host.lines == ["NVML does not answer within 10 s", "NVML answers again"]
    assert host.day()["observed_s"] == (4 + 4) * 15.0


def test_one_missed_sample_is_counted_with_the_next(host: Host) -> None:
    host.processes = [process(42)]
    host.run(2)
    host.hangs = True
    host.run(1)
    host.hangs = False
    host.run(1)
    assert host.row()["held_s"] == 45.0


def test_missing_driver_is_in_the_snapshot(host: Host) -> None:
    host.problem = "NVML: DRIVER_NOT_LOADED: load the driver"
    host.run(2)
    assert host.snapshot()["problem"].startswith("NVML: DRIVER_NOT_LOADED: load the driver (since ")


def test_idle_owner_has_one_message(host: Host) -> None:
    host.processes = [process(42, share=0, memory_mib=18432), process(43, "bob", share=1)]
    host.run(1 + 500)
    ((uid, text),) = host.sent
    assert uid == 1000
    assert text.startswith("python3 (pid 42) holds 18.0 GiB of GPU 0 on ws1, and ran no kernel for 2 h.")
    assert host.notified == [("GPU 0 is idle", f"alice: {text}")]
    assert [row["idle_s"] for row in host.snapshot()["gpus"][0]["processes"]] == [7500, 0]


def test_processes_of_a_user_have_one_message(host: Host) -> None:
    host.processes = [process(pid, share=0, memory_mib=2048 + pid) for pid in range(40, 90)]
    host.run(1 + 480)
    ((_uid, text),) = host.sent
    assert text.startswith("python3 (pid 89)") and text.endswith(
        "So do 49 more of your processes: `gpu-who` shows them."
    )


def test_messages_of_a_user_end_with_the_quota_of_a_day(host: Host) -> None:
    host.settings = Settings("ws1", idle_after_s=60)
    host.start()
    for pid in range(40, 60):
        host.processes = [process(pid, share=0, start=float(pid))]
        host.run(6)
    assert len(host.sent) == len(host.notified) == 6
    assert [line for line in host.lines if "messages today" in line] == [
        "idle: alice has had 6 messages today: further ones are in this journal alone"
    ]
    assert sum(line.startswith("idle: alice: python3") for line in host.lines) == 20


def test_ignored_and_drawing_processes_have_no_message(host: Host) -> None:
    host.settings = Settings("ws1", idle_after_s=60, idle_ignore=("ollama",))
    host.start()
    host.processes = [
        {**process(42, share=0), "command": "ollama"},
        {**process(43, share=0), "command": "Xorg", "graphics": True},
    ]
    host.run(20)
    assert (host.sent, host.notified, host.lines) == ([], [], [])


def test_ended_process_is_reported_and_its_owner_cannot_end_it(host: Host) -> None:
    host.settings = Settings("ws1", idle_after_s=60)
    host.start()
    host.processes = [{**process(42, share=0), "ended": True}]
    host.run(20)
    assert host.sent == []
    assert "has ended, and the driver still holds 2.0 GiB of GPU 0" in host.notified[0][1]


def test_energy_of_an_unknown_share_is_not_idle(host: Host) -> None:
    host.processes = [process(42, share=None)]
    host.run(1 + 240)
    gpu = host.day()["gpus"][UUID]
    assert (gpu["joules"], gpu["unknown_joules"]) == (360000.0, 360000.0)
    assert host.day()["rows"][0]["unknown_s"] == 3600.0


def test_unknown_owner_has_no_message_and_the_journal_has_it(host: Host) -> None:
    host.notify_problem = "no message was sent"
    host.processes = [{**process(42, "", share=0), "uid": 0, "owner_uid": None}]
    host.run(1 + 480)
    assert host.sent == []
    assert host.lines[0].startswith("idle: an unknown user: python3 (pid 42)")
    assert host.lines[1] == "no message was sent" and len(host.notified) == 1


def test_restart_keeps_idle_times_and_repeats_no_message(host: Host) -> None:
    host.processes = [process(42, share=0)]
    host.run(1 + 480)
    host.start()
    host.run(3)
    assert [row["idle_s"] for row in host.snapshot()["gpus"][0]["processes"]] == [7230]
    assert len(host.sent) == 1


def test_restart_after_an_hour_starts_the_window_again(host: Host) -> None:
    host.processes = [process(42, share=0)]
    host.run(1 + 100)
    host.time, host.clock = host.time + 3600, host.clock + 3600
    host.start()
    host.run(2)
    assert [row["idle_s"] for row in host.snapshot()["gpus"][0]["processes"]] == [15]


def test_reused_pid_is_not_idle_for_the_earlier_process(host: Host) -> None:
    host.processes = [process(42, share=0)]
    host.run(1 + 400)
    host.processes = [process(42, "bob", share=0, start=host.clock + 5)]
    host.run(100)
    assert host.sent == []


def test_damaged_day_is_set_aside(host: Host) -> None:
    path = Path(host.tree.at(days.path_of("2028-02-29")))
    path.write_text('{"format": 1, "day": "2028-02')
    host.processes = [process(42)]
    host.run(2)
    assert host.row()["held_s"] == 15.0
    assert path.with_suffix(".damaged").exists()
    assert "is kept as 2028-02-29.damaged" in host.lines[0]


@pytest.mark.parametrize("sum_", ["1" + "0" * 400, "[" * 100_000, "NaN"])
def test_day_that_no_sampler_wrote_ends_none(host: Host, sum_: str) -> None:
    day = '{"format": 1, "day": "2028-02-29", "gpus": {}, "rows": [], "observed_s": '
    Path(host.tree.at(days.path_of("2028-02-29"))).write_text(day + sum_ + "}")
    host.processes = [process(42)]
    host.run(2)
    assert host.row()["held_s"] == 15.0


def test_earliest_days_go_by_number_and_not_by_age(host: Host, tmp_path: Path) -> None:
    host.settings = Settings("ws1", keep_days=3)
    host.start()
    for name in ("2028-02-26", "2028-02-27", "2028-02-28"):
        Path(host.tree.at(days.path_of(name))).write_text("{}")
    host.processes = [process(42)]
    host.run(2)
    host.sampler.save(host.clock)
    assert days.days(host.tree) == ["2028-02-27", "2028-02-28", "2028-02-29"]
    host.time += 86400 * 36500
    host.run(2)
    host.sampler.save(host.clock)
    assert days.days(host.tree) == ["2028-02-28", "2028-02-29", "2128-02-05"]


def test_link_in_place_of_a_day_is_not_followed(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    Path(host.tree.at(days.path_of("2028-02-29"))).symlink_to(tmp_path / "secret")
    host.processes = [process(42)]
    host.run(2)
    assert host.row()["held_s"] == 15.0
    assert (tmp_path / "secret").read_text() == "secret"
