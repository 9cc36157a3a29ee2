# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the host, check the request and plan docker: the work of the modules docker_plan and docker_verify."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts, model
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import is_due, read_key
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import refusal_problems
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import Params, dump
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import plan_absent, plan_present

PACKAGE_SET = "docker_packages"


def run(params: Params, command: facts.RunCommand, firewall_rules: str) -> dict[str, t.Any]:
    """Return the plan as the module docker_plan returns it; with ``secret`` it holds what only root may read.

    :param command: ``run_command`` of the module.
    :param firewall_rules: the file that the role firewall puts in place.
    """
    units = facts.read_units(command)
    active, started, arguments = facts.read_service(units[facts.UNIT])
    names = [*model.roots(params).values(), model.DATA_ROOT]
    try:
        daemon = facts.read_daemon(started, names) if active else None
        host = facts.read_host(params, daemon, units, firewall_rules)
    except (ValueError, KeyError, TypeError) as error:
        damaged = model.Plan(requirements=[problem(model.FOLDER, "is damaged", str(error))])
        return {**dataclasses.asdict(damaged), "installed": False, "key": "", "package_files_due": False}
    plan = plan_present(host, params) if params["state"] == "present" else plan_absent(host, params)
    if any("=" in name for name in plan.install) and not plan.requirements:
        available = facts.read_available(command, plan.edition)
        plan = plan_present(dataclasses.replace(host, available=available), params)
    program = model.PROGRAMS[plan.edition]
    if plan.options and not plan.requirements and os.path.exists(program):
        version = model.version_of(host, plan.edition)
        message = facts.validate_options(command, program, version, arguments, dump(plan.options))
        plan.requirements += refusal_problems(message, params)
    tree = Tree(facts.ROOT)
    key = read_key(tree, model.KEY, plan.repository["fingerprints"]) if plan.repository else ""
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files}
    return {
        **dataclasses.asdict(plan),
        "installed": plan.edition in host.packages,
        "key": key,
        "package_files_due": is_due(tree, PACKAGE_SET, {**wanted, **({model.KEY: key} if plan.repository else {})}),
    }
