"""Disks as those meet them who use the machine: shared files, a disk that is missing at boot, and data that nobody may lose.

The disks are loop devices (harness/fakes/disks.py): partitions, file systems, mounts and all programs are the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.fakes.disks import HOME
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Machine

pytestmark = pytest.mark.both_releases

Applied = Callable[..., Any]
Verified = Callable[..., dict[str, dict[str, str]]]
OLD = {"serial": "OLD1", "mount": "/photos", "label": "photos"}


def sources(target: Machine) -> dict[str, str]:
    """Return what is mounted below /data, by mount point."""
    rows = json.loads(target.must("findmnt --json --list --output TARGET,FSTYPE"))["filesystems"]
    return {row["target"]: row["fstype"] for row in rows if row["target"].startswith("/data")}


def test_the_proof_passes(verified: Verified) -> None:
    for found in verified().values():
        passed = {"disks", "mount_points", "directories", "space", "fstab", "environment", "cache", "confinement"}
        assert {f"storage.{name}" for name in passed} <= {name for name, status in found.items() if status == "pass"}, (
            found
        )
        assert "fail" not in found.values() and "warn" not in found.values(), found


def test_group_members_share_files(targets: list[Machine]) -> None:
    for target in targets:
        target.must("umask 077; mkdir -p /data/sets/birds; echo raven > /data/sets/birds/a", user="alice")
        target.must("echo crow >> /data/sets/birds/a; rm -r /data/sets/birds/a", user="bob")
        target.must("echo owl > /data/sets/birds/b", user="alice")
        assert target.must("stat --format %G /data/sets/birds/b") == "ml\n"
        # By the entry of the default ACL that names her.
        assert target.must("cat /data/sets/birds/b", user="carol") == "owl\n"
        assert target.run("echo >> /data/sets/birds/b", user="carol").rc != 0
        assert target.run("ls /data/cache/hub", user="carol").rc != 0


def test_a_login_and_a_service_of_a_user_have_the_variables(targets: list[Machine]) -> None:
    for target in targets:
        output = target.must("runuser --login alice --command env")
        assert "HF_HUB_CACHE=/data/cache/hub\n" in output and "PIP_CACHE_DIR=/data/cache/users/alice/pip\n" in output
        assert target.must("stat --format '%U %a' /data/cache/users/alice/pip") == "alice 700\n"
        assert target.run("ls /data/cache/users/alice", user="bob").rc != 0
        # Somebody for whom there is no directory keeps the defaults.
        assert "CACHE" not in target.must("runuser --login carol --command env")
        script = "/etc/systemd/user-environment-generators/20-rigwright-storage"
        assert "PIP_CACHE_DIR=/data/cache/users/bob/pip\n" in target.must(script, user="bob")


def test_only_group_members_get_verified_copies(targets: list[Machine]) -> None:
    for target in targets:
        copy = target.must("dataset-cache get /data/sets/birds", user="alice").strip()
        assert copy.startswith("/data/cache/sets/") and target.must(f"cat {copy}/b", user="bob") == "owl\n"
        assert target.run("dataset-cache get /data/sets/birds", user="carol").rc != 0
        # What users may ask of root: systemd sees it, and the unit has all that it needs.
        # A directory, a FIFO and a link are gone as well, and keep nobody from the service.
        requests = "/data/cache/sets/requests"
        target.must(f"cd {requests} && mkdir -p odd/below && mkfifo fifo && ln -s /etc link", user="alice")
        for _request in range(2):
            target.must(f"echo 1 > {requests}/1-1", user="bob")
            target.must(f"timeout 55 sh -c 'while [ \"$(ls -A {requests})\" ]; do sleep 0.2; done'")
        assert target.run("systemctl is-failed dataset-cache-evict.service").rc != 0
        assert target.must("systemctl is-active dataset-cache-evict.path") == "active\n"


def test_root_owns_the_cache_and_removes_copies_as_their_owner(targets: list[Machine]) -> None:
    for target in targets:
        for name, mode in ((".", "750"), ("locks", "3770"), ("requests", "3770"), ("sets", "3770")):
            assert target.must(f"stat --format '%U %G %a' /data/cache/sets/{name}") == f"root ml {mode}\n"
        target.must("ln -s /data/sets /data/cache/sets/sets/evil", user="bob")
        target.must("dataset-cache rm /data/sets/birds")
        target.must("systemctl start dataset-cache-evict.service")
        assert (
            target.must("ls /data/cache/sets/sets /data/sets/birds")
            == "/data/cache/sets/sets:\n\n/data/sets/birds:\nb\n"
        )
        owners = target.must("find /data/cache/sets -mindepth 2 -user root")
        assert owners == ""


def test_systemd_reads_the_mounts_as_nofail(targets: list[Machine]) -> None:
    # Where /sys can be written to, as on a machine, the generator does not leave disks out.
    generate = "mount -t tmpfs none /sys && mkdir /tmp/u && /usr/lib/systemd/system-generators/systemd-fstab-generator /tmp/u /tmp/u /tmp/u"
    for target in targets:
        output = target.must(
            f"rm -rf /tmp/u; unshare --mount sh -c '{generate}' && cd /tmp/u && systemd-analyze verify ./data.mount ./data-cache.mount 2>&1"
            " | grep -v 'Unit configuration has fatal' >&2; find . ; cat *.mount"
        )
        assert "./local-fs.target.wants/data.mount" in output and "local-fs.target.requires/data" not in output
        # As long as systemd waits for any device; and what was waiting is started when the disk comes up later.
        assert ".device.d" not in output
        assert "What=/dev/disk/by-uuid/" in output and "Options=noatime,nofail,nosuid,nodev" in output
        wants = target.must(r"systemctl show --property Wants 'dev-disk-by\x2dlabel-data.device'")
        assert {"data.mount", "data-cache.mount", "dataset-cache-evict.path"} <= set(wants.strip()[6:].split())


# --- What may not be lost ---


@pytest.fixture
def old_disk(targets: list[Machine]) -> Iterator[None]:
    """Create a disk with photos of a user on the host."""
    device = "$(readlink /run/fake_disks/OLD1)"
    for target in targets:
        target.must(f"mkfs.ext4 -q -L family {device} && udevadm settle")
    yield
    for target in targets:
        target.must(
            f"dd if=/dev/zero of={device} bs=1M count=100 status=none && partx --delete {device}; udevadm settle"
        )


def test_disk_with_data_is_refused_and_unchanged(
    refused: Callable[..., None], old_disk: None, targets: list[Machine]
) -> None:
    (path,) = {target.must("readlink /run/fake_disks/OLD1").strip() for target in targets[:1]}
    before = targets[0].must(f"sha256sum {path}")
    expected = f"{path} (OLD1), 104.9 MB, which is not empty: ext4 labelled 'family'"
    # A wipe without the serial is none.
    refused(
        {
            "storage_disks": [{**OLD, "wipe": True}],
            "storage_directories": [],
            "storage_environment": {},
            "storage_cache": {},
        },
        expected,
    )
    assert targets[0].must(f"sha256sum {path}") == before


def test_confirmed_wipe_is_done_once_and_others_are_unmounted(
    applied: Applied, old_disk: None, targets: list[Machine]
) -> None:
    wiped = {
        "storage_disks": [{**OLD, "wipe": True, "fs": "ext4"}],
        "storage_confirm_wipe": ["OLD1"],
        "storage_directories": [],
        "storage_environment": {},
        "storage_cache": {"mode": "none"},
    }
    data = [target.must("sha256sum /data/sets/birds/b") for target in targets]
    assert set(applied(wiped).changed().values()) != {0}
    for target in targets:
        assert target.must("findmnt --noheadings --output LABEL /photos") == "photos\n"
        assert sources(target) == {}
        target.must("echo new > /photos/kept")
    # Back again, with the data that was there; and the photos' disk keeps its own.
    applied()
    for target, before in zip(targets, data, strict=True):
        assert target.must("sha256sum /data/sets/birds/b") == before
        assert not target.must("ls -d /photos 2>/dev/null || true")
    # And once more: taken as it is by its label, in spite of the wipe.
    applied(wiped)
    for target in targets:
        assert target.must("cat /photos/kept") == "new\n"
    applied()


# --- Boot ---


def reboot_all(targets: list[Machine]) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(sandbox.reboot, targets))


def test_boot_with_and_without_a_disk(applied: Applied, verified: Verified, targets: list[Machine]) -> None:
    reboot_all(targets)
    for target in targets:
        assert sources(target) == {"/data": "xfs", "/data/cache": "ext4"}

    for target in targets:
        target.must(f"mv {HOME}/DATA1.img {HOME}/DATA1.away")
    reboot_all(targets)
    for target in targets:
        # The disk in it has no place either, and boot went on to its end.
        assert sources(target) == {}
        assert target.must("systemctl is-system-running") == "running\n"
        assert "Operation not permitted" in target.run("mkdir /data/sets || touch /data/x").stderr
        assert "CACHE" not in target.must("runuser --login alice --command env")
        target.must(f"mv {HOME}/DATA1.away {HOME}/DATA1.img")
    for found in verified().values():
        assert found["storage.disks"] == "fail"

    reboot_all(targets)
    for target in targets:
        assert sources(target) == {"/data": "xfs", "/data/cache": "ext4"}
    assert set(applied().changed().values()) == {0}
