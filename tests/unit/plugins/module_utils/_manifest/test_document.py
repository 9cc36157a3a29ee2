# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest as a document: whether it is one, what has changed since, and what is not worth a word."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document

from tests.unit.support.manifest.manifests import GIB, MIB, recorded


def test_equal_manifests_have_no_differences() -> None:
    assert document.check(recorded())["host"]["name"] == "ws1"
    assert document.differences(recorded(), recorded()) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "no schema"),
        ({}, "no schema"),
        ({"schema": 2}, "schema 2"),
        ({"schema": 1, "host": {}}, "host.name is missing, .*boot is missing"),
    ],
)
def test_an_invalid_manifest_is_refused_with_the_reason(value: Any, message: str) -> None:
    with pytest.raises(document.Invalid, match=message):
        document.check(value)


def broken(path: str, value: Any = None) -> dict[str, Any]:
    """Return the manifest with another value at a path, or without one."""
    found: Any = recorded()
    *ways, last = path.split("/")
    inner = found
    for way in ways:
        inner = inner[int(way) if isinstance(inner, list) else way]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        *((name, None, f"{name} is missing") for name in ("volume_groups", "swaps", "kernels", "nvidia", "host_keys")),
        ("host", "ws1", "host is no mapping"),
        ("boot/mode", None, r"boot\.mode is missing"),
        ("mounts", {}, "mounts is no list"),
        ("mounts/0/used", "5", r"mounts\[0\]\.used is no int"),
        ("devices/sda1/size", True, r"devices\.sda1\.size is no int"),
        ("devices/sda1/content/uuid", None, r"devices\.sda1\.content\.uuid is missing"),
        ("disks/sda/table/partitions", None, r"disks\.sda\.table\.partitions is missing"),
        ("volume_groups/vg0/volumes/0/origin", None, r"volume_groups\.vg0\.volumes\[0\]\.origin is missing"),
        ("devices/sda", None, r"devices\.sda is missing"),
    ],
)
def test_a_damaged_manifest_is_refused_with_the_path(path: str, value: Any, message: str) -> None:
    with pytest.raises(document.Invalid, match=message):
        document.check(broken(path, value))


def test_a_disk_without_a_table_is_no_damage() -> None:
    assert document.check(broken("disks/sda/table", {}))


def changed(change: Any) -> list[str]:
    new = copy.deepcopy(recorded())
    change(new)
    return document.differences(recorded(), new)


def test_a_change_is_named_by_its_path() -> None:
    assert changed(lambda new: new["host"].update(name="ws2")) == ["host.name: ws1 -> ws2"]
    assert changed(lambda new: new["devices"]["vdb1"]["content"].update(label="")) == [
        "devices.vdb1.content.label: EFI -> empty"
    ]


def test_one_more_in_a_list_does_not_change_those_that_follow() -> None:
    row = {"target": "/aaa", "source": "/dev/sdz1", "type": "ext4", "root": "/", "size": 1, "used": 0}
    lines = changed(lambda new: new["mounts"].insert(0, row))
    assert len(lines) == 6 and all(line.startswith("mounts[/aaa].") and "absent ->" in line for line in lines)


def test_a_long_text_is_shown_as_its_digest() -> None:
    lines = changed(lambda new: new["volume_groups"]["vg0"].update(backup="x\n" * 300))
    assert len(lines) == 1 and "300 lines, SHA-256" in lines[0] and len(lines[0]) < 200


def test_the_time_alone_is_no_change() -> None:
    assert changed(lambda new: new.update(made="2027-01-01T00:00:00Z")) == []


@pytest.mark.parametrize(("more", "lines"), [(10 * MIB, 0), (200 * MIB, 1)])
def test_a_file_system_that_fills_a_little_is_as_it_was(more: int, lines: int) -> None:
    new = copy.deepcopy(recorded())
    new["made"] = "2027-01-01T00:00:00Z"
    next(mount for mount in new["mounts"] if mount["target"] == "/home")["used"] += more
    settled = document.settle(new, recorded())
    assert len(document.differences(recorded(), settled)) == lines
    # What is written again is byte for byte what was there.
    assert (settled == recorded()) == (lines == 0)


def test_many_small_changes_are_reported_in_the_end() -> None:
    old = recorded()
    for step in range(1, 20):
        new = copy.deepcopy(recorded())
        next(mount for mount in new["mounts"] if mount["target"] == "/home")["used"] += step * GIB // 100
        settled = document.settle(new, old)
        if settled["mounts"] != old["mounts"]:
            break
        old = settled
    assert 4 < step < 8


def test_a_first_manifest_says_so() -> None:
    assert document.differences(None, recorded()) == ["there was no manifest"]
    assert document.settle(recorded(), None) == recorded()


def test_a_host_key_goes_by_the_fingerprint_that_ssh_shows() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPOVSoK6cLk33bCBOmBO/eohFDU21YP1XgyotkMP/QGX root@ws1"
    assert document.fingerprint_of_host_key(key) == "ssh-ed25519 SHA256:3IRphekBf/zd853lwkilj9MrHw7r0AjXM228j66yxgE"
    assert document.fingerprint_of_host_key("") == "" and document.fingerprint_of_host_key("no key!") == ""


def test_docker_has_names_and_digests_without_options() -> None:
    listed: list[dict[str, Any]] = [
        {"Id": "sha256:1", "RepoTags": ["lab:1"], "RepoDigests": ["lab@sha256:2"], "Size": 5},
        {"Id": "sha256:0", "RepoTags": None},
    ]
    assert [image["name"] for image in document.images(listed)] == ["lab:1", "sha256:0"]
    volume = {"Name": "nas", "Driver": "local", "Mountpoint": "/m", "Options": {"o": "password=hunter2"}}
    assert document.volumes({"Volumes": [volume]}) == [{"name": "nas", "driver": "local", "mountpoint": "/m"}]
    assert document.volumes({"Volumes": None}) == []


def test_cards_have_the_addresses_that_no_server_gave() -> None:
    listed: list[dict[str, Any]] = [
        {"ifname": "docker0", "address": "02:00"},
        {
            "ifname": "eth0",
            "address": "52:54",
            "operstate": "UP",
            "addr_info": [
                {"local": "192.0.2.7", "prefixlen": 24, "scope": "global"},
                {"local": "192.0.2.99", "prefixlen": 24, "scope": "global", "dynamic": True},
                {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            ],
        },
    ]
    bonded = {"ifname": "eth1", "address": "52:54", "permaddr": "52:55", "operstate": "UP"}
    assert document.interfaces([bonded], ["eth1"])[0]["mac"] == "52:55"
    assert document.interfaces(listed, ["eth0"]) == [
        {"name": "eth0", "mac": "52:54", "up": True, "addresses": ["192.0.2.7/24"]}
    ]
