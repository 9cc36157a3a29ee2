# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule for idle processes: one holds memory of a GPU, and ran no kernel for a while. Pure.

The window rolls: a job that worked for days is idle after hours without a kernel. What was not observed does not count.
"""

from __future__ import annotations

import dataclasses
import typing as t

# A process by its GPU, its pid and its start: the kernel gives the pid of an ended process to another.
Process = tuple[str, int, float]


@dataclasses.dataclass
class Idle:
    """Times without a kernel by process, and the processes whose owners have a message."""

    seconds: dict[Process, float] = dataclasses.field(default_factory=dict)
    reported: set[Process] = dataclasses.field(default_factory=set)

    def observe(self, shares: t.Mapping[Process, int | None], elapsed_s: float) -> None:
        """Add a sample.

        :param shares: the percent of the SMs of each process; None where the GPU does not report it, so that nobody is idle.
        :param elapsed_s: the seconds since the last sample; 0 after a gap, which starts all windows again.
        """
        self.seconds = {
            process: self.seconds.get(process, 0.0) + elapsed_s if share == 0 and elapsed_s > 0 else 0.0
            for process, share in shares.items()
        }
        self.reported = {process for process in self.reported if self.seconds.get(process, 0.0) > 0}

    def due(self, memory_mib: t.Mapping[Process, int], least_mib: int, after_s: float) -> list[Process]:
        """Return the processes whose owners are due a message, each once in an idle time."""
        found = [
            process
            for process, seconds in self.seconds.items()
            if seconds >= after_s > 0 and memory_mib.get(process, 0) >= least_mib and process not in self.reported
        ]
        self.reported.update(found)
        return found


def message(host: str, gpu: int, row: t.Mapping[str, t.Any]) -> str:
    """Return the message for the owner of an idle process."""
    return (
        f"{row['command']} (pid {row['pid']}) holds {row['memory_mib'] / 1024:.1f} GiB of GPU {gpu} on {host},"
        f" and ran no kernel for {duration(row['idle_s'])}. End it if it is done."
    )


def duration(seconds: float) -> str:
    """Return a time as people read it."""
    minutes = int(seconds) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    return " ".join(parts[:2]) or f"{int(seconds)} s"
