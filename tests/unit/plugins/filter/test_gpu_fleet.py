# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings for the GPUs of several hosts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.rigwright.workstation.plugins.filter.gpu_fleet import FilterModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse

from tests.unit.support.gpu.reports import REQUEST, card, events, samples

gpu_fleet = FilterModule().filters()["gpu_fleet"]


def report(uuid: str, **values: float) -> Any:
    return accept.report(card(uuid=uuid), card(), REQUEST, events(**values), samples(), [])


def test_slow_card_is_named_on_its_host():
    found = gpu_fleet({"ws1": [report("GPU-a"), report("GPU-b")], "ws2": [report("GPU-c", copy=3000)]})

    assert [(row["id"], row["status"]) for row in found["ws2"]] == [("gpu_fleet.GPU-c_copy", "warn")]
    assert found["ws2"][0]["remedy"]
    assert [(row["id"], row["status"]) for row in found["ws1"]] == [("gpu_fleet.alike", "pass")]


def test_every_finding_can_be_recorded():
    found = gpu_fleet({"ws1": [report("GPU-a"), report("GPU-b"), report("GPU-c", copy=3000)], "ws2": []})

    assert all(parse(row) for findings in found.values() for row in findings)
    assert found["ws2"][0]["status"] == "skip"


def test_a_list_is_refused():
    with pytest.raises(AnsibleFilterError, match="mapping of hosts"):
        gpu_fleet([report("GPU-a")])
