#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_disks
short_description: Partition, format and mount data disks without ever losing what is on one
description:
  - Brings disks, their mounts, C(/etc/fstab), directories and project quotas to what is declared, in one run.
  - A disk is written to only when it is empty (no signature, no partition, nothing but zeros in its first and last MiB), or when a wipe
    was asked for at the disk and its serial is repeated in O(confirm_wipe). One that is mounted, swap, or held by LVM, RAID, LUKS, ZFS
    or a program is never written to.
  - A disk that holds the file system and the label that are asked for is taken with its data, also when O(disks[].wipe) is set. It is
    refused where another device has the same UUID.
  - Disks are mounted by UUID, and a missing one stops no boot. A mount point cannot be written to while nothing is mounted there
    (C(chattr +i)).
  - What is about to be made is on record by its ids before the first write, so that a run that was killed is completed by the next one.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - The ids of file systems that would be made are made up, and differ from those of the run.
  diff_mode:
    support: full
options:
  state:
    description:
      - V(planned) reads the host and decides, refuses by RV(requirements) instead of failing, and changes nothing.
      - V(present) does it. V(absent) takes back the mounts, the lines of C(/etc/fstab) and mount points that were made; file systems and
        their data stay.
    type: str
    choices: [planned, present, absent]
    default: present
  disks:
    description: The disks. One that was here before and is not listed any more is unmounted, and stays as it is.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: A name in C(/dev/disk/by-id) of the whole disk. C(/dev/sda) is refused, since the next boot may call another disk so.
        type: str
      serial:
        description: The serial number, as C(lsblk --output SERIAL) has it. Either this or O(disks[].id).
        type: str
      role:
        description: Gives the mount point of a workstation's layout, V(/data), V(/data/cache) or V(/scratch).
        type: str
        choices: [data, cache, scratch]
      mount:
        description: Where it is mounted.
        type: str
      fs:
        description: The file system.
        type: str
        choices: [ext4, xfs, btrfs, vfat]
        default: ext4
      label:
        description: Its label. The last part of the mount point when left out.
        type: str
      partition:
        description: One GPT partition over all of the disk, or the file system on the whole disk.
        type: bool
        default: true
      options:
        description:
          - Mount options in addition to C(noatime,nofail,nosuid,nodev); C(relatime), C(suid) and C(dev) take the place of theirs.
        type: list
        elements: str
        default: []
      owner:
        description: Owner of the root of the file system. It keeps what it has when neither this, group nor mode is given.
        type: str
      group:
        description: Group of it.
        type: str
      mode:
        description: Mode of it, in quotes.
        type: raw
      wipe:
        description: Whether what is on the disk may be lost. Does nothing without the serial in O(confirm_wipe).
        type: bool
        default: false
      quota:
        description: Whether directories on it can have a quota (ext4 and XFS, project quotas).
        type: bool
        default: false
  confirm_wipe:
    description:
      - Serials of disks that may be wiped, or ids of disks without a serial.
      - A file system that is on record as made or taken by an earlier run is confirmed by its UUID, and not by the serial of its disk.
    type: list
    elements: str
    default: []
  directories:
    description: Directories on these disks. No link in their paths is followed, and none is ever removed.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path below the mount point of a disk.
        type: str
        required: true
      owner:
        description: Owner.
        type: str
        default: root
      group:
        description: Group.
        type: str
        default: root
      mode:
        description: Mode, in quotes.
        type: raw
        default: "0755"
      setgid:
        description:
          - New files belong to the group of the directory, and a default ACL gives them the rights that O(directories[].mode) gives,
            whatever the umask of who makes them.
        type: bool
        default: false
      default_acl:
        description: Further entries of the default ACL, as V(group:ml:rwx).
        type: list
        elements: str
        default: []
      quota:
        description: What the tree may have, as V(500G) or V(2T).
        type: str
        default: "0"
  users:
    description: Users who have directories of their own for the paths in O(environment).
    type: list
    elements: str
    default: []
  environment:
    description: Paths by name of a variable. One with C({user}) stands for a directory of each of O(users).
    type: dict
    default: {}
  cache:
    description:
      - A cache before a slower disk. With the C(mode) V(directory) C(path) is made, which only root writes, and in it the sticky C(locks),
        C(requests) and C(sets) of the C(group), and RV(cache) is what C(dataset-cache) is to be configured with.
      - With V(lvmcache) an LV of LVM gets a cache, with C(vg), C(lv), C(device) in C(/dev/disk/by-id), C(size), C(cache_mode)
        (V(writethrough), or V(writeback) with C(accept_loss)). The device has to be empty. No cache is ever taken away.
    type: dict
    default: {mode: none}
  health:
    description: Ask the disks for their SMART health, for RV(findings).
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there.
    type: dict
    default: {}
notes:
  - Run it as root. C(sfdisk), and the program of each file system, have to be there; RV(packages) names what is missing.
  - File systems do not grow with their disk, and labels are not changed.
seealso:
  - module: rigwright.workstation.require
"""

EXAMPLES = r"""
- name: Mount a data disk, and a fast one for the cache in it
  rigwright.workstation.storage_disks:
    disks:
      - {serial: ZL2A1B2C, role: data, fs: xfs}
      - {id: nvme-Samsung_SSD_990_PRO_2TB_S7KHNJ0W, role: cache}
    directories:
      - {path: /data/sets, group: ml, mode: "0775", setgid: true}

- name: Wipe a disk with old data and use it
  rigwright.workstation.storage_disks:
    disks:
      - {serial: ZL2A1B2C, mount: /data, wipe: true}
    confirm_wipe: [ZL2A1B2C]
"""

RETURN = r"""
changes:
  description: Changes that were made, or would be, as text.
  returned: always
  type: list
  elements: str
  sample: ["make ext4 labelled 'data' on /dev/sda (ZL2A1B2C, 12 TB)", mount /data]
changed_paths:
  description: C(/etc/fstab), mount points and directories that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: [/etc/fstab, /data]
mounts:
  description: What is mounted, or would be, and was not before.
  returned: always
  type: list
  elements: dict
  sample: [{target: /data, source: /dev/sda1, fstype: ext4, bytes: 12000138625024}]
unmounts:
  description: Mount points that are taken back, or would be.
  returned: always
  type: list
  elements: str
  sample: []
directories:
  description: Directories that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: [/data/datasets]
waiting:
  description: Mount points where something is due that has to wait for who uses them.
  returned: always
  type: list
  elements: str
  sample: []
requirements:
  description: Problems of the request, as M(rigwright.workstation.require) takes it.
  returned: always
  type: list
  elements: dict
  sample: []
packages:
  description: Debian packages of programs that the request needs and that are not there.
  returned: always
  type: list
  elements: str
  sample: [xfsprogs]
host:
  description:
    - Whether it is a C(container), has disks that smartd can watch (C(smart)), has C(smartctl), has a cache of datasets (C(evicts)),
      and whether its own links enable C(fstrim.timer) (C(trims)).
  returned: always
  type: dict
  sample: {container: false, smart: true, smartctl: true, evicts: false, trims: true}
cache:
  description: The configuration of C(dataset-cache), empty where none is asked for.
  returned: always
  type: dict
  sample: {cache: /data/cache/sets, mount: /data/cache, group: ml, sources: [/data/sets]}
units:
  description: Drop-ins of systemd that mount a disk which comes up after the boot, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: dict
  sample: {directories: [], files: []}
findings:
  description: Findings, as M(rigwright.workstation.finding) takes it.
  returned: when O(state=planned)
  type: list
  elements: dict
  sample: [{id: storage.disks, status: pass, evidence: "/data: ext4 UUID=... on ZL2A1B2C", remedy: ""}]
"""

import contextlib

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import run


def main() -> None:
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": ["planned", "present", "absent"], "default": "present"},
            # _storage/rows.py reads their rows, so that all problems are reported at once.
            "disks": {"type": "list", "elements": "dict", "default": []},
            "confirm_wipe": {"type": "list", "elements": "str", "default": []},
            "directories": {"type": "list", "elements": "dict", "default": []},
            "users": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "cache": {"type": "dict", "default": {"mode": "none"}},
            "health": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    planned = module.params["state"] == "planned"
    try:
        # One run at a time: from what it sees to what it has recorded.
        with contextlib.nullcontext() if planned or module.check_mode else host_lock("storage_disks"):
            run.done(module, run.Storage(module, module.params))
    except Busy as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except Refused as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
