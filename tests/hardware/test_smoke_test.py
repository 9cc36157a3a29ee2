# SPDX-License-Identifier: GPL-3.0-or-later
"""The role smoke_test on a real GPU. Needs a Python with PyTorch (CUDA) and scikit-learn: this one, or RIGWRIGHT_TORCH_PYTHON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import plan
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness import adhoc

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "roles/smoke_test/files/train_digits.py"
PYTHON = os.environ.get("RIGWRIGHT_TORCH_PYTHON", sys.executable)
ON_GPU = ("--device", "cuda", "--timeout", "240")
MEBIBYTE = 2**20


def train(*options: str, **environment: str) -> tuple[int, dict[str, Any]]:
    """Run the program as a user does; return its exit status and its report."""
    done = subprocess.run(
        [PYTHON, PROGRAM, *options], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def account() -> dict[str, Any]:
    status, account = train(*ON_GPU)
    assert status == 0, account
    return account


def test_a_network_is_trained_on_the_gpu(account, nvidia_smi):
    (first, *_others) = nvidia_smi("name", "memory.total")
    assert account["device"] == "cuda"
    assert account["device_name"] in {gpu["name"] for gpu in nvidia_smi("name")}
    assert account["accuracy"] >= 0.95
    assert 0 < account["seconds_per_epoch"] < 5
    assert MEBIBYTE < account["peak_gpu_memory_bytes"] < int(first["memory.total"]) * MEBIBYTE
    assert account["peak_memory_bytes"] > 50 * MEBIBYTE
    # What gpu_fit expects of it, with the context and what the allocator keeps.
    assert account["peak_gpu_memory_bytes"] < plan.need().high


def test_a_training_that_does_not_fit_is_not_started(account, nvidia_smi):
    (first, *_others) = nvidia_smi("memory.total")
    status, full = train(*ON_GPU, "--memory", str(int(first["memory.total"]) * MEBIBYTE + 1))
    assert (status, full["reason"]) == (11, "memory")
    assert "not started: it needs" in full["words"]


def test_it_sees_the_gpus_that_nvidia_smi_lists(account, nvidia_smi):
    assert {gpu["uuid"] for gpu in account["gpus"]} == {gpu["uuid"] for gpu in nvidia_smi("uuid")}
    assert account["driver"] == "CUDA_SUCCESS"


def test_the_same_is_computed_twice(account):
    _status, again = train(*ON_GPU)
    assert again["accuracy"] == account["accuracy"]


def test_processor_reaches_the_same_accuracy(account):
    status, on_processor = train("--device", "cpu", "--timeout", "240")
    assert (status, on_processor["device"], on_processor["peak_gpu_memory_bytes"]) == (0, "cpu", 0)
    assert abs(on_processor["accuracy"] - account["accuracy"]) < 0.02


def test_hidden_gpu_is_reported():
    status, account = train(*ON_GPU, CUDA_VISIBLE_DEVICES="")
    assert (status, account["reason"]) == (8, "no_gpu")
    assert (account["gpus"], account["driver"]) == ([], "CUDA_ERROR_NO_DEVICE")


def findings(**environment: str) -> dict[str, dict[str, str]]:
    """Run the module on this machine as the role does, and return its findings by id."""
    options = options_of(str(ROOT / "roles/smoke_test"))
    values = {"smoke_test_environments": [{"name": "here", "python": PYTHON}], "smoke_test_timeout_s": 240}
    request, _secrets = request_of("smoke_test", options, values)
    arguments = {"request": request, "context": {"program": PROGRAM.read_text()}}
    answer = adhoc.ask("smoke_test_verify", arguments, env=os.environ | environment)
    assert answer.rc == 0
    return {finding["id"]: finding for finding in answer.result["findings"]}


def test_the_module_finds_the_gpu_at_work(nvidia_smi):
    found = findings()
    assert {id_: finding["status"] for id_, finding in found.items()} == {
        "smoke_test.environment.here": "pass",
        "smoke_test.gpus": "pass",
    }
    for gpu in nvidia_smi("uuid"):
        assert gpu["uuid"] in found["smoke_test.gpus"]["evidence"]


def test_module_reports_a_hidden_gpu():
    found = findings(CUDA_VISIBLE_DEVICES="")
    assert {finding["status"] for finding in found.values()} == {"fail"}
    assert "CUDA_VISIBLE_DEVICES" in found["smoke_test.gpus"]["remedy"]
