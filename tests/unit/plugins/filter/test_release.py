# SPDX-License-Identifier: GPL-3.0-or-later
"""Which archive a machine gets, and when none is to be had."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.filter.release import release

PINNED: Any = {
    "frp": {
        "version": "2.0",
        "url": "https://example.org/frp",
        "archive": "v{version}/frp_{version}_linux_{architecture}.tar.gz",
        "checksums": {"1.0": {"amd64": "1" * 64}, "2.0": {"amd64": "2" * 64, "arm64": "a" * 64}},
    }
}


def choose(own: Any | None = None, version: str = "", machine: str = "x86_64") -> Any:
    return release(PINNED, "frp", own or {}, version, machine, "frp_server")


def refused(chosen: Any) -> list[str]:
    return [
        f"{requirement['variable']} {requirement['problem']}"
        for requirement in chosen["requirements"]
        if not requirement["ok"]
    ]


def test_the_pinned_version_for_this_machine():
    chosen = choose(machine="aarch64")
    assert chosen["version"] == "2.0"
    assert chosen["url"] == "https://example.org/frp/v2.0/frp_2.0_linux_arm64.tar.gz"
    assert chosen["checksum"] == "sha256:" + "a" * 64
    assert refused(chosen) == []


def test_another_pinned_version():
    assert choose(version="1.0")["checksum"] == "sha256:" + "1" * 64


def test_releases_of_ones_own_come_on_top():
    own: Any = {"frp": {"version": "3.0", "url": "http://mirror", "checksums": {"3.0": {"amd64": "3" * 64}}}}
    assert choose(own)["url"] == "http://mirror/v3.0/frp_3.0_linux_amd64.tar.gz"
    assert choose(own, version="2.0")["checksum"] == "sha256:" + "2" * 64
    assert choose({"restic": {"version": "9"}})["version"] == "2.0"


@pytest.mark.parametrize("checksum", [None, "", "2" * 63, "z" * 64])
def test_a_version_without_a_checksum_is_refused(checksum):
    own: Any = {"frp": {"checksums": {"9.9": {"amd64": checksum}}}}
    chosen = choose(own, version="9.9")
    assert refused(chosen) == ["frp_server_releases has no SHA-256 of frp 9.9 for amd64, and none is pinned"]
    assert (chosen["url"], chosen["checksum"]) == ("", "")


def test_machine_without_a_release_is_refused_once():
    assert refused(choose(machine="riscv64")) == [
        "frp_server_version cannot be had for this machine: no release of frp is known for riscv64"
    ]
