# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the host, check the request and plan the toolkit: the work of the modules nvidia_container_toolkit_plan and _verify."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit_facts as facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import is_due, read_key
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_request import (
    Params,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import read_driver


def run(params: Params, command: facts.RunCommand) -> dict[str, t.Any]:
    """Return the plan as the module nvidia_container_toolkit_plan returns it.

    :param command: ``run_command`` of the module.
    :raises Damaged: a record of the role is damaged.
    """
    tree = Tree(facts.ROOT)
    host = facts.read_host(command, read_driver(tree), params["planned"])
    present = params["state"] == "present"
    plan = toolkit.plan_present(host, params) if present else toolkit.plan_absent(host, params)
    if plan.install and not plan.requirements:
        available = facts.read_available(toolkit.repository_of(params)["url"], params["architecture"])
        plan = toolkit.plan_present(dataclasses.replace(host, available=available), params)
    key = read_key(tree, toolkit.KEY, toolkit.repository_of(params)["fingerprints"]) if present else ""
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files if "content" in entry}
    removed = [entry["path"] for entry in plan.package_files if "content" not in entry]
    return {
        **dataclasses.asdict(plan),
        "key": key,
        "package_files_due": is_due(tree, facts.PACKAGE_SET, {**wanted, toolkit.KEY: key}, removed),
        "devices": list(host.refresh.devices),
    }
