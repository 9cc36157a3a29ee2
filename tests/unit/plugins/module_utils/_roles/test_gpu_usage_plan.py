# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of gpu_usage, with the role's own options and defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import program
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import gpu_usage as gpu_usage_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
CONTEXT = {"python": "nvidia-ml-py==13.0", "account": "rigwright-gpu-usage-of-a-test"}


@pytest.fixture
def plan(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(gpu_usage_role, "ENVIRONMENT", str(tmp_path))
    monkeypatch.setattr(accounts, "group", lambda _name: None)
    return lambda **options: run_plan(run_module, gpu_usage_role, CONTEXT, **options)


def test_defaults_are_a_good_request(plan: Run) -> None:
    found = plan()
    assert (found["requirements"], found["install"], found["changed"]) == ([], ["environment", "account"], False)


def test_idle_time_with_a_wrong_unit_is_refused_with_a_remedy(plan: Run) -> None:
    (row,) = plan(idle_after="2 GiB")["requirements"]
    assert row["variable"] == "gpu_usage_idle_after"
    assert "'2 GiB' is no time" in row["problem"] and "such as 2h" in row["remedy"]


def test_all_problems_are_found_at_once(plan: Run) -> None:
    found = plan(idle_after="x", idle_memory="y", interval_s=0, keep_days=0, textfile_directory="z")
    assert len(found["requirements"]) == 5


def test_sampler_reads_the_settings_of_the_plan(plan: Run) -> None:
    settings = {**plan(idle_after="never", idle_ignore="ollama, vllm")["settings"], "notify_socket": ""}
    found = program.settings_of(json.dumps(settings))
    assert (found.interval_s, found.idle_after_s, found.idle_ignore) == (15, 0, ("ollama", "vllm"))


def test_absent_checks_no_option(plan: Run) -> None:
    assert plan(state="absent", idle_after="x")["requirements"] == []
