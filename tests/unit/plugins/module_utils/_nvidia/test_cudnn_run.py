# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks of the role cudnn are due."""

from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cudnn_run

from tests.unit.support.nvidia.toolkit_host import CUDNN, RECORD, ToolkitHost, due, no_command


def test_a_wheel_is_due_until_it_is_there(toolkit_host: ToolkitHost) -> None:
    host = toolkit_host
    assert due(cudnn_run.plan_host(host.tree, no_command, CUDNN)) == {"package_files_due", "install_due", "wheels_due"}

    host.write("/var/lib/rigwright_cudnn/packages.json", "[]\n")
    assert due(cudnn_run.plan_host(host.tree, no_command, CUDNN)) == {"wheels_due"}


def test_packages_of_the_repository_are_due(toolkit_host: ToolkitHost) -> None:
    result = cudnn_run.plan_host(toolkit_host.tree, no_command, CUDNN | {"source": "cuda_repository"})

    assert result["install"] == ["cudnn9-cuda-13"]
    assert due(result) == {"repository_due", "package_files_due", "install_due"}


def test_of_a_role_that_was_never_applied_nothing_goes(toolkit_host: ToolkitHost) -> None:
    host, absent = toolkit_host, CUDNN | {"state": "absent"}
    assert due(cudnn_run.plan_host(host.tree, no_command, absent)) == set()
    host.write(f"{STORE}/cudnn_packages/manifest.json", json.dumps({"paths": {"/x": RECORD}}))
    host.write("/var/lib/rigwright_cuda_repository/cudnn", "")
    assert due(cudnn_run.plan_host(host.tree, no_command, absent)) == {"package_files_due", "repository_due"}


def test_wheels_that_are_no_table_cannot_be_planned(toolkit_host: ToolkitHost) -> None:
    with pytest.raises(cudnn_run.Unplannable, match="cudnn_wheels: new is no version of cuDNN; write it as"):
        cudnn_run.plan_host(toolkit_host.tree, no_command, CUDNN | {"wheels": {"new": {}}})
