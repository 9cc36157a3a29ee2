# SPDX-License-Identifier: GPL-3.0-or-later
"""Every mounted file system is in a job or excluded by name."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _manifest_coverage as coverage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest_coverage import Job, Mount

# As a workstation with a boot partition, a second disk, a USB disk with a blank in its name, snaps and docker has it.
MOUNTINFO = """\
22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
23 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw,errors=remount-ro
30 28 259:2 / /boot rw,relatime shared:2 - ext4 /dev/nvme0n1p2 rw
31 30 259:1 / /boot/efi rw,relatime shared:3 - vfat /dev/nvme0n1p1 rw,fmask=0077
32 28 254:1 / /home rw,relatime shared:4 - ext4 /dev/mapper/vg-home rw
33 28 8:17 / /data rw,relatime shared:5 - xfs /dev/sdb1 rw
34 28 8:33 / /media/owner/My\\040Disk rw,relatime shared:6 - exfat /dev/sdc1 rw
35 28 7:0 / /snap/core/1 ro,nodev shared:7 - squashfs /dev/loop0 ro
36 28 0:50 / /var/lib/docker/overlay2/1/merged rw - overlay overlay rw,lowerdir=/l
37 28 8:17 /sets /srv/sets rw,relatime shared:5 - xfs /dev/sdb1 rw
38 28 0:60 / /mnt/nas rw,relatime shared:8 - nfs4 nas:/export rw
39 28 0:61 / /run/user/1000/gvfs rw - fuse.gvfsd-fuse gvfsd-fuse rw
"""
MOUNTS = coverage.parse_mountinfo(MOUNTINFO)
ALL = ("/", "/boot", "/boot/efi", "/home", "/data", "/media/owner/My Disk", "/mnt/nas")


def states(jobs: list[Job], excluded: tuple[str, ...] = (), mounts: list[Mount] = MOUNTS) -> dict[str, str]:
    return {verdict.mount.target: verdict.state for verdict in coverage.judge(mounts, jobs, excluded)}


def missing(jobs: list[Job], excluded: tuple[str, ...] = (), mounts: list[Mount] = MOUNTS) -> list[str]:
    return [target for target, state in states(jobs, excluded, mounts).items() if state == "missing"]


def test_file_systems_that_can_be_lost_are_told_from_those_that_are_made_up() -> None:
    assert {mount.target for mount in MOUNTS if coverage.holds_data(mount)} == {*ALL, "/srv/sets"}


def test_a_job_of_the_root_alone_leaves_out_every_other_file_system() -> None:
    assert missing([Job("system", ("/",))]) == sorted({*ALL, "/srv/sets"} - {"/"})


def test_a_job_that_crosses_file_systems_has_all_below_its_path() -> None:
    assert missing([Job("system", ("/",), one_file_system=False)]) == []


def test_file_systems_are_in_several_jobs_or_excluded_by_name() -> None:
    jobs = [Job("system", ("/", "/boot", "/boot/efi")), Job("people", ("/home/",))]
    assert missing(jobs, ("/data", "/media", "/mnt/nas")) == ["/srv/sets"]
    assert missing(jobs, ("/data", "/srv/sets", "/media", "/mnt/nas")) == []


def test_what_is_mounted_a_second_time_is_in_the_job_that_has_the_first() -> None:
    found = states([Job("all", ALL)])
    assert found["/srv/sets"] == "whole"
    assert states([Job("sets", ("/srv/sets",))])["/data"] == "missing"


def test_a_subvolume_holds_nothing_of_its_neighbours() -> None:
    mounts = [
        Mount("/", "/dev/sda2", "btrfs", "/", "0:30"),
        Mount("/home", "/dev/sda2", "btrfs", "/@home", "0:30"),
        Mount("/mnt/home", "/dev/sda2", "btrfs", "/@home", "0:30"),
    ]
    assert missing([Job("system", ("/",))], mounts=mounts) == ["/home", "/mnt/home"]
    assert missing([Job("system", ("/", "/home"))], mounts=mounts) == []


def test_a_directory_of_a_file_system_is_a_part_of_it() -> None:
    job = Job("choice", ("/etc", "/home/alice"))
    found = {verdict.mount.target: verdict for verdict in coverage.judge(MOUNTS, [job])}
    assert (found["/"].state, found["/home"].state, found["/data"].state) == ("part", "part", "missing")
    assert found["/home"].by == ("choice",)


def test_a_job_that_excludes_what_it_would_reach_does_not_reach_it() -> None:
    job = Job("system", ("/",), excludes=("/media", "/data/"), one_file_system=False)
    found = states([job])
    assert (found["/media/owner/My Disk"], found["/data"], found["/home"]) == ("excluded", "excluded", "whole")
    assert found["/srv/sets"] == "whole"


@pytest.mark.parametrize("pattern", ["/dat*", "data", "*", "/da?a", "/[d]ata"])
def test_a_pattern_names_no_file_system(pattern: str) -> None:
    assert "/data" in missing([Job("system", ("/",), excludes=(pattern,))])


@pytest.mark.parametrize("name", ["/", "/dat", "data"])
def test_neither_the_root_nor_half_a_name_excludes(name: str) -> None:
    assert "/data" in missing([Job("system", ("/",))], (name,))


def test_the_refusal_names_mount_variable_and_remedy() -> None:
    (only,) = coverage.requirements(
        MOUNTS, [Job("system", tuple(one for one in ALL if one != "/home"))], excluded_variable="backup_excluded_mounts"
    )
    assert only == {
        "ok": False,
        "variable": "backup_jobs",
        "problem": "leave out /home (ext4 on /dev/mapper/vg-home), which is mounted here",
        "remedy": "add /home to the paths of a job, or to backup_excluded_mounts if it need not be saved",
    }


def test_a_container_has_its_layers_for_a_disk_and_files_that_are_mounted_are_none() -> None:
    mounts = [
        Mount("/", "overlay", "overlay", device="0:40"),
        Mount("/etc/hosts", "/dev/vda", "ext4", "/var/lib/docker/containers/x/hosts", "254:0", directory=False),
    ]
    assert states([Job("system", ("/etc",))], mounts=mounts) == {"/": "part"}


def test_a_mount_that_another_hides_is_not_asked_for() -> None:
    hidden = MOUNTINFO + "60 33 8:49 / /data rw - ext4 /dev/sdd1 rw\n"
    (data,) = [mount for mount in coverage.parse_mountinfo(hidden) if mount.target == "/data"]
    assert data.source == "/dev/sdd1"


def test_lines_that_are_none_are_passed_over() -> None:
    assert coverage.parse_mountinfo("\n28 1 254:0 / /\n1 2 - x\n") == []
