"""Recordings of real GPUs, and the same answers of the fake NVML."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from harness.fakes import nvml as fake_nvml
from harness.fakes import record_nvml
from harness.fakes.nvml import fake

FIXTURES = Path(__file__).parents[2] / "fixtures/nvml"
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*.json"))}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")


def recorded_in_a_virtual_machine(name: str) -> dict[str, Any]:
    """Record one GPU that is passed through, as in the recordings, so that it has no links to others."""
    with fake([name]) as machine:
        links = [key.removeprefix("gpu.0.") for key in machine.state() if key.startswith("gpu.0.nvlink.")]
        machine.set(0, virtualization=1, fabric__state=0, **dict.fromkeys(links))
        return record_nvml.record()


def queries(recording: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{part}: {name}": answer for part in ("system", "device", "pair") for name, answer in recording[part].items()
    }


# --- The recorder ---


@pytest.mark.parametrize("name", fake_nvml.models())
def test_recording_changes_nothing(name: str) -> None:
    with fake([name, name]) as machine:
        before = machine.state()
        record_nvml.record(index=1)
        assert (machine.state(), machine.writes) == (before, 0)


def test_recording_has_no_names_of_a_machine() -> None:
    with fake(["H200"]) as machine:
        machine.set(0, serial="1654321098765")
        machine.run_process(gpu=0, pid=31337, name="/home/alice/train.py")
        text = json.dumps(record_nvml.record())
    assert "1654321098765" not in text
    assert "alice" not in text
    assert "31337" not in text
    assert {found.strip("0-") for found in UUID.findall(text)} == {""}


def test_recorder_needs_only_the_binding(tmp_path: Path) -> None:
    script = shutil.copy(record_nvml.__file__, tmp_path)
    with fake(["H100"]) as machine:
        assert nvml.__file__ is not None
        (tmp_path / "pynvml.py").symlink_to(nvml.__file__)
        env = {**os.environ, **machine.env, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-S", script]
        printed = subprocess.run(command, cwd=tmp_path, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert json.loads(printed)["device"]["nvmlDeviceGetName"] == {"result": "SUCCESS", "value": "NVIDIA H100 80GB HBM3"}


# --- The fake answers as a real card did ---

# The model of a recording, by the name of its card.
MODELS = {fake_nvml.model(name)["name"]: name for name in fake_nvml.models()}

# What is of one machine or one moment: only the type of these is held to. Everything else is of the model, and equal.
PASSING = re.compile(
    r"""system:\ nvmlSystemGet
    | device:\ nvmlDeviceGet(
        (Affinity|CpuAffinity|MemoryAffinity|BoardId|BoardPartNumber|Inforom|IrqNum|MinorNumber|ModuleId|NumaNodeId|PciInfo|VbiosVersion)
        | (GspFirmwareVersion|PcieReplayCounter|PcieThroughput|PersistenceMode|PerformanceState|PowerState|PowerUsage)
        | (CurrentClocks(Event|Throttle)Reasons|Temperature(V|\(0\))|MarginTemperature|TotalEnergyConsumption|UtilizationRates)
        | (ClockInfo|Clock\(\d,\ 0\)|.*RunningProcesses|CurrPcie|PcieSpeed|NvLinkRemotePciInfo|.*Utilization$)
    )
    | device:\ field\ (7[4-9]|8[0-3]|94|169|17[3-9]|18[0-3]|185|186|191|197|198)$
    """,
    re.VERBOSE,
)
# Nothing calls these functions. The fake lacks them, rather than inventing answers.
NOT_FAKED = {
    f"device: nvmlDeviceGet{name}"
    for name in ("CoolerInfo", "CurrentClockFreqs", "DynamicPstatesInfo", "PerformanceModes", "PlatformInfo")
}
PASSING_PARTS = {"used", "free"}


def shape(value: Any) -> Any:
    """Return the types in a value."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def comparable(name: str, answer: dict[str, Any]) -> Any:
    value = answer.get("value")
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if key not in PASSING_PARTS}
    return answer["result"], shape(value) if PASSING.match(name) else value


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_fake_answers_as_the_real_card(name: str) -> None:
    real = queries(RECORDINGS[name])
    faked = queries(recorded_in_a_virtual_machine(MODELS[real["device: nvmlDeviceGetName"]["value"]]))
    differences = {
        query: (comparable(query, answer), comparable(query, faked[query]))
        for query, answer in real.items()
        if query not in NOT_FAKED and comparable(query, answer) != comparable(query, faked[query])
    }
    assert differences == {}
    assert {faked[query]["result"] for query in NOT_FAKED} == {"FUNCTION_NOT_FOUND"}


# --- And so does nvidia-smi ---

PASSING_ELEMENTS = re.compile(
    r"persistence_mode|serial|uuid|board_id|pci_(bus|device|bus_id)|[rt]x_util|gpu_temp(_tlimit)?|memory_temp|(average|instant)_power_draw"
)


def elements(element: ET.Element, path: str = "") -> dict[str, str]:
    """Return the text of each element with text, by its path."""
    found: dict[str, str] = {}
    for part in element:
        where = f"{path}/{part.tag}"
        found |= elements(part, where) or {where: (part.text or "").strip()}
    return found


def log_of(text: str) -> dict[str, str]:
    return elements(ET.fromstring(text))  # noqa: S314  a recording of ours


@pytest.mark.parametrize("name", [name for name, recording in RECORDINGS.items() if recording.get("nvidia-smi")])
def test_fake_nvidia_smi_prints_only_real_elements(name: str) -> None:
    real = log_of(RECORDINGS[name]["nvidia-smi"]["-q -x -i {}"]["output"])
    with fake([MODELS[RECORDINGS[name]["device"]["nvmlDeviceGetName"]["value"]]]):
        faked = log_of(record_nvml.nvidia_smi(0)["-q -x -i {}"]["output"])
        listed = record_nvml.nvidia_smi(0)["compute-policy -l"]
    differences = {
        path: (real.get(path), text)
        for path, text in faked.items()
        if path not in real or (text != real[path] and not PASSING_ELEMENTS.fullmatch(path.rsplit("/", 1)[1]))
    }
    assert differences == {}
    assert len(faked) > 90
    assert listed == RECORDINGS[name]["nvidia-smi"]["compute-policy -l"]
