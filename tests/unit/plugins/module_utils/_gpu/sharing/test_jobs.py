# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that are to share a card: their finding, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import jobs
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Gpu

from harness.fakes import nvml as fake_nvml

SMALL = [{"profile": "1g.18gb", "count": 7}]
JOB = {"model": "resnet18", "batch": 4, "dtype": "amp"}


@pytest.mark.parametrize(
    ("rows", "card", "status", "text"),
    [
        ([JOB, JOB], {}, "pass", "resnet18 and resnet18 fit at once on NVIDIA H200: 1."),
        ([JOB, JOB, JOB], {}, "pass", "what more than two cost each other was not measured"),
        ([{**JOB, "batch": 256}] * 2, {}, "warn", "2.2 times as long by time slices (measured on an H100"),
        ([{**JOB, "batch": 256}] * 2, {"mps": [{"name": "team"}]}, "pass", "1.8 times as long under MPS"),
        ([JOB, {**JOB, "batch": 16384}], {}, "warn", "do not fit at once on NVIDIA H200"),
        ([JOB, JOB], {"compute_mode": "exclusive_process"}, "warn", "exclusive_process lets one process"),
        ([JOB, JOB], {"mig": {"mode": "enabled", "layout": SMALL}}, "skip", "does not know the rates of MIG"),
    ],
)
def test_jobs_that_share_a_card(rows: list[Any], card: Any, status: str, text: str) -> None:
    with fake_nvml.fake(["H200"]) as machine, Nvml() as opened:
        (found,) = opened.cards()
        requests, problems = jobs.read(rows)
        gpu = Gpu(found, has_mig=True, capability=(9, 0))
        (finding,) = jobs.findings(opened, [gpu], {found.uuid: card}, requests)
        assert (machine.writes, problems) == (0, [])
    assert (finding["id"], finding["status"]) == ("gpu_sharing.jobs", status)
    assert text in finding["evidence"] and bool(finding["remedy"]) == (status != "pass")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([JOB], "has one job"),
        ([JOB, {**JOB, "batch": 0}], "`batch` is 0: give a whole number"),
        ([JOB, {"model": "/nowhere/config.json"}], "/nowhere/config.json is neither a file nor a name"),
        ([JOB, {"model": "llama/config.json"}], "the absolute path of a config.json"),
        ([JOB, {"model": "/srv/net.py:build"}], "whose code the role does not run"),
    ],
)
def test_jobs_that_cannot_be_estimated_are_refused(rows: list[Any], text: str) -> None:
    _requests, (refused,) = jobs.read(rows)
    assert refused["variable"] == "gpu_sharing_jobs" and text in refused["problem"] and refused["remedy"]
