# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Have systemd mount a disk that comes up later than a boot waits for it. Pure: disks in, drop-ins of systemd out.

The mount of a disk that is too late has failed, and nothing starts it again. What a device wants, systemd starts whenever the device
becomes active (systemd.device(5)).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import Entry

UNITS = "/etc/systemd/system"
DROP_IN = "rigwright-storage.conf"


def escape(path: str) -> str:
    """A path as a part of the name of a unit, as ``systemd-escape --path`` gives it."""
    text = "/".join(part for part in path.split("/") if part) or "/"
    if text == "/":
        return "-"
    plain = rb"[A-Za-z0-9:_.]"
    codes = (bytes([code]) for code in text.encode("utf-8", "surrogateescape"))
    words = ["-" if code == b"/" else code.decode() if re.match(plain, code) else f"\\x{code[0]:02x}" for code in codes]
    if words[0] == ".":
        words[0] = "\\x2e"
    return "".join(words)


def mount_unit(mount: str) -> str:
    return f"{escape(mount)}.mount"


def device_unit(entry: Entry) -> str:
    """The disk by its label, which is known before it has one."""
    return f"{escape(f'/dev/disk/by-label/{entry.label}')}.device"


def wanted(entry: Entry, entries: t.Iterable[Entry], cache: str) -> list[str]:
    """What was waiting for a disk: its mount, those below it, and what watches the cache of datasets there."""
    below = [one.mount for one in entries if one.mount == entry.mount or one.mount.startswith(f"{entry.mount}/")]
    return [mount_unit(mount) for mount in below] + (["dataset-cache-evict.path"] if cache in below else [])


def drop_ins(entries: t.Sequence[Entry], cache: str = "") -> dict[str, list[dict[str, str]]]:
    """What M(rigwright.workstation.config_files) puts in place.

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
