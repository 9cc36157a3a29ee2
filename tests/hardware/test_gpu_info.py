# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_info on this machine's GPUs, compared with nvidia-smi. Needs a GPU and its driver, no root; changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness import adhoc

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
# The text of nvidia-smi for a value that a card does not have.
NOTHING = {"[N/A]", "[Not Supported]", "N/A"}
MIB = 2**20

# A field of nvidia-smi, its path in gpu_info, and its conversion. Values that change on their own are left out.
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

ECC, ROWS = "ecc_errors", "remapped_rows/row_remapper_histogram"


def number(text: str) -> int:
    """Return a value without its unit."""
    return int(text.split()[0])


# The same from `nvidia-smi -q -x`, on an idle card. A driver that writes no value has none.
IN_XML: list[tuple[str, str, Callable[[Any], Any]]] = [
    *(
        (f"utilization/{name}_util", f"utilization.{name}_percent", int)
        for name in ("encoder", "decoder", "jpeg", "ofa")
    ),
    *(
        (f"bar1_memory_usage/{name}", f"memory.bar1.{name}_bytes", lambda value: value // MIB)
        for name in ("total", "used")
    ),
    ("applications_clocks/graphics_clock", "clocks.application_mhz.graphics", int),
    ("applications_clocks/mem_clock", "clocks.application_mhz.memory", int),
    ("default_applications_clocks/graphics_clock", "clocks.default_application_mhz.graphics", int),
    ("default_applications_clocks/mem_clock", "clocks.default_application_mhz.memory", int),
    *(
        (f"{ROWS}/row_remapper_histogram_{name}", f"counters.remapped_rows.banks.{name}", int)
        for name in ("max", "high", "partial", "low", "none")
    ),
    *(
        (
            f"clocks_event_reasons_counters/clocks_event_reasons_counters_{theirs}",
            f"counters.throttled.{ours}_ns",
            lambda value: value // 1000,
        )
        for theirs, ours in (
            ("sync_boost", "sync_boost"),
            ("hw_therm_slowdown", "hw_thermal"),
            ("hw_power_brake", "power_brake"),
        )
    ),
    *(
        (f"{ECC}/{scope}/{theirs}", f"counters.{ours}", int)
        for scope in ("volatile", "aggregate")
        for theirs, ours in (
            ("sram_correctable", f"sram.{scope}_corrected"),
            ("sram_uncorrectable_parity", f"sram.{scope}_parity"),
            ("sram_uncorrectable_secded", f"sram.{scope}_secded"),
            ("dram_correctable", f"ecc_locations.{scope}.dram.corrected"),
            ("dram_uncorrectable", f"ecc_locations.{scope}.dram.uncorrected"),
        )
    ),
    *(
        (f"{ECC}/aggregate_uncorrectable_sram_sources/sram_{name}", f"counters.sram.sources.{name}", int)
        for name in ("l2", "sm", "microcontroller", "pcie", "other")
    ),
]


@pytest.fixture(scope="session")
def info() -> dict[str, Any]:
    start = time.monotonic()
    answer = adhoc.result_of("gpu_info")
    print(f"gpu_info: {len(answer['gpus'])} GPUs, {time.monotonic() - start:.2f} s with Ansible's start")
    return answer


def value(facts: dict[str, Any], path: str) -> Any:
    for part in path.split("."):
        facts = facts[part] if facts is not None else None
    return facts


@pytest.mark.parametrize(("field", "path", "read"), SAME, ids=[field for field, _path, _read in SAME])
def test_facts_match_nvidia_smi(
    info: dict[str, Any],
    nvidia_smi: Callable[..., list[dict[str, str]]],
    field: str,
    path: str,
    read: Callable[[str], Any],
) -> None:
    shown = {row["uuid"]: row[field] for row in nvidia_smi("uuid", field)}
    assert {gpu["uuid"] for gpu in info["gpus"]} == set(shown)
    for gpu in info["gpus"]:
        text = shown[gpu["uuid"]]
        assert value(gpu, path) == (None if text in NOTHING else read(text))


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


@pytest.mark.parametrize(("place", "path", "read"), IN_XML, ids=[path for _place, path, _read in IN_XML])
def test_details_are_those_of_nvidia_smi(
    info: dict[str, Any],
    nvidia_smi_xml: dict[str, ElementTree.Element],
    place: str,
    path: str,
    read: Callable[[Any], Any],
) -> None:
    for gpu in info["gpus"]:
        text = nvidia_smi_xml[gpu["uuid"]].findtext(place)
        ours = value(gpu, path)
        print(f"{path}: {ours}; nvidia-smi: {text}")
        theirs = None if text is None or text in NOTHING else number(text)
        assert (None if ours is None else read(ours)) == theirs


def test_changing_values_are_read_and_grow(
    info: dict[str, Any], nvidia_smi_xml: dict[str, ElementTree.Element]
) -> None:
    later = {gpu["uuid"]: gpu for gpu in adhoc.result_of("gpu_info")["gpus"]}
    for gpu in info["gpus"]:
        values = (gpu["power"]["energy_j"], gpu["pcie"]["sent_kb_s"], gpu["counters"]["throttled"]["sw_power_cap_ns"])
        print(f"energy_j, sent_kb_s, sw_power_cap_ns: {values}")
        if gpu["power"]["energy_j"] is not None:
            assert later[gpu["uuid"]]["power"]["energy_j"] > gpu["power"]["energy_j"]
        traffic = nvidia_smi_xml[gpu["uuid"]].findtext("pci/tx_util")
        assert (gpu["pcie"]["sent_kb_s"] is None) == (traffic in {None, *NOTHING})


BUSY = """
import sys, torch
one = torch.randn(4096, 4096, device="cuda")
print("ready", flush=True)
while True:
    one = torch.tanh(one @ one)
    torch.cuda.synchronize()
"""


def test_a_busy_process_has_its_share(tmp_path: Path) -> None:
    python = os.environ.get("RIGWRIGHT_TORCH_PYTHON", sys.executable)
    with subprocess.Popen([python, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            found: list[dict[str, Any]] = []
            limit = time.monotonic() + 30
            # The driver samples processes about once a second.
            while not any(row["sm_percent"] for row in found) and time.monotonic() < limit:
                found = [row for gpu in adhoc.result_of("gpu_info")["gpus"] for row in gpu["processes"] or []]
        finally:
            process.kill()
    print(found)
    pmon = subprocess.run(["nvidia-smi", "pmon", "-c", "1"], capture_output=True, text=True, check=False).stdout
    print(pmon)
    if not found or all(row["sm_percent"] is None for row in found):
        pytest.skip(f"the driver reports no use by process here: {found}")
    assert max(row["sm_percent"] or 0 for row in found) > 50


def test_no_value_is_unreadable(info: dict[str, Any]) -> None:
    assert info["driver"]["problem"] is None
    for gpu in info["gpus"]:
        assert gpu["problem"] is None
        assert gpu["unreadable"] == []
