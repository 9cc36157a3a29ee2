# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collect a view of the host from all readers. A source that fails is a row with its error, and the others are shown."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip
from ansible_collections.rigwright.workstation.plugins.module_utils._status import (
    gpus,
    machine,
    model,
    services,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

CACHE = "/etc/rigwright/dataset-cache.json"
_ERRORS = (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)


class Settings(t.NamedTuple):
    """The settings that the role writes, `/etc/rigwright/status.json`."""

    interval_s: int = 15
    gpu_health_interval_s: int = 600


class Collector:
    """Reads all sources; keeps the counters of the last view, for rates."""

    def __init__(self, settings: Settings, tree: Tree | None = None, host: str | None = None) -> None:
        self.settings, self.tree = settings, tree or Tree()
        self.host = host or os.uname().nodename
        self.before: machine.Counters | None = None

    def view(self, now: float) -> View:
        tree, before = self.tree, self.before
        after = guarded("counters", lambda: [machine.counters(tree, now)])
        counts = after[0] if isinstance(after[0], machine.Counters) else machine.Counters(now)
        self.before = counts
        health_s = self.settings.gpu_health_interval_s
        computer = [
            *guarded("CPU", lambda: machine.processors(tree, before, counts)),
            *guarded("memory", lambda: machine.memory(tree)),
            *guarded("disks", lambda: machine.disks(tree, self.cache())),
            *guarded("network", lambda: machine.network(tree, before, counts)),
        ]
        upkeep = [
            *guarded("tunnel", lambda: services.tunnels(tree, now)),
            *guarded("backup", lambda: services.backups(tree, now)),
            *guarded("GPU health", lambda: services.health(tree, now, health_s)),
            *guarded("updates", lambda: services.updates(tree, now)),
        ]
        graphics = gpus.of_file(tree.at(gpu_snapshot.PATH), now)
        sections = [graphics, Section("Machine", tuple(computer)), Section("Upkeep", tuple(upkeep))]
        uptime_s = guarded("uptime", lambda: [machine.uptime(tree)])[0]
        return View(
            self.host,
            now,
            tuple(section for section in sections if section.rows),
            uptime_s if isinstance(uptime_s, float) else 0.0,
            self.settings.interval_s,
        )

    def cache(self) -> str:
        """Return the directory of the data set cache, empty without one."""
        try:
            return services.text_of(services.load(self.tree, CACHE), "cache")
        except (OSError, ValueError):
            return ""


_Found = t.TypeVar("_Found")


def guarded(label: str, read: t.Callable[[], list[_Found]]) -> list[_Found | Row]:
    """Return what a reader finds, or a row with its error."""
    try:
        return [*read()]
    except _ERRORS as error:
        message = getattr(error, "strerror", "") or str(error) or type(error).__name__
        return [Row(label, (f"cannot be read: {clip(message, 120)}",), level=model.WARN)]
