# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first boot of a rebuilt machine finds."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import first_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

EXPECTED: dict[str, Any] = {
    "host": "ws1", "machine_id": "0123", "mounts": ["/", "/home"], "swap": True, "driver": "580.95.05", "host_keys": ["k1", "k2"],
    "network": ["enp3s0"],
}  # fmt: skip
SEEN: dict[str, Any] = {**EXPECTED, "driver": True, "failed_units": []}


def test_an_unchanged_machine_has_no_problems() -> None:
    assert first_boot.judge(EXPECTED, SEEN) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"host": "live"}, "host is 'live', and was 'ws1'"),
        ({"machine_id": "9"}, "machine_id is '9', and was '0123'"),
        ({"mounts": ["/"]}, "/home is not mounted"),
        ({"swap": False}, "there is no swap"),
        ({"driver": False}, "no NVIDIA driver is loaded, and 580.95.05 was: dkms status"),
        ({"host_keys": ["k1"]}, "the host key k2 is gone"),
        (
            {"network": []},
            "no network card has an address, and enp3s0 had: `ip -br address` has the names of today, "
            "and /etc/netplan, /etc/network/interfaces, /etc/NetworkManager/system-connections, /etc/systemd/network "
            "those that are set up",
        ),
        ({"failed_units": ["lab.service"]}, "the unit lab.service has failed: systemctl status lab.service"),
    ],
)
def test_each_problem_is_reported(found: dict[str, Any], problem: str) -> None:
    assert first_boot.judge(EXPECTED, {**SEEN, **found}) == [problem]


def test_addresses_are_waited_for_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys/class/net/enp1s0/device").mkdir(parents=True)
    answers = ["[]", '[{"ifname": "enp1s0", "addr_info": [{"scope": "global"}]}]']
    monkeypatch.setattr(subprocess, "run", lambda *_command, **_options: SimpleNamespace(stdout=answers.pop(0)))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert first_boot.read_network(Tree(str(tmp_path)), 60) == ["enp1s0"] and answers == []


def test_the_program_writes_its_result_and_fails_on_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        first_boot.EXPECTED: json.dumps({**EXPECTED, "driver": "", "host_keys": [], "mounts": ["/"], "network": []}),
        "/proc/self/mountinfo": "28 1 254:0 / / rw - ext4 /dev/vda1 rw\n",
        "/proc/sys/kernel/hostname": "ws1\n",
        "/etc/machine-id": "0123\n",
        "/proc/swaps": "Filename Type\n/dev/vda2 partition\n",
    }
    for path, text in files.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    failed: list[str] = []

    def run(command: list[str], **_options: Any) -> SimpleNamespace:
        return SimpleNamespace(stdout="\n".join(failed) if command[0] == "systemctl" else "[]")

    monkeypatch.setattr(subprocess, "run", run)
    assert first_boot.main(str(tmp_path)) == 0
    found = tmp_path / first_boot.FOUND.lstrip("/")
    assert json.loads(found.read_text()) == {"passed": True, "faults": []}
    failed.append("lab.service loaded failed failed A service")
    assert first_boot.main(str(tmp_path)) == 1
    assert json.loads(found.read_text())["passed"] is False
    assert capsys.readouterr().out.splitlines() == [
        "this machine is what it was",
        "the unit lab.service has failed: systemctl status lab.service",
    ]


def test_the_unit_runs_once_and_waits_for_the_whole_system() -> None:
    text = first_boot.UNIT_TEXT
    assert f"ConditionPathExists=!{first_boot.FOUND}" in text and "After=multi-user.target" in text
    # default.target is multi-user.target on a server: by default it would wait for the unit that waits for it.
    assert "DefaultDependencies=no" in text


def addresses_on(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    scopes: Mapping[str, Sequence[str]],
    kinds: Mapping[str, str] | None = None,
) -> list[str]:
    rows = [
        {
            "ifname": name,
            "link_type": "loopback" if name == "lo" else "ether",
            "addr_info": [{"scope": scope} for scope in found],
            **({"linkinfo": {"info_kind": kinds[name]}} if kinds and name in kinds else {}),
        }
        for name, found in scopes.items()
    ]
    answer = SimpleNamespace(stdout=json.dumps(rows) if rows else "")
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: answer)
    return first_boot.addresses(Tree(str(root)))


def interface(root: Path, *entries: str) -> None:
    for entry in entries:
        (root / "sys/class/net" / entry).mkdir(parents=True)


def test_an_address_of_the_link_alone_is_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interface(tmp_path, "lo", "eno1/device")
    assert addresses_on(tmp_path, monkeypatch, {"lo": ["host"], "eno1": ["link"]}) == []
    assert addresses_on(tmp_path, monkeypatch, {"lo": ["host"], "eno1": ["link", "global"]}) == ["eno1"]
    assert addresses_on(tmp_path, monkeypatch, {}) == []


def test_a_bridge_counts_only_with_a_card_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interface(tmp_path, "eno1/device", "eno1/upper_bond0", "veth1a2b", "wg0", "docker0/lower_veth1a2b", "virbr0")
    interface(tmp_path, "bond0/lower_eno1", "bond0.7/lower_bond0", "br0/lower_bond0.7", "br0/lower_vnet3", "vnet3")
    scopes = {name: ["global"] for name in ("docker0", "virbr0", "wg0", "br0", "bond0.7")}
    kinds = {"docker0": "bridge", "virbr0": "bridge", "wg0": "wireguard", "br0": "bridge", "bond0.7": "vlan"}
    assert addresses_on(tmp_path, monkeypatch, scopes, kinds) == ["br0", "bond0.7"]


def test_what_the_kernel_links_to_no_card_may_reach_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interface(tmp_path, "lo", "br-ex", "ppp0", "tailscale0", "veth1a2b")
    kinds = {"br-ex": "openvswitch", "ppp0": "ppp", "tailscale0": "tun", "veth1a2b": "veth"}
    scopes = {name: ["global"] for name in ("lo", *kinds)}
    assert addresses_on(tmp_path, monkeypatch, scopes, kinds) == ["br-ex", "ppp0"]


def test_a_check_without_a_network_does_not_look_for_one() -> None:
    assert first_boot.judge({key: EXPECTED[key] for key in EXPECTED if key != "network"}, {**SEEN, "network": []}) == []
