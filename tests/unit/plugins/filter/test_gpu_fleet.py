# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of several hosts, as the playbook hands them over."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.rigwright.workstation.plugins.filter.gpu_fleet import FilterModule
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept as accept

from tests.unit.gpu_reports import REQUEST, card, events, samples

gpu_fleet = FilterModule().filters()["gpu_fleet"]


def report(uuid: str, **values: float) -> dict[str, Any]:
    return accept.report(card(uuid=uuid), card(), REQUEST, events(**values), samples(), [])


def test_the_slow_one_is_named_with_its_host():
    found = gpu_fleet({"ws1": [report("GPU-a"), report("GPU-b")], "ws2": [report("GPU-c", copy=3000)]})

    assert {(one["host"], one["uuid"], one["test"]) for one in found} == {("ws2", "GPU-c", "copy")}


def test_hosts_without_gpus_have_nothing_to_compare():
    assert gpu_fleet({"ws1": [], "ws2": []}) == []


def test_a_list_is_refused():
    with pytest.raises(AnsibleFilterError, match="mapping of hosts"):
        gpu_fleet([report("GPU-a")])
