# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sampler: each sample replaces the snapshot and the metrics, and adds to the sums of the day. It ends no process."""

from __future__ import annotations

import dataclasses
import math
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, idle, sums
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.child import Unanswered
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import TEXTFILE, Metrics
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Gpu, Process, Sample
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

METRICS = f"{gpu_snapshot.HOME}/{TEXTFILE}"
# A power cut loses as much of the sums.
SAVE_S = 60
# Starts of a process differ by a tick when they are computed from two clocks.
_SAME_START_S = 1.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the role has set. An *idle_after_s* of 0 sends no messages."""

    host: str
    interval_s: int = 15
    keep_days: int = 400
    idle_memory_mib: int = 1024
    idle_after_s: int = 7200
    notify_socket: str = ""
    idle_ignore: tuple[str, ...] = ()


@dataclasses.dataclass
class Sampler:
    """The state between samples.

    :param ask: returns a sample of the child, or raises Unanswered.
    :param send: takes the uid of a user and a message, and returns the number of terminals that have it.
    :param report: takes a line for the journal.
    :param notify: takes a title and a text for the notify list, and returns why they were not sent.
    """

    settings: Settings
    tree: Tree
    ask: t.Callable[[], Sample]
    send: t.Callable[[int, str], int]
    report: t.Callable[[str], object]
    notify: t.Callable[[str, str], str] = lambda _title, _text: ""
    windows: idle.Idle = dataclasses.field(default_factory=idle.Idle)
    quota: idle.Quota = dataclasses.field(default_factory=idle.Quota)
    metrics: Metrics = dataclasses.field(default_factory=Metrics)
    gpus: list[Gpu] = dataclasses.field(default_factory=list)
    driver: str = ""
    problem: str = ""
    failing_since: str = ""
    _last: float | None = None
    _saved: float | None = None
    _energy: dict[str, float] = dataclasses.field(default_factory=dict)
    _days: dict[str, sums.Day] = dataclasses.field(default_factory=dict)
    # Start and idle time of the processes of the last snapshot.
    _earlier: dict[tuple[str, int], tuple[float, float]] = dataclasses.field(default_factory=dict)

    def sample(self, now: float, clock: float) -> None:
        """Take a sample.

        :param now: the time of the clock, which can be set.
        :param clock: seconds since the boot, which only grow.
        :raises OSError: a file cannot be written.
        """
        elapsed = None if self._last is None else clock - self._last
        try:
            answer = self.ask()
        except Unanswered as error:
            answer = {"driver": self.driver, "problem": str(error), "gpus": []}
        self._note(answer, now)
        if answer["gpus"] or not answer["problem"]:
            self._count(answer["gpus"], elapsed, now, clock)
            self._last = clock
        self.gpus = answer["gpus"]
        self._publish(now)
        self._message(clock)
        if self._saved is None or clock - self._saved >= SAVE_S:
            self.save(clock)

    def _note(self, answer: Sample, now: float) -> None:
        self.driver = answer["driver"] or self.driver
        if answer["problem"] and not self.problem:
            self.failing_since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
        if answer["problem"] != self.problem:
            self.report(answer["problem"] or "NVML answers again")
        self.problem = answer["problem"]

    def _count(self, gpus: list[Gpu], elapsed: float | None, now: float, clock: float) -> None:
        seconds = sums.counted_s(elapsed, self.settings.interval_s)
        shares, rows = {}, []
        for gpu in gpus:
            gpu["joules"] = self._joules(gpu, seconds)
            for row in gpu["processes"]:
                process = _process(gpu, row)
                shares[process] = row["share_percent"]
                rows.append((process, row))
                # A process that started in the interval was not there before.
                row["held_s"] = min(seconds, clock - row["start"]) if row["start"] is not None else seconds
        self.windows.observe(shares, seconds)
        for process, row in rows:
            self._take_earlier(process, row)
            row["idle_s"] = round(self.windows.seconds[process])
        self._earlier = {}
        uses = {gpu["uuid"]: sums.use_of(gpu["processes"], seconds, gpu["joules"]) for gpu in gpus}
        self.metrics.add(gpus, uses, clock)
        for day, part in sums.parts_of(now, seconds).items():
            sums.add(self._day(day), gpus, seconds, part)

    def _joules(self, gpu: Gpu, seconds: float) -> float:
        """Return the energy of the interval: by the counter of the card, or by its present power where it has none."""
        before, counter = self._energy.get(gpu["uuid"]), gpu["energy_j"]
        if counter is None:
            return (gpu["power_w"] or 0.0) * seconds
        self._energy[gpu["uuid"]] = counter
        # The counter starts again with the driver.
        return counter - before if before is not None and counter >= before and seconds else 0.0

    def _day(self, name: str) -> sums.Day:
        if name not in self._days:
            try:
                self._days[name] = days.read_day(self.tree, name)
            except (ValueError, OSError) as error:
                self.report(f"{days.path_of(name)} {error}: it is kept as {name}.damaged, and the day starts again")
                days.set_aside(self.tree, name)
                self._days[name] = sums.Day(name)
        return self._days[name]

    def _publish(self, now: float) -> None:
        problem = f"{self.problem} (since {self.failing_since})" if self.problem else ""
        header = {
            "time": round(now, 3),
            "interval_s": self.settings.interval_s,
            "host": self.settings.host,
            "driver": self.driver,
            "problem": problem,
        }
        write_file(self.tree.at(gpu_snapshot.PATH), gpu_snapshot.as_text(header, self.gpus))
        write_file(self.tree.at(METRICS), self.metrics.text(now, bool(self.problem), bool(self.gpus)))

    def _message(self, clock: float) -> None:
        rows = {_process(gpu, row): (gpu, row) for gpu in self.gpus for row in gpu["processes"]}
        spared = {
            process[1:]
            for process, (_gpu, row) in rows.items()
            if row["graphics"] or idle.is_ignored(row, self.settings.idle_ignore)
        }
        memory = {process: row["memory_mib"] for process, (_gpu, row) in rows.items() if process[1:] not in spared}
        due: dict[tuple[str, int | None, bool], list[tuple[Gpu, Process]]] = {}
        for process in self.windows.due(memory, self.settings.idle_memory_mib, self.settings.idle_after_s):
            gpu, row = rows[process]
            due.setdefault((row["user"], row["owner_uid"], row["ended"]), []).append((gpu, row))
        for (name, uid, ended), found in due.items():
            gpu, row = max(found, key=lambda pair: pair[1]["memory_mib"])
            text = idle.message(self.settings.host, gpu["index"], row, len(found) - 1)
            user = name or "an unknown user"
            remaining = self.quota.take(name, clock)
            # Nobody can end a process that has ended.
            terminals = self.send(uid, text) if uid is not None and remaining >= 0 and not ended else 0
            self.report(f"idle: {user}: {text} ({terminals} terminals)")
            problem = self.notify(f"GPU {gpu['index']} is idle", f"{user}: {text}") if remaining >= 0 else ""
            if problem:
                self.report(problem)
            if remaining == 0:
                self.report(
                    f"idle: {user} has had {idle.MOST_MESSAGES} messages today: further ones are in this journal alone"
                )

    def save(self, clock: float) -> None:
        """Write the sums, and forget days that are over.

        :raises OSError: a file cannot be written.
        """
        self._saved = clock
        for day in self._days.values():
            days.write_day(self.tree, day)
        if len(self._days) > 1:
            self._days = dict([max(self._days.items())])
        if self._days:
            days.prune(self.tree, self.settings.keep_days)

    def resume(self, now: float) -> None:
        """Take the idle times of the last snapshot, unless it is old: a restart of the sampler starts no window again."""
        try:
            last = gpu_snapshot.read(self.tree.at(gpu_snapshot.PATH))
        except (OSError, ValueError):
            return
        if gpu_snapshot.is_stale(last, now) or last["time"] > now:
            return
        self._earlier = {
            (gpu["uuid"] or "", row["pid"] or 0): (row["started"] or 0.0, float(row["idle_s"] or 0))
            for gpu in last["gpus"]
            for row in gpu["processes"]
        }

    def _take_earlier(self, process: idle.Process, row: Process) -> None:
        started, idle_s = self._earlier.get(process[:2], (math.inf, 0.0))
        if abs(started - row["started"]) < _SAME_START_S and row["share_percent"] == 0:
            self.windows.seconds[process] = idle_s
            if idle_s >= self.settings.idle_after_s:
                self.windows.reported.add(process[1:])


def _process(gpu: Gpu, row: Process) -> idle.Process:
    return (gpu["uuid"], row["pid"], row["start"] if row["start"] is not None else -1.0)
