#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_mps
short_description: Run daemons of NVIDIA's Multi-Process Service, with limits that hold
description:
  - Runs the listed control daemons of MPS as declared. Each has its own devices, user, share of the multiprocessors, memory limits,
    priority and partitions, so that each team or GPU can have a daemon. A fatal fault of one client reaches the other clients of its
    server.
  - Each daemon is a unit C(nvidia-mps@<name>.service) that sets the limits and reads them back at every start. Without systemd the module
    starts it directly (O(manager=none)).
  - The module reads options from the process of a daemon, and limits from the daemon, so that a second run changes nothing. It leaves
    daemons alone that it did not start.
  - Limits are the defaults of the next server. A running server with clients keeps its own. O(when_clients) decides whether the module
    reports it in RV(pending) or ends it.
  - With O(verify) a client proves that programs run under the daemon with its limits. In compute mode C(DEFAULT) a client that does not
    find its daemon runs without limits, and reports no error.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - It proves no daemon.
  diff_mode:
    support: full
    details:
      - Shows state and files of each daemon.
options:
  daemons:
    description: The daemons. Others stay as they are.
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
          - V(started) runs the daemon with unit and limits, V(stopped) stops it, also at boot, V(absent) removes its files too.
        type: str
        choices: [started, stopped, absent]
        default: started
      devices:
        description:
          - UUIDs, PCI addresses or indices of GPUs, or the UUID of one MIG instance. Empty means all undivided GPUs.
          - A GPU in MIG mode is refused (name an instance), and so is an instance in compute mode C(EXCLUSIVE_PROCESS).
        type: list
        elements: str
        default: []
      user:
        description:
          - The user of the daemon and its only client. Without it, root runs the daemon, and it serves one user at a time; others wait.
        type: str
      multiuser:
        description:
          - Use one server for clients of all users, without isolation between them. Excludes O(daemons[].user).
        type: bool
        default: false
      active_thread_percentage:
        description:
          - The largest share of the multiprocessors for a client, 1 to 100. It is a limit and no reservation. The default is 100.
          - On Hopper most percentages made matrix products wrong, without an error. Compare results with those under 100 before you use one
            (RV(advice), C(docs/gpu_sharing.md)).
        type: int
      memory_limits:
        description:
          - Memory limit of a client for each device, as V(20G) or V(512M), by UUID, PCI address or index, or V(all) for all others.
          - A device that is not named has no limit.
          - A device that the daemon does not have is refused.
          - Drivers report limits in whole GiB, so the module cannot read back smaller differences.
        type: dict
        default: {}
      priority:
        description: Priority of clients, a hint to the driver. By default it stays as it is.
        type: str
        choices: [normal, below_normal]
      partitions:
        description:
          - Static partitions of the multiprocessors (Ampere and later). Clients choose one by C(CUDA_MPS_SM_PARTITION)
            (RV(daemons[].client_environment)). On protocol 2 it excludes O(daemons[].active_thread_percentage), which would be ignored.
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
          - Groups of clients with limits of their own (protocol 3, experimental). The defaults are the limits of the daemon.
          - MPS itself would give a namespace without limits the whole GPU.
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
          - Expected number of clients. It is used for RV(advice), and refused if MPS does not support as many.
        type: int
      protocol:
        description:
          - V(auto) takes V(3) with driver 615 and later (experimental), otherwise V(2).
        type: str
        choices: [auto, "2", "3"]
        default: auto
  hard_limits:
    description:
      - Memory limits that the kernel enforces, by control group (experimental; driver 615 and later, no MIG). They were tested with a
        fake driver only.
      - They last as long as the control group, at most until the next reboot.
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
        description: Reserved memory, as V(8G). Set V(0M) before the control group is removed.
        type: str
        default: 0M
      hard:
        description: Memory limit, as V(20G).
        type: str
        required: true
  when_clients:
    description:
      - The action when a stop, a restart or a new limit affects clients. V(fail) refuses before the first change.
      - V(drain) waits O(drain_timeout) for clients to end, then ends their work with C(terminate_client), and then makes the change.
      - V(defer) makes the changes that do not affect clients, and reports the others in RV(pending).
    type: str
    choices: [fail, drain, defer]
    default: fail
  drain_timeout:
    description: Seconds to wait with V(when_clients=drain).
    type: int
    default: 60
  verify:
    description: Prove each started daemon with a client. It opens a context on each device, which needs some hundred MiB for a second.
    type: bool
    default: true
  manager:
    description: V(auto) means V(systemd) if it runs, otherwise V(none). With V(none) nothing starts the daemon at boot.
    type: str
    choices: [auto, systemd, none]
    default: auto
  pipe_root:
    description: Parent of the pipe directories, with systemd below C(/run). The path of a socket has at most 107 bytes.
    type: path
    default: /run/nvidia-mps
  log_root:
    description: Parent of the log directories, with systemd below C(/var/log).
    type: path
    default: /var/log/nvidia-mps
  config_root:
    description: Directory for scripts and configurations of daemons. It is refused where users other than root may write in it or above it.
    type: path
    default: /etc/nvidia-mps
notes:
  - The module changes no setting of a GPU. M(rigwright.workstation.gpu_mode) sets the compute mode.
seealso:
  - name: Multi-Process Service
    description: NVIDIA's documentation.
    link: https://docs.nvidia.com/deploy/mps/
"""

EXAMPLES = r"""
- name: Run a daemon for each of two teams, so that a fault of one does not affect the other
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

- name: Show the variables of a client of the first daemon
  ansible.builtin.debug:
    msg: "{{ mps.daemons[0].client_environment }}"

- name: Remove a daemon when its clients have ended, after ten minutes at the latest
  rigwright.workstation.gpu_mps:
    when_clients: drain
    drain_timeout: 600
    daemons:
      - name: vision
        state: absent
"""

RETURN = r"""
daemons:
  description: The daemons of the request with their current state.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    state:
      description: V(started), V(stopped), or V(foreign) for a daemon that this module did not start.
      type: str
    protocol:
      description: V(2) or V(3).
      type: int
    actions:
      description: The changes, in check mode the predicted ones.
      type: list
      elements: str
    pending:
      description: The changes that wait until clients have ended.
      type: list
      elements: str
    servers:
      description: Its servers with process id, status (V(ACTIVE), V(INITIALIZING), V(FAULT)) and clients' process ids.
      type: list
      elements: dict
    client_environment:
      description: The variables of a client. C(namespaces) and C(partitions) have values by name.
      type: dict
    verified:
      description: The devices as a client saw them, null without a proof. C(mps) is device attribute 133.
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
  description: The changes of all daemons that wait until clients have ended.
  returned: success
  type: list
  elements: str
  sample: ["vision: active_thread_percentage of server 4711, until its clients 5012 have ended"]
advice:
  description: Warnings about values that are valid but not recommended.
  returned: success
  type: list
  elements: str
  sample: ["vision: NVIDIA advises 50 % for 4 clients, 100 / (0.5 n); it is 25 %"]
hard_limits:
  description: The changes of O(hard_limits), in check mode the predicted ones.
  returned: success
  type: list
  elements: str
refusals:
  description: The problems of the request. Nothing was changed.
  returned: when the request is refused
  type: list
  elements: str
error:
  description:
    - The stable name of the error, such as C(NO_DAEMON), C(SECOND_DAEMON), C(TIMEOUT), C(REFUSED), C(UNREADABLE), C(NOT_PROVEN), or
      NVML's name of an error.
  returned: on failure
  type: str
"""


from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Option, Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import MpsError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.run import read_host, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError


def main() -> None:
    priority: Option = {"type": "str", "choices": ["normal", "below_normal"]}
    partition: Spec = {
        "name": {"type": "str", "required": True},
        "device": {"type": "str", "required": True},
        "chunks": {"type": "int", "required": True},
    }
    namespace: Spec = {
        "name": {"type": "str", "required": True},
        "active_thread_percentage": {"type": "int"},
        "memory_limit": {"type": "str"},
        "priority": priority,
    }
    daemon: Spec = {
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
    hard_limit: Spec = {
        "slice": {"type": "str", "required": True},
        "device": {"type": "str", "required": True},
        "soft": {"type": "str", "default": "0M"},
        "hard": {"type": "str", "required": True},
    }
    module = HostModule(
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
