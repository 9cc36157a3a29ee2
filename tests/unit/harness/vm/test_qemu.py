# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of qemu that do not come to a login; programs of the shell stand for qemu, and write to its console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.sandbox.lab import Refusal
from harness.vm.qemu import Machine, running

STUMBLED = "Kernel panic - not syncing: Fatal exception in interrupt\n---[ end Kernel panic ]---"
NO_DISK = "Kernel panic - not syncing: VFS: Unable to mount root fs\n---[ end Kernel panic ]---"
LOGIN = "debian login: "


@dataclass
class Consoles(Machine):
    """What is on its console, start after start."""

    says: Sequence[str] = ()
    starts: int = 0

    def command(self) -> list[str]:
        self.starts += 1
        return ["sh", "-c", 'printf %s "$1" >"$2"; exec sleep 100', "sh", self.says[self.starts - 1], str(self.serial)]

    def ssh(self, command: str, text: str = "", must_work: bool = True, seconds: float = 1200) -> str:
        return "here\n"


def machine(place: Path, *says: str) -> Consoles:
    consoles = Consoles("machine", "bios", place, place / "key", [])
    consoles.says = says
    return consoles


def test_a_kernel_that_panics_in_the_emulation_is_restarted(tmp_path: Path) -> None:
    consoles = machine(tmp_path, STUMBLED, LOGIN)
    with running(consoles):
        assert consoles.starts == 2
    assert consoles.process is None


@pytest.mark.parametrize(("says", "starts"), [((NO_DISK, LOGIN), 1), ((STUMBLED,) * 3, 3)])
def test_a_fatal_panic_is_reported_with_the_console(tmp_path: Path, says: Sequence[str], starts: int) -> None:
    consoles = machine(tmp_path, *says)
    with pytest.raises(Refusal, match="did not come to a login.*\n.*Kernel panic"), running(consoles):
        pass
    assert (consoles.starts, consoles.process) == (starts, None)
