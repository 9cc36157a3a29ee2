# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU is asked for what."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request, parameters, resolve
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError, Refusal

H100 = 0x233010DE
CARDS = [
    Card(object(), 0, "GPU-a", "0000:41:00.0", "NVIDIA H100", (H100, 0)),
    Card(object(), 1, "GPU-b", "0000:42:00.0", "NVIDIA H100", (H100, 0)),
    Card(object(), 2, problem=NvmlError(CODES["GPU_IS_LOST"], "nvmlDeviceGetHandleByIndex")),
]
PARAMS: dict[str, Any] = {
    "devices": ["GPU-a"],
    "mode": "enabled",
    "layout": None,
    "mig_parted": None,
    "keep_instances": True,
    "allow_reset": "never",
    "when_busy": "fail",
    "busy_timeout": 1,
    "stop_services": [],
}


def test_gpu_named_twice_has_one_request_in_order() -> None:
    found = resolve(CARDS, PARAMS | {"devices": ["0000:42:00.0", "gpu-A", "GPU-b"]})
    assert [card.index for card, _request in found.cards] == [0, 1]
    assert found.warnings == []


def test_an_index_is_taken_with_a_warning() -> None:
    assert "write GPU-b" in resolve(CARDS, PARAMS | {"devices": ["1"]}).warnings[0]


def test_lost_gpu_fails_only_its_requests() -> None:
    resolve(CARDS, PARAMS)
    for devices in (["all"], ["2"]):
        with pytest.raises(NvmlError, match="GPU_IS_LOST"):
            resolve(CARDS, PARAMS | {"devices": devices})


def test_no_gpu_at_all_is_refused() -> None:
    with pytest.raises(Refusal, match="NVML shows no GPU"):
        resolve([], PARAMS | {"devices": ["all"]})


def test_all_with_other_devices_is_refused() -> None:
    """Refuse `all` next to a name: one of the two is a mistake, and nobody would notice a wrong name."""
    with pytest.raises(Refusal, match="`all` stands alone"):
        resolve(CARDS, PARAMS | {"devices": ["all", "GPU-typo"]})


def test_an_empty_list_is_not_taken_for_all() -> None:
    with pytest.raises(Refusal, match="the list is empty"):
        resolve(CARDS, PARAMS | {"devices": []})


def test_devices_limit_the_indices_of_mig_parted() -> None:
    spec = {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}
    config = {"config": {"version": "v1", "mig-configs": {"x": [spec]}}, "selected": "x"}
    params = PARAMS | {"mode": "unchanged", "mig_parted": config}
    found = resolve(CARDS, params | {"devices": None})
    assert {card.index: request for card, request in found.cards} == dict.fromkeys(
        (0, 1), Request("enabled", ({"profile": "1g.10gb", "count": 7},))
    )
    assert [card.index for card, _request in resolve(CARDS, params | {"devices": ["GPU-b"]}).cards] == [1]
    with pytest.raises(Refusal, match="leave `mode` and `layout` out"):
        resolve(CARDS, params | {"mode": "disabled"})


@pytest.mark.parametrize(
    ("devices", "spec_devices", "optional"),
    [(None, "all", True), (["all"], "all", True), (None, [0, 1], False), (["GPU-a"], "all", False)],
)
def test_only_all_ignores_cards_without_mig(devices: Any, spec_devices: Any, optional: bool) -> None:
    spec = {"devices": spec_devices, "mig-enabled": True, "mig-devices": {}}
    config = {"config": {"version": "v1", "mig-configs": {"x": [spec]}}, "selected": "x"}
    params = PARAMS | {"mode": "unchanged", "mig_parted": config, "devices": devices}
    assert {request.optional for _card, request in resolve(CARDS[:2], params).cards} == {optional}


@pytest.mark.parametrize(("devices", "optional"), [(["all"], True), (["GPU-a"], False)])
def test_only_all_makes_a_request_optional(devices: list[str], optional: bool) -> None:
    assert resolve(CARDS[:1], PARAMS | {"devices": devices}).cards[0][1].optional is optional


def test_declared_parameters_give_the_same_request() -> None:
    request = Request("enabled", ({"profile": "1g.10gb", "count": 2},), keep=False, allow_reset=True)
    declared = parameters("GPU-b", request, PARAMS | {"allow_reset": "gpu"})
    again = resolve(CARDS, declared).cards
    assert again == [(CARDS[1], request)]
