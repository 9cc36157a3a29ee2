#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_plan
short_description: Plan docker on a host, so that what runs keeps running
description:
  - Reads what is on the host (packages, C(daemon.json), disks, the running docker and its containers) and returns what the role
    C(docker) has to do, and why it may not. Changes nothing itself.
  - C(daemon.json) is the deep merge of what the host has of its own, what the options below say, O(daemon_options), and the parts that
    other roles have put into C(/var/lib/rigwright_docker/parts). What a person or a program changes in it later counts as the host's own.
  - dockerd itself is asked whether it takes the result. From docker 23 on by C(dockerd --validate), and an older one by starting it as a
    user who may not, which it says only after it has read its options.
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
      - V(absent) plans to give back what the role brought.
    type: str
    choices: [present, absent]
    default: present
  edition:
    description:
      - The distribution's V(docker.io) or Docker's V(docker-ce). V(auto) takes what is there, and else V(docker.io).
    type: str
    choices: [auto, docker.io, docker-ce]
    default: auto
  version:
    description:
      - Beginning of the version to keep to, such as V(28.5). Empty takes what there is.
    type: str
    default: ""
  hold:
    description:
      - Whether the packages are kept from being upgraded.
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
        description: Full fingerprints of the keys that the file has to hold, and no others.
        type: list
        elements: str
      suite:
        description: Codename of the distribution.
        type: str
      architecture:
        description: apt's name of the machine.
        type: str
  users:
    description:
      - Users that become members of the group C(docker), which makes them as good as root.
    type: list
    elements: str
    default: []
  data_root:
    description:
      - Where docker keeps its data. Empty leaves it where it is.
    type: str
    default: ""
  containerd_root:
    description:
      - Where containerd keeps its data. Empty takes the directory C(containerd) beside O(data_root), if that is given.
    type: str
    default: ""
  free_bytes:
    description:
      - Room that a new place for data needs, in bytes.
    type: int
    default: 5368709120
  log_driver:
    description:
      - Log driver of containers. Empty leaves it as it is.
    type: str
    default: local
  log_max_size:
    description:
      - Size at which a container's log begins a new file, for the drivers V(local) and V(json-file).
    type: str
    default: 50m
  log_max_files:
    description:
      - How many files a container's log has.
    type: int
    default: 5
  live_restore:
    description:
      - Whether containers keep running while docker is stopped.
    type: bool
    default: true
  bind_ip:
    description:
      - Address that published ports listen on where none is given.
    type: str
    default: 127.0.0.1
  address_pools:
    description:
      - Where docker takes the addresses of its networks from.
    type: list
    elements: dict
    default: []
    suboptions:
      base:
        description: Network that is cut into smaller ones.
        type: str
        required: true
      size:
        description: Prefix length of these.
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
      - Size of C(/dev/shm) in containers that ask for none.
    type: str
    default: 1g
  daemon_options:
    description:
      - Further options of C(daemon.json).
    type: dict
    default: {}
  coming_parts:
    description:
      - Parts of other roles as this run leaves them, by the name of the role; an empty one goes. Only check mode needs it, since there they
        are not what lies in C(/var/lib/rigwright_docker/parts).
    type: dict
    default: {}
  allow_disruption:
    description:
      - Whether docker may be restarted where containers would end, or lose their GPU, and stored data be left behind.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
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
  description: What is not as it has to be, as M(rigwright.workstation.require) takes it. With any, the plan is refused.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: docker_data_root, problem: "is /data/docker, on /data, which is read-only", remedy: "mount ..."}]
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{id: docker.group, status: warn, evidence: "without a password these are as good as root: alice", remedy: "keep ..."}]
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
  description: Packages to take off hold, which the role had put there.
  returned: success
  type: list
  elements: str
  sample: []
repository:
  description: Docker's repository, if it is needed and the host does not have it by itself.
  returned: success
  type: dict
  sample: {}
key:
  description: The keys of its key file as one armor block, if it holds the right keys and nothing else.
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
  description: Whether any of them is not as it should be.
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
    - The same files without options that are gone. In RV(files) these stand as nothing, since dockerd keeps on a reload what it no longer
      finds. Empty when there are none.
  returned: success
  type: list
  elements: dict
  sample: []
groups:
  description: The group docker with its members, as M(rigwright.workstation.group_members) takes it. Empty when it is as it should be.
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
  description: Whether daemon.json is for root alone, because it is so already or has a password.
  returned: always
  type: bool
restart_waits:
  description: Why a restart, if one is due, is not done. Empty when it may be done.
  returned: success
  type: str
  sample: "containers use a GPU: train"
options:
  description: What C(daemon.json) is to say.
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
