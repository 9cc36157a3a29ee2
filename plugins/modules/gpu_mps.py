#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mps
short_description: Run daemons of NVIDIA's Multi-Process Service, with limits that hold
description:
  - Sees to it that the listed control daemons of MPS run as declared, each with devices, a user, a share of the multiprocessors, limits of
    memory, a priority and partitions of its own, so that each team or GPU has one. A fatal fault of one client reaches the other
    clients of its server.
  - Each daemon is a unit C(nvidia-mps@<name>.service) that pushes the limits and reads them back at every start; without systemd it is
    started directly (O(manager=none)).
  - What a daemon was started with is read from its process and its limits are asked for, so that a second run changes nothing. A
    daemon that this module did not start is left alone.
  - Limits are the defaults of the next server. A server that lives and has clients keeps its own - that is reported in RV(pending), or
    ended, as O(when_clients) says.
  - With O(verify) a client of its own proves that programs run under the daemon and what they get. In compute mode C(DEFAULT) a client
    that misses its daemon runs beside it, without limits and without a word.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is proven then.
  diff_mode:
    support: full
    details:
      - State and files of each daemon before and after.
options:
  daemons:
    description: The daemons. Those that are not listed are left as they are.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - A letter, then up to 31 letters, digits, C(-) and C(_). The unit is C(nvidia-mps@<name>.service), the pipe directory
            C(<pipe_root>/<name>).
        type: str
        required: true
      state:
        description:
          - V(started) with unit and limits, V(stopped) for one that does not run, nor start at boot, or V(absent) where its
            files go too.
        type: str
        choices: [started, stopped, absent]
        default: started
      devices:
        description:
          - UUIDs, PCI addresses or indices of GPUs, or the UUID of one MIG instance. All undivided GPUs when empty.
          - A GPU in MIG mode is refused (name an instance), and so is an instance in compute mode C(EXCLUSIVE_PROCESS).
        type: list
        elements: str
        default: []
      user:
        description:
          - Whose daemon it is; only this user can be a client. Unset, it is the daemon of root and serves one user at a time; others wait.
        type: str
      multiuser:
        description:
          - One server for clients of all users at once, who then are not kept apart from one another. Excludes O(daemons[].user).
        type: bool
        default: false
      active_thread_percentage:
        description:
          - Most of the multiprocessors that a client may use, 1 to 100. A ceiling and no reservation. Unset means 100.
          - On Hopper most percentages made matrix products wrong, without an error. Compare results with those under 100 before you rely on
            one (RV(advice), C(docs/gpu_sharing.md)).
        type: int
      memory_limits:
        description:
          - Most memory that a client may allocate on a device, as V(20G) or V(512M), by UUID, PCI address or index, or V(all) for those
            that are not named. No limit where there is none.
          - A device that the daemon does not have is refused.
          - A driver tells a limit in whole GiB; what is less is set and cannot be read back.
        type: dict
        default: {}
      priority:
        description: Priority of clients, a hint to the driver. Untouched when unset.
        type: str
        choices: [normal, below_normal]
      partitions:
        description:
          - Static partitions of the multiprocessors, which clients choose by C(CUDA_MPS_SM_PARTITION) (RV(daemons[].client_environment)).
            Ampere and later. Excludes O(daemons[].active_thread_percentage) on protocol 2, which would be ignored.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Its name.
            type: str
            required: true
          device:
            description: UUID, PCI address or index of one of the daemon's devices.
            type: str
            required: true
          chunks:
            description: Number of chunks, of 8 multiprocessors each on Hopper and later.
            type: int
            required: true
      namespaces:
        description:
          - Groups of clients with limits of their own (protocol 3, experimental). What a namespace does not say it takes from the daemon.
            MPS itself would give it the whole GPU.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Small letters, digits and C(_).
            type: str
            required: true
          active_thread_percentage:
            description: As of the daemon.
            type: int
          memory_limit:
            description: One limit for each device, as V(20G).
            type: str
          priority:
            description: As of the daemon.
            type: str
            choices: [normal, below_normal]
      clients:
        description:
          - How many clients are expected at once. Only to advise (RV(advice)), and to refuse more than MPS takes.
        type: int
      protocol:
        description:
          - V(auto) takes V(3) with driver 615 and later (experimental), otherwise V(2).
        type: str
        choices: [auto, "2", "3"]
        default: auto
  hard_limits:
    description:
      - Limits of memory that the kernel enforces, by control group (experimental; driver 615 and later, no MIG). Tested on an
        imitation only.
      - They last as long as the control group, and not over a reboot.
    type: list
    elements: dict
    default: []
    suboptions:
      slice:
        description: A unit of systemd such as V(user-1001.slice), or the path of a control group below C(/sys/fs/cgroup).
        type: str
        required: true
      device:
        description: UUID, PCI address or index of a GPU.
        type: str
        required: true
      soft:
        description: What is kept for it, as V(8G). V(0M) takes it back, which has to be done before the control group is removed.
        type: str
        default: 0M
      hard:
        description: Most that it may have, as V(20G).
        type: str
        required: true
  when_clients:
    description:
      - What happens where a stop, a restart or a new limit meets clients. V(fail) refuses before anything is changed.
      - V(drain) waits O(drain_timeout) for them to end, then ends their work with C(terminate_client), then does it.
      - V(defer) does what does not touch them, and reports the rest in RV(pending).
    type: str
    choices: [fail, drain, defer]
    default: fail
  drain_timeout:
    description: Seconds for which V(when_clients=drain) waits.
    type: int
    default: 60
  verify:
    description: Whether a client proves each started daemon. It opens a context on each device, which takes some hundred MiB for a second.
    type: bool
    default: true
  manager:
    description: V(auto) takes V(systemd) where that runs, otherwise V(none), where nothing starts the daemon at boot.
    type: str
    choices: [auto, systemd, none]
    default: auto
  pipe_root:
    description: Where pipe directories lie. Below C(/run) with systemd. A socket's path may have 107 bytes.
    type: path
    default: /run/nvidia-mps
  log_root:
    description: Where log directories lie. Below C(/var/log) with systemd.
    type: path
    default: /var/log/nvidia-mps
  config_root:
    description: Where scripts and configurations of daemons lie.
    type: path
    default: /etc/nvidia-mps
notes:
  - It changes no setting of a GPU. The compute mode is the work of M(rigwright.workstation.gpu_mode).
seealso:
  - name: Multi-Process Service
    description: NVIDIA's documentation.
    link: https://docs.nvidia.com/deploy/mps/
"""

EXAMPLES = r"""
- name: Give each of two teams a daemon, so that a fault of one does not hit the other
  rigwright.workstation.gpu_mps:
    when_clients: defer
    daemons:
      - name: vision
        user: vision
        devices: ["0"]
        active_thread_percentage: 50
        memory_limits: {all: 40G}
      - name: speech
        user: speech
        devices: ["0"]
        active_thread_percentage: 50
        memory_limits: {all: 40G}
  register: mps

- name: Tell the team where its daemon is
  ansible.builtin.debug:
    msg: "{{ mps.daemons[0].client_environment }}"

- name: Stop a daemon as soon as its clients have ended, in ten minutes at the latest
  rigwright.workstation.gpu_mps:
    when_clients: drain
    drain_timeout: 600
    daemons:
      - name: vision
        state: absent
"""

RETURN = r"""
daemons:
  description: The daemons of the request, as they are now.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    state:
      description: V(started), V(stopped) or V(foreign) for one that is not ours.
      type: str
    protocol:
      description: V(2) or V(3).
      type: int
    actions:
      description: What was done, or would be in check mode.
      type: list
      elements: str
    pending:
      description: What waits until clients have ended.
      type: list
      elements: str
    servers:
      description: Its servers with process id, status (V(ACTIVE), V(INITIALIZING), V(FAULT)) and clients' process ids.
      type: list
      elements: dict
    client_environment:
      description: The variables that make a program its client. C(namespaces) and C(partitions) have values by name.
      type: dict
    verified:
      description: What a client saw of each device, null where nothing was proven. C(mps) is device attribute 133.
      type: dict
  sample:
    - name: vision
      state: started
      protocol: 2
      actions: [start]
      pending: []
      servers: [{pid: 4711, status: ACTIVE, clients: []}]
      client_environment: {CUDA_MPS_PIPE_DIRECTORY: /run/nvidia-mps/vision}
      verified:
        devices: [{ordinal: 0, uuid: GPU-2f1c, mps: 1, multiprocessors: 66, memory_total_mib: 143156, memory_free_mib: 40448}]
        outside: [{ordinal: 0, uuid: GPU-2f1c, mps: 0, multiprocessors: 132, memory_total_mib: 143156}]
        problems: []
pending:
  description: What waits until clients have ended, of all daemons.
  returned: success
  type: list
  elements: str
  sample: ["vision: active_thread_percentage of server 4711, until its clients 5012 have ended"]
advice:
  description: What is possible and unwise.
  returned: success
  type: list
  elements: str
  sample: ["vision: NVIDIA advises 50 % for 4 clients, 100 / (0.5 n); it is 25 %"]
hard_limits:
  description: What was set of O(hard_limits), or would be in check mode.
  returned: success
  type: list
  elements: str
refusals:
  description: What speaks against the request. Nothing was changed.
  returned: when the request is refused
  type: list
  elements: str
error:
  description:
    - A stable name of what failed, such as C(NO_DAEMON), C(SECOND_DAEMON), C(TIMEOUT), C(REFUSED), C(UNREADABLE), C(NOT_PROVEN), or
      NVML's name of an error.
  returned: on failure
  type: str
"""

import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import apply as mps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import devices as mps_devices
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import memory_limits as hard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import PROGRAM, MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live, Steps, decide
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    STARTED,
    Daemon,
    Wanted,
    wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError

SYSTEMD_RUNS = "/run/systemd/system"
UNIT_FOLDER = files.UNIT_FOLDER
# What systemd makes for a unit lies below these (RuntimeDirectory=, LogsDirectory= of systemd.exec(5)).
ROOTS = {"pipe_root": "/run/", "log_root": "/var/log/"}


def read_host(module: AnsibleModule) -> mps.Host:
    params = module.params
    manager = params["manager"]
    if manager == "auto":
        manager = files.SYSTEMD if os.path.isdir(SYSTEMD_RUNS) else files.DIRECT
    # Containers to which the host lends its driver have it there.
    program = module.get_bin_path(PROGRAM, opt_dirs=["/usr/local/nvidia/bin"])
    if program is None:
        module.fail_json(
            msg=f"There is no {PROGRAM}: it comes with the driver (nvidia-compute-utils on Ubuntu, nvidia-cuda-mps on Debian,"
            " the role nvidia_driver). Nothing was changed.",
            error="NO_PROGRAM",
        )

    def execute(command: t.Sequence[str], environment: t.Mapping[str, str], text: str) -> tuple[int, str, str]:
        found = module.run_command(
            list(command), data=text, binary_data=True, environ_update={"LC_ALL": "C.UTF-8", **environment}
        )
        return t.cast("tuple[int, str, str]", found)

    return mps.Host(execute, manager, program, params["config_root"], UNIT_FOLDER)


def refusals_of(params: t.Mapping[str, t.Any], host: mps.Host, made: Wanted) -> list[str]:
    """What of the request does not fit this host."""
    found = list(made.refusals)
    for daemon in made.daemons:
        if daemon.user and daemon.state == STARTED and mps.user_id(daemon.user) is None:
            found.append(f"daemons[{daemon.name}].user: there is no user {daemon.user}")
        if daemon.multiuser and os.geteuid() != 0:
            found.append(f"daemons[{daemon.name}].multiuser: needs root (become: true)")
    for option in ("pipe_root", "log_root", "config_root"):
        # From where a module runs is Ansible's to choose: the next run would not find what this one has made.
        if not os.path.isabs(params[option]):
            found.append(f"{option}: {params[option]} is not absolute; write the whole path")
    for option, root in ROOTS.items():
        if host.manager == files.SYSTEMD and not params[option].startswith(root):
            found.append(
                f"{option}: with systemd it lies below {root.rstrip('/')}, which the unit makes; or set manager: none"
            )
    return found


def described(live: Live, texts: t.Mapping[str, str | None]) -> dict[str, t.Any]:
    """A daemon for the diff."""
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


def after(daemon: Daemon, steps: Steps, before: dict[str, t.Any], host: mps.Host) -> dict[str, t.Any]:
    """What it comes to when the steps are done."""
    if not steps.changed:
        return before
    kept = {**before["files"], **steps.files}
    made = {**before, "files": {path: text for path, text in kept.items() if text is not None}}
    if daemon.state != STARTED:
        return {**made, "state": "stopped", "options": [], "environment": {}, "not_as_declared": []}
    if {"start", "restart"} & set(steps.verbs):
        made["options"] = files.arguments(daemon, host.manager == files.SYSTEMD, host.configuration(daemon.name))
        made["environment"] = dict(sorted(files.environment(daemon, host.manager).items()))
    return {**made, "state": "started", "not_as_declared": []}


def report(daemon: Daemon, live: Live, steps: Steps, verified: dict[str, t.Any] | None, state: str) -> dict[str, t.Any]:
    return {
        "name": daemon.name,
        "state": state,
        "protocol": daemon.protocol,
        "actions": [*steps.verbs, *(f"limits of server {pid}" for pid in steps.servers)],
        "pending": steps.pending,
        "servers": [{"pid": one.pid, "status": one.status, "clients": list(one.clients)} for one in live.servers],
        "client_environment": files.client_environment(daemon, mps.partitions_of(daemon)) if state == STARTED else {},
        "verified": verified,
    }


def run(module: AnsibleModule, nvml: Nvml, host: mps.Host) -> None:
    params = module.params
    devices, driver = mps_devices.read(nvml)
    made = wanted(params["daemons"], devices, driver, params["pipe_root"], params["log_root"])
    limits, problems = hard.read(params["hard_limits"], devices, driver)
    refusals = refusals_of(params, host, made) + problems
    if refusals:
        refuse(module, refusals)
    plans: list[tuple[Daemon, Live, Steps, dict[str, t.Any]]] = []
    for daemon in made.daemons:
        texts = mps.files_of(daemon, host) if daemon.state == STARTED else {}
        found, live = mps.on_disk(daemon, host), mps.look(daemon, host)
        uid = mps.user_id(daemon.user) if daemon.user else os.geteuid()
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
                # A daemon that was just started has no server yet whose user would matter.
                verified = mps.prove(daemon, Live() if {"start", "restart"} & set(steps.verbs) else live, host)
            if steps.changed:
                live = mps.look_at_servers(daemon, host)
        rows.append(report(daemon, live, steps, verified, state))
    if not module.check_mode:
        hard.apply(nvml, new_limits)
    result = {
        "changed": any(steps.changed for _daemon, _live, steps, _before in plans) or bool(new_limits),
        "daemons": rows,
        "pending": [line for row in rows for line in row["pending"]],
        "advice": made.advice,
        "hard_limits": [str(limit) for limit in new_limits],
        "diff": {
            "before": told({daemon.name: before for daemon, _live, _steps, before in plans}),
            "after": told({daemon.name: after(daemon, steps, before, host) for daemon, _l, steps, before in plans}),
        },
    }
    unproven = [f"{row['name']}: {line}" for row in rows for line in (row["verified"] or {"problems": []})["problems"]]
    if unproven:
        module.fail_json(msg="; ".join(unproven), error="NOT_PROVEN", **result)
    module.exit_json(**result)


def told(states: t.Mapping[str, t.Any]) -> str:
    return json.dumps(states, indent=1, sort_keys=True) + "\n"


def refuse(module: AnsibleModule, refusals: list[str]) -> None:
    module.fail_json(msg=f"{'; '.join(refusals)}. Nothing was changed.", refusals=refusals, error="REFUSED")


def main() -> None:
    priority = {"type": "str", "choices": ["normal", "below_normal"]}
    partition = {
        "name": {"type": "str", "required": True},
        "device": {"type": "str", "required": True},
        "chunks": {"type": "int", "required": True},
    }
    namespace = {
        "name": {"type": "str", "required": True},
        "active_thread_percentage": {"type": "int"},
        "memory_limit": {"type": "str"},
        "priority": priority,
    }
    daemon = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["started", "stopped", "absent"], "default": "started"},
        "devices": {"type": "list", "elements": "str", "default": []},
        "user": {"type": "str"},
        "multiuser": {"type": "bool", "default": False},
        "active_thread_percentage": {"type": "int"},
        "memory_limits": {"type": "dict", "default": {}},
        "priority": priority,
        "partitions": {"type": "list", "elements": "dict", "default": [], "options": partition},
        "namespaces": {"type": "list", "elements": "dict", "default": [], "options": namespace},
        "clients": {"type": "int"},
        "protocol": {"type": "str", "choices": ["auto", "2", "3"], "default": "auto"},
    }
    hard_limit = {
        "slice": {"type": "str", "required": True},
        "device": {"type": "str", "required": True},
        "soft": {"type": "str", "default": "0M"},
        "hard": {"type": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "daemons": {"type": "list", "elements": "dict", "required": True, "options": daemon},
            "hard_limits": {"type": "list", "elements": "dict", "default": [], "options": hard_limit},
            "when_clients": {"type": "str", "choices": ["fail", "drain", "defer"], "default": "fail"},
            "drain_timeout": {"type": "int", "default": 60},
            "verify": {"type": "bool", "default": True},
            "manager": {"type": "str", "choices": ["auto", "systemd", "none"], "default": "auto"},
            "pipe_root": {"type": "path", "default": "/run/nvidia-mps"},
            "log_root": {"type": "path", "default": "/var/log/nvidia-mps"},
            "config_root": {"type": "path", "default": "/etc/nvidia-mps"},
        },
        supports_check_mode=True,
    )
    respawn_where_needed(module)
    host = read_host(module)
    try:
        with module_lock(module, "gpu_mps"), Nvml() as nvml:
            run(module, nvml, host)
    except (NvmlError, MpsError) as error:
        module.fail_json(msg=str(error), error=error.name, next_step=error.next_step)


if __name__ == "__main__":
    main()
