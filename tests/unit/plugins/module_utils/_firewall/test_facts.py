# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host below a temporary root, and the plan and the findings from them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import facts, table
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import firewall as firewall_role

from tests.unit.support.plan import run_plan, run_role

Run = Callable[..., dict[str, Any]]
TABLE = json.dumps({"nftables": [{"table": {"name": "rigwright"}}]})


class Host:
    """A fake host: its programs and their answers. nft is installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs = {"nft"}
        self.units: dict[str, str] = {}
        self.answers: dict[str, tuple[int, str, str]] = {}
        self.trials: list[str] = []
        self.without_sockets = False
        self.absent: set[str] = set()

    def write(self, path: str, text: str = "") -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run_command(self, command: list[str], handle_exceptions: bool = True) -> tuple[int, str, str]:
        line = " ".join(command)
        if command[0] in self.absent:
            assert not handle_exceptions, f"{command[0]} is missing, which ends the module"
            raise FileNotFoundError(2, "No such file or directory")
        if command[0] == "systemctl":
            return 0, "\n".join(self.unit(name) for name in command[3:]), ""
        if command[0] == "unshare":
            self.trials.append(Path(command[-1]).read_text())
            if self.without_sockets and "socket wildcard" in self.trials[-1]:
                return 1, "", "Error: Could not process rule: No such file or directory\n"
            return self.answers.get("trial", (0, TABLE, ""))
        if "--json" in command:
            return self.answers.get("in force", (0, TABLE, ""))
        return self.answers.get(line, (0, "", ""))

    def unit(self, name: str) -> str:
        active = self.units.get(name, "inactive")
        enabled = "enabled" if active == "active" else ""
        return f"Id={name}\nNames={name}\nActiveState={active}\nUnitFileState={enabled}\nNeedDaemonReload=no\n"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(firewall_role, "ROOT", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(facts, "read_listeners", list)
    monkeypatch.setattr(
        AnsibleModule,
        "run_command",
        lambda _self, command, **options: found.run_command(command, options.get("handle_exceptions", True)),
    )
    monkeypatch.setattr(
        AnsibleModule, "get_bin_path", lambda _self, name, *_rest, **_options: name if name in found.programs else None
    )
    return found


@pytest.fixture
def planned(run_module: Run, host: Host) -> Run:
    def run(**params: Any) -> dict[str, Any]:
        result = run_plan(run_module, firewall_role, {}, **{"bridges": ["br-*"], **params})
        assert result["changed"] is False
        return result

    return run


def warned(result: dict[str, Any]) -> list[str]:
    return [row["id"] for row in result["findings"] if row["status"] == "warn"]


def test_a_configured_host_needs_no_load(planned: Run, host: Host) -> None:
    host.units = dict.fromkeys(facts.OURS, "active")
    program = host.root / "usr/local/lib/rigwright/firewall.pyz"
    program.parent.mkdir(parents=True)
    program.write_bytes(bundle.bundle("_firewall.apply"))

    result = planned()

    assert (result["load"], result["requirements"]) == (False, [])
    assert result["in_force"]["status"] == "pass"


def test_units_that_do_not_run_are_found(planned: Run, host: Host) -> None:
    assert "is not enabled and active" in planned()["in_force"]["evidence"]


def test_all_findings_are_verified(planned: Run, run_module: Run, host: Host) -> None:
    wanted = {name: planned()[name] for name in ("in_force", "findings")}

    found = run_role(
        run_module, firewall_role, {"confirm_seconds": 5, **table.Request(bridges=["br-*"])._asdict()}, kind="verify"
    )

    *rest, request = found["findings"]
    assert rest == [wanted["in_force"], *wanted["findings"]]
    assert (request["id"], request["status"]) == ("firewall.request", "fail")
    assert request["evidence"].startswith("firewall_confirm_seconds is not between 10 and 600")


def test_a_fresh_host_without_nft_gets_the_rules(planned: Run, host: Host) -> None:
    host.programs.clear()
    result = planned()
    assert (result["installed"], result["load"]) == (False, True)
    assert result["requirements"] == []
    assert "table inet rigwright" in result["rules"]


def test_the_trial_does_not_use_the_files_in_force(planned: Run, host: Host) -> None:
    planned()
    (trial,) = host.trials
    assert "/run/rigwright-firewall" not in trial
    assert 'include "/etc/nftables.d/rigwright/*.nft"' in trial


def test_a_kernel_without_sockets_gets_rules_without_them(planned: Run, host: Host) -> None:
    assert "socket wildcard" in planned()["rules"]
    host.without_sockets = True
    result = planned()
    assert "socket wildcard" not in result["rules"]
    assert result["requirements"] == []


def test_a_declaration_that_nft_refuses_is_named(planned: Run, host: Host) -> None:
    complaint = (
        "In file included from /tmp/x:1:\n/etc/nftables.d/rigwright/a.nft:1:1-3: Error: syntax error\nfoo\n^^^\n"
    )
    host.answers["trial"] = (1, "", complaint)
    (row,) = planned()["requirements"]
    assert "/etc/nftables.d/rigwright/a.nft:1:1-3: Error: syntax error" in row["problem"]


def test_a_kernel_without_nftables_is_refused(planned: Run, host: Host) -> None:
    host.answers["nft list tables"] = (1, "", "Unable to initialize Netlink socket: Protocol not supported\n")
    (row,) = planned()["requirements"]
    assert "Protocol not supported" in row["problem"]


def test_a_bad_request_is_not_tried(planned: Run, host: Host) -> None:
    result = planned(ssh_networks=["office"])
    assert (result["rules"], host.trials) == ("", [])
    assert [row["variable"] for row in result["requirements"]] == ["firewall_ssh_networks"]


def test_the_connection_is_found_behind_sudo(planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 30)
    login = "SSH_CONNECTION=192.168.1.7 50000 192.168.1.2 22"
    for pid, parent, environment in ((30, 20, "HOME=/root"), (20, 10, "SUDO_USER=owner"), (10, 1, login)):
        host.write(f"/proc/{pid}/environ", f"{environment}\0")
        host.write(f"/proc/{pid}/stat", f"{pid} (a (program) x) S {parent} 1")
    (row,) = planned(ssh_networks=["10.0.0.0/8"])["requirements"]
    assert "from 192.168.1.7 to port 22" in row["problem"]
    assert planned(ssh_networks=["192.168.1.0/24"])["requirements"] == []


def test_a_bridge_with_a_network_card_is_refused(planned: Run, host: Host) -> None:
    host.write("/sys/class/net/br-1a2b/brif/veth1/state")
    host.write("/sys/class/net/veth1/state")
    assert planned()["requirements"] == []
    host.write("/sys/class/net/br-lan/brif/eth0/state")
    host.write("/sys/class/net/eth0/device/vendor")
    (row,) = planned()["requirements"]
    assert "br-lan (eth0)" in row["problem"]


def test_a_host_without_ip_and_the_older_iptables_is_planned(planned: Run, host: Host) -> None:
    host.absent = {"ip", "iptables-legacy"}
    host.write("/proc/net/ip_tables_names", "filter\n")
    host.write("/sys/class/net/br-lan/brif/eth0/state")
    host.write("/sys/class/net/eth0/device/vendor")
    (row,) = planned()["requirements"]
    assert "br-lan (eth0)" in row["problem"]


@pytest.mark.parametrize(("protocol", "other"), [("ip", "ip6"), ("ip6", "ip")])
@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        (None, "not read: {0}tables-legacy (chain INPUT), whose rules {0}tables-legacy alone can show"),
        ((0, "-P INPUT DROP\n", ""), "{0}tables-legacy (chain INPUT)"),
        ((0, "-P INPUT ACCEPT\n", ""), ""),
    ],
    ids=["not installed", "drops", "accepts"],
)
def test_tables_of_the_older_iptables(
    planned: Run, host: Host, answer: Any, evidence: str, protocol: str, other: str
) -> None:
    host.write(f"/proc/net/{protocol}_tables_names", "nat\nfilter\n")
    host.write(f"/proc/net/{other}_tables_names", "nat\n")
    host.absent = {f"{other}tables-legacy"}
    if answer is None:
        host.absent.add(f"{protocol}tables-legacy")
    else:
        host.answers[f"{protocol}tables-legacy --wait --list-rules"] = answer
    (row,) = (row for row in planned()["findings"] if row["id"] == "firewall.others")
    assert evidence.format(protocol) in row["evidence"]
    assert (row["status"] == "warn") is bool(evidence)
    if answer is None:
        assert row["evidence"].startswith("not read: ")
        assert row["remedy"] == f"install iptables, and run `{protocol}tables-legacy --list-rules INPUT`"


@pytest.mark.parametrize(("conf", "named"), [("ENABLED=yes\n", True), ("ENABLED=no\n", False)])
def test_an_enabled_ufw_is_named(planned: Run, host: Host, conf: str, named: bool) -> None:
    host.units["ufw.service"] = "active"
    host.write("/etc/ufw/ufw.conf", conf)
    assert ("firewall.others" in warned(planned())) is named


@pytest.mark.parametrize(
    ("options", "lost", "named"),
    [("{}", True, True), ("{}", False, False), ('{"iptables": false}', True, False), ("not json", True, True)],
)
def test_a_docker_without_its_rules_is_named(planned: Run, host: Host, options: str, lost: bool, named: bool) -> None:
    host.units["docker.service"] = "active"
    host.programs.add("iptables")
    host.write("/etc/docker/daemon.json", options)
    failed = (1, "", "No chain by that name")
    if lost:
        host.answers["iptables --wait --table nat --list-rules DOCKER"] = failed
    host.answers["nft list table ip docker-bridges"] = failed
    assert ("firewall.docker" in warned(planned())) is named
