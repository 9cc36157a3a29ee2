# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and next steps of NVML's return codes."""

from __future__ import annotations

import pynvml
import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml_errors as errors

# As NVIDIA's binding numbers them, 0 (SUCCESS) left out.
CODES = {
    value: name.removeprefix("NVML_ERROR_") for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")
}


def test_the_table_has_every_code_of_the_binding_by_its_own_name() -> None:
    assert {code: answer.name for code, answer in errors.ANSWERS.items()} == CODES


@pytest.mark.parametrize("code", sorted(errors.ANSWERS))
def test_every_code_has_a_next_step_of_its_own(code: int) -> None:
    steps = [answer.next_step for answer in errors.ANSWERS.values()]
    assert len(errors.ANSWERS[code].next_step.split()) > 4
    assert steps.count(errors.ANSWERS[code].next_step) == 1


def test_error_has_function_name_and_next_step() -> None:
    error = errors.NvmlError(18, "nvmlInit")
    assert error.as_result() == {
        "nvml_error": "LIB_RM_VERSION_MISMATCH",
        "function": "nvmlInit",
        "next_step": errors.ANSWERS[18].next_step,
    }
    assert str(error).startswith("nvmlInit: LIB_RM_VERSION_MISMATCH: the driver was upgraded while")


def test_a_code_of_a_later_driver_keeps_its_number() -> None:
    assert errors.NvmlError(31, "nvmlInit").name == "CODE_31"


def test_absent_values_are_no_errors() -> None:
    absent = {answer.name for answer in errors.ANSWERS.values() if answer.absent}
    assert {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_DATA"} <= absent
    assert not absent & {"GPU_IS_LOST", "NO_PERMISSION", "IN_USE", "UNKNOWN", "INVALID_ARGUMENT"}
