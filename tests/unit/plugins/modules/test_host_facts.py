# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of this very machine."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import host_facts

Run = Callable[..., dict[str, Any]]
SYSTEMCTL = "systemctl --version"


@pytest.fixture
def facts(run_module: Run) -> Callable[..., dict[str, Any]]:
    def gather(version: str = "systemd 252 (252.39-1~deb12u1)\n+PAM +AUDIT", **params: Any) -> dict[str, Any]:
        result = run_module(host_facts, commands={SYSTEMCTL: (0, version, "")}, **params)
        assert result["changed"] is False
        return result["ansible_facts"]["rigwright"]

    return gather


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), pytest.param(socket.AF_INET6, "::1", id="::1")]
)
@pytest.mark.parametrize(("kind", "protocol"), [(socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")])
def test_a_socket_of_this_process_is_found(
    facts: Run, family: socket.AddressFamily, address: str, kind: socket.SocketKind, protocol: str
) -> None:
    with socket.socket(family, kind) as waiting:
        try:
            waiting.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        if kind == socket.SOCK_STREAM:
            waiting.listen()
        port = waiting.getsockname()[1]
        found = [
            listener
            for listener in facts()["listeners"]
            if listener["port"] == port and listener["protocol"] == protocol
        ]
    assert [(listener["address"], listener["pid"]) for listener in found] == [(address, os.getpid())]
    assert found[0]["process"] == Path("/proc/self/comm").read_text().strip()


def test_a_path_to_come_counts_for_its_directory(facts: Run, tmp_path: Path) -> None:
    free = facts(paths=["/", str(tmp_path / "not" / "there")])["free_bytes"]
    assert list(free) == ["/", str(tmp_path / "not" / "there")]
    assert free[str(tmp_path / "not" / "there")] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)


def test_host_without_package_lists_is_reported(facts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_facts, "ROOT", str(tmp_path))
    assert not facts()["package_lists"]
    lists = tmp_path / "var/lib/apt/lists"
    (lists / "partial").mkdir(parents=True)
    assert not facts()["package_lists"]
    (lists / "deb.example_dists_trixie_main_binary-amd64_Packages").touch()
    assert facts()["package_lists"]


def test_nvidia_gpus_are_found(facts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030000\n")
    monkeypatch.setattr(host_facts, "ROOT", str(tmp_path))
    assert facts()["nvidia_gpus"] == ["0000:01:00.0"]


def test_the_default_paths(facts: Run) -> None:
    assert list(facts()["free_bytes"]) == ["/", "/var", "/opt", "/etc"]


@pytest.mark.parametrize(("printed", "version"), [("systemd 257 (257.8-1~deb13u2)\n", 257), ("systemd 249\n", 249)])
def test_the_version_of_systemd(facts: Run, printed: str, version: int) -> None:
    assert facts(printed)["systemd"] == {"running": Path("/run/systemd/system").is_dir(), "version": version}


def test_a_host_without_systemd_has_version_0(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name: None)
    assert run_module(host_facts)["ansible_facts"]["rigwright"]["systemd"]["version"] == 0


def test_users_have_their_comment(facts: Run) -> None:
    assert facts()["users"]["root"] == pwd.getpwnam("root").pw_gecos


@pytest.mark.parametrize(("uid", "managed"), [(0, ["ssh"]), (1000, [])])
def test_sets_in_place_are_returned_to_root(
    facts: Run, monkeypatch: pytest.MonkeyPatch, uid: int, managed: list[str]
) -> None:
    monkeypatch.setattr(host_facts, "sets_in_place", lambda: ["ssh"])
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert facts()["managed"] == managed


def test_a_relative_path_is_refused(run_module: Run) -> None:
    result = run_module(host_facts, paths=["/", "opt"])
    assert result["failed"] is True
    assert "opt is not. Set `paths`" in result["msg"]


def test_comment_in_another_encoding_stops_no_role(facts: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    comments = {"alice": "caf\udce9 \x1b[2J", "bob\udce9": "Bob", "frpc": "frp client of rigwright.workstation"}
    rows = [pwd.struct_passwd((name, "x", 1, 1, text, "/", "/bin/sh")) for name, text in comments.items()]
    monkeypatch.setattr(host_facts.pwd, "getpwall", lambda: rows)
    found = facts()
    assert found["users"] == {"alice": "caf? ?[2J", "bob?": "Bob", "frpc": "frp client of rigwright.workstation"}
    json.dumps(found).encode("utf-8")
