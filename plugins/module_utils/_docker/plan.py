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

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import source_text
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import (
    disruption,
    host_faults,
    input_faults,
    move_faults,
    unreadable_faults,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    ARCHIVE,
    BROUGHT,
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
    SOURCE,
    UNITS,
    VALIDATE_SINCE,
    VERSIONED,
    Host,
    Memory,
    Plan,
    containerd_root_of,
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

# From here on docker drops what other hosts send directly to a container, or to a port that is published on a loopback address.
DIRECT_CLOSED_SINCE = (28,)


def with_containerd_root(text: str | None, root: str) -> str:
    """containerd's configuration with another root, and every other line as it is."""
    lines = (text or "version = 2\n").splitlines(keepends=True)
    first_table = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    line = f"root = {json.dumps(root)}\n"
    for number in range(first_table):
        if re.match(r"\s*root\s*=", lines[number]):
            return "".join([*lines[:number], line, *lines[number + 1 :]])
    # After `version`, which containerd's own files begin with.
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
    brought = units_unused(host) if host.brought is None else host.brought
    plan.package_files.append({"path": BROUGHT, "content": json.dumps(brought) + "\n"})
    there = [name for name in held_with(names) if name in host.packages]
    plan.hold = [name for name in there if params["hold"] and not host.packages[name].hold]
    plan.unhold = [name for name in held(host) if not params["hold"] and name in there and host.packages[name].hold]
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
    """The units that no package on the host has yet, or that nobody uses."""
    docker = any(name in host.packages for name in PROGRAMS)
    containerd = any(name in host.packages for name in ("containerd", "containerd.io"))
    there = {"docker.socket": docker, "docker.service": docker, "containerd.service": containerd}
    return tuple(name for name in UNITS if not there[name] or name in host.idle)


def plan_members(plan: Plan, host: Host, params: Params) -> None:
    """Members of the group are as good as root: those whom the role put there go with the list, the others are told of."""
    earlier = host.memory.users if host.memory else ()
    now = host.group or ()
    wanted = sorted({*now} - {*earlier} | {*params["users"]})
    if wanted != sorted(now):
        plan.groups = [{"name": "docker", "system": True, "members": wanted, "append": False}]
    plan.findings.append(
        finding(
            "docker.group",
            "warn" if wanted else "pass",
            f"without a password these are as good as root: {', '.join(wanted)}"
            if wanted
            else "the group docker has no members: docker is for root and sudo",
            "keep only those in the group who may be root; for the others rootless docker (docs/docker.md)",
        )
    )


def protection(host: Host, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What daemon.json gets where it is for root alone: others may not read it as it is, or it has the password of a proxy or a mirror."""
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
        # Whom the role put there, not who was there before.
        users=tuple(user for user in params["users"] if user in earlier or user not in now),
        held=tuple(
            name for name in held_with(params["packages"][plan.edition]) if params["hold"] and _ours_to_hold(name, host)
        ),
    )
    # FOLDER is there by now: it came before the packages (tasks/install.yml).
    plan.directories = [{"path": "/etc/docker"}, {"path": PARTS}]
    # Of an older docker the words on the options are asked for before anything changes.
    validate = {"validate": f"{PROGRAMS[plan.edition]} --validate --config-file=%s"}
    protected = protection(host, options)
    plan.secret = bool(protected)
    plan.files = [
        {
            "path": DAEMON_JSON,
            "content": dump(options),
            **protected,
            **(validate if version_of(host, plan.edition) >= VALIDATE_SINCE else {}),
        },
        {"path": RESTART, "content": dump(restart_part(options)), "mode": "0600", "secret": plan.secret},
        {"path": MEMORY, "content": memory.dump(), "mode": "0600", "secret": plan.secret},
    ]
    found = roots(params)
    if "docker_containerd_root" in found:
        plan.directories.append({"path": "/etc/containerd"})
        text = with_containerd_root(host.containerd_config, found["docker_containerd_root"])
        check = {"validate": "/usr/bin/containerd --config=%s config dump"}
        there = {"containerd", "containerd.io"} & host.packages.keys()
        plan.files.append({"path": CONTAINERD_CONFIG, "content": text, **(check if there else {})})
    if found:
        # A disk that is not mounted must not have docker fill the directory under it.
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
    """dockerd reads daemon.json again on a reload. It is restarted for what it reads only when it starts, and for another program."""
    before = host.memory.written if host.memory else own_options(host)
    reason = disruption(host, restart_part(before), restart_part(plan.options))
    if (
        reason
        and roots(params)
        and containerd_root_of(host.containerd_config) != roots(params)["docker_containerd_root"]
    ):
        reason = f"{reason}; and containerd would change its root"
    may_restart = not reason or params["allow_disruption"]
    unit: dict[str, t.Any] = {
        "name": "docker.service",
        "restart_on": [RESTART, PROGRAMS[plan.edition]],
        "reload_on": [DAEMON_JSON],
        "may_restart": may_restart,
    }
    if plan.edition in host.packages:
        # Of a package that is not there yet, check mode does not know that it enables its unit itself.
        unit["enabled"] = True
    if host.memory is None and host.settled and restart_part(before) == restart_part(plan.options):
        unit["loaded"] = [RESTART]
    storage = roots(params)
    plan.units = [unit]
    if storage:
        containerd = {"name": "containerd.service", "restart_on": [CONTAINERD_CONFIG], "may_restart": may_restart}
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
                f"docker {'.'.join(map(str, version))} keeps ports to {params['bind_ip']} on its default bridge"
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
    plan = Plan(edition=edition_of(host, params), requirements=list(input_faults(params)))
    try:
        plan.options = wanted_options(host, params)
    except Unreadable:
        plan.requirements += unreadable_faults(host)
    if plan.requirements:
        return plan
    plan.requirements = list(host_faults(host, params, plan))
    for step in (plan_packages, plan_members, plan_files, plan_units, plan_ports):
        step(plan, host, params)
    return plan


def plan_absent(host: Host, params: Params) -> Plan:
    """Give back what was there. Packages stay, and so does what docker has stored; nothing that runs is ended unasked."""
    plan = Plan(edition=DOCKER_CE if DOCKER_CE in host.packages else ARCHIVE)
    memory = host.memory
    brought = host.brought or ()
    plan.units = [{"name": name, "state": "stopped", "enabled": False} for name in brought]
    if memory is None:
        # A run that was cut short has given the configuration back, and docker may not have it yet.
        if host.daemon and host.brought == ():
            may_restart = not disruption(host, {}, {}) or params["allow_disruption"]
            plan.units = [{"name": "docker.service", "restart_on": [DAEMON_JSON], "may_restart": may_restart}]
        return plan
    try:
        plan.options = own_options(host)
    except Unreadable:
        plan.requirements = list(unreadable_faults(host))
        return plan
    reason = disruption(host, restart_part(memory.written), restart_part(plan.options))
    if host.left and host.left.running:
        reason = f"{host.left.running} containers run on without docker: start it, and look at `docker ps`"
    if brought and host.daemon and host.daemon.running:
        reason = (
            reason or f"docker came with the role, and these containers would end: {', '.join(host.daemon.running)}"
        )
    if reason and not params["allow_disruption"]:
        plan.requirements = [
            problem("docker_state", f"is absent, and {reason}", "stop them first, or set docker_allow_disruption")
        ]
    if "docker.service" not in brought:
        plan.requirements += move_faults(host, params, {}, plan.options)
    try:
        untouched = parse_options(host.original) == plan.options
    except Unreadable:
        untouched = False
    if not untouched:
        released = {"path": DAEMON_JSON, "content": dump(plan.options), "state": "released"}
        plan.files = [{**released, **protection(host, plan.options)}]
    plan.unhold = [name for name in memory.held if name in host.packages and host.packages[name].hold]
    leaving = {*memory.users} & {*(host.group or ())}
    if leaving:
        members = sorted({*(host.group or ())} - leaving)
        plan.groups = [{"name": "docker", "members": members, "append": False}]
    if host.daemon and "docker.service" not in brought:
        # On a reload dockerd keeps what it had of an option that is gone.
        gone = memory.written.keys() - plan.options.keys()
        reload = not gone and restart_part(memory.written) == restart_part(plan.options)
        kind = "reload_on" if reload else "restart_on"
        plan.units.insert(0, {"name": "docker.service", kind: [DAEMON_JSON]})
        if host.containerd_managed:
            plan.units.insert(0, {"name": "containerd.service", "restart_on": [CONTAINERD_CONFIG]})
    return plan
