# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks of the roles cuda and cudnn are due, on a host made of files below a root."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_repository,
    cuda_run,
    cudnn_apply,
    cudnn_run,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data

CUDA = {
    "state": "present",
    "source": "cuda_repository",
    "toolkits": ["13.0"],
    "default": "",
    "driver_branch": "auto",
    "free_bytes": 0,
    "repository": None,
    "ask_apt": False,
}
CUDNN: dict[str, Any] = {
    "state": "present",
    "source": "wheel",
    "cuda_majors": [13],
    "version": "",
    "wheels": {},
    "repository": None,
    "ask_apt": False,
}
TOOLS = ("g++", "gcc", "libc6-dev", "zlib1g", "libstdc++6", "python3-pip")
# A file that was not there before the set, as config_files records it.
RECORD = {"kind": "missing", "mode": None, "uid": None, "gid": None, "mtime_ns": None, "written": "0", "secret": False}
SOURCE = "/etc/apt/sources.list.d/cuda-debian13-x86_64.list"
Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(path: str, text: str) -> None:
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)

    return put


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write) -> Tree:
    """Return a host with the tools of both roles, and nothing of NVIDIA."""
    for module in (cuda_repository, cudnn_apply):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    write("/etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    install(write, *TOOLS)
    return Tree(str(tmp_path))


def install(write: Write, *names: str) -> None:
    write(
        "/var/lib/dpkg/status",
        "\n".join(f"Package: {name}\nStatus: install ok installed\nVersion: 1.1-1\n" for name in names),
    )


def no_command(*_command: Any, **_options: Any) -> tuple[int, str, str]:
    raise AssertionError


def due(result: dict[str, Any]) -> set[str]:
    return {name for name, value in result.items() if name.endswith("_due") and value}


def test_toolkits_are_due_until_they_are_there(tree: Tree, write: Write) -> None:
    assert due(cuda_run.plan_host(tree, no_command, CUDA)) == {"repository_due", "package_files_due", "install_due"}

    address = f"{package_data.CUDA_REPOSITORY_URL}/debian13/x86_64"
    write(SOURCE, f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {address}/ /\n")
    write("/var/lib/rigwright_cuda_repository/cuda", "")
    install(write, *TOOLS, "cuda-keyring", "cuda-toolkit-13-0")
    write("/var/lib/rigwright_cuda/packages.json", '["cuda-toolkit-13-0"]\n')
    Path(tree.at("/var/lib/rigwright_cuda")).chmod(0o755)
    done = cuda_run.plan_host(tree, no_command, CUDA)
    assert (due(done), done["brought"], done["gpus"]) == (set(), ["cuda-toolkit-13-0"], 0)

    install(write, "cuda-keyring", "cuda-toolkit-13-0")
    assert due(cuda_run.plan_host(tree, no_command, CUDA)) == {"install_due"}


def test_of_a_role_that_was_never_applied_nothing_goes(tree: Tree, write: Write) -> None:
    for role, plan_host in (("cuda", cuda_run.plan_host), ("cudnn", cudnn_run.plan_host)):
        assert due(plan_host(tree, no_command, {**CUDNN, "state": "absent"})) == set()
        write(f"{STORE}/{role}_packages/manifest.json", json.dumps({"paths": {"/x": RECORD}}))
        write(f"/var/lib/rigwright_cuda_repository/{role}", "")
        absent = plan_host(tree, no_command, {**CUDNN, "state": "absent"})
        assert due(absent) == {"package_files_due", "repository_due"}


def test_archives_toolkit_has_a_source_of_its_own(tree: Tree) -> None:
    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        assert command[:2] == ["apt-get", "indextargets"]
        return 0, "", ""

    result = cuda_run.plan_host(tree, run, {**CUDA, "source": "archive", "toolkits": []})

    assert result["repository"] == {}
    assert result["repository_due"] is False
    assert "package_files_due" in due(result)


def test_a_wheel_is_due_until_it_is_there(tree: Tree, write: Write) -> None:
    result = cudnn_run.plan_host(tree, no_command, CUDNN)

    assert due(result) == {"package_files_due", "install_due", "wheels_due"}
    write("/var/lib/rigwright_cudnn/packages.json", "[]\n")
    Path(tree.at("/var/lib/rigwright_cudnn")).chmod(0o755)
    assert due(cudnn_run.plan_host(tree, no_command, CUDNN)) == {"wheels_due"}


def test_a_wheel_without_checksum_is_no_error_of_the_plan(tree: Tree) -> None:
    with pytest.raises(cudnn_run.Unplannable, match="cudnn_wheels: new is no version of cuDNN; write it as"):
        cudnn_run.plan_host(tree, no_command, {**CUDNN, "wheels": {"new": {}}})
