# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the host for the plan of the firewall: tables, units, interfaces, and a trial of the new rules."""

from __future__ import annotations

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

from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import (
    apply,
    bridges,
    checks,
    findings,
    others,
    plan,
    table,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.firewall_options import FirewallOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import connection
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.facts import ancestors
from ansible_collections.rigwright.workstation.plugins.module_utils._system import systemd
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_listeners

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host

OURS = ("rigwright-firewall.service", "rigwright-firewall.path")

UNITS = (*OURS, "ufw.service", "firewalld.service", "docker.service")

# Load the rules in a network namespace of their own, and list the table that results.
TRIAL = 'nft --file "$1" && nft --stateless --json list table inet rigwright'

SIOCGIFADDR = 0x8915


class FirewallPlan(t.TypedDict):
    """The plan, as the tasks of the role take it."""

    requirements: list[Problem]
    rules: str
    installed: bool
    load: bool
    in_force: Finding
    findings: list[Finding]


def plan_for(host: Host, tree: Tree, params: FirewallOptions) -> FirewallPlan:
    """Return the plan for the variables of the role, with its problems and findings."""
    request = table.Request(
        params["ssh_networks"],
        params["ssh_ports"],
        params["allow"],
        params["containers"],
        params["bridges"],
        params["bridges_reach_host"],
        params["log"],
    )
    # Some kernels lack nft_socket, which the first text needs.
    texts = [""] if table.problems(request) else [table.text(request), table.text(request, older=False)]
    text, facts = Reader(host, tree).facts(request, texts)
    return {
        "requirements": [*checks.wait_problems(params["confirm_seconds"]), *checks.requirements(request, facts)],
        "rules": text,
        "installed": facts.installed,
        "load": plan.must_load(facts),
        "in_force": findings.in_force(facts),
        "findings": findings.findings(facts),
    }


def addresses(names: t.Iterable[str]) -> list[str]:
    """Return the IPv4 addresses of this machine on its bridges."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        for name in names:
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe_socket.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


class Reader:
    """A host, read with files and programs."""

    def __init__(self, host: Host, tree: Tree) -> None:
        self.host, self.tree = host, tree
        self.run = functools.partial(host.run_client, path_prefix=apply.PROGRAMS)
        self.installed = host.get_bin_path("nft") is not None
        self.loader = apply.Loader(self.run, tree)

    def facts(self, request: table.Request, texts: t.Sequence[str]) -> tuple[str, plan.Facts]:
        """Return the first text that the kernel accepts, and the facts with it."""
        ports = ssh.ports(self.tree)
        units = self.units()
        links = self.links()
        named = [name for name in sorted(links) if any(fnmatch.fnmatch(name, pattern) for pattern in request.bridges)]
        tried = [(text, *self.try_out(text, ports)) for text in texts[:1]]
        if tried[0][2]:
            tried += [(text, *self.try_out(text, ports)) for text in texts[1:]]
        # Where the kernel accepts none, the error is in a file that all of them include.
        text, trial, refusal = next((trial for trial in tried if not trial[2]), tried[0])
        dropping, unread = self.dropping(bridges.cards(links))
        low, high = (self.tree.text("/proc/sys/net/ipv4/ip_local_port_range") or "32768 60999").split()
        return text, plan.Facts(
            text=apply.flat(self.tree, text.replace(f'include "{table.SSH}"', table.ssh_text(ports).strip())),
            ssh_ports=ports,
            connection=connection(ancestors(self.tree)),
            listeners=read_listeners(),
            own_addresses=addresses(named) if request.bridges_reach_host else [],
            passing_ports=(int(low), int(high)),
            outside=bridges.outside(links, named),
            unknown_bridges=bridges.unknown(links, named),
            installed=self.installed,
            no_kernel=self.no_kernel(),
            refusal=refusal,
            trial=trial,
            in_force=self.loader.in_force() if self.installed else [],
            unconfirmed=self.tree.exists(apply.UNCONFIRMED),
            program_is_current=self.tree.bytes(apply.PROGRAM) == bundle.bundle(apply.ENTRY),
            confirmed_is_current=self.tree.text(apply.CONFIRMED) in ("", text),
            units_are_up=all(
                units[name]["ActiveState"] == "active"
                and units[name]["UnitFileState"] == "enabled"
                and units[name]["NeedDaemonReload"] == "no"
                for name in OURS
            ),
            others=self.others(units, dropping),
            unread=unread,
            docker_lost=units["docker.service"]["ActiveState"] == "active" and self.docker_lost(),
        )

    def links(self) -> dict[str, bridges.Link]:
        """Read the network interfaces: by ip, or else by the kernel's files, which do not tell a veth from a bond."""
        _rc, out, _err = self.run(["ip", "-json", "-details", "link", "show"])
        with contextlib.suppress(ValueError):
            return bridges.parse(out)
        return bridges.of_directories(
            {
                name: (
                    self.tree.exists(f"/sys/class/net/{name}/device"),
                    self.tree.names(f"/sys/class/net/{name}/brif"),
                )
                for name in self.tree.names("/sys/class/net")
            }
        )

    def units(self) -> dict[str, dict[str, str]]:
        """Read the states of the role's units and of other firewalls."""
        shown = systemd.show(self.host.run_command, UNITS, ("ActiveState", "UnitFileState", "NeedDaemonReload"))
        return {name: {key: values[0] for key, values in properties.items()} for name, properties in shown.items()}

    def no_kernel(self) -> str:
        if not self.installed:
            return ""
        rc, _out, err = self.run(["nft", "list", "tables"])
        return str(err).strip() if rc else ""

    def try_out(self, text: str, ports: t.Sequence[int]) -> tuple[list[t.Any] | None, str]:
        """Return the table that would be in force, or the error of nft."""
        if not self.installed or not text:
            return None, ""
        with tempfile.TemporaryDirectory(prefix="rigwright_firewall_") as folder:
            rules, opened = os.path.join(folder, "rigwright.nft"), os.path.join(folder, "ssh.nft")
            for path, content in ((opened, table.ssh_text(ports)), (rules, text.replace(table.SSH, opened))):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            rc, out, err = self.run(["unshare", "--net", "sh", "-c", TRIAL, "sh", rules])
        if rc == 0:
            return apply.comparable(out), ""
        # Lines before name the include, lines after repeat the wrong one.
        lines = [line for line in str(err).splitlines() if "Error" in line] or [str(err).strip()]
        return None, lines[0] or f"nft ended with {rc}"

    def others(self, units: t.Mapping[str, t.Mapping[str, str]], dropping: t.Iterable[str]) -> list[str]:
        # The unit of ufw is active even where ufw is disabled.
        ufw = units["ufw.service"]["ActiveState"] == "active" and "ENABLED=yes" in self.tree.text("/etc/ufw/ufw.conf")
        firewalld = units["firewalld.service"]["ActiveState"] == "active"
        # The tables of these two are theirs: a port is opened by their own commands.
        tables = [
            name
            for name in dropping
            if not (ufw and name.endswith((" filter (chain INPUT)", "-legacy (chain INPUT)")))
            and not (firewalld and " firewalld " in name)
        ]
        return ["ufw"] * ufw + ["firewalld"] * firewalld + tables

    def dropping(self, cards: t.Collection[str]) -> tuple[list[str], dict[str, str]]:
        """Return other tables that drop what comes in, and what cannot be read, with its remedy."""
        found: list[str] = []
        unread, hidden = {}, []
        if self.installed:
            rc, out, err = self.run(["nft", "--stateless", "--json", "list", "ruleset"])
            try:
                found, hidden = others.dropping(out, cards), others.of_iptables(out)
            except (ValueError, KeyError):
                reason = str(err).strip() or f"status {rc}"
                unread[f"the tables, which nft cannot list ({reason})"] = (
                    "run `nft list ruleset`, and correct what it names"
                )
        places = {f"{kind}tables-nft": others.name_of((kind, "filter", "INPUT")) for kind in hidden}
        for kind in ("ip", "ip6"):
            if "filter" in self.tree.text(f"/proc/net/{kind}_tables_names").split():
                places[f"{kind}tables-legacy"] = f"{kind}tables-legacy (chain INPUT)"
        for program, name in places.items():
            rc, out, _err = self.run([program, "--wait", "--list-rules"])
            if rc:
                unread[f"{name}, whose rules {program} alone can show"] = (
                    f"install iptables, and run `{program} --list-rules INPUT`"
                )
            elif others.iptables_drop(out, cards):
                found = [*dict.fromkeys([*found, name])]
            else:
                found = [each for each in found if each != name]
        return found, unread

    def docker_lost(self) -> bool:
        """Return whether docker's own rules are missing; with `iptables: false` docker makes none."""
        with contextlib.suppress(ValueError):
            if json.loads(self.tree.text("/etc/docker/daemon.json") or "{}").get("iptables") is False:
                return False
        has_iptables = self.host.get_bin_path("iptables") is not None
        commands = [["iptables", "--wait", "--table", "nat", "--list-rules", "DOCKER"]] if has_iptables else []
        commands += [["nft", "list", "table", "ip", "docker-bridges"]] if self.installed else []
        return all(self.run(command)[0] != 0 for command in commands)
