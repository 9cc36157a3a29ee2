#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_plan
short_description: Plan docker on a host, so that what runs keeps running
description:
  - Reads the host (packages, C(daemon.json), disks, the running docker and its containers) and returns what the role
    C(docker) has to do, and the problems that forbid it. The module changes nothing itself.
  - C(daemon.json) is the deep merge of the host's own options, the options below, O(daemon_options), and the parts that other roles have
    put into C(/var/lib/rigwright_docker/parts). Later changes by a user or a program count as the host's own options.
  - dockerd itself validates the result. Docker 23 and newer have C(dockerd --validate). The module starts an older one as an unprivileged
    user, which dockerd refuses only after it has read its options.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(present) plans to install and configure docker, V(absent) to restore what the role changed.
    type: str
    choices: [present, absent]
    default: present
  edition:
    description:
      - The distribution's V(docker.io) or Docker's V(docker-ce). V(auto) is the installed one, and else V(docker.io).
    type: str
    choices: [auto, docker.io, docker-ce]
    default: auto
  version:
    description:
      - Beginning of the version to install and pin, such as V(28.5). Empty takes any version.
    type: str
    default: ""
  hold:
    description:
      - Whether the packages are held at their version.
    type: bool
    default: false
  packages:
    description:
      - The packages of each edition on this platform.
    type: dict
    required: true
  repository:
    description:
      - Docker's repository for this platform.
    type: dict
    default: {}
    suboptions:
      url:
        description: Address of the repository.
        type: str
      key_url:
        description: Address of its key.
        type: str
      fingerprints:
        description: Full fingerprints of the keys in this file. Other keys are refused.
        type: list
        elements: str
      suite:
        description: Codename of the distribution.
        type: str
      architecture:
        description: Architecture as apt names it.
        type: str
  users:
    description:
      - Users to add to the group C(docker). Its members can become root.
    type: list
    elements: str
    default: []
  data_root:
    description:
      - Directory of docker's data. Empty leaves it where it is.
    type: str
    default: ""
  containerd_root:
    description:
      - Directory of containerd's data. Empty takes C(containerd) next to O(data_root), if that is set.
    type: str
    default: ""
  free_bytes:
    description:
      - Free space that a new directory for data needs, in bytes.
    type: int
    default: 5368709120
  log_driver:
    description:
      - Log driver of containers. Empty keeps the host's own.
    type: str
    default: local
  log_max_size:
    description:
      - Maximum size of a log file, for the drivers V(local) and V(json-file).
    type: str
    default: 50m
  log_max_files:
    description:
      - Number of log files of each container.
    type: int
    default: 5
  live_restore:
    description:
      - Whether containers keep running while docker is stopped.
    type: bool
    default: true
  bind_ip:
    description:
      - Address of published ports that name none.
    type: str
    default: 127.0.0.1
  address_pools:
    description:
      - Networks from which docker takes the addresses of its own networks.
    type: list
    elements: dict
    default: []
    suboptions:
      base:
        description: Network to divide into smaller ones.
        type: str
        required: true
      size:
        description: Prefix length of the smaller ones.
        type: int
        required: true
  registry_mirrors:
    description:
      - Mirrors of Docker Hub.
    type: list
    elements: str
    default: []
  shm_size:
    description:
      - Default size of C(/dev/shm) in containers.
    type: str
    default: 1g
  daemon_options:
    description:
      - Further options of C(daemon.json).
    type: dict
    default: {}
  coming_parts:
    description:
      - Parts of other roles after this run, by the name of the role. An empty part is removed.
      - Only check mode needs it, since there C(/var/lib/rigwright_docker/parts) has the parts from before the run.
    type: dict
    default: {}
  allow_disruption:
    description:
      - Whether a restart of docker may end containers or take their GPU away, and stored data may be left behind.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have created. It counts as existing (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.systemd_units
  - module: rigwright.workstation.repository_key
"""

EXAMPLES = r"""
- name: Plan docker with its data on another disk
  rigwright.workstation.docker_plan:
    packages: {docker.io: [docker.io], docker-ce: [docker-ce, docker-ce-cli, containerd.io]}
    data_root: /data/docker
  register: plan

- name: Refuse a disk that is full or read-only
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
edition:
  description: The edition.
  returned: success
  type: str
  sample: docker.io
installed:
  description: Whether it is installed.
  returned: success
  type: bool
requirements:
  description: Problems that forbid the plan, as M(rigwright.workstation.require) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: docker_data_root, problem: "is /data/docker, on /data, which is read-only", remedy: "mount ..."}]
findings:
  description: Findings, as M(rigwright.workstation.finding) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{id: docker.group, status: warn, evidence: "members of the group docker: alice", remedy: "keep ..."}]
install:
  description: Packages to install, as C(apt) takes them.
  returned: success
  type: list
  elements: str
  sample: [docker.io, docker-cli]
hold:
  description: Packages to put on hold.
  returned: success
  type: list
  elements: str
  sample: []
unhold:
  description: Packages to release from a hold of the role.
  returned: success
  type: list
  elements: str
  sample: []
repository:
  description: Docker's repository, if it is needed and the host does not have it yet.
  returned: success
  type: dict
  sample: {}
key:
  description: The keys in its key file as one armor block. Empty if the file is missing or has other keys.
  returned: success
  type: str
  sample: ""
package_files:
  description: Files that have to be in place before the packages, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/apt/preferences.d/rigwright-docker, content: "Package: ..."}]
package_files_due:
  description: Whether any of these files is missing or differs.
  returned: success
  type: bool
directories:
  description: The directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/docker}]
files:
  description: The configuration files.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/docker/daemon.json, content: "{...}"}]
files_afterwards:
  description:
    - The same files without removed options. In RV(files) these have neutral values, since dockerd keeps a removed option on a reload.
      Empty when no option is removed.
  returned: success
  type: list
  elements: dict
  sample: []
groups:
  description: The group docker with its members, as M(rigwright.workstation.group_members) takes it. Empty when nothing has to change.
  returned: success
  type: list
  elements: dict
  sample: [{name: docker, system: true, members: [alice], append: false}]
units:
  description: The units, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: docker.service, restart_on: [/var/lib/rigwright_docker/restart.json], reload_on: [/etc/docker/daemon.json]}]
secret:
  description: Whether only root may read daemon.json, because it is so already or has a password.
  returned: always
  type: bool
restart_waits:
  description: Why a restart of docker has to wait. Empty when docker may be restarted.
  returned: success
  type: str
  sample: "containers use a GPU: train"
options:
  description: The options of C(daemon.json).
  returned: success
  type: dict
  sample: {live-restore: true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES


def main() -> None:
    pool = {"base": {"type": "str", "required": True}, "size": {"type": "int", "required": True}}
    repository = {
        "url": {"type": "str"},
        "key_url": {"type": "str", "no_log": False},
        "fingerprints": {"type": "list", "elements": "str"},
        "suite": {"type": "str"},
        "architecture": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "edition": {
                "type": "str",
                "choices": [model.AUTO, model.ARCHIVE, model.DOCKER_CE],
                "default": model.AUTO,
            },
            "version": {"type": "str", "default": ""},
            "hold": {"type": "bool", "default": False},
            "packages": {"type": "dict", "required": True},
            "repository": {"type": "dict", "default": {}, "options": repository},
            "users": {"type": "list", "elements": "str", "default": []},
            "data_root": {"type": "str", "default": ""},
            "containerd_root": {"type": "str", "default": ""},
            "free_bytes": {"type": "int", "default": 5368709120},
            "log_driver": {"type": "str", "default": "local"},
            "log_max_size": {"type": "str", "default": "50m"},
            "log_max_files": {"type": "int", "default": 5},
            "live_restore": {"type": "bool", "default": True},
            "bind_ip": {"type": "str", "default": "127.0.0.1"},
            "address_pools": {"type": "list", "elements": "dict", "default": [], "options": pool},
            "registry_mirrors": {"type": "list", "elements": "str", "default": []},
            "shm_size": {"type": "str", "default": "1g"},
            "daemon_options": {"type": "dict", "default": {}},
            "coming_parts": {"type": "dict", "default": {}},
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = {**module.params, "planned": module.params["planned"] if module.check_mode else {}}
    module.exit_json(changed=False, **run(params, module.run_command, RULES))


if __name__ == "__main__":
    main()
