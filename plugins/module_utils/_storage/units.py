# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Have systemd mount a disk that comes up later than a boot waits for it. Pure: disks in, drop-ins of systemd out.

The mount of a disk that is too late has failed, and nothing starts it again. What a device wants, systemd starts whenever the device
becomes active (systemd.device(5)).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import Entry
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import escape_udev

UNITS = "/etc/systemd/system"
DROP_IN = "rigwright-storage.conf"


def escape(path: str) -> str:
    """Return a path as a part of the name of a unit, as ``systemd-escape --path`` gives it."""
    text = "/".join(part for part in path.split("/") if part) or "/"
    if text == "/":
        return "-"
    plain = rb"[A-Za-z0-9:_.]"
    codes = (bytes([code]) for code in text.encode("utf-8", "surrogateescape"))
    escaped = [
        "-" if code == b"/" else code.decode() if re.match(plain, code) else f"\\x{code[0]:02x}" for code in codes
    ]
    if escaped[0] == ".":
        escaped[0] = "\\x2e"
    return "".join(escaped)


def mount_unit(mount: str) -> str:
    return f"{escape(mount)}.mount"


def device_unit(entry: Entry) -> str:
    """Return the unit of a disk by its label, which is known before the disk has one."""
    return f"{escape(f'/dev/disk/by-label/{escape_udev(entry.label)}')}.device"


def wanted(entry: Entry, entries: t.Iterable[Entry], cache: str) -> list[str]:
    """Return the units that wait for a disk: its mount, mounts below it, and the unit that watches the cache of datasets there."""
    below = [
        other.mount for other in entries if other.mount == entry.mount or other.mount.startswith(f"{entry.mount}/")
    ]
    return [mount_unit(mount) for mount in below] + (["dataset-cache-evict.path"] if cache in below else [])


def drop_ins(entries: t.Sequence[Entry], cache: str = "") -> dict[str, list[dict[str, str]]]:
    """Return what M(rigwright.workstation.config_files) puts in place.

    :param cache: mount point of the disk that has the cache of datasets.
    """
    units = {f"{UNITS}/{device_unit(entry)}.d": wanted(entry, entries, cache) for entry in entries}
    text = "# Written by Ansible: what is mounted when this disk comes up, however late.\n[Unit]\nWants={}\n"
    return {
        "directories": [{"path": path} for path in sorted(units)],
        "files": [
            {"path": f"{path}/{DROP_IN}", "content": text.format(" ".join(names))}
            for path, names in sorted(units.items())
        ],
    }
