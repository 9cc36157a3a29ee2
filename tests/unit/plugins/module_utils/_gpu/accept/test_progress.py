# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a measurement takes, and the lines on its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import progress

H200: Any = {
    "warm_up_s": 30.0,
    "window_s": 10.0,
    "windows": 3,
    "burn_in_s": 0,
    "dtypes": ["bf16", "fp16", "fp32", "tf32", "fp8", "fp64"],
}


def test_time_is_near_that_of_a_real_card() -> None:
    # 286 s (docs/gpu_accept.md).
    assert progress.plan_text([H200]) == "1 GPU to measure, which takes about 5 min"
    assert 257 < progress.seconds_alone(H200) + 25 < 315
    assert progress.plan_text([H200] * 8) == "8 GPUs to measure, which takes about 36 min"


def test_burn_in_counts() -> None:
    assert progress.seconds_alone(H200 | {"burn_in_s": 3600}) - progress.seconds_alone(H200) == 3600


def test_lines_are_added_and_no_error_ends_a_measurement(tmp_path: Path) -> None:
    report = progress.writer(str(tmp_path / "progress"))
    report("one")
    report("two")
    assert (tmp_path / "progress").read_text() == "one\ntwo\n"
    progress.writer(str(tmp_path / "nowhere/progress"))("three")
    progress.writer(None)("four")


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "progress").symlink_to("other")
    (tmp_path / "hardly").symlink_to("missing")
    progress.writer(str(tmp_path / "progress"))("one")
    progress.writer(str(tmp_path / "hardly"))("one")
    assert (tmp_path / "other").read_text() == "" and not (tmp_path / "missing").exists()
