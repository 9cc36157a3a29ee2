# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks of the role cuda are due."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_run
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data

from tests.unit.support.nvidia.toolkit_host import CUDA, RECORD, TOOLS, ToolkitHost, due, no_command

SOURCE = "/etc/apt/sources.list.d/cuda-debian13-x86_64.list"


def test_toolkits_are_due_until_they_are_there(toolkit_host: ToolkitHost) -> None:
    host = toolkit_host
    assert due(cuda_run.plan_host(host.tree, no_command, CUDA)) == {
        "repository_due",
        "package_files_due",
        "install_due",
    }

    address = f"{package_data.CUDA_REPOSITORY_URL}/debian13/x86_64"
    host.write(SOURCE, f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {address}/ /\n")
    host.write("/var/lib/rigwright_cuda_repository/cuda", "")
    host.install(*TOOLS, "cuda-keyring", "cuda-toolkit-13-0")
    host.write("/var/lib/rigwright_cuda/packages.json", '["cuda-toolkit-13-0"]\n')
    done = cuda_run.plan_host(host.tree, no_command, CUDA)
    assert (due(done), done["installed"], done["gpus"]) == (set(), ["cuda-toolkit-13-0"], 0)

    host.install("cuda-keyring", "cuda-toolkit-13-0")
    assert due(cuda_run.plan_host(host.tree, no_command, CUDA)) == {"install_due"}


def test_of_a_role_that_was_never_applied_nothing_goes(toolkit_host: ToolkitHost) -> None:
    host, absent = toolkit_host, CUDA | {"state": "absent"}
    assert due(cuda_run.plan_host(host.tree, no_command, absent)) == set()
    for name in ("cuda", "cuda_packages"):
        host.write(f"{STORE}/{name}/manifest.json", json.dumps({"paths": {"/x": RECORD}}))
    host.write("/var/lib/rigwright_cuda_repository/cuda", "")
    assert due(cuda_run.plan_host(host.tree, no_command, absent)) == {
        "environment_due",
        "package_files_due",
        "repository_due",
    }


def test_archives_toolkit_has_a_source_of_its_own(toolkit_host: ToolkitHost) -> None:
    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        assert command[:2] == ["apt-get", "indextargets"]
        return 0, "", ""

    result = cuda_run.plan_host(toolkit_host.tree, run, CUDA | {"source": "archive", "toolkits": []})

    assert (result["repository"], result["repository_due"]) == ({}, False)
    assert "package_files_due" in due(result)
