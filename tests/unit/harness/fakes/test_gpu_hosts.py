# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of the scenario gpu_health answer, without a host."""

from __future__ import annotations

import subprocess

import pytest

from harness.fakes import gpu_hosts
from harness.fakes.gpu_hosts import GPUS, state


def text(**changes: str | None) -> str:
    (entry,) = state(**changes).values()
    return (entry.content or b"").decode()


def test_nvml_has_the_cards_that_the_bus_has() -> None:
    for number, gpu in enumerate(GPUS):
        assert f"\ngpu.{number}.uuid={gpu['uuid']}\n" in text()
        assert f"\ngpu.{number}.pci.address={gpu['address']}\n" in text()


def test_programs_see_a_changed_or_removed_fact() -> None:
    assert "\ngpu.1.lost=1\n" in text(gpu__1__lost="1")
    assert "driver.module" not in text(driver__module=None)
    assert text().splitlines()[0] != text(driver__module=None).splitlines()[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--dmesg", "--boot", "--grep=NVRM"], "--identifier=kernel --grep=NVRM"),
        (["--unit", "a b.service"], "--unit a b.service"),
    ],
)
def test_journalctl_finds_messages_of_the_fake_kernel(options: list[str], expected: str) -> None:
    script = gpu_hosts.JOURNALCTL.decode().replace("exec /usr/bin/journalctl", "echo")
    done = subprocess.run(["sh", "-c", script, "journalctl", *options], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
