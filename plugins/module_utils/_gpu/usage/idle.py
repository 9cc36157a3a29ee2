# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule for idle processes: one holds memory of a GPU, and ran no kernel for a while. Pure.

The window rolls: a job that worked for days is idle after hours without a kernel. What was not observed does not count.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import sample

# A process by its GPU, its pid and its start: the kernel gives the pid of an ended process to another.
Process = tuple[str, int, float]
# For a user in a day.
MOST_MESSAGES = 6
_DAY_S = 86400
# The kernel keeps 15 characters of the name of a program.
_COMMAND = 15


@dataclasses.dataclass
class Idle:
    """Times without a kernel by process and GPU, and the processes (pid and start) whose owners have a message."""

    seconds: dict[Process, float] = dataclasses.field(default_factory=dict)
    reported: set[tuple[int, float]] = dataclasses.field(default_factory=set)

    def observe(self, shares: t.Mapping[Process, int | None], elapsed_s: float) -> None:
        """Add a sample.

        :param shares: the percent of the SMs of each process; None where the GPU does not report it, so that nobody is idle.
        :param elapsed_s: the seconds since the last sample; 0 after a gap, which starts all windows again.
        """
        self.seconds = {
            process: self.seconds.get(process, 0.0) + elapsed_s if share == 0 and elapsed_s > 0 else 0.0
            for process, share in shares.items()
        }
        self.reported = {
            process for process, seconds in self.totals().items() if process in self.reported and seconds > 0
        }

    def totals(self) -> dict[tuple[int, float], float]:
        """Return the time without a kernel of each process, on all GPUs that it holds."""
        found: dict[tuple[int, float], float] = {}
        for process, seconds in self.seconds.items():
            found[process[1:]] = min(found.get(process[1:], seconds), seconds)
        return found

    def due(self, memory_mib: t.Mapping[Process, int], least_mib: int, after_s: float) -> list[Process]:
        """Return the processes whose owners are due a message, each once in an idle time, with the GPU of which it holds most.

        A process that works on one GPU is not idle, however many others it holds.

        :param memory_mib: of the processes that a message may name.
        """
        found = {}
        totals = self.totals()
        for process in sorted(memory_mib, key=lambda row: memory_mib[row]):
            if totals.get(process[1:], 0.0) >= after_s > 0 and memory_mib[process] >= least_mib:
                found[process[1:]] = process
        new = [process for key, process in found.items() if key not in self.reported]
        self.reported.update(process[1:] for process in new)
        return new


@dataclasses.dataclass
class Quota:
    """The messages of each user in a day: a user who starts hundreds of processes fills no mailbox."""

    sent: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def take(self, user: str, clock: float) -> int:
        """Count a message, and return how many more of the day are left after it; -1 where it is one too many.

        :param clock: seconds that only grow.
        """
        recent = [moment for moment in self.sent.get(user, []) if clock - moment < _DAY_S]
        if len(recent) < MOST_MESSAGES:
            recent.append(clock)
            self.sent[user] = recent
            return MOST_MESSAGES - len(recent)
        return -1


def message(host: str, gpu: int, row: sample.Process, others: int = 0) -> str:
    """Return the message for the owner of an idle process.

    :param others: the number of other processes of the user that are idle now.
    """
    process, memory = (
        f"{row['command']} (pid {row['pid']})",
        f"{row['memory_mib'] / 1024:.1f} GiB of GPU {gpu} on {host}",
    )
    more = f" So do {others} more of your processes: `gpu-who` shows them." if others else ""
    if row["ended"]:
        return f"{process} has ended, and the driver still holds {memory} for it.{more}"
    return f"{process} holds {memory}, and ran no kernel for {duration(row['idle_s'])}. End it if it is done.{more}"


def is_ignored(row: sample.Process, ignored: t.Collection[str]) -> bool:
    """Check for a process that waits for work by design: by its user, its program, its unit, container or job."""
    names = {row["user"], row["command"], row["name"], row["name"].partition(".service")[0]}
    return bool(names & {*ignored, *(name[:_COMMAND] for name in ignored)} - {""})


def duration(seconds: float) -> str:
    """Return a time as people read it."""
    minutes = int(seconds) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    return " ".join(parts[:2]) or f"{int(seconds)} s"
