# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifest of a machine: what is needed to build it again, as one document with a version; and its comparison with an older one.

The document is plain JSON without secrets: passwords in addresses and options are left out, keys are named by their fingerprints.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

# A manifest, or a part of it: its shape is below.
Facts = JsonObject

SCHEMA = 1
# The path on the machine, and in its backup.
PATH = "/var/lib/rigwright/manifest.json"
# The places of the settings of the network, by what reads them.
NETWORK = ("/etc/netplan", "/etc/network/interfaces", "/etc/NetworkManager/system-connections", "/etc/systemd/network")
# A file system that has grown or shrunk by less than this part of its size is unchanged: the manifest is not written again for it.
USED_STEP = 0.05
# The texts of locks, and what the volume groups were: too long for a line, so a digest stands for them in the differences.
_LONG = 200
_SHOWN = 8


# What a rebuild reads, by type: EACH is any name, a list is a list of any length, OR_NOTHING is a value that may be empty.
EACH, OR_NOTHING = "*", "?"
_CONTENT = {"type": str, "version": str, "uuid": str, "label": str}
_ROW = {
    "number": int,
    "name": str,
    "start": int,
    "size": int,
    "type": str,
    "uuid": str,
    "label": str,
    "attributes": str,
    "bootable": bool,
}
SHAPE: Facts = {
    "host": {"name": str, "machine_id": str, "distribution": str, "architecture": str},
    "boot": {"mode": str, "loader": str, "secure_boot": str},
    "disks": {
        EACH: {
            "by_id": [str],
            "table": {OR_NOTHING: {"type": str, "id": str, "sector": int, "partitions": [_ROW]}},
        }
    },
    "devices": {
        EACH: {"kind": str, "path": str, "parents": [str], "size": int, "content": _CONTENT, "mountpoints": [str]}
    },
    "volume_groups": {
        EACH: {
            "extent_size": int,
            "devices": [{"path": str}],
            "volumes": [{"name": str, "size": int, "type": str, "origin": str}],
        }
    },
    "mounts": [{"target": str, "type": str, "root": str, "size": int, "used": int}],
    "swaps": [{"path": str, "type": str, "size": int}],
    "kernels": {"installed": {EACH: bool}},
    "nvidia": {"driver": str},
    "host_keys": [str],
}


class Invalid(ValueError):
    """The manifest cannot be used; the text says why."""


def check(manifest: t.Any) -> Facts:
    """Return the manifest if its version and its shape are valid.

    :raises Invalid: it is none.
    """
    if not isinstance(manifest, dict) or "schema" not in manifest:
        raise Invalid("it is no manifest of a machine: it has no schema")
    if manifest["schema"] != SCHEMA:
        raise Invalid(
            f"it has the schema {manifest['schema']}, and {SCHEMA} is understood: use the collection that made it"
        )
    problems = list(_problems(manifest, SHAPE, ""))
    if not problems:
        devices = manifest["devices"]
        named = {*manifest["disks"], *(parent for device in devices.values() for parent in device["parents"])}
        problems = [f"devices.{name} is missing" for name in sorted(named - set(devices))]
    if problems:
        raise Invalid(f"it is cut short or damaged: {', '.join(problems[:_SHOWN])}")
    return manifest


def _problems(value: t.Any, shape: t.Any, name: str) -> t.Iterator[str]:
    """Yield the differences from a shape, by path."""
    if isinstance(shape, type):
        # True is an int to Python.
        if not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
            yield f"{name} is no {shape.__name__}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{name} is no list"
            return
        for number, item in enumerate(value):
            yield from _problems(item, shape[0], f"{name}[{number}]")
    elif not isinstance(value, dict):
        yield f"{name} is no mapping"
    elif OR_NOTHING in shape:
        yield from _problems(value, shape[OR_NOTHING], name) if value else ()
    else:
        for key in value if EACH in shape else shape:
            path = f"{name}.{key}" if name else str(key)
            if key in value:
                yield from _problems(value[key], shape.get(EACH, shape.get(key)), path)
            else:
                yield f"{path} is missing"


def settle(new: Facts, old: Facts | None) -> Facts:
    """Return the new manifest, with old values where nothing important changed: how full a file system is, and the time."""
    if not old:
        return new
    mounts = {mount["target"]: mount for mount in old.get("mounts", [])}
    for mount in new["mounts"]:
        before = mounts.get(mount["target"], {})
        if before.get("size") == mount["size"] and abs(before["used"] - mount["used"]) < mount["size"] * USED_STEP:
            mount["used"] = before["used"]
    return {**new, "made": old["made"]} if not differences(old, new) else new


def differences(old: Facts | None, new: Facts) -> list[str]:
    """Return the changes, a line each: ``packages.versions.linux-image-amd64: 6.12.1 -> 6.12.2``."""
    if not old:
        return ["there was no manifest"]
    flat_old, flat_new = _flatten(old), _flatten(new)
    return [
        f"{name}: {flat_old.get(name, 'absent')} -> {flat_new.get(name, 'absent')}"
        for name in sorted(flat_old.keys() | flat_new.keys())
        if name != "made" and flat_old.get(name) != flat_new.get(name)
    ]


def _flatten(value: t.Any, name: str = "") -> dict[str, str]:
    """Return every value by its path. An item of a list goes by its name, so that a new one does not change those after it."""
    if isinstance(value, dict) and value:
        return {
            path: text for key in value for path, text in _flatten(value[key], f"{name}.{key}" if name else key).items()
        }
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        keyed = {_key(item, number): item for number, item in enumerate(value)}
        return {path: text for key, item in keyed.items() for path, text in _flatten(item, f"{name}[{key}]").items()}
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return {f"{name}[{item}]": "present" for item in value}
    return {name: _short(value)}


def _key(item: Facts, number: int) -> str:
    for field in ("target", "path", "name", "number", "file"):
        if field in item:
            return f"{item[field]} {' '.join(item['suites'])}" if "suites" in item else str(item[field])
    return str(number)


def _short(value: t.Any) -> str:
    text = str(value)
    if len(text) <= _LONG and "\n" not in text:
        return text if text else "empty"
    return f"{len(text.splitlines())} lines, SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def fingerprint_of_host_key(line: str) -> str:
    """Return type and fingerprint of a public host key, as ssh shows them; empty for another line."""
    kind, _blank, rest = line.strip().partition(" ")
    try:
        body = base64.b64decode(rest.split(" ")[0], validate=True)
    except binascii.Error:
        return ""
    if not body:
        return ""
    return f"{kind} SHA256:{base64.b64encode(hashlib.sha256(body).digest()).decode().rstrip('=')}"


def images(listed: t.Iterable[Facts]) -> list[Facts]:
    """Return Docker's images, from its API: what has to be pulled again, by digest where it came from a registry."""
    found = [
        {
            "name": ", ".join(sorted(image.get("RepoTags") or [])) or image["Id"],
            "id": image["Id"],
            "digests": sorted(image.get("RepoDigests") or []),
            "size": image.get("Size", 0),
        }
        for image in listed
    ]
    return sorted(found, key=lambda image: str(image["name"]))


def volumes(listed: Facts) -> list[Facts]:
    """Return Docker's volumes, from its API, without the options of a driver, which may hold a password."""
    found = [
        {"name": volume["Name"], "driver": volume["Driver"], "mountpoint": volume.get("Mountpoint", "")}
        for volume in listed.get("Volumes") or []
    ]
    return sorted(found, key=lambda volume: str(volume["name"]))


def interfaces(listed: t.Iterable[Facts], physical: t.Container[str]) -> list[Facts]:
    """Return the network cards with their addresses, from ``ip -j address``, without dynamic ones."""
    return [
        {
            "name": interface["ifname"],
            # A card of a bond shows the address of the bond.
            "mac": interface.get("permaddr") or interface.get("address", ""),
            "up": interface.get("operstate") == "UP",
            "addresses": sorted(
                f"{address['local']}/{address['prefixlen']}"
                for address in interface.get("addr_info", [])
                if not address.get("dynamic") and address.get("scope") == "global"
            ),
        }
        for interface in sorted(listed, key=lambda interface: str(interface["ifname"]))
        if interface["ifname"] in physical
    ]
