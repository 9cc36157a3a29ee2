#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_plan
short_description: Plan Samba on a host, and refuse unsafe requests
description:
  - Reads what is on the host (packages, users, disks, Samba's modules and its database), and returns what the role C(samba) has to do, and
    why it may not. Changes nothing itself.
  - Samba's own C(testparm) is asked for the configuration to come, and not only for its exit status, as it lets pass what it does not know.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - A directory that is missing is no reason to refuse there, as an earlier role may be about to make it.
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans to restore what the role changed.
    type: str
    choices: [present, absent]
    default: present
  workgroup:
    description:
      - The workgroup under which Windows shows the host.
    type: str
    default: WORKGROUP
  server_string:
    description:
      - Description of the host that clients show.
    type: str
    default: ""
  min_protocol:
    description:
      - The oldest protocol that is served, from V(SMB2_10) to V(SMB3_11).
    type: str
    default: SMB3_11
  encrypt:
    description:
      - V(required) refuses clients that do not encrypt, V(desired) encrypts with those that can, V(default) with those that ask for it.
    type: str
    choices: [default, desired, required]
    default: desired
  port:
    description:
      - TCP port of the server.
    type: int
    default: 445
  networks:
    description:
      - Allowed client networks, in addition to the host itself.
    type: list
    elements: str
    default: []
  allowed_roots:
    description:
      - Directories that may contain shares.
    type: list
    elements: str
    default: [/data, /srv, /home, /mnt, /media, /scratch]
  users:
    description:
      - The users of M(rigwright.workstation.samba_users) as JSON. In one text, since Ansible would take a password out of every result
        that has the same letters.
    type: json
    default: "[]"
  shares:
    description:
      - The shares.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      path:
        description: Its directory.
        type: str
        required: true
      comment:
        description: Comment that clients show.
        type: str
        default: ""
      valid_users:
        description: Users, and groups with V(@) before them, who are let in. Empty lets in all users of O(users).
        type: list
        elements: str
        default: []
      write_list:
        description: Those who may write although it is read-only.
        type: list
        elements: str
        default: []
      read_only:
        description: Whether nobody else writes.
        type: bool
        default: true
      browseable:
        description: Whether clients see it in the list of shares.
        type: bool
        default: true
      guest_ok:
        description: Whether it is open to guests, which is refused.
        type: bool
        default: false
      owner:
        description: Owner of the directory.
        type: str
      group:
        description: Group of the directory and of what is put there.
        type: str
      mode:
        description: Mode of the directory in octal digits; new files and directories take their rights from it.
        type: raw
      default_acl:
        description: Whether these rights hold for what is made there without Samba, too.
        type: bool
        default: false
      encrypt:
        description: As O(encrypt), for this share.
        type: str
        choices: [default, desired, required]
      mount:
        description: Where its disk is mounted. V(auto) finds out, V(none) needs none.
        type: str
        default: auto
      time_machine:
        description: Whether Macs may put their backups there.
        type: bool
        default: false
      max_size:
        description: What these may take, such as V(2T).
        type: str
        default: ""
      vfs_objects:
        description: VFS modules.
        type: list
        elements: str
        default: []
      options:
        description: Any other parameter of smb.conf(5).
        type: dict
        default: {}
  global_options:
    description:
      - Any other parameter of the server.
    type: dict
    default: {}
  macos:
    description:
      - Whether Macs are served as such.
    type: bool
    default: false
  discovery:
    description:
      - Whether Windows finds the host. V(auto) is V(wsdd) as soon as O(networks) names one.
    type: str
    choices: [auto, wsdd, none]
    default: auto
  packages:
    description:
      - The packages on this platform by what they are for, C(server), C(windows), C(macos) and C(hashes).
    type: dict
    required: true
  discovery_unit:
    description:
      - The unit that answers Windows on this platform.
    type: str
    default: wsdd2.service
  allow_disruption:
    description:
      - Whether smbd may be restarted while clients are connected.
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
  - module: rigwright.workstation.samba_users
  - module: rigwright.workstation.samba_directories
"""

EXAMPLES = r"""
- name: Plan a share
  rigwright.workstation.samba_plan:
    packages: {server: [samba], windows: [wsdd2], macos: [avahi-daemon], hashes: [python3-samba]}
    users: "{{ samba_users | to_json }}"
    shares:
      - {name: datasets, path: /data/datasets, valid_users: ["@ml"]}
  register: plan

- name: Refuse a share outside of the disks of data
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
installed:
  description: Whether Samba is installed.
  returned: success
  type: bool
requirements:
  description: Problems of the request, as M(rigwright.workstation.require) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: samba_shares (all), problem: "shares / where the system itself lies", remedy: "share ..."}]
findings:
  description: Findings, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{id: samba.disks, status: pass, evidence: "every share on a disk has it", remedy: "mount ..."}]
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [samba]
before:
  description: What the host was before the role, as the content of a file.
  returned: success
  type: str
  sample: '{"installed": false, "units": {}}'
before_due:
  description: Whether that file is still to be written.
  returned: success
  type: bool
smb_conf:
  description: The configuration, without its first comment.
  returned: success
  type: str
listen:
  description: The part of it that smbd reads only when it starts.
  returned: success
  type: str
ports:
  description: The ports of the network that are in use, as P(rigwright.workstation.firewall_rules#filter) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{port: 445, protocol: tcp}]
interfaces:
  description: The network interfaces with addresses in O(networks).
  returned: success
  type: list
  elements: str
  sample: [eth0]
windows:
  description: Whether the host is announced to Windows.
  returned: success
  type: bool
macos:
  description: Whether it is announced to Macs.
  returned: success
  type: bool
units:
  description: What M(rigwright.workstation.systemd_units) has to bring about; with O(state=absent), once the files are restored.
  returned: success
  type: list
  elements: dict
  sample: [{name: smbd.service, enabled: true, reload_on: [/etc/samba/smb.conf]}]
stop:
  description: Units that end, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: nmbd.service, state: stopped, enabled: false}]
connected:
  description: Addresses of the clients that are connected.
  returned: success
  type: list
  elements: str
  sample: [192.168.1.20]
directories:
  description: What M(rigwright.workstation.samba_directories) has to bring about.
  returned: success
  type: list
  elements: dict
  sample: [{path: /data/datasets, group: ml, mode: "2775", default_acl: true, mount: /data}]
directories_due:
  description: Whether M(rigwright.workstation.samba_directories) has changes to make.
  returned: success
  type: bool
users_due:
  description: Whether M(rigwright.workstation.samba_users) has changes to make.
  returned: success
  type: bool
mounts:
  description: Where disks have to be mounted, by the path of the share.
  returned: success
  type: dict
  sample: {/data/datasets: /data}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.plan import Planner


def main() -> None:
    grade = {"type": "str", "choices": ["default", "desired", "required"]}
    text = {"type": "str", "default": ""}
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "workgroup": {"type": "str", "default": "WORKGROUP"},
            "server_string": text,
            "min_protocol": {"type": "str", "default": "SMB3_11"},
            "encrypt": {**grade, "default": "desired"},
            "port": {"type": "int", "default": 445},
            "networks": names,
            "allowed_roots": {**names, "default": ["/data", "/srv", "/home", "/mnt", "/media", "/scratch"]},
            "users": {"type": "json", "default": "[]", "no_log": True},
            "shares": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "path": {"type": "str", "required": True},
                    "comment": text,
                    "valid_users": names,
                    "write_list": names,
                    "read_only": {"type": "bool", "default": True},
                    "browseable": {"type": "bool", "default": True},
                    "guest_ok": {"type": "bool", "default": False},
                    "owner": {"type": "str"},
                    "group": {"type": "str"},
                    "mode": {"type": "raw"},
                    "default_acl": {"type": "bool", "default": False},
                    "encrypt": grade,
                    "mount": {"type": "str", "default": "auto"},
                    "time_machine": {"type": "bool", "default": False},
                    "max_size": text,
                    "vfs_objects": names,
                    "options": {"type": "dict", "default": {}},
                },
            },
            "global_options": {"type": "dict", "default": {}},
            "macos": {"type": "bool", "default": False},
            "discovery": {"type": "str", "choices": ["auto", "wsdd", "none"], "default": "auto"},
            "packages": {"type": "dict", "required": True},
            "discovery_unit": {"type": "str", "default": "wsdd2.service"},
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="samba_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **Planner(module).run())


if __name__ == "__main__":
    main()
