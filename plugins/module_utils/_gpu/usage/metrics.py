# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics for Prometheus, of few labels: GPU, user and kind, and never a pid. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Gpu
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sums import Use

# In the directory of node_exporter's textfile collector, a link to the sampler's own file.
TEXTFILE = "rigwright_gpu_usage.prom"
PREFIX = "rigwright_gpu_usage"
# All series of a host. Further users are summed up as one.
SERIES = 190
OTHER = "other"
# A user with no process for so long makes room for another.
_KEPT_S = 86400

Label = tuple[str, str, str]
_METRICS = {
    "memory_bytes": ("gauge", "Memory of the GPU that processes hold."),
    "sm_ratio": ("gauge", "Share of the SMs, from 0 to 1. Without a line where the GPU does not report it."),
    "held_seconds_total": ("counter", "Time in which the GPU was held, since the sampler started."),
    "busy_seconds_total": ("counter", "Time in which the SMs were busy, since the sampler started."),
    "joules_total": ("counter", "Energy by the share of the SMs, since the sampler started."),
}
_GAUGES = ("memory_bytes", "sm_ratio")


@dataclasses.dataclass
class Metrics:
    """The sums since the start of the sampler, by labels that stay below a bound."""

    totals: dict[Label, dict[str, float]] = dataclasses.field(default_factory=dict)
    active: dict[Label, float] = dataclasses.field(default_factory=dict)
    # Labels of which the GPU does not report the share of a process.
    unshared: set[Label] = dataclasses.field(default_factory=set)

    def label(self, gpu: str, user: str, kind: str, gpus: int, now: float) -> Label:
        """Return the labels under which a user is counted. Who has labels keeps them, so that counters only grow."""
        label = (gpu, user, kind)
        # Each GPU needs room for its others, and two series are of the sampler itself.
        room = (SERIES - 2) // len(_METRICS) - gpus
        if label not in self.totals and len([row for row in self.totals if row[1:] != (OTHER, OTHER)]) >= room:
            gone = [row for row, moment in self.active.items() if now - moment > _KEPT_S and row[1:] != (OTHER, OTHER)]
            if gone:
                oldest = min(gone, key=lambda row: self.active[row])
                del self.totals[oldest], self.active[oldest]
            else:
                label = (gpu, OTHER, OTHER)
        self.totals.setdefault(label, dict.fromkeys(_METRICS, 0.0))
        self.active[label] = now
        return label

    def add(self, gpus: t.Sequence[Gpu], uses: t.Mapping[str, t.Mapping[tuple[str, str], Use]], now: float) -> None:
        """Add a sample: the processes of each GPU, and the uses of its interval by user and kind.

        :param now: seconds of a clock that is never set.
        """
        self.unshared.clear()
        for values in self.totals.values():
            values.update(dict.fromkeys(_GAUGES, 0.0))
        for gpu in gpus:
            index = str(gpu["index"])
            for row in gpu["processes"]:
                label = self.label(index, row["user"], row["kind"], len(gpus), now)
                values = self.totals[label]
                values["memory_bytes"] += row["memory_mib"] * (1 << 20)
                values["sm_ratio"] += (row["share_percent"] or 0) / 100
                if row["share_percent"] is None:
                    self.unshared.add(label)
            for (user, kind), use in uses.get(gpu["uuid"], {}).items():
                values = self.totals[self.label(index, user, kind, len(gpus), now)]
                values["held_seconds_total"] += use.held_s
                values["busy_seconds_total"] += use.busy_s
                values["joules_total"] += use.joules

    def text(self, now: float, problem: bool, answered: bool = True) -> str:
        """Return the textfile.

        :param answered: whether a GPU answered; otherwise the gauges have no line.
        """
        lines = [
            f"# HELP {PREFIX}_timestamp_seconds Time of the sample.",
            f"# TYPE {PREFIX}_timestamp_seconds gauge",
            f"{PREFIX}_timestamp_seconds {now:.0f}",
            f"# HELP {PREFIX}_up 1 if NVML answers.",
            f"# TYPE {PREFIX}_up gauge",
            f"{PREFIX}_up {0 if problem else 1}",
        ]
        for name, (kind, description) in _METRICS.items():
            if name in _GAUGES and not answered:
                continue
            lines += [f"# HELP {PREFIX}_{name} {description}", f"# TYPE {PREFIX}_{name} {kind}"]
            lines += [
                f"{PREFIX}_{name}{{{labels(label)}}} {values[name]:.15g}"
                for label, values in sorted(self.totals.items())
                if name != "sm_ratio" or label not in self.unshared
            ]
        return "\n".join(lines) + "\n"


def labels(label: Label) -> str:
    """Return labels as Prometheus reads them."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in zip(("gpu", "user", "kind"), label))


def escape(text: str) -> str:
    """Return a text for a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
