# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plans of CUDA and cuDNN take from their options and ask apt."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_plan as planner
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_repository,
    cudnn_apply,
    cudnn_plan,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import cuda as cuda_module
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import cudnn as cudnn_module

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
# The default of the role is an expression.
BRANCH = {"driver_branch": "auto"}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\n')
    for module in (cuda_module, cudnn_module, cuda_repository, cudnn_apply):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


@pytest.fixture
def plan(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Plan with a module, commands and options. The plan may run these commands and no others."""

    def run(module: ModuleType, commands: Any, ask_apt: bool = False, **options: Any) -> dict[str, Any]:
        def listed(*arguments: Any, **more: Any) -> dict[str, Any]:
            return run_module(*arguments, commands=commands, **more)

        return run_plan(listed, module, {"ask_apt": ask_apt, "planned": {}}, **options)

    return run


def policy(*names: str, package: str) -> dict[str, tuple[int, str, str]]:
    """Return the output of apt that knows one of them."""
    return {f"apt-cache policy {' '.join(names)}": (0, f"{package}:\n  Installed: (none)\n  Candidate: 1\n", "")}


TOOLKITS = policy(*(planner.package_of(row.version) for row in data.TOOLKITS), package="cuda-toolkit-13-0")
CUDNNS = policy(*map(cudnn_plan.package_of, cudnn_plan.MAJORS), package="cudnn9-cuda-13")


def test_toolkits_in_one_line_may_have_spaces(plan: Run) -> None:
    result = plan(cuda_module, {}, toolkits="13.0, 12.9", **BRANCH)

    assert (result["toolkits"], result["requirements"]) == (["13.0", "12.9"], [])


@pytest.mark.parametrize(
    ("module", "commands", "variable", "package", "unknown"),
    [
        (cuda_module, TOOLKITS, "cuda_toolkits", {"toolkits": ["13.0"]}, {"toolkits": ["13.0", "12.9"]}),
        (cudnn_module, CUDNNS, "cudnn_cuda_majors", {"cuda_majors": [13]}, {"cuda_majors": [13, 12]}),
    ],
)
def test_package_unknown_to_apt_is_refused(
    plan: Run, module: ModuleType, commands: Any, variable: str, package: Any, unknown: Any
) -> None:
    options = {"source": "cuda_repository", **(BRANCH if module is cuda_module else {})}

    assert plan(module, commands, ask_apt=True, **options, **package)["requirements"] == []
    assert plan(module, {}, **options, **unknown)["requirements"] == []
    (row,) = plan(module, commands, ask_apt=True, **options, **unknown)["requirements"]
    assert row["variable"] == variable
    assert "which NVIDIA's repository for this system does not have" in row["problem"]
    assert "choose among 13" in row["remedy"]


@pytest.mark.parametrize(("module", "role"), [(cuda_module, "cuda"), (cudnn_module, "cudnn")])
def test_a_damaged_record_is_no_python_error(plan: Run, root: Path, module: ModuleType, role: str) -> None:
    place = root / f"var/lib/rigwright_{role}"
    place.mkdir(parents=True)
    (place / "packages.json").touch()

    result = plan(module, {}, state="absent")

    assert result["failed"]
    assert f"/var/lib/rigwright_{role}/packages.json is damaged" in result["msg"]


def test_wheels_that_are_no_table_are_explained(plan: Run) -> None:
    result = plan(cudnn_module, {}, wheels={"9.28.0.42": ["0" * 64]})

    assert result["failed"]
    assert result["msg"].startswith(
        "cudnn_wheels: 9.28.0.42 has no table of checksums by CUDA's major version; write it"
    )
