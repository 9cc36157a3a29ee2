# SPDX-License-Identifier: GPL-3.0-or-later
"""The role cuda's own program on a real GPU, compared with NVIDIA's tools. Needs nvcc and a GPU, no root."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROLES = Path(__file__).parents[2] / "roles"
SITE = Path(sysconfig.get_path("purelib"), "nvidia")
FIELDS = ("name", "uuid", "pci.bus_id", "memory.total", "compute_cap")


@pytest.fixture(scope="session")
def nvcc() -> str:
    """Return the compiler of a toolkit, or else of NVIDIA's wheels (nvidia-cuda-nvcc)."""
    wheels = sorted(map(str, SITE.glob("c*/bin/nvcc")))
    found = [shutil.which("nvcc"), shutil.which("/usr/local/cuda/bin/nvcc"), *wheels]
    compiler = next(filter(None, found), None)
    if compiler is None:
        pytest.fail("no nvcc here: apply the role cuda, or install the wheels nvidia-cuda-nvcc and nvidia-cuda-runtime")
    return compiler


def built(source: Path, program: Path, nvcc: str, *options: str) -> Path:
    done = subprocess.run([nvcc, *options, "-o", program, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return program


@pytest.fixture(scope="session")
def output(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("device_query")
    program = built(ROLES / "cuda/files/device_query.cu", folder / "device_query", nvcc)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def devices(output: str) -> list[dict[str, str]]:
    """Return the output of the program for each device. The first block is about driver and runtime."""
    blocks = output.strip().split("\n\n")[1:]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


@pytest.fixture(scope="session")
def expected(nvidia_smi) -> list[dict[str, str]]:
    """Return the output of nvidia-smi for each GPU, in the order of their UUIDs."""
    return sorted(nvidia_smi(*FIELDS), key=lambda row: row["uuid"])


def test_every_gpu_is_found_under_its_name_and_address(devices, expected):
    found = sorted(devices, key=lambda device: device["uuid"])

    assert [(device["uuid"], device["name"]) for device in found] == [(gpu["uuid"], gpu["name"]) for gpu in expected]
    # nvidia-smi writes the domain with eight digits, CUDA with four.
    addresses = [gpu["pci.bus_id"].upper()[-12:] for gpu in expected]
    assert [device["pci_address"].upper() for device in found] == addresses
    assert [device["compute_capability"] for device in found] == [gpu["compute_cap"] for gpu in expected]


def test_memory_is_that_of_the_card_less_reserved_memory(devices, expected):
    for device, gpu in zip(sorted(devices, key=lambda device: device["uuid"]), expected, strict=True):
        share = int(device["memory_total_bytes"]) / (int(gpu["memory.total"]) * 1024**2)
        assert 0.9 < share <= 1
        assert 0 < int(device["memory_free_bytes"]) <= int(device["memory_total_bytes"])


def test_copies_come_back_and_the_kernel_computes(devices):
    for device in devices:
        assert (device["copy_check"], device["kernel_check"]) == ("passed", "passed")
        # Memory on the card is faster than any bus to it.
        assert float(device["copy_on_device_gb_per_s"]) > float(device["copy_to_device_gb_per_s"]) > 0
        assert float(device["copy_from_device_gb_per_s"]) > 0


def test_the_driver_supports_the_runtime(output):
    lines = output.split("\n\n")[0].splitlines()
    versions = dict(line.split(": ") for line in lines)
    driver, runtime = (
        [int(part) for part in versions[key].split(".")] for key in ("driver_supports_cuda", "runtime_cuda")
    )
    assert driver[0] >= runtime[0]


def test_cudnn_convolves_as_the_processor_does(nvcc, tmp_path):
    folder = next(
        (path for path in (Path("/opt/cudnn/default"), SITE / "cudnn") if (path / "include/cudnn.h").exists()), None
    )
    if folder is None:
        pytest.skip("no cuDNN here: apply the role cudnn, or install the wheel nvidia-cudnn-cu13")
    library = next((folder / "lib").glob("libcudnn.so.*"))
    options = ("-x", "cu", f"-I{folder / 'include'}", "-Xlinker", f"-rpath={folder / 'lib'}", "-Xlinker", str(library))

    program = built(ROLES / "cudnn/files/cudnn_convolution.c", tmp_path / "convolution", nvcc, *options)

    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "convolution: passed, 3600 values equal" in done.stdout
