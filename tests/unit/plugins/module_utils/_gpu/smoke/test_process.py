# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs with a time limit."""

from __future__ import annotations

import time

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import process


def test_only_the_end_of_a_long_output_is_kept():
    outcome = process.execute(["sh", "-c", "yes | head --bytes 5000000"], 30)

    assert (outcome.status, len(outcome.stdout)) == (0, process.KEPT_BYTES)


def test_text_goes_to_standard_input():
    assert process.execute(["cat"], 30, "a program").stdout == "a program"


def test_program_is_killed_at_its_limit():
    begun = time.monotonic()
    outcome = process.execute(["sh", "-c", "echo started; exec sleep 60"], 0.5)

    assert (outcome.status, outcome.stdout) == (None, "started\n")
    assert time.monotonic() - begun < 20
