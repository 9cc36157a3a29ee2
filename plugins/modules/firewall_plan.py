#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_plan
short_description: Decide what the table inet rigwright of nftables should be, and what speaks against it
description:
  - Makes the rules that are asked for, tries them with every declaration of C(/etc/nftables.d/rigwright) in a network namespace of their
    own, and compares them with what the kernel has. Changes nothing.
  - Refuses, as RV(requirements), what would lock out sshd or the connection by which Ansible has come.
  - The role P(rigwright.workstation.firewall#role) brings about what it returns.
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
  ssh_networks:
    description:
      - Who may reach sshd. At which ports, its own files say each time the rules are loaded, and O(ssh_ports).
    type: list
    elements: str
    required: true
  ssh_ports:
    description:
      - Further ports of sshd, which its files do not name.
    type: list
    elements: raw
    default: []
  allow:
    description:
      - What no role declares, each with C(port) (a number or a range), C(networks), and perhaps C(protocol) and C(comment).
    type: list
    elements: dict
    default: []
  containers:
    description:
      - Who may reach ports that docker publishes, in the form of O(allow).
    type: list
    elements: dict
    default: []
  bridges:
    description:
      - Interfaces of this machine's containers and virtual machines.
    type: list
    elements: str
    default: []
  bridges_reach_host:
    description:
      - Whether containers and virtual machines reach everything of this machine, or only names and addresses.
    type: bool
    default: true
  log:
    description:
      - Whether what is dropped is logged, at most ten lines a minute.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.firewall_load
"""

EXAMPLES = r"""
- name: Look what a firewall would close
  rigwright.workstation.firewall_plan:
    ssh_networks: [192.168.1.0/24]
  register: planned
"""

RETURN = r"""
requirements:
  description: What is not met, for M(rigwright.workstation.require).
  returned: success
  type: list
  elements: dict
rules:
  description: The content of C(/etc/nftables.d/rigwright.nft); empty where the request is not right.
  returned: success
  type: str
installed:
  description: Whether nft is there.
  returned: success
  type: bool
load:
  description: Whether the kernel has something else than these rules and the declarations.
  returned: success
  type: bool
start:
  description: Whether a unit is not enabled, not active, or known to systemd in an older state.
  returned: success
  type: bool
in_force:
  description: The same as a finding.
  returned: success
  type: dict
findings:
  description: What a person should know, for M(rigwright.workstation.finding).
  returned: success
  type: list
  elements: dict
"""

import contextlib
import fcntl
import fnmatch
import functools
import json
import os
import socket
import struct
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import apply as load
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import checks as plan
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import connection
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_listeners
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_show

ROOT = "/"
OURS = ("rigwright-firewall.service", "rigwright-firewall.path")
ASKED = (*OURS, "ufw.service", "firewalld.service", "docker.service")
# Try the rules where they harm nobody, and tell what the kernel makes of them.
TRIAL = 'nft --file "$1" && nft --stateless --json list table inet rigwright'
SIOCGIFADDR = 0x8915


def ancestors(tree: Tree) -> t.Iterator[tuple[int, dict[str, str]]]:
    """User id and environment of this process, its parent and so on: sudo leaves SSH_CONNECTION behind."""
    pid = os.getpid()
    while pid > 1:
        entries = tree.text(f"/proc/{pid}/environ").split("\0")
        yield 0, dict(entry.split("=", 1) for entry in entries if "=" in entry)
        # The name, in brackets, may hold anything; the parent is the second field after it.
        pid = int((tree.text(f"/proc/{pid}/stat").rpartition(")")[2].split() or ["", "0"])[1])


def addresses(names: t.Iterable[str]) -> list[str]:
    """IPv4 addresses that this machine has on its bridges."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for name in names:
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


def leads_outside(tree: Tree, name: str) -> list[str]:
    """The cards of the machine behind an interface; those of virtual machines and containers have no device."""
    ports = [name, *tree.names(f"/sys/class/net/{name}/brif")]
    return [f"{name} ({port})" for port in ports if tree.exists(f"/sys/class/net/{port}/device")]


class Reader:
    """The host as it is."""

    def __init__(self, module: AnsibleModule, tree: Tree) -> None:
        self.module, self.tree = module, tree
        self.run = functools.partial(module.run_command, path_prefix=load.PROGRAMS)
        self.installed = module.get_bin_path("nft") is not None
        self.loader = load.Loader(self.run, tree)

    def host(self, request: table.Request, texts: t.Sequence[str]) -> tuple[str, plan.Host]:
        """The first of the texts that the kernel takes, and the host with it."""
        ports = ssh.ports(self.tree)
        units = self.units()
        bridges = [
            name
            for name in self.tree.names("/sys/class/net")
            if any(fnmatch.fnmatch(name, one) for one in request.bridges)
        ]
        tried = [(text, *self.try_out(text, ports)) for text in texts[:1]]
        if tried[0][2]:
            tried += [(text, *self.try_out(text, ports)) for text in texts[1:]]
        # Where it takes none, the fault is in what all of them include.
        text, trial, refusal = next((one for one in tried if not one[2]), tried[0])
        low, high = (self.tree.text("/proc/sys/net/ipv4/ip_local_port_range") or "32768 60999").split()
        return text, plan.Host(
            text=load.flat(self.tree, text.replace(f'include "{table.SSH}"', table.ssh_text(ports).strip())),
            ssh_ports=ports,
            connection=connection(ancestors(self.tree)),
            listeners=read_listeners(),
            own_addresses=addresses(bridges) if request.bridges_reach_host else [],
            passing_ports=(int(low), int(high)),
            outside=[one for name in bridges for one in leads_outside(self.tree, name)],
            installed=self.installed,
            no_kernel=self.no_kernel(),
            refusal=refusal,
            trial=trial,
            in_force=self.loader.in_force() if self.installed else [],
            unconfirmed=self.tree.exists(load.UNCONFIRMED),
            program_is_current=self.tree.bytes(load.PROGRAM) == bundle.bundle(load.ENTRY),
            confirmed_is_current=self.tree.text(load.CONFIRMED) in ("", text),
            units_are_up=all(
                units[name]["ActiveState"] == "active"
                and units[name]["UnitFileState"] == "enabled"
                and units[name]["NeedDaemonReload"] == "no"
                for name in OURS
            ),
            others=self.others(units),
            docker_lost=units["docker.service"]["ActiveState"] == "active" and self.docker_lost(),
        )

    def units(self) -> dict[str, dict[str, str]]:
        asked = "--property=Id,Names,ActiveState,UnitFileState,NeedDaemonReload"
        _rc, out, _err = self.run(["systemctl", "show", asked, *ASKED], check_rc=True)
        return {
            name: {key: values[0] for key, values in properties.items()}
            for name, properties in parse_show(out, ASKED).items()
        }

    def no_kernel(self) -> str:
        if not self.installed:
            return ""
        rc, _out, err = self.run(["nft", "list", "tables"])
        return str(err).strip() if rc else ""

    def try_out(self, text: str, ports: t.Sequence[int]) -> tuple[list[t.Any] | None, str]:
        """What the kernel would have, or nft's complaint."""
        if not self.installed or not text:
            return None, ""
        with tempfile.TemporaryDirectory(prefix="rigwright_firewall_") as folder:
            rules, opened = os.path.join(folder, "rigwright.nft"), os.path.join(folder, "ssh.nft")
            for path, content in ((opened, table.ssh_text(ports)), (rules, text.replace(table.SSH, opened))):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            rc, out, err = self.run(["unshare", "--net", "sh", "-c", TRIAL, "sh", rules])
        if rc == 0:
            return load.comparable(out), ""
        # Before it stands by which include nft has come there, after it the line itself.
        lines = [line for line in str(err).splitlines() if "Error" in line] or [str(err).strip()]
        return None, lines[0] or f"nft ended with {rc}"

    def others(self, units: t.Mapping[str, t.Mapping[str, str]]) -> list[str]:
        # The unit of ufw is active also where ufw is off.
        ufw = units["ufw.service"]["ActiveState"] == "active" and "ENABLED=yes" in self.tree.text("/etc/ufw/ufw.conf")
        return ["ufw"] * ufw + ["firewalld"] * (units["firewalld.service"]["ActiveState"] == "active")

    def docker_lost(self) -> bool:
        """Whether the rules that docker made are gone; it has none where it was told to make none."""
        with contextlib.suppress(ValueError):
            if json.loads(self.tree.text("/etc/docker/daemon.json") or "{}").get("iptables") is False:
                return False
        has_iptables = self.module.get_bin_path("iptables") is not None
        asked = [["iptables", "--wait", "--table", "nat", "--list-rules", "DOCKER"]] if has_iptables else []
        asked += [["nft", "list", "table", "ip", "docker-bridges"]] if self.installed else []
        return all(self.run(command)[0] != 0 for command in asked)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ssh_networks": {"type": "list", "elements": "str", "required": True},
            "ssh_ports": {"type": "list", "elements": "raw", "default": []},
            "allow": {"type": "list", "elements": "dict", "default": []},
            "containers": {"type": "list", "elements": "dict", "default": []},
            "bridges": {"type": "list", "elements": "str", "default": []},
            "bridges_reach_host": {"type": "bool", "default": True},
            "log": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    request = table.Request(**module.params)
    # Not every kernel has what the first of them asks for.
    texts = [""] if table.problems(request) else [table.text(request), table.text(request, older=False)]
    text, host = Reader(module, Tree(ROOT)).host(request, texts)
    module.exit_json(
        changed=False,
        requirements=plan.requirements(request, host),
        rules=text,
        installed=host.installed,
        load=plan.must_load(host),
        start=not host.units_are_up,
        in_force=plan.in_force(host),
        findings=plan.findings(host),
    )


if __name__ == "__main__":
    main()
