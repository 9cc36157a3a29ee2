# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is chosen by the driver is chosen by the GPUs too, and by those alone that the host uses."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import cuda_conflict, host_cuda
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

from tests.unit.support.nvidia.roots import Root
from tests.world.nvidia.adapter import cuda, cudnn, driver

PLUGINS = Path(__file__).parents[5] / "plugins"
DRIVER = "580.95.05"
NEW = {"address": "0000:02:00.0", "device": "2684", "driver": "nvidia"}
OLD = [f"{row.first:04x}" for row in data.PCI_RANGES if row.first < 0x1E02]
FOLDER = "/usr/lib/x86_64-linux-gnu"


def environment(root: Root, cards: list[dict[str, Any]], version: str = DRIVER) -> Any:
    """Return the versions of CUDA for environments of a host with these cards."""
    for card in cards:
        place = f"{pci.DEVICES}/{card['address']}"
        for name, value in {"vendor": "0x10de", "device": f"0x{card['device']}", "class": "0x030000"}.items():
            root.write(f"{place}/{name}", f"{value}\n")
        if card.get("driver"):
            root.link(f"{place}/driver", f"../drivers/{card['driver']}")
    root.write(f"{FOLDER}/libcuda.so.{version}", "")
    root.link(f"{FOLDER}/libcuda.so.1", f"libcuda.so.{version}")
    return host_cuda(root.tree)


CHOICES: dict[str, Any] = {
    "the driver": driver,
    "a toolkit": lambda cards: cuda(cards, DRIVER),
    "cuDNN": lambda cards: cudnn(cards, DRIVER, ("cuda-toolkit-13-0=13.0.2-1",)),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kept_by", sorted(pci.PASSED_ON))
def test_card_of_a_virtual_machine_changes_no_choice(choice: str, kept_by: str) -> None:
    alone = CHOICES[choice]([NEW])
    for device in OLD:
        assert CHOICES[choice]([{"address": "0000:01:00.0", "device": device, "driver": kept_by}, NEW]) == alone


@pytest.mark.parametrize("choice", ["a toolkit", "cuDNN"])
def test_card_that_the_driver_ignores_changes_no_choice(choice: str) -> None:
    alone = CHOICES[choice]([NEW])
    assert CHOICES[choice]([{"address": "0000:01:00.0", "device": "1d01"}, NEW]) == alone


@pytest.mark.parametrize(
    ("cards", "highest", "lowest"),
    [
        ([], "13.0", ""),
        ([NEW], "13.0", "11.8"),
        ([{"address": "0000:01:00.0", "device": "1db1", "driver": "nvidia"}], "12.6", ""),
        ([{"address": "0000:01:00.0", "device": "1b80", "driver": "nvidia"}, NEW], "12.6", "11.8"),
        ([{"address": "0000:01:00.0", "device": "1b80", "driver": "vfio-pci"}, NEW], "13.0", "11.8"),
        ([{"address": "0000:01:00.0", "device": "1b80"}, NEW], "13.0", "11.8"),
        ([{"address": "0000:02:00.0", "device": "2b85", "driver": "nvidia"}], "13.0", "12.8"),
    ],
)
def test_environments_get_cuda_that_runs_on_the_cards(root: Root, cards, highest, lowest) -> None:
    assert environment(root, cards) == (highest, lowest)


def test_card_that_waits_for_a_vm_changes_no_environment(root: Root) -> None:
    root.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:1b80\n")
    assert environment(root, [{"address": "0000:01:00.0", "device": "1b80"}, {**NEW, "driver": ""}]) == ("13.0", "11.8")


def test_older_driver_limits_environments_below_the_card(root: Root) -> None:
    card = {"address": "0000:01:00.0", "device": "1db1", "driver": "nvidia"}
    assert environment(root, [card], "535.261.03") == ("12.2", "")


@pytest.mark.parametrize(
    ("version", "expected", "note"),
    [
        (DRIVER, ("13.0", "12.8"), "environments are for Blackwell: no PyTorch has kernels for Pascal as well"),
        ("550.163.01", ("12.4", ""), "the driver supports CUDA 12.4, and 12.8 is the first with kernels for Blackwell"),
    ],
)
def test_newest_card_decides_where_no_cuda_serves_all(root: Root, version, expected, note) -> None:
    cards = [{"address": "0000:01:00.0", "device": "1b80"}, {"address": "0000:02:00.0", "device": "2b85"}]
    assert environment(root, cards, version) == expected
    assert cuda_conflict(root.tree) == note


def test_only_the_reader_of_cards_asks_for_the_drivers_cuda() -> None:
    """The CUDA of the driver alone has no kernels for cards that it still runs."""
    callers = [
        path.name
        for path in PLUGINS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "highest_cuda"
    ]
    assert callers == ["facts.py"]


def test_cards_of_facts_are_read_by_their_use() -> None:
    """In the roles' own code, `facts["gpus"]` has the cards of virtual machines, too: only the functions of `gpus` take it."""
    offenders = []
    for path in (PLUGINS / "module_utils/_nvidia").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            key = node.slice if isinstance(node, ast.Subscript) else None
            of_plan = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "plan"
            if (
                not isinstance(node, ast.Subscript)
                or not isinstance(key, ast.Constant)
                or key.value != "gpus"
                or of_plan
            ):
                continue
            parent = node.parent  # type: ignore[attr-defined]
            taken = isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in (
                "of_host",
                "of_driver",
                "passed_on",
            )
            # What is kept for virtual machines is named in a refusal.
            if not taken and path.name != "driver_checks.py":
                offenders.append(f"{path.name}:{node.lineno}")
    assert not offenders
