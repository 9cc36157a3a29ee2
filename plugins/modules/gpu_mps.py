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


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.run import read_host, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError


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
