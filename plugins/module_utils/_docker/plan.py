# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan docker on a host. Pure: facts and a request in, a plan out."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileOptions, FileRow, UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import source_text
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import (
    disruption,
    host_problems,
    input_problems,
    move_problems,
    unreadable_problems,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    ARCHIVE,
    CONTAINERD_CONFIG,
    DAEMON_JSON,
    DOCKER_CE,
    DROP_IN,
    KEY,
    MEMORY,
    PARTS,
    PREFERENCES,
    PROGRAMS,
    RESTART,
    ROLE_UNITS,
    SOURCE,
    UNITS,
    VALIDATE_SINCE,
    VERSIONED,
    Host,
    Memory,
    Plan,
    containerd_root_of,
    data_root_of,
    edition_of,
    glob_of,
    held,
    held_with,
    own_options,
    pinned,
    reset_options,
    roots,
    version_of,
    wanted_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    NETWORK_OPTIONS_SINCE,
    Params,
    Unreadable,
    dump,
    has_credentials,
    parse_options,
    restart_part,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import same_path

# Since this version docker drops packets that other hosts send directly to containers, or to ports published on loopback.
DIRECT_CLOSED_SINCE = (28,)


def with_containerd_root(text: str | None, root: str) -> str:
    """Return containerd's configuration with another root; every other line stays."""
    lines = (text or "version = 2\n").splitlines(keepends=True)
    first_table = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    line = f"root = {json.dumps(root)}\n"
    for number in range(first_table):
        if re.match(r"\s*root\s*=", lines[number]):
            return "".join([*lines[:number], line, *lines[number + 1 :]])
    # After `version`, which is the first line of containerd's own files.
    place = next((n + 1 for n in range(first_table) if re.match(r"\s*version\s*=", lines[n])), 0)
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += "\n"
    return "".join([*lines[:place], line, *lines[place:]])


def plan_packages(plan: Plan, host: Host, params: Params) -> None:
    names = list(params["packages"][plan.edition])
    versioned = [name for name in names if name in VERSIONED]
    wrong = [name for name in names if name not in host.packages or not host.packages[name].whole]
    wrong += pinned(host, params, plan.edition)
    glob = glob_of(params, plan.edition)
    plan.install = [
        f"{name}={glob}" if params["version"] and name in versioned else name for name in names if name in wrong
    ]
    role_units = units_unused(host) if host.role_units is None else host.role_units
    plan.package_files.append({"path": ROLE_UNITS, "content": json.dumps(role_units) + "\n"})
    installed = [name for name in held_with(names) if name in host.packages]
    plan.hold = [name for name in installed if params["hold"] and not host.packages[name].hold]
    plan.unhold = [name for name in held(host) if not params["hold"] and name in installed and host.packages[name].hold]
    if params["version"]:
        text = f"Package: {' '.join(versioned)}\nPin: version {glob}\nPin-Priority: 1001\n"
        plan.package_files.append({"path": PREFERENCES, "content": text})
    if plan.edition == DOCKER_CE and not host.sources:
        plan.repository = dict(params["repository"])
        fields = {
            "URIs": plan.repository["url"],
            "Suites": plan.repository["suite"],
            "Components": "stable",
            "Architectures": plan.repository["architecture"],
            "Signed-By": KEY,
        }
        plan.package_files.append({"path": SOURCE, "content": source_text(fields)})


def units_unused(host: Host) -> tuple[str, ...]:
    """Return the units that no installed package has, or that neither run nor start at boot."""
    docker = any(name in host.packages for name in PROGRAMS)
    containerd = any(name in host.packages for name in ("containerd", "containerd.io"))
    present = {"docker.socket": docker, "docker.service": docker, "containerd.service": containerd}
    return tuple(name for name in UNITS if not present[name] or name in host.idle)


def plan_members(plan: Plan, host: Host, params: Params) -> None:
    """Plan the members of the group docker, who can become root. Users that the role added leave with the list; all are reported."""
    earlier = host.memory.users if host.memory else ()
    now = host.group or ()
    wanted = sorted({*now} - {*earlier} | {*params["users"]})
    if wanted != sorted(now):
        plan.groups = [{"name": "docker", "system": True, "members": wanted, "append": False}]
    plan.findings.append(
        finding(
            "docker.group",
            "warn" if wanted else "pass",
            f"members of the group docker can become root without a password: {', '.join(wanted)}"
            if wanted
            else "the group docker has no members: docker is for root and sudo",
            "keep only users in the group who may become root; use rootless docker for the others (docs/docker.md)",
        )
    )


def protection(host: Host, options: t.Mapping[str, t.Any]) -> FileOptions:
    """Return the mode of daemon.json where only root may read it: it is so already, or it has the password of a proxy or mirror."""
    if host.config_mode is not None and not host.config_mode & 0o004:
        return {"mode": f"{host.config_mode:04o}", "secret": True}
    return {"mode": "0600", "secret": True} if has_credentials(options) else {}


def plan_files(plan: Plan, host: Host, params: Params) -> None:
    now = host.group or ()
    earlier = host.memory.users if host.memory else ()
    reset = reset_options(host, plan.options)
    options = {**reset, **plan.options}
    memory = Memory(
        host=own_options(host),
        written=options,
        # Only users that the role added, not members from before.
        users=tuple(user for user in params["users"] if user in earlier or user not in now),
        held=tuple(
            name for name in held_with(params["packages"][plan.edition]) if params["hold"] and _ours_to_hold(name, host)
        ),
    )
    # FOLDER exists by now: the set of packages has it.
    plan.directories = [{"path": "/etc/docker"}, {"path": PARTS}]
    # An older docker has no such option: facts.validate_options asks it before anything changes.
    daemon: FileOptions = protection(host, options) or {"merged": True}
    if version_of(host, plan.edition) >= VALIDATE_SINCE:
        daemon["validate"] = f"{PROGRAMS[plan.edition]} --validate --config-file=%s"
    plan.files = [
        {"path": DAEMON_JSON, "content": dump(options), **daemon},
        {"path": RESTART, "content": dump(restart_part(options)), "mode": "0600", "secret": plan.secret},
        {"path": MEMORY, "content": memory.dump(), "mode": "0600", "secret": plan.secret},
    ]
    found = roots(params)
    if "docker_containerd_root" in found:
        plan.directories.append({"path": "/etc/containerd"})
        text = with_containerd_root(host.containerd_config, found["docker_containerd_root"])
        is_installed = bool({"containerd", "containerd.io"} & host.packages.keys())
        check: FileOptions = {"validate": "/usr/bin/containerd --config=%s config dump"} if is_installed else {}
        plan.files.append({"path": CONTAINERD_CONFIG, "content": text, "merged": True, **check})
    if found:
        # While the disk is not mounted, docker must not fill the directory under it.
        plan.directories.append({"path": os.path.dirname(DROP_IN)})
        text = f"# {plan.edition}: not before its disks\n[Unit]\nRequiresMountsFor={' '.join(found.values())}\n"
        plan.files.append({"path": DROP_IN, "content": text})
    if reset:
        last = {
            DAEMON_JSON: dump(plan.options),
            MEMORY: dataclasses.replace(memory, written=plan.options).dump(),
        }
        plan.files_afterwards = [{**file, "content": last.get(file["path"], file["content"])} for file in plan.files]


def _ours_to_hold(name: str, host: Host) -> bool:
    return name in held(host) or not (name in host.packages and host.packages[name].hold)


def plan_units(plan: Plan, host: Host, params: Params) -> None:
    """Plan the units. dockerd reloads daemon.json; it restarts for options that it reads only at its start, and for another program."""
    before = host.memory.written if host.memory else own_options(host)
    reason = disruption(host, restart_part(before), restart_part(plan.options))
    storage = roots(params)
    moved = storage and not same_path(containerd_root_of(host.containerd_config), storage["docker_containerd_root"])
    if reason and moved:
        reason = f"{reason}; and containerd would change its root"
    may_restart = not reason or params["allow_disruption"]
    unit: UnitRow = {
        "name": "docker.service",
        "restart_on": [RESTART, PROGRAMS[plan.edition]],
        "reload_on": [DAEMON_JSON],
        "may_restart": may_restart,
    }
    if plan.edition in host.packages:
        # Check mode does not know that a package which is not installed yet enables its unit itself.
        unit["enabled"] = True
    if host.memory is None and host.settled and restart_part(before) == restart_part(plan.options):
        unit["loaded"] = [RESTART]
    plan.units = [unit]
    if storage:
        containerd: UnitRow = {
            "name": "containerd.service",
            "restart_on": [CONTAINERD_CONFIG],
            "may_restart": may_restart,
        }
        if {"containerd", "containerd.io"} & host.packages.keys():
            containerd["enabled"] = True
        plan.units = [containerd, unit]
    plan.restart_waits = "" if may_restart else reason


def plan_ports(plan: Plan, host: Host, params: Params) -> None:
    version = version_of(host, plan.edition)
    if params["bind_ip"] and version and version < NETWORK_OPTIONS_SINCE:
        plan.findings.append(
            finding(
                "docker.ports",
                "warn",
                f"docker {'.'.join(map(str, version))} binds ports to {params['bind_ip']} on its default bridge"
                " alone: those of `docker compose` and of other networks are open to everybody",
                "write the address with the port (127.0.0.1:8080:80), or set docker_edition to docker-ce",
            )
        )
    if version:
        plan.findings.append(
            _direct_finding(".".join(map(str, version)), version >= DIRECT_CLOSED_SINCE, host.firewalled)
        )


def _direct_finding(version: str, closed: bool, firewalled: bool) -> Finding:
    if closed:
        evidence = f"docker {version} drops what other hosts send directly to containers"
    elif firewalled:
        evidence = "the role firewall drops what other hosts send directly to containers"
    else:
        evidence = f"docker {version} lets other hosts of the same network reach ports that are published on 127.0.0.1"
    return finding(
        "docker.direct",
        "pass" if closed or firewalled else "warn",
        evidence,
        "apply the role firewall (firewall_state: present), or set docker_edition to docker-ce for docker 28 or newer",
    )


def plan_present(host: Host, params: Params) -> Plan:
    plan = Plan(edition=edition_of(host, params), requirements=list(input_problems(params)))
    try:
        plan.options = wanted_options(host, params)
    except Unreadable:
        plan.requirements += unreadable_problems(host)
    plan.secret = bool(protection(host, plan.options))
    plan.data_root = data_root_of(plan.options, host.arguments)
    plan.containerd_root = roots(params).get("docker_containerd_root") or containerd_root_of(host.containerd_config)
    if plan.requirements:
        return plan
    plan.requirements = list(host_problems(host, params, plan))
    for step in (plan_packages, plan_members, plan_files, plan_units, plan_ports):
        step(plan, host, params)
    return plan


def plan_absent(host: Host, params: Params) -> Plan:
    """Plan to restore the configuration. Packages and stored data stay, and no container ends without permission."""
    plan = Plan(edition=DOCKER_CE if DOCKER_CE in host.packages else ARCHIVE)
    memory = host.memory
    role_units = host.role_units or ()
    plan.units = stopped(*role_units)
    if memory is None:
        # An interrupted run has restored the configuration, and docker may not have read it yet.
        if host.daemon and host.role_units == ():
            may_restart = not disruption(host, {}, {}) or params["allow_disruption"]
            plan.units = [{"name": "docker.service", "restart_on": [DAEMON_JSON], "may_restart": may_restart}]
        return plan
    try:
        plan.options = own_options(host)
    except Unreadable:
        plan.requirements = list(unreadable_problems(host))
        return plan
    plan.secret = bool(protection(host, plan.options))
    plan.data_root = data_root_of(plan.options, host.arguments)
    reason = disruption(host, restart_part(memory.written), restart_part(plan.options))
    if host.stopped and host.stopped.running:
        reason = f"{host.stopped.running} containers still run without docker: start it, and check `docker ps`"
    if role_units and host.daemon and host.daemon.running:
        reason = (
            reason or f"the role installed docker, and these containers would end: {', '.join(host.daemon.running)}"
        )
    if reason and not params["allow_disruption"]:
        plan.requirements = [
            problem("docker_state", f"is absent, and {reason}", "stop them first, or set docker_allow_disruption")
        ]
    if "docker.service" not in role_units:
        plan.requirements += move_problems(host, params, {}, plan.options)
    try:
        untouched = parse_options(host.original) == plan.options
    except Unreadable:
        untouched = False
    if not untouched:
        released: FileRow = {"path": DAEMON_JSON, "content": dump(plan.options), "state": "released", "merged": True}
        plan.files = [{**released, **protection(host, plan.options)}]
    plan.unhold = [name for name in memory.held if name in host.packages and host.packages[name].hold]
    leaving = {*memory.users} & {*(host.group or ())}
    if leaving:
        members = sorted({*(host.group or ())} - leaving)
        plan.groups = [{"name": "docker", "members": members, "append": False}]
    if host.daemon and "docker.service" not in role_units:
        # On a reload dockerd keeps the value of an option that is removed.
        gone = memory.written.keys() - plan.options.keys()
        reload = not gone and restart_part(memory.written) == restart_part(plan.options)
        docker: UnitRow = {"name": "docker.service"}
        docker["reload_on" if reload else "restart_on"] = [DAEMON_JSON]
        # A docker that goes on uses containerd.
        plan.units = [unit for unit in plan.units if unit["name"] != "containerd.service"]
        plan.units.insert(0, docker)
        if host.containerd_managed:
            plan.units.insert(0, {"name": "containerd.service", "restart_on": [CONTAINERD_CONFIG]})
    return plan
