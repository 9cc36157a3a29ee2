# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations of nvidia-mig-parted, read and written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import parted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Compute, Instance, expand
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import plan_layout
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu.mig_cards import CARDS

# As its own examples are written (examples/config.yaml).
CONFIG = yaml.safe_load("""
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-1g.10gb:
    - device-filter: ["0x233010DE", "0x232210DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
  custom:
    - devices: [0]
      mig-enabled: false
    - devices: [1, 2]
      mig-enabled: true
      mig-devices:
        "1c.3g.40gb": 2
        "2g.20gb": 1
        "1g.10gb+me": 0
""")
H100 = (0x233010DE, 0x16C110DE)
A100 = (0x20B010DE, 0x134F10DE)
H100S = {0: H100, 1: H100, 2: H100}


def test_selected_configuration_applies_to_each_gpu() -> None:
    found = parted.read(CONFIG, "custom", H100S)
    assert found == {
        0: parted.Request("disabled"),
        1: parted.Request("enabled", ({"profile": "1c.3g.40gb", "count": 2}, {"profile": "2g.20gb", "count": 1})),
        2: found[1],
    }


def test_filter_selects_cards_by_id() -> None:
    assert list(parted.read(CONFIG, "all-1g.10gb", {0: A100, 1: H100})) == [1]
    assert parted.read(CONFIG, "all-disabled", {0: A100}) == {0: parted.Request("disabled")}


def change(**spec: Any) -> dict[str, Any]:
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}, **spec}
    kept = {key: value for key, value in entry.items() if value != "left out"}
    return {"version": "v1", "mig-configs": {"x": [kept]}}


@pytest.mark.parametrize(
    ("config", "selected", "message"),
    [
        ({"version": "v2"}, "x", "version is 'v2'; only v1"),
        ({"version": "v1"}, "x", "`mig-configs` has to be"),
        (CONFIG, "all-2g.20gb", "there is no 'all-2g.20gb'; there are all-1g.10gb, all-disabled, custom"),
        ({"version": "v1", "mig-configs": {"x": ["all"]}}, "x", "has to be a list of mappings"),
        ({"version": "v1", "mig-configs": {"x": []}}, "x", "at least one"),
        (
            {"version": "v1", "mig-configs": {"x": CONFIG["mig-configs"]["custom"], "y": []}},
            "x",
            "mig-configs.y has to be",
        ),
        ({**CONFIG, "mig-config": {}}, "custom", "unknown mig-config; known are version, mig-configs"),
        (change(devices="left out"), "x", "has to be `all` or a list"),
        (change(**{"mig-devices": "left out"}), "x", "mig-devices: is missing with mig-enabled"),
        (change(**{"mig-devices": None}), "x", "mig-devices: is missing with mig-enabled"),
        (change(**{"mig-devices": {"1g.10gb": 0, "2g.20gb": 0}}), "x", "all counts are 0"),
        (change(**{"device-filter": "0x233010DE:0x16C110DE:0x1"}), "x", "ids are written as"),
        (change(devices=[7]), "x", "no GPU 7; there are 0, 1, 2"),
        (change(devices="0"), "x", "has to be `all` or a list"),
        (change(devices=[True]), "x", "has to be `all` or a list"),
        (change(**{"mig-devices": {"seven": 1}}), "x", "is no name of a MIG profile"),
        (change(**{"mig-devices": {"1g.10gb": "7"}}), "x", "'7' is no count"),
        (change(**{"mig-devices": ["1g.10gb"]}), "x", "has to be a mapping"),
        (change(**{"mig-enabled": "yes"}), "x", "has to be true or false"),
        (change(**{"mig-enabled": False, "mig-devices": {"1g.10gb": 1}}), "x", "mig-devices without mig-enabled"),
        (change(**{"device-filter": "H100"}), "x", "ids are written as"),
        (change(**{"device-filter": 0}), "x", "ids are written as"),
        (change(**{"device-filter": False}), "x", "ids are written as"),
        (change(**{"device-filter": ["0x0"]}), "x", "ids are written as"),
        ({"version": "v1", "mig-configs": {1: [], "all": []}}, "1", "1 is no text to YAML; write names in quotes"),
        ({"version": "v1", "mig-configs": {1: []}}, "x", "1 is no text to YAML; write names in quotes"),
        (change(**{"device-filter": {"0x233010de": 1}}), "x", "ids are written as"),
        (change(**{"mig-device": {}}), "x", "unknown mig-device; known are"),
    ],
)
def test_invalid_configuration_is_refused(config: dict[str, Any], selected: str, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        parted.read(config, selected, H100S)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ("0x233010DE:0x16C110DE", [0]),
        (["0x233010de:0x16c010de"], [1]),
        (["0x233010DE:0x16C110DE", "0x20B010DE"], [0, 2]),
        ("0x20B010DE:0x16C110DE", []),
        ("", [0, 1, 2]),
    ],
)
def test_filter_accepts_the_subsystem(devices: Any, found: list[int]) -> None:
    cards = {0: H100, 1: (0x233010DE, 0x16C010DE), 2: A100}
    assert list(parted.read(change(**{"device-filter": devices}), "x", cards)) == found


def test_only_an_empty_mapping_requests_no_instances() -> None:
    assert parted.read(change(**{"mig-devices": {}}), "x", {0: H100}) == {0: parted.Request("enabled")}


@pytest.mark.parametrize(("devices", "optional"), [("all", True), ([0], False)])
def test_all_means_the_cards_that_have_mig(devices: Any, optional: bool) -> None:
    assert parted.read(change(devices=devices), "x", {0: H100})[0].optional is optional


@pytest.mark.parametrize("ids", ["0x233010DE", '"0x233010de"', "[0x233010de]", '["0x233010DE", "0x1"]'])
def test_a_filter_means_the_same_with_and_without_quotes(ids: str) -> None:
    spec = yaml.safe_load(f"{{devices: all, device-filter: {ids}, mig-enabled: false}}")
    config = {"version": "v1", "mig-configs": {"x": [spec]}}
    assert list(parted.read(config, "x", {0: H100, 1: A100})) == [0]


def test_two_requests_for_one_gpu_are_refused() -> None:
    twice = {
        "version": "v1",
        "mig-configs": {
            "x": [{"devices": "all", "mig-enabled": False}, {"devices": [1], "mig-enabled": True, "mig-devices": {}}]
        },
    }
    with pytest.raises(Refusal, match="an earlier entry requests something else of GPU 1"):
        parted.read(twice, "x", H100S)


def test_written_configuration_is_read_as_the_same_request() -> None:
    cards = CARDS["H200"]
    layout = (
        Instance("3g.71gb", 4, (Compute(1, 0), Compute(1, 1))),
        Instance("1g.18gb", 0, (Compute(1, 0),)),
        Instance("1g.18gb", 2, (Compute(1, 0),)),
    )
    slices = {name: profile.slices for name, profile in cards.items()}
    gpus = {0: ("enabled", layout, slices), 1: ("disabled", (), {}), 2: ("enabled", layout, slices)}
    config = parted.write(gpus, hosts=3)
    assert config["mig-configs"]["current"] == [
        {"devices": [0, 2], "mig-enabled": True, "mig-devices": {"1c.3g.71gb": 2, "1g.18gb": 2}},
        {"devices": [1], "mig-enabled": False},
    ]
    read = parted.read(yaml.safe_load(yaml.safe_dump(config)), "current", dict.fromkeys(range(3), H100))
    assert plan_layout(cards, layout, expand(read[0].layout, cards)) == []
    assert read[1] == parted.Request("disabled")


@pytest.mark.parametrize(("hosts", "devices"), [(2, "all"), (3, [0, 1])])
def test_equal_gpus_share_one_entry(hosts: int, devices: Any) -> None:
    """Write `all` only for all GPUs of the host, also those without a request."""
    written = parted.write({0: ("disabled", (), {}), 1: ("disabled", (), {})}, hosts=hosts)
    assert written["mig-configs"] == {"current": [{"devices": devices, "mig-enabled": False}]}


def test_deepops_duplicate_key_keeps_the_last_value() -> None:
    """Keep the second of two equal keys, as YAML does; the card then refuses two 7g."""
    text = 'version: v1\nmig-configs: {x: [{devices: all, mig-enabled: true, mig-devices: {"7g.141gb": 1, "7g.141gb": 2}}]}'
    request = parted.read(yaml.safe_load(text), "x", {0: H100})[0]
    with pytest.raises(Refusal, match="2x 7g.141gb does not fit"):
        plan_layout(CARDS["H200"], (), expand(request.layout, CARDS["H200"]))
