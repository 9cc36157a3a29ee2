# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that the machine is asked, without Ansible; their results: tests/unit/plugins/modules/test_machine_manifest.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import machine as machines


def test_a_machine_without_lsblk_has_no_manifest(tmp_path: Path) -> None:
    requests: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str]:
        requests.append(command)
        return 127, ""

    with pytest.raises(machines.ProbeError, match="install util-linux"):
        machines.keep(machines.Machine(run, Tree(str(tmp_path))), str(tmp_path / "manifest.json"))
    assert ["lsblk", "-J", "-O", "-b"] in requests
    assert list(tmp_path.iterdir()) == []


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:40 / /mnt/nas rw - nfs4 nas:/export rw
23 21 0:41 /@home /home rw - btrfs /dev/sdb rw,space_cache=v2,subvolid=256,subvol=/@home
24 21 0:41 /@home/www /srv rw - btrfs /dev/sdb rw,subvolid=256,subvol=/@home
"""


def test_a_server_that_is_dead_is_not_asked_how_large_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("proc/self", "mnt/nas", "home", "srv"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    requests: list[str] = []

    def watched(real: Callable[[str], Any]) -> Callable[[str], Any]:
        def ask(path: str) -> Any:
            requests.append(path)
            return real(path)

        return ask

    monkeypatch.setattr(machines.os, "statvfs", watched(os.statvfs))
    monkeypatch.setattr(machines.os.path, "isdir", watched(os.path.isdir))
    found = {mount["target"]: mount for mount in machines.Machine(lambda _words: (1, ""), Tree(str(tmp_path))).mounts()}
    assert set(found) == {"/", "/mnt/nas", "/home", "/srv"} and found["/"]["size"] > 0
    assert (found["/mnt/nas"]["size"], found["/mnt/nas"]["used"]) == (0, 0)
    assert not any(path.endswith("nas") for path in requests)
    # Only this distinguishes a directory of a btrfs from a subvolume.
    assert [found[target].get("subvolume") for target in ("/", "/home", "/srv")] == [None, "/@home", "/@home"]


def test_what_systemd_mounts_on_demand_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text(
        "UUID=ab-1 /data ext4 noauto,x-systemd.automount 0 0\nLABEL=gone /gone ext4 x-systemd.automount 0 0\n"
        "nas:/x /nas nfs x-systemd.automount 0 0\n/dev/sdb1 /old ext4 x-systemd.automount 0 0\nUUID=ab-1 /by-hand ext4 noauto 0 0\n"
        'LABEL=My\\040Disk /disk ext4 x-systemd.automount 0 0\nPARTLABEL="a/b" /part ext4 x-systemd.automount 0 0\n'
    )
    for path in ("dev/disk/by-uuid/ab-1", "dev/sdb1", r"dev/disk/by-label/My\x20Disk", r"dev/disk/by-partlabel/a\x2fb"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    opened: list[str] = []
    tree = Tree(str(tmp_path))
    monkeypatch.setattr(tree, "names", opened.append)
    machines.Machine(lambda _command: (1, ""), tree).open_automounts()
    assert opened == ["/boot/efi", "/efi", "/boot", "/data", "/old", "/disk", "/part"]


def test_disks_are_known_by_their_sockets_too(tmp_path: Path) -> None:
    links = tmp_path / "dev/disk/by-path"
    links.mkdir(parents=True)
    (links / "pci-0000:00:1f.2-ata-1").symlink_to("../../sda")
    machine = machines.Machine(lambda _words: (1, ""), Tree(str(tmp_path)))
    assert machine.links("by-path") == {"sda": ["/dev/disk/by-path/pci-0000:00:1f.2-ata-1"]}


@pytest.mark.parametrize("trap", ["link", "fifo", "hard link", "directory link"])
def test_conda_list_of_a_user_is_not_trusted(tmp_path: Path, trap: str) -> None:
    """A FIFO blocked the backup for ever, and a link brought lines of root's files into the manifest."""
    secret = tmp_path / "root/secret"
    listed = tmp_path / "home/eve/.conda/environments.txt"
    for path in (secret, listed):
        path.parent.mkdir(parents=True)
    secret.write_text("/secret line\n")
    if trap == "fifo":
        os.mkfifo(listed)
    elif trap == "link":
        listed.symlink_to(secret)
    elif trap == "hard link":
        os.link(secret, listed)
    else:
        (secret.parent / "environments.txt").write_text("/secret line\n")
        listed.parent.rmdir()
        listed.parent.symlink_to(secret.parent)
    assert machines.Machine(lambda _command: (1, ""), Tree(str(tmp_path))).conda() == {}


def test_conda_environments_of_users_are_listed(tmp_path: Path) -> None:
    home = tmp_path / "data/alice"
    for prefix in ("own", "foreign"):
        (home / prefix / "conda-meta").mkdir(parents=True)
        (home / prefix / "conda-meta/numpy-2.json").touch()
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text("/data/alice/own\n/data/alice/foreign\nno path\n")
    os.chown(home / "foreign/conda-meta", 65534, 65534)
    (tmp_path / "home").symlink_to("/data")
    found = machines.Machine(lambda _command: (1, ""), Tree(str(tmp_path))).conda()
    assert found == {"/data/alice/own": {"packages": ["numpy-2"]}, "/data/alice/foreign": {"packages": []}}
