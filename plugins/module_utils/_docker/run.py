# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the host, check the request and plan docker."""

from __future__ import annotations

import dataclasses
import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Packages, Pending, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts, model
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import is_due, read_key
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import refusal_problems
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import Params, dump
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import plan_absent, plan_present

PACKAGE_SET = "docker_packages"
# Only this source is updated: a broken source of a third party is no reason to refuse Docker's.
CHECKS = (
    "apt-get indextargets",
    f"apt-get update -o Dir::Etc::sourcelist={model.SOURCE} -o Dir::Etc::sourceparts=/dev/null"
    " -o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any",
)
ROOTLESS_UNIT = "/etc/systemd/user/docker.service"
ROOTLESS_CONFIG = "/etc/docker/rootless.json"
ROOTLESS_PROGRAMS = {model.ARCHIVE: "/usr/share/docker.io/contrib", model.DOCKER_CE: "/usr/bin"}
# Options that rootless docker cannot have, and options that may have passwords. Its containers end with it, and its data is in the
# user's home.
NOT_ROOTLESS = {
    *("bridge", "data-root", "exec-root", "group", "hosts", "live-restore", "pidfile"),
    *("storage-driver", "storage-opts", "userns-remap"),
}
WITH_PASSWORDS = {"proxies", "registry-mirrors"}


def run(params: Params, command: facts.RunCommand, firewall_rules: str) -> Plan:
    """Return the plan; with ``secret`` it holds what only root may read.

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
        return _whole(model.Plan(requirements=[problem(model.FOLDER, "is damaged", str(error))]), params, False)
    plan = plan_present(host, params) if params["state"] == "present" else plan_absent(host, params)
    if any("=" in name for name in plan.install) and not plan.requirements:
        available = facts.read_available(command, plan.edition)
        plan = plan_present(dataclasses.replace(host, available=available), params)
    program = model.PROGRAMS[plan.edition]
    if plan.options and not plan.requirements and os.path.exists(program):
        version = model.version_of(host, plan.edition)
        message = facts.validate_options(command, program, version, arguments, dump(plan.options))
        plan.requirements += refusal_problems(message, params)
    return _whole(plan, params, plan.edition in host.packages)


def _whole(plan: model.Plan, params: Params, installed: bool) -> Plan:
    """Return the plan of the role, from what was decided."""
    pending = Pending(
        "docker.pending",
        waits=f"still has older options: {plan.restart_waits}",
        done="docker has all its options",
        remedy="run again when the containers have ended, or set docker_allow_disruption",
    )
    return Plan(
        requirements=plan.requirements,
        findings=plan.findings,
        packages=_packages(plan, params),
        directories=plan.directories,
        files=plan.files,
        units=plan.units,
        pending=pending if params["state"] == "present" else None,
        values={
            "edition": plan.edition,
            "options": plan.options,
            "files_afterwards": plan.files_afterwards,
            "groups": plan.groups,
            "secret": plan.secret,
            "data_root": plan.data_root,
            "containerd_root": plan.containerd_root,
            "installed": installed,
            "rootless_program": f"{ROOTLESS_PROGRAMS[plan.edition]}/dockerd-rootless.sh",
            "rootless_files": _rootless_files(plan),
        },
    )


def _packages(plan: model.Plan, params: Params) -> Packages:
    source, tree = plan.repository, Tree(facts.ROOT)
    key = read_key(tree, model.KEY, source["fingerprints"]) if source else ""
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files}
    key_file: list[FileRow] = [{"path": model.KEY, "content": key}] if key else []
    folders = [model.FOLDER, *([os.path.dirname(model.KEY)] if source else [])]
    return Packages(
        key=_download(source) if source and not key else {},
        directories=[{"path": path} for path in folders],
        files=[*plan.package_files, *key_file],
        checks=CHECKS if source else (),
        files_due=is_due(tree, PACKAGE_SET, {**wanted, **({model.KEY: key} if source else {})}),
        unhold=plan.unhold,
        install=plan.install,
        downgrade=bool(params["version"]),
        hold=plan.hold,
    )


def _download(source: JsonObject) -> JsonObject:
    return {"url": source["key_url"], "fingerprints": source["fingerprints"], "path": model.KEY}


def _rootless_files(plan: model.Plan) -> list[FileRow]:
    left_out = NOT_ROOTLESS | (WITH_PASSWORDS if plan.secret else set())
    options = {name: value for name, value in plan.options.items() if name not in left_out}
    return [
        {"path": ROOTLESS_CONFIG, "data": options},
        {"path": ROOTLESS_UNIT},
        {"path": "/etc/systemd/user/default.target.d/docker.conf"},
        {"path": "/etc/profile.d/rigwright-docker-rootless.sh"},
    ]
