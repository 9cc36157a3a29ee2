# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared layouts come back, as the unit brings them: by the program alone, without Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot as mig_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request, parameters

from harness.fakes.nvml import Machine, fake

PARAMS: dict[str, Any] = {"when_busy": "fail", "busy_timeout": 0, "allow_reset": "never", "stop_services": []}


def declare(root: Path, *entries: tuple[str, Request]) -> None:
    path = root / gpu_boot.declared_path("gpu_mig").lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"gpus": {uuid: parameters(uuid, request, PARAMS) for uuid, request in entries}}))


def layout(*names: str) -> Request:
    return Request("enabled", tuple({"profile": name} for name in names))


def instances(machine: Machine) -> int:
    return sum(".ci." in key for key in machine.state())


def test_each_gpu_gets_its_declaration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with fake(["H200", "H200"]) as machine:
        first, second = (gpu.uuid for gpu in machine.gpus)
        declare(tmp_path, (first, layout("7g.141gb")), (second, layout("3g.71gb", "1g.18gb")))
        assert mig_boot.main(str(tmp_path)) == 0
        writes = machine.writes
        assert instances(machine) == 3
        assert mig_boot.main(str(tmp_path)) == 0
        assert machine.writes == writes
    assert capfd.readouterr().out.count("is as declared") == 2


def test_failed_gpu_does_not_stop_the_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with fake(["H200"]) as machine:
        declare(tmp_path, ("GPU-gone", layout("7g.141gb")), (machine.gpus[0].uuid, layout("7g.141gb")))
        assert mig_boot.main(str(tmp_path)) == 1
        assert instances(machine) == 1
    assert "GPU-gone: devices: no GPU is 'GPU-gone'" in capfd.readouterr().out


@pytest.mark.parametrize("program", ["#!/bin/sh\n[ $1 = is-active ] || { echo no >&2; exit 1; }\n", None])
def test_service_that_does_not_stop_fails_only_its_gpu(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    if program:
        (tmp_path / "systemctl").write_text(program)
        (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setitem(PARAMS, "stop_services", ["nvidia-dcgm"])
    monkeypatch.setitem(PARAMS, "allow_reset", "gpu")
    with fake(["A100 40GB", "H200"]) as machine:
        first, second = (gpu.uuid for gpu in machine.gpus)
        declare(tmp_path, (first, Request("enabled", allow_reset=True)), (second, layout("7g.141gb")))
        monkeypatch.setenv("PATH", str(tmp_path))
        assert mig_boot.main(str(tmp_path)) == 1
        assert machine.state()["gpu.0.mig.mode"] == "0"
        assert instances(machine) == 1
    output = capfd.readouterr().out
    assert f"{first}: NVIDIA A100" in output and "This GPU was not changed" in output
    assert ("`systemctl stop nvidia-dcgm` has failed: no" if program else "No such file or directory") in output


def test_change_with_a_forbidden_reset_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with fake(["A100 40GB"]) as machine:
        declare(tmp_path, (machine.gpus[0].uuid, layout("1g.5gb")))
        assert mig_boot.main(str(tmp_path)) == 1
        assert machine.writes == 0
    assert "a change needs a gpu reset" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"])
def test_missing_driver_is_a_failure_with_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(nvml, "PATIENCE", 0)
    monkeypatch.setattr(nvml.time, "sleep", lambda seconds: None)
    with fake(["H200"]) as machine:
        declare(tmp_path, (machine.gpus[0].uuid, layout("7g.141gb")))
        machine.unload_driver() if name == "DRIVER_NOT_LOADED" else machine.upgrade_library("590.48.01")
        assert mig_boot.main(str(tmp_path)) == 1
    assert name in capfd.readouterr().out


def test_program_runs_without_ansible(tmp_path: Path) -> None:
    """Run the program with NVIDIA's binding alone, and with a root directory for its main()."""
    program = tmp_path / "gpu_mig.pyz"
    program.write_bytes(bundle.bundle("_gpu.mig.boot"))
    with fake(["H200"]) as machine:
        declare(tmp_path / "root", (machine.gpus[0].uuid, layout("7g.141gb")))
        binding = tmp_path / "binding"
        binding.mkdir()
        (binding / "pynvml.py").symlink_to(sys.modules["pynvml"].__file__ or "")
        start = f"import sys; sys.path[:0] = [{str(program)!r}, {str(binding)!r}]; from {bundle.PACKAGE}._gpu.mig.boot import main"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"{start}; raise SystemExit(main({str(tmp_path / 'root')!r}))"],
            env={**machine.env, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, instances(machine)) == (0, 1), done.stderr
