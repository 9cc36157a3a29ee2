# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of NVML: absent values, errors, and the search for a GPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml, pci_address
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

from harness.fakes import nvml as fake_nvml

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
CARDS = [
    Card(object(), 0, "GPU-aaaa", "0000:41:00.0", "NVIDIA H200"),
    Card(None, 1, problem=NvmlError(LOST, "nvmlDeviceGetHandleByIndex")),
    Card(object(), 2, "GPU-bbbb", "0001:c1:00.0", "NVIDIA H200"),
]


def fails(code: int) -> Callable[..., Any]:
    def function(*_arguments: Any) -> Any:
        raise pynvml.NVMLError(code)

    return function


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[..., Any]], None]:
    """Replace a function of the binding."""
    return lambda name, function: monkeypatch.setattr(pynvml, name, function)


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA]
)
def test_unsupported_value_is_null_and_never_0(answers: Any, code: int) -> None:
    answers("nvmlDeviceGetFanSpeed", fails(code))
    assert Nvml().ask("nvmlDeviceGetFanSpeed", None) is None


def test_other_errors_are_raised_with_a_stable_name(answers: Any) -> None:
    answers("nvmlDeviceGetFanSpeed", fails(LOST))
    with pytest.raises(NvmlError) as caught:
        Nvml().ask("nvmlDeviceGetFanSpeed", None)
    assert (caught.value.name, caught.value.function, caught.value.code) == ("GPU_IS_LOST", "nvmlDeviceGetFanSpeed", 15)


def test_function_that_the_binding_lacks_is_not_found() -> None:
    with pytest.raises(NvmlError, match="FUNCTION_NOT_FOUND"):
        Nvml().call("nvmlDeviceGetHoroscope", None)
    assert Nvml().ask("nvmlDeviceGetHoroscope", None) is None


def test_missing_binding_error_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_nvml, "pynvml", None)
    with pytest.raises(NvmlError, match="BINDING_NOT_FOUND: install nvidia-ml-py"), Nvml():
        pass


def test_module_respawns_where_the_binding_is_or_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []
    failed: list[str] = []
    module: Any = SimpleNamespace(fail_json=lambda msg: failed.append(str(msg)))
    monkeypatch.setattr(gpu_nvml, "respawn_module", started.append)
    gpu_nvml.respawn_where_needed(module)
    assert (started, failed) == ([], [])

    monkeypatch.setattr(gpu_nvml, "pynvml", None)
    monkeypatch.setattr(gpu_nvml.os.path, "exists", lambda path: path == gpu_nvml.PYTHON)
    monkeypatch.setattr(gpu_nvml, "has_respawned", lambda: False)
    gpu_nvml.respawn_where_possible()
    assert started == [gpu_nvml.PYTHON]

    monkeypatch.setattr(gpu_nvml, "has_respawned", lambda: True)
    gpu_nvml.respawn_where_needed(module)
    assert started == [gpu_nvml.PYTHON]
    assert "install nvidia-ml-py" in failed[0]


def test_binding_is_loaded_without_starting_its_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    place = tmp_path / "lib/python3.11/site-packages/pynvml.py"
    assert gpu_nvml.load_beside(f"{tmp_path}/bin/python3") is None
    place.parent.mkdir(parents=True)
    # As the binding does when it makes classes of its errors.
    place.write_text("import sys\nNAME = sys.modules[__name__].__file__\n")
    loaded: Any = gpu_nvml.load_beside(f"{tmp_path}/bin/python3")
    assert str(place) == loaded.NAME


def test_fields_are_read_with_one_call_in_their_types(answers: Any) -> None:
    calls = []

    def values(_handle: Any, wanted: list[Any]) -> Any:
        calls.append(wanted)
        rows = (pynvml.c_nvmlFieldValue_t * 4)()
        rows[0].valueType, rows[0].value.uiVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 45
        rows[1].nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        rows[2].valueType, rows[2].value.siVal = pynvml.NVML_VALUE_TYPE_SIGNED_INT, -3
        rows[3].nvmlReturn = pynvml.NVML_ERROR_INVALID_ARGUMENT
        return rows

    answers("nvmlDeviceGetFieldValues", values)
    assert Nvml().fields(None, [82, (94, 0), 194, 9999]) == [45, None, -3, None]
    assert calls == [[82, (94, 0), 194, 9999]]


def test_a_field_of_a_lost_gpu_is_a_failure(answers: Any) -> None:
    rows = (pynvml.c_nvmlFieldValue_t * 1)()
    rows[0].nvmlReturn = LOST
    answers("nvmlDeviceGetFieldValues", lambda _handle, _wanted: rows)
    with pytest.raises(NvmlError, match="GPU_IS_LOST"):
        Nvml().field(None, 82)


def test_a_driver_without_fields_has_none(answers: Any) -> None:
    answers("nvmlDeviceGetFieldValues", fails(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
    assert Nvml().fields(None, [82, 94]) == [None, None]


def test_lost_gpu_hides_no_other_and_cards_are_read_once(answers: Any) -> None:
    calls = []

    def handle(index: int) -> Any:
        calls.append(index)
        return fails(LOST)() if index == 1 else ctypes.c_void_p(index)

    answers("nvmlDeviceGetCount", lambda: 3)
    answers("nvmlDeviceGetHandleByIndex", handle)
    answers(
        "nvmlDeviceGetPciInfo",
        lambda _handle: SimpleNamespace(busId=b"00000000:C1:00.0", pciDeviceId=0x233510DE, pciSubSystemId=0),
    )
    answers("nvmlDeviceGetUUID", lambda _handle: "GPU-aaaa")
    answers("nvmlDeviceGetName", lambda _handle: "NVIDIA H200")
    nvml = Nvml()
    assert [(card.uuid, card.pci_address) for card in nvml.cards()] == [
        ("GPU-aaaa", "0000:c1:00.0"),
        ("", ""),
        ("GPU-aaaa", "0000:c1:00.0"),
    ]
    problem = nvml.cards()[1].problem
    assert problem is not None and problem.name == "GPU_IS_LOST"
    assert calls == [0, 1, 2]
    with pytest.raises(NvmlError, match="GPU_IS_LOST"):
        nvml.find("1")


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ("GPU-aaaa", 0),
        ("gpu-AAAA", 0),
        ("0000:41:00.0", 0),
        ("00000000:41:00.0", 0),
        ("41:00.0", 0),
        ("0001:C1:00.0", 2),
        ("00000001:C1:00.0", 2),
        ("2", 2),
        (" 2 ", 2),
    ],
)
def test_gpu_is_found_by_uuid_pci_address_or_index(wanted: str, index: int) -> None:
    assert gpu_nvml.find_card(CARDS, wanted).index == index


@pytest.mark.parametrize("wanted", ["GPU-cccc", "c1:00.0", "7", "", "-1", "GPU-aaa", "0000:41:00"])
def test_unknown_gpu_is_refused_with_the_existing_ones(wanted: str) -> None:
    with pytest.raises(Refusal, match=r"There are 0 = GPU-aaaa at 0000:41:00.0; 1 = lost; 2 = GPU-bbbb"):
        gpu_nvml.find_card(CARDS, wanted)


def test_the_uuid_of_a_mig_instance_is_no_gpu() -> None:
    with pytest.raises(Refusal, match="is a MIG instance and no GPU"):
        gpu_nvml.find_card(CARDS, "MIG-1234")


def test_host_without_gpus_names_gpu_host_info() -> None:
    with pytest.raises(Refusal, match="NVML shows no GPU at all: gpu_host_info"):
        gpu_nvml.find_card([], "0")


def test_driver_that_udev_loads_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.unload_driver()
        monkeypatch.setattr(gpu_nvml.time, "sleep", lambda _seconds: machine.reload_driver())
        gpu_nvml.wait_for_driver()
        machine.unload_driver()
        monkeypatch.setattr(gpu_nvml, "PATIENCE", -1)
        with pytest.raises(NvmlError, match="DRIVER_NOT_LOADED"):
            gpu_nvml.wait_for_driver()


def test_a_mismatch_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_nvml.time, "sleep", lambda _seconds: pytest.fail("waited"))
    with fake_nvml.fake(["H100"]) as machine:
        machine.upgrade_library("590.48.01")
        with pytest.raises(NvmlError, match="LIB_RM_VERSION_MISMATCH"):
            gpu_nvml.wait_for_driver()


def test_a_hidden_switch_has_no_address() -> None:
    assert pci_address(b"FFFFFFFF:FF:FF.0") == ""
    assert pci_address("00000000:41:00.0") == "0000:41:00.0"
