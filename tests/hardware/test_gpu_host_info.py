# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_host_info on this machine, compared with NVIDIA's tools. Needs a GPU and its driver, no root."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import adhoc

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
FIELDS = ("pci.bus_id", "name", "driver_version", "compute_cap", "mig.mode.current")
# Opens the devices as every program does that computes, and stays.
HOLDER = (
    "import ctypes, time; assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0; print('open', flush=True); time.sleep(300)"
)


@pytest.fixture(scope="session")
def info() -> dict:
    return adhoc.result_of("gpu_host_info")


@pytest.fixture(scope="session")
def expected(nvidia_smi) -> list[dict[str, str]]:
    """Return the output of nvidia-smi for each GPU, in the order of their addresses. It writes the domain with eight digits."""
    rows = nvidia_smi(*FIELDS)
    for row in rows:
        row["pci.bus_id"] = row["pci.bus_id"].lower()[-12:]
    return sorted(rows, key=lambda row: row["pci.bus_id"])


def test_every_gpu_is_found(info, expected):
    assert [(gpu["address"], gpu["name"]) for gpu in info["gpus"]] == [
        (row["pci.bus_id"], row["name"]) for row in expected
    ]
    assert {gpu["kernel_driver"] for gpu in info["gpus"]} == {"nvidia"}


def test_catalogue_matches_the_cards(info, expected):
    for gpu, row in zip(info["gpus"], expected, strict=True):
        assert gpu["known"]
        assert gpu["compute_capability"] == row["compute_cap"]
        assert gpu["mig"] is (row["mig.mode.current"] != "[N/A]")


def test_driver_is_the_loaded_one(info, expected):
    (version,) = {row["driver_version"] for row in expected}
    assert (info["driver"]["loaded"], info["driver"]["library"], info["driver"]["matches"]) == (version, version, True)


def test_open_and_closed_modules_are_distinguished(info):
    if shutil.which("modinfo") is None:
        pytest.skip("this machine has no modinfo to compare with")
    module = subprocess.run(["modinfo", "--field", "license", "nvidia"], capture_output=True, text=True, check=False)
    if module.returncode != 0:
        pytest.skip("this machine has no file of its module: modinfo cannot read it")
    assert info["driver"]["modules"] == ("closed" if module.stdout.strip() == "NVIDIA" else "open")


def test_processes_with_an_open_gpu_are_named():
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            assert holder.pid in [process["pid"] for process in adhoc.result_of("gpu_host_info")["holders"]]
        finally:
            holder.kill()
