"""Recordings of real GPUs, and that the imitation answers as they do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from harness import imitated_nvml, record_nvml
from harness.imitated_nvml import fake

FIXTURES = Path(__file__).parents[1] / "fixtures/nvml"
RECORDINGS = {path.stem: json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*.json"))}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")


def recorded_here(name: str) -> dict[str, Any]:
    with fake([name]):
        return record_nvml.record()


def queries(recording: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{part}: {name}": answer for part in ("system", "device", "pair") for name, answer in recording[part].items()
    }


# --- The recorder ---


@pytest.mark.parametrize("name", imitated_nvml.models())
def test_recording_changes_nothing(name: str) -> None:
    with fake([name, name]) as machine:
        before = machine.state()
        record_nvml.record(index=1)
        assert (machine.state(), machine.writes) == (before, 0)


def test_a_recording_names_no_machine() -> None:
    with fake(["H200"]) as machine:
        machine.set(0, serial="1654321098765")
        machine.run_process(gpu=0, pid=31337, name="/home/alice/train.py")
        text = json.dumps(record_nvml.record())
    assert "1654321098765" not in text
    assert "alice" not in text
    assert "31337" not in text
    assert {found.strip("0-") for found in UUID.findall(text)} == {""}


def test_the_recorder_needs_nothing_but_the_binding(tmp_path: Path) -> None:
    script = shutil.copy(record_nvml.__file__, tmp_path)
    with fake(["H100"]) as machine:
        assert nvml.__file__ is not None
        (tmp_path / "pynvml.py").symlink_to(nvml.__file__)
        env = {**os.environ, **machine.env, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-S", script]
        printed = subprocess.run(command, cwd=tmp_path, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert json.loads(printed)["device"]["nvmlDeviceGetName"] == {"result": "SUCCESS", "value": "NVIDIA H100 80GB HBM3"}
