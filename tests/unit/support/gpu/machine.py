# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake host below a folder for health checks: its log, its bus, and an NVML with cards as facts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import facts, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NO_BINDING, NvmlError

from tests.unit.support.gpu.cards import ADDRESS, card

NOW, UPTIME = 1_000_000.0, 3600.0
OTHER = "0000:c1:00.0"
JOURNAL = "journalctl"


def entry(message: str, time: float = NOW - 60, uptime: float | None = None) -> str:
    """Return an entry of the journal. With *uptime* it has the monotonic time of a real one, too."""
    monotonic = {} if uptime is None else {"__MONOTONIC_TIMESTAMP": str(int(uptime * 1e6))}
    return json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": str(int(time * 1e6)), **monotonic}) + "\n"


def xid(code: int, text: str = "", address: str = ADDRESS, time: float = NOW - 60, uptime: float | None = None) -> str:
    return entry(f"NVRM: Xid (PCI:{address.partition('.')[0]}): {code}, {text}", time, uptime)


class Driver:
    """A fake NVML that returns cards as facts, or fails to open."""

    def __init__(self, cards: list[dict[str, Any]], error: NvmlError | None) -> None:
        self.found, self.error = cards, error

    def __enter__(self) -> Driver:
        if self.error:
            raise self.error
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def cards(self) -> list[dict[str, Any]]:
        return [dict(facts) for facts in self.found]


class Machine:
    """A fake host below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, tuple[int, str, str]] = {JOURNAL: (0, entry("Linux version 6.12"), "")}
        self.cards = [card()]
        self.error: NvmlError | None = None
        self.write("/proc/sys/kernel/random/boot_id", "boot-one\n")
        self.write("/proc/uptime", "3600.00 7200.00\n")
        self.put_on_bus(ADDRESS)
        self.namespace("pid:[4026531836]")

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def put_on_bus(self, address: str, driver: str | None = "nvidia") -> None:
        self.write(f"/sys/bus/pci/devices/{address}/vendor", "0x10de\n")
        self.write(f"/sys/bus/pci/devices/{address}/class", "0x030200\n")
        if driver:
            link = self.root / f"sys/bus/pci/devices/{address}/driver"
            link.symlink_to(f"../../../../bus/pci/drivers/{driver}")

    def take_off_bus(self, address: str) -> None:
        shutil.rmtree(self.root / f"sys/bus/pci/devices/{address}")

    def namespace(self, name: str) -> None:
        place = self.root / "proc/self/ns/pid"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(name)

    def run(self, command: Any) -> tuple[int, str, str]:
        return self.answers.get(
            command[0], (1, "", f"{command[0]}: read kernel buffer failed: Operation not permitted\n")
        )

    def reboot(self, number: int) -> None:
        self.write("/proc/sys/kernel/random/boot_id", f"boot-{number}\n")

    def check(self, now: float = NOW, uptime: float | None = None, took: float = 0, **options: Any) -> tuple[Any, Any]:
        nvml: Callable[[], Any] = lambda: Driver(self.cards, self.error)  # noqa: E731
        # The clock goes right unless *uptime* says otherwise.
        passed = UPTIME + now - NOW if uptime is None else uptime
        ticks = iter((passed, passed + took))
        return run.check(facts.Host(self.run, now, Tree(str(self.root)), nvml, lambda: next(ticks)), **options)

    def log(self, *lines: str) -> None:
        self.answers[JOURNAL] = (0, "".join([entry("Linux version 6.12"), *lines]), "")


def fail(name: str) -> NvmlError:
    return NvmlError(NO_BINDING if name == "BINDING_NOT_FOUND" else CODES[name], "nvmlInit")


def whats(gpu: dict[str, Any]) -> dict[str, str]:
    return {row["what"]: row["verdict"] for row in gpu["reasons"]}
