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


def test_a_fact_may_be_another_or_gone_and_programs_see_that_it_changed() -> None:
    assert "\ngpu.1.lost=1\n" in text(gpu__1__lost="1")
    assert "driver.module" not in text(driver__module=None)
    assert text().splitlines()[0] != text(driver__module=None).splitlines()[0]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--dmesg", "--boot", "--grep=NVRM"], "--identifier=kernel --grep=NVRM"),
        (["--unit", "a b.service"], "--unit a b.service"),
    ],
)
def test_the_kernels_words_are_looked_for_where_the_imitated_kernel_has_written_them(
    words: list[str], asked: str
) -> None:
    script = gpu_hosts.JOURNALCTL.decode().replace("exec /usr/bin/journalctl", "echo")
    done = subprocess.run(["sh", "-c", script, "journalctl", *words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == asked
