# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run gpu_mps: read the host, decide the steps of each daemon, apply and prove them."""

from __future__ import annotations

import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import apply as mps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import devices as mps_devices
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import facts as mps_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import memory_limits as hard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import PROGRAM
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live, Steps, decide
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    STARTED,
    Daemon,
    Wanted,
    wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml

SYSTEMD_RUNS = "/run/systemd/system"
UNIT_FOLDER = files.UNIT_FOLDER
# systemd creates the directories of a unit below these (RuntimeDirectory=, LogsDirectory= of systemd.exec(5)).
ROOTS = {"pipe_root": "/run/", "log_root": "/var/log/"}


def read_host(module: AnsibleModule) -> mps_facts.Host:
    params = module.params
    manager = params["manager"]
    if manager == "auto":
        manager = files.SYSTEMD if os.path.isdir(SYSTEMD_RUNS) else files.DIRECT
    host = mps_facts.find_host(module, manager, params["config_root"], UNIT_FOLDER)
    if host is None:
        module.fail_json(
            msg=f"There is no {PROGRAM}: it comes with the driver (nvidia-compute-utils on Ubuntu, nvidia-cuda-mps on Debian,"
            " the role nvidia_driver). Nothing was changed.",
            error="NO_PROGRAM",
        )
    return t.cast("mps_facts.Host", host)


class Roots(t.TypedDict):
    """The directories of the request."""

    pipe_root: str
    log_root: str
    config_root: str


class Described(t.TypedDict):
    """A daemon as the diff shows it."""

    state: str
    options: list[str]
    environment: dict[str, str]
    not_as_declared: list[str]
    files: dict[str, str]


class ServerRow(t.TypedDict):
    """A server in the result."""

    pid: int
    status: str
    clients: list[int]


class DaemonRow(t.TypedDict):
    """A daemon in the result."""

    name: str
    state: str
    protocol: int
    actions: list[str]
    pending: list[str]
    servers: list[ServerRow]
    client_environment: files.ClientEnvironment | dict[str, str]
    verified: mps.Proof | None


def refusals_of(params: Roots, host: mps_facts.Host, request: Wanted) -> list[str]:
    """Return the parts of the request that do not fit this host."""
    found = list(request.refusals)
    found += filter(None, [open_problem([params["config_root"]], "config_root")])
    for daemon in request.daemons:
        if daemon.user and daemon.state == STARTED and accounts.uid_of(daemon.user) is None:
            found.append(f"daemons[{daemon.name}].user: there is no user {daemon.user}")
        if daemon.multiuser and os.geteuid() != 0:
            found.append(f"daemons[{daemon.name}].multiuser: needs root (become: true)")
    given = {"pipe_root": params["pipe_root"], "log_root": params["log_root"]}
    for option, path in {**given, "config_root": params["config_root"]}.items():
        # Ansible chooses the working directory of a module: the next run would not find a relative path.
        if not os.path.isabs(path):
            found.append(f"{option}: {path} is not absolute; write the whole path")
    for option, root in ROOTS.items():
        if host.manager == files.SYSTEMD and not given[option].startswith(root):
            found.append(
                f"{option}: with systemd it is below {root.rstrip('/')}, which the unit makes; or set manager: none"
            )
    return found


def described(live: Live, texts: t.Mapping[str, str | None]) -> Described:
    """Return a daemon as the diff shows it."""
    state = "started" if live.ours else "stopped" if live.pid is None else "foreign"
    return {
        "state": state,
        "options": list(live.arguments),
        "environment": {
            key: live.environment[key] for key in sorted(live.environment) if "MPS" in key or "VISIBLE" in key
        },
        "not_as_declared": sorted({*live.stale, *live.extra}),
        "files": {path: text for path, text in texts.items() if text is not None},
    }


def after(daemon: Daemon, steps: Steps, before: Described, host: mps_facts.Host) -> Described:
    """Return a daemon as it will be after the steps."""
    if not steps.changed:
        return before
    kept = {**before["files"], **steps.files}
    result: Described = {**before, "files": {path: text for path, text in kept.items() if text is not None}}
    if daemon.state != STARTED:
        return {**result, "state": "stopped", "options": [], "environment": {}, "not_as_declared": []}
    if {"start", "restart"} & set(steps.verbs):
        result["options"] = files.arguments(daemon, host.manager == files.SYSTEMD, host.configuration(daemon.name))
        result["environment"] = dict(sorted(files.environment(daemon, host.manager).items()))
    return {**result, "state": "started", "not_as_declared": []}


def report(daemon: Daemon, live: Live, steps: Steps, verified: mps.Proof | None, state: str) -> DaemonRow:
    return {
        "name": daemon.name,
        "state": state,
        "protocol": daemon.protocol,
        "actions": [*steps.verbs, *(f"limits of server {pid}" for pid in steps.servers)],
        "pending": steps.pending,
        "servers": [
            {"pid": server.pid, "status": server.status, "clients": list(server.clients)} for server in live.servers
        ],
        "client_environment": files.client_environment(daemon, mps.partitions_of(daemon)) if state == STARTED else {},
        "verified": verified,
    }


def run(module: AnsibleModule, nvml: Nvml, host: mps_facts.Host) -> None:
    params = module.params
    devices, driver = mps_devices.read(nvml)
    request = wanted(params["daemons"], devices, driver, params["pipe_root"], params["log_root"])
    limits, problems = hard.read(params["hard_limits"], devices, driver)
    refusals = refusals_of(params, host, request) + problems
    if refusals:
        refuse(module, refusals)
    plans: list[tuple[Daemon, Live, Steps, Described]] = []
    for daemon in request.daemons:
        texts = mps_facts.files_of(daemon, host) if daemon.state == STARTED else {}
        found, live = mps_facts.on_disk(daemon, host), mps_facts.read_live(daemon, host)
        uid = accounts.uid_of(daemon.user) if daemon.user else os.geteuid()
        steps = decide(daemon, live, texts, found, params["when_clients"], host.manager, uid)
        plans.append((daemon, live, steps, described(live, found)))
    refusals = [steps.refusal for _daemon, _live, steps, _before in plans if steps.refusal]
    if refusals:
        refuse(module, refusals)
    new_limits = hard.due(nvml, limits)
    rows = []
    for daemon, live, steps, _before in plans:
        state = STARTED if daemon.state == STARTED or (live.pid is not None and not steps.verbs) else "stopped"
        state = "foreign" if live.pid is not None and not live.ours else state
        verified = None
        if steps.changed and not module.check_mode:
            mps.apply(daemon, live, steps, host, params["drain_timeout"])
        if not module.check_mode and daemon.state == STARTED:
            if params["verify"]:
                # A new daemon has no server yet.
                verified = mps.prove(daemon, Live() if {"start", "restart"} & set(steps.verbs) else live, host)
            if steps.changed:
                live = mps_facts.read_servers(daemon, host)
        rows.append(report(daemon, live, steps, verified, state))
    if not module.check_mode:
        hard.apply(nvml, new_limits)
    result = {
        "changed": any(steps.changed for _daemon, _live, steps, _before in plans) or bool(new_limits),
        "daemons": rows,
        "pending": [line for row in rows for line in row["pending"]],
        "advice": request.advice,
        "hard_limits": [str(limit) for limit in new_limits],
        "diff": {
            "before": to_json({daemon.name: before for daemon, _live, _steps, before in plans}),
            "after": to_json({daemon.name: after(daemon, steps, before, host) for daemon, _l, steps, before in plans}),
        },
    }
    unproven = [
        f"{row['name']}: {line}" for row in rows for line in (row["verified"]["problems"] if row["verified"] else [])
    ]
    if unproven:
        module.fail_json(msg="; ".join(unproven), error="NOT_PROVEN", **result)
    module.exit_json(**result)


def to_json(states: t.Mapping[str, Described]) -> str:
    return json.dumps(states, indent=1, sort_keys=True) + "\n"


def refuse(module: AnsibleModule, refusals: list[str]) -> None:
    module.fail_json(msg=f"{'; '.join(refusals)}. Nothing was changed.", refusals=refusals, error="REFUSED")
