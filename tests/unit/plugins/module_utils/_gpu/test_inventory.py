# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a host's GPUs, with and without NVML."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import inventory, nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError

from harness.fakes import nvml as fake_nvml


class Host:
    """Files of a host below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def plug(self, address: str, device: int, driver: str = "nvidia") -> None:
        where = f"/sys/bus/pci/devices/{address}"
        self.write(f"{where}/vendor", "0x10de\n")
        self.write(f"{where}/class", "0x030200\n")
        self.write(f"{where}/device", f"{device:#06x}\n")
        (self.root / where.lstrip("/") / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")

    def run(self, pid: int, name: str, command: str, environment: str = "") -> None:
        self.write(f"/proc/{pid}/comm", f"{name[:15]}\n")
        self.write(f"/proc/{pid}/status", "Uid:\t0\t0\t0\t0\n")
        self.write(f"/proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
        self.write(f"/proc/{pid}/environ", environment.replace(" ", "\0") + "\0")

    def gather(self) -> Any:
        return inventory.gather(Tree(str(self.root)))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def unopened(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def enter(_self: Any) -> Any:
        raise NvmlError(CODES[name], "nvmlInit")

    monkeypatch.setattr(nvml.Nvml, "__enter__", enter)


def test_upgraded_library_is_a_problem_and_no_crash(host: Host) -> None:
    host.plug("0000:41:00.0", 0x2335)
    with fake_nvml.fake(["H200"]) as machine:
        healthy = host.gather()
        machine.upgrade_library("590.48.01")
        found = host.gather()
    assert healthy["driver"]["problem"] is None
    problem = found["driver"]["problem"]
    assert problem["nvml_error"] == "LIB_RM_VERSION_MISMATCH"
    assert "reboot" in problem["next_step"]
    # Facts of the PCI bus are in the same keys.
    assert [(row["index"], row["name"], row["compute_capability"]) for row in found["gpus"]] == [(None, None, "9.0")]
    assert found["gpus"][0].keys() == healthy["gpus"][0].keys()
    assert found["gpus"][0]["memory"]["total_bytes"] is None


@pytest.mark.parametrize(
    "name", ["LIBRARY_NOT_FOUND", "DRIVER_NOT_LOADED", "NO_PERMISSION", "GPU_NOT_FOUND", "UNKNOWN"]
)
def test_any_error_of_nvml_has_a_result(host: Host, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    unopened(monkeypatch, name)
    host.plug("0000:41:00.0", 0x2684, "nouveau")
    found = host.gather()
    assert found["driver"]["problem"]["nvml_error"] == name
    assert [(row["pci_address"], row["kernel_driver"]) for row in found["gpus"]] == [("0000:41:00.0", "nouveau")]
    assert found["gpus"][0]["architecture"] == "ada"


def test_missing_binding_names_its_package(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    host.plug("0000:41:00.0", 0x2684)
    found = host.gather()
    assert found["driver"]["problem"]["nvml_error"] == "BINDING_NOT_FOUND"
    assert found["gpus"][0]["pci_device_id"] == "10de:2684"


def test_a_host_without_gpus_has_an_empty_list(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    unopened(monkeypatch, "LIBRARY_NOT_FOUND")
    assert host.gather()["gpus"] == []


def test_card_of_a_virtual_machine_comes_last(host: Host) -> None:
    host.plug("0000:41:00.0", 0x2335)
    host.plug("0000:c1:00.0", 0x2335, "vfio-pci")
    with fake_nvml.fake(["H200"]):
        gpus = host.gather()["gpus"]
    assert [(row["index"], row["pci_address"], row["kernel_driver"]) for row in gpus] == [
        (0, "0000:41:00.0", "nvidia"),
        (None, "0000:c1:00.0", "vfio-pci"),
    ]


def test_lost_gpu_gets_the_only_free_address() -> None:
    lost = Card(None, 1, problem=NvmlError(15, "nvmlDeviceGetHandleByIndex"))
    cards = [Card(object(), 0, "GPU-a", "0000:41:00.0"), lost]
    placed = inventory.place_lost(cards, ["0000:41:00.0", "0000:42:00.0"])
    assert [card.pci_address for card in placed] == ["0000:41:00.0", "0000:42:00.0"]
    # Of two lost ones nobody knows which is where.
    assert [card.pci_address for card in inventory.place_lost([lost, lost], ["0000:41:00.0"])] == ["", ""]


def test_topology_has_a_row_for_each_pair(host: Host) -> None:
    with fake_nvml.fake(["H200", "H200", "RTX 4090"]) as machine:
        rows = host.gather()["topology"]
        machine.lose(2)
        without = host.gather()["topology"]
    assert [row["gpus"] for row in rows] == [[0, 1], [0, 2], [1, 2]]
    assert rows[0]["p2p_read"] == "ok"
    assert [row["gpus"] for row in without] == [[0, 1]]


def test_cuda_version_is_written_with_a_point(host: Host) -> None:
    with fake_nvml.fake(["H200"]):
        driver = host.gather()["driver"]
    assert (driver["cuda"], driver["loaded"]) == ("13.0", fake_nvml.DRIVER)


def test_daemons_are_found_by_their_processes(host: Host) -> None:
    host.run(700, "nvidia-persistenced", "/usr/bin/nvidia-persistenced --verbose")
    host.run(
        911,
        "nvidia-cuda-mps-control",
        "nvidia-cuda-mps-control -f",
        "A=1 CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps/vision",
    )
    host.run(912, "nvidia-cuda-mps-server", "/usr/bin/nvidia-cuda-mps-server")
    found = inventory.read_services(Tree(str(host.root)))
    assert found["services"] == {"persistenced": True, "fabricmanager": False, "dcgm": False}
    # The kernel keeps 15 letters of both; only one of them is the daemon.
    assert found["mps_daemons"] == [{"pid": 911, "user": "0", "pipe_directory": "/run/nvidia-mps/vision"}]


def test_a_cdi_spec_of_another_driver_is_found(host: Host) -> None:
    spec = host.write("/var/run/cdi/nvidia.yaml", "hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05\n")
    host.write("/etc/cdi/other.yaml", "kind: example.com/device\n")
    now = time.time()
    os.utime(spec, (now - 90, now - 90))
    toolkit = inventory.read_container_toolkit(Tree(str(host.root)), "590.48.01", now)
    assert toolkit == {
        "installed": False,
        "cdi_specs": [{"path": "/var/run/cdi/nvidia.yaml", "age_seconds": 90, "driver": "580.95.05", "matches": False}],
    }
    assert inventory.read_container_toolkit(Tree(str(host.root)), "", now)["cdi_specs"][0]["matches"] is None
