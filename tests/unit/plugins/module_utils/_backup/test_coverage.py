# SPDX-License-Identifier: GPL-3.0-or-later
"""Every mounted file system is in a job, or excluded by one."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import coverage
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts as system_mounts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount

# As a workstation with a boot partition, a second disk, a USB disk with a blank in its name, snaps and docker has it.
MOUNTS = system_mounts.parse_mountinfo(
    """\
23 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw,errors=remount-ro
30 28 259:2 / /boot rw,relatime shared:2 - ext4 /dev/nvme0n1p2 rw
31 30 259:1 / /boot/efi rw,relatime shared:3 - vfat /dev/nvme0n1p1 rw,fmask=0077
32 28 254:1 / /home rw,relatime shared:4 - ext4 /dev/mapper/vg-home rw
33 28 8:17 / /data rw,relatime shared:5 - xfs /dev/sdb1 rw
34 28 8:33 / /media/owner/My\\040Disk rw,relatime shared:6 - exfat /dev/sdc1 rw
36 28 0:50 / /var/lib/docker/overlay2/1/merged rw - overlay overlay rw,lowerdir=/l
37 28 8:17 /sets /srv/sets rw,relatime shared:5 - xfs /dev/sdb1 rw
38 28 0:60 / /mnt/nas rw,relatime shared:8 - nfs4 nas:/export rw
40 28 254:0 /var/tmp/systemd-private-1/tmp /var/tmp rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw
"""
)
ALL = ("/", "/boot", "/boot/efi", "/data", "/home", "/media/owner/My Disk", "/mnt/nas")


def job(*paths: str, excludes: tuple[str, ...] = (), one_file_system: bool = True) -> Job:
    return Job("j", "disk", "ws", paths, excludes, one_file_system=one_file_system)


def left_out(*jobs: Job, mounts: list[Mount] = MOUNTS, repositories: tuple[str, ...] = ()) -> list[str]:
    return [mount.target for mount in coverage.left_out(mounts, jobs, repositories)]


def test_a_job_of_the_root_covers_no_other_file_system() -> None:
    assert left_out(job("/")) == list(ALL[1:])
    assert left_out(job("/", one_file_system=False)) == []


def test_file_systems_are_in_several_jobs_or_excluded_by_name() -> None:
    system = job("/", "/boot", "/boot/efi", excludes=("/mnt/*", "/media/*"))
    assert left_out(system, job("/home")) == ["/data"]
    assert left_out(system, job("/home", excludes=("/data",))) == []


def test_one_directory_covers_its_file_system() -> None:
    assert left_out(job("/etc", "/home/alice", excludes=("/mnt", "/media"))) == ["/boot", "/boot/efi", "/data"]


def test_a_second_mount_is_no_file_system_of_its_own() -> None:
    assert "/srv/sets" not in left_out(job("/"))
    assert "/data" not in left_out(job("/srv/sets"))


def test_a_subvolume_holds_nothing_of_its_neighbours() -> None:
    mounts = [
        Mount("/", "/dev/sda2", "btrfs", "/", "0:30"),
        Mount("/home", "/dev/sda2", "btrfs", "/@home", "0:30"),
        Mount("/srv/home", "/dev/sda2", "btrfs", "/@home", "0:30"),
    ]
    assert left_out(job("/"), mounts=mounts) == ["/home"]
    assert left_out(job("/", "/home"), mounts=mounts) == []


def test_mounted_files_of_a_container_have_to_be_covered() -> None:
    mounts = [
        Mount("/", "overlay", "overlay", device="0:40"),
        Mount("/etc/hosts", "/dev/vda", "ext4", "/var/lib/docker/containers/x/hosts", "254:0", directory=False),
    ]
    assert left_out(job("/home"), mounts=mounts) == []
    assert left_out(job("/etc"), mounts=mounts) == ["/etc/hosts"]


def test_a_disk_that_backups_go_to_is_no_source() -> None:
    assert "/data" not in left_out(job("/"), repositories=("/data",))
    # Other files on that disk would be lost.
    assert "/data" in left_out(job("/"), repositories=("/data/backup",))


def test_a_repository_on_its_own_file_system_is_found() -> None:
    assert coverage.on_file_system_of(MOUNTS, ["/etc", "/home"], "/home/backup") == ["/home"]
    assert coverage.on_file_system_of(MOUNTS, ["/etc", "/home"], "/data/backup") == []
    assert coverage.on_file_system_of(MOUNTS, ["/etc"], "") == []


def test_an_unmounted_fstab_entry_is_reported() -> None:
    fstab = ["/", "/home", "/scratch"]
    assert coverage.not_mounted(job("/"), fstab, MOUNTS) == ["/scratch"]
    assert coverage.not_mounted(job("/scratch/sets"), fstab, MOUNTS) == ["/scratch"]
    assert coverage.not_mounted(job("/", excludes=("/scratch",)), fstab, MOUNTS) == []
    assert coverage.not_mounted(job("/home"), fstab, MOUNTS) == []


def test_sources_are_the_file_systems_that_a_job_reads() -> None:
    assert coverage.sources(job("/", "/home/alice"), MOUNTS) == ["/", "/home"]
    assert coverage.sources(job("/srv/sets", "/mnt/nas"), MOUNTS) == ["/", "/mnt/nas", "/srv/sets"]
    everything = job("/", excludes=("/mnt/*", "/media/*", "/boot"), one_file_system=False)
    assert coverage.sources(everything, MOUNTS) == ["/", "/data", "/home", "/srv/sets", "/var/tmp"]


def test_mount_of_a_user_is_a_source_where_a_job_names_it() -> None:
    """An empty directory would be backed up as good once it is not mounted."""
    mounts = [*MOUNTS, Mount("/home/alice/plain", "/home/alice/enc", "fuse.gocryptfs", device="0:70", user=1000)]
    for path in ("/home/alice/plain", "/home/alice/plain/work"):
        assert coverage.sources(job(path), mounts) == ["/", "/home", "/home/alice/plain"]
    for one_file_system in (True, False):
        assert "/home/alice/plain" not in coverage.sources(job("/home", one_file_system=one_file_system), mounts)
    own = [Mount("/run/user/1000/doc", "portal", "fuse.portal", user=1000)]
    assert coverage.sources(job("/run/user/1000/doc"), own) == []


def test_self_bind_mount_is_not_the_expected_disk() -> None:
    """Mount as ProtectHome=read-only and ReadWritePaths= do; an empty /home would be backed up."""
    root = Mount("/", "/dev/sda2", "btrfs", "/@", "0:30", subvolume="/@")
    itself = Mount("/home", "/dev/sda2", "btrfs", "/@/home", "0:30", subvolume="/@")
    subvolume = Mount("/home", "/dev/sda2", "btrfs", "/@/home", "0:30", subvolume="/@/home")
    bound = Mount("/home", "/dev/sda2", "btrfs", "/@/users", "0:30", subvolume="/@")
    assert coverage.sources(job("/home"), [itself]) == ["/home"]
    assert coverage.sources(job("/home"), [root, itself]) == ["/"]
    assert coverage.not_mounted(job("/home"), ["/home"], [root, itself]) == ["/home"]
    for mount in (subvolume, bound):
        assert coverage.sources(job("/home"), [root, mount]) == ["/", "/home"]
        assert coverage.not_mounted(job("/home"), ["/home"], [root, mount]) == []


def test_a_mount_of_autofs_counts_as_mounted() -> None:
    mounts = [*MOUNTS, Mount("/net", "/etc/auto.net", "autofs"), Mount("/lazy", "systemd-1", "autofs")]
    assert coverage.not_mounted(job("/net/nas", "/lazy"), ["/net/nas", "/lazy"], mounts) == []


def test_names_are_read_without_lstat_of_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may be gone whose directory is mounted in a path, and lstat waits for ever."""

    class Entry:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self.is_symlink = entry.name, entry.is_symlink
            self.is_dir, self.is_file = entry.is_dir, entry.is_file
            self.entry = entry

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            assert self.name in ("socket", "fifo"), "the server is gone"
            return self.entry.stat(follow_symlinks=follow_symlinks)

    @contextlib.contextmanager
    def scandir(path: str) -> Iterator[Iterator[Entry]]:
        with real_scandir(path) as entries:
            yield (Entry(entry) for entry in entries)

    real_scandir = os.scandir
    (tmp_path / "nas").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nas")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)
        server.bind("socket")
    monkeypatch.setattr(os, "scandir", scandir)
    assert coverage.names_in(job(str(tmp_path)), str(tmp_path)) == {"nas", "file", "link", "fifo"}


@pytest.mark.parametrize("name", ["/dat", "datax"])
def test_half_a_name_excludes_nothing(name: str) -> None:
    assert "/data" in left_out(job("/", excludes=(name,)))
