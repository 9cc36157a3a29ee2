# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_info says of this machine's GPUs, compared with what nvidia-smi says. Needs a GPU and its driver, no root; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hardware import module

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
# What nvidia-smi writes for what a card does not have.
NOTHING = {"[N/A]", "[Not Supported]", "N/A"}
MIB = 2**20

# A field of nvidia-smi, where gpu_info has it, and how the one is written as the other. Values that move on their own are not here.
SAME: list[tuple[str, str, Callable[[str], Any]]] = [
    ("name", "name", str),
    ("vbios_version", "vbios", str),
    ("compute_cap", "compute_capability", str),
    ("persistence_mode", "modes.persistence", lambda word: word == "Enabled"),
    ("compute_mode", "modes.compute_mode", lambda word: word.lower().replace(" ", "_")),
    ("ecc.mode.current", "modes.ecc.current", lambda word: word == "Enabled"),
    ("ecc.mode.pending", "modes.ecc.pending", lambda word: word == "Enabled"),
    ("mig.mode.current", "modes.mig.current", lambda word: word == "Enabled"),
    ("power.limit", "power.limit_w", float),
    ("enforced.power.limit", "power.enforced_limit_w", float),
    ("power.min_limit", "power.min_limit_w", float),
    ("power.max_limit", "power.max_limit_w", float),
    ("pcie.link.gen.gpumax", "pcie.gpu_max_generation", int),
    ("pcie.link.gen.max", "pcie.max_generation", int),
    ("pcie.link.width.max", "pcie.max_width", int),
    ("retired_pages.pending", "counters.retired_pages.pending", lambda word: word == "Yes"),
]


@pytest.fixture(scope="session")
def info() -> dict[str, Any]:
    start = time.monotonic()
    answer = module.told("gpu_info")
    print(f"gpu_info: {len(answer['gpus'])} GPUs, {time.monotonic() - start:.2f} s with Ansible's start")
    return answer


def value(told: dict[str, Any], path: str) -> Any:
    for part in path.split("."):
        told = told[part] if told is not None else None
    return told


@pytest.mark.parametrize(("field", "path", "read"), SAME, ids=[field for field, _path, _read in SAME])
def test_both_say_the_same(
    info: dict[str, Any],
    nvidia_smi: Callable[..., list[dict[str, str]]],
    field: str,
    path: str,
    read: Callable[[str], Any],
) -> None:
    shown = {row["uuid"]: row[field] for row in nvidia_smi("uuid", field)}
    assert {gpu["uuid"] for gpu in info["gpus"]} == set(shown)
    for gpu in info["gpus"]:
        words = shown[gpu["uuid"]]
        assert value(gpu, path) == (None if words in NOTHING else read(words))


def test_the_memory_adds_up_and_is_nvidia_smis(
    info: dict[str, Any], nvidia_smi: Callable[..., list[dict[str, str]]]
) -> None:
    shown = {row["uuid"]: row for row in nvidia_smi("uuid", "memory.total", "memory.reserved")}
    for gpu in info["gpus"]:
        memory, row = gpu["memory"], shown[gpu["uuid"]]
        assert memory["total_bytes"] // MIB == int(row["memory.total"])
        # nvidia-smi rounds it up.
        assert -(-memory["reserved_bytes"] // MIB) == int(row["memory.reserved"])
        parts = memory["reserved_bytes"] + memory["used_bytes"] + memory["free_bytes"]
        assert parts == memory["total_bytes"]


def test_nothing_is_in_the_way(info: dict[str, Any]) -> None:
    assert info["driver"]["problem"] is None
    for gpu in info["gpus"]:
        assert gpu["problem"] is None
        assert gpu["unreadable"] == []
