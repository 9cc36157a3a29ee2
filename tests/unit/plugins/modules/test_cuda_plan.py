# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plans of CUDA and cuDNN take from their options and ask apt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.modules import cuda_plan, cudnn_plan

Run = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    for module in (cuda_plan, cudnn_plan):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path


def policy(*names: str, package: str) -> dict[str, tuple[int, str, str]]:
    """Return the output of apt that knows one of them."""
    return {f"apt-cache policy {' '.join(names)}": (0, f"{package}:\n  Installed: (none)\n  Candidate: 1\n", "")}


TOOLKITS = policy(*(cuda_plan.cuda.package_of(row.version) for row in data.TOOLKITS), package="cuda-toolkit-13-0")
CUDNNS = policy("cudnn9-cuda-12", "cudnn9-cuda-13", package="cudnn9-cuda-13")


def test_toolkits_in_one_line_may_have_spaces(run_module: Run) -> None:
    result = run_module(cuda_plan, commands={}, toolkits="13.0, 12.9")

    assert (result["toolkits"], result["requirements"]) == (["13.0", "12.9"], [])


@pytest.mark.parametrize(
    ("module", "commands", "variable", "package", "unknown"),
    [
        (cuda_plan, TOOLKITS, "cuda_toolkits", {"toolkits": ["13.0"]}, {"toolkits": ["13.0", "12.9"]}),
        (cudnn_plan, CUDNNS, "cudnn_cuda_majors", {"cuda_majors": [13]}, {"cuda_majors": [13, 12]}),
    ],
)
def test_package_unknown_to_apt_is_refused(
    run_module: Run, module: ModuleType, commands: Any, variable: str, package: Any, unknown: Any
) -> None:
    params = {"source": "cuda_repository", "ask_apt": True}

    assert run_module(module, commands=commands, **params, **package)["requirements"] == []
    assert run_module(module, commands={}, **{**params, "ask_apt": False}, **unknown)["requirements"] == []
    (row,) = run_module(module, commands=commands, **params, **unknown)["requirements"]
    assert row["variable"] == variable
    assert "which NVIDIA's repository for this system does not have" in row["problem"]
    assert "choose among 13" in row["remedy"]


@pytest.mark.parametrize(("module", "role"), [(cuda_plan, "cuda"), (cudnn_plan, "cudnn")])
def test_a_damaged_record_is_no_python_error(run_module: Run, root: Path, module: ModuleType, role: str) -> None:
    place = root / f"var/lib/rigwright_{role}"
    place.mkdir(parents=True)
    (place / "packages.json").touch()

    result = run_module(module, commands={}, state="absent")

    assert result["failed"]
    assert f"/var/lib/rigwright_{role}/packages.json is damaged" in result["msg"]
