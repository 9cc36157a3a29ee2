#!/usr/bin/python

# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_facts
short_description: Gather listening sockets, free space, the distribution and the version of systemd
description:
  - Gathers in one module run the facts that the roles of this collection need, those of M(ansible.builtin.setup) among them.
  - Reads C(/proc) and C(/sys) and starts no program but C(systemctl --version).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.attributes.facts
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  paths:
    description:
      - Report the free space for these paths. A path that does not exist counts for the directory that would hold it.
    type: list
    elements: path
    default: [/, /var, /opt, /etc]
  setup:
    description:
      - Whether to gather what M(ansible.builtin.setup) returns for its subsets C(distribution), C(platform) and C(service_mgr), too.
        A play that has gathered its facts does not need it.
    type: bool
    default: true
notes:
  - Run it as root. Another user cannot see to which process a socket belongs.
seealso:
  - module: ansible.builtin.setup
"""

EXAMPLES = r"""
- name: Gather who listens
  rigwright.workstation.host_facts:

- name: Refuse a port that another service has
  ansible.builtin.assert:
    that: ansible_facts['rigwright']['listeners'] | selectattr('port', 'eq', 7000) | rejectattr('unit', 'eq', 'frps.service') | length == 0
"""

RETURN = r"""
ansible_facts:
  description: The facts.
  returned: always
  type: dict
  contains:
    rigwright:
      description: The facts of this collection.
      returned: always
      type: dict
      contains:
        listeners:
          description: Listening TCP sockets and unconnected UDP sockets, sorted by protocol and port.
          returned: always
          type: list
          elements: dict
          sample:
            - {protocol: tcp, address: "0.0.0.0", port: 22, process: sshd, pid: 612, unit: ssh.service}
          contains:
            protocol:
              description: V(tcp) or V(udp).
              type: str
            address:
              description: The address, for example V(127.0.0.1), V(0.0.0.0) or V(::).
              type: str
            port:
              description: The port.
              type: int
            process:
              description: The name of the process, or null where it cannot be seen.
              type: str
            pid:
              description: The id of the process, or null where it cannot be seen.
              type: int
            unit:
              description:
                - The unit of this machine that holds the process, or null outside of any, such as in a container.
                  A service of a user is in C(user@1000.service).
              type: str
        free_bytes:
          description: For each of O(paths) the bytes that an unprivileged user may still write.
          returned: always
          type: dict
          sample: {"/": 52818759680}
        uid:
          description: User id that modules run as.
          returned: always
          type: int
          sample: 0
        nvidia_gpus:
          description: PCI addresses of NVIDIA's display controllers, with and without a driver.
          returned: always
          type: list
          elements: str
          sample: ["0000:01:00.0"]
        users:
          description: The accounts of this host, and the comment of each, with question marks for what cannot be printed.
          returned: always
          type: dict
          sample: {root: root, frpc: frp client of rigwright.workstation}
        managed:
          description: Names of the sets of M(rigwright.workstation.config_files) on this host. Empty unless the module runs as root.
          returned: always
          type: list
          elements: str
          sample: [frp_client, ssh]
        package_lists:
          description: Whether apt has lists of packages. Images often come without, and with a directory for them that is young.
          returned: always
          type: bool
          sample: true
        systemd:
          description: The service manager.
          returned: always
          type: dict
          contains:
            running:
              description: Whether systemd is the service manager of this host.
              type: bool
            version:
              description: The version of systemd, V(0) where it is not installed.
              type: int
          sample: {running: true, version: 252}
"""

import os
import pwd
import re

from ansible.module_utils.facts.namespace import PrefixFactNamespace
from ansible.module_utils.facts.system.distribution import DistributionFactCollector
from ansible.module_utils.facts.system.platform import PlatformFactCollector
from ansible.module_utils.facts.system.service_mgr import ServiceMgrFactCollector
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import sets_in_place
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_listeners
from ansible_collections.rigwright.workstation.plugins.module_utils._system.pci import DISPLAY, nvidia_devices

ROOT = "/"


def free_bytes(path: str) -> int:
    """Return the bytes that an unprivileged user may write at the path, or where it would be created."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize


def package_lists() -> bool:
    """Return True if apt knows any package that can be installed."""
    lists = os.path.join(ROOT, "var/lib/apt/lists")
    return os.path.isdir(lists) and any("_Packages" in name for name in os.listdir(lists))


def systemd_version(module: HostModule) -> int:
    systemctl = module.get_bin_path("systemctl")
    if systemctl is None:
        return 0
    _rc, out, _err = module.run_command([systemctl, "--version"], check_rc=True)
    found = re.match(r"systemd (\d+)", out)
    return int(found.group(1)) if found else 0


def users() -> dict[str, str]:
    """Return the comment of each account. Everybody may change their own (chfn), in any encoding."""
    found: dict[str, str] = {}
    for account in pwd.getpwall():
        # Of a name in several sources, such as files and LDAP, the host takes the first.
        found.setdefault(shown(account.pw_name), shown(account.pw_gecos))
    return found


def facts_of_setup(module: HostModule) -> JsonObject:
    """Return facts as ansible.builtin.setup names them. Each collector reads what those before it found."""
    namespace = PrefixFactNamespace("ansible", "ansible_")
    facts: JsonObject = {}
    for collector in (PlatformFactCollector, DistributionFactCollector, ServiceMgrFactCollector):
        facts.update(collector(namespace=namespace).collect_with_namespace(module=module, collected_facts=facts))
    return facts


def main() -> None:
    module = HostModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "default": ["/", "/var", "/opt", "/etc"]},
            "setup": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    relative = [path for path in module.params["paths"] if not os.path.isabs(path)]
    if relative:
        module.fail_json(
            msg=f"paths must be absolute, and {', '.join(relative)} is not. Set `paths` to paths that begin with /."
        )
    facts = {
        "listeners": read_listeners(),
        "free_bytes": {path: free_bytes(path) for path in module.params["paths"]},
        "nvidia_gpus": nvidia_devices(Tree(ROOT), DISPLAY),
        "uid": os.geteuid(),
        "users": users(),
        "managed": sets_in_place() if os.geteuid() == 0 else [],
        "package_lists": package_lists(),
        "systemd": {"running": os.path.isdir("/run/systemd/system"), "version": systemd_version(module)},
    }
    more = facts_of_setup(module) if module.params["setup"] else {}
    module.exit_json(changed=False, ansible_facts={**more, "rigwright": facts})


if __name__ == "__main__":
    main()
