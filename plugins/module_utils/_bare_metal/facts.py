# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a live system before a rebuild: its disks, their content, its programs."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import Request, Target
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot as manifest_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage as manifest_storage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

ROOT = "/"
SBIN = ["/usr/sbin", "/sbin"]
LINKS = ("by-id", "by-path")


def read_target(module: AnsibleModule, tree: Tree) -> Target:
    """Read the live system."""
    _rc, out, _err = module.run_command(["lsblk", "-J", "-O", "-b"], check_rc=True)
    devices, tables = manifest_storage.parse_lsblk(out), manifest_storage.parse_table_ids(out)
    paths: dict[str, list[str]] = {}
    for place in LINKS:
        links = {name: tree.link(f"/dev/disk/{place}/{name}") for name in tree.names(f"/dev/disk/{place}")}
        for name, found in manifest_storage.parse_links(place, links).items():
            paths.setdefault(name, []).extend(found)
    groups: dict[str, list[str]] = {}
    if module.get_bin_path("pvs", opt_dirs=SBIN):
        _rc, out, _err = module.run_command(["pvs", "--reportformat", "json", "-o", "pv_name,vg_name"])
        for row in manifest_storage.parse_report(out, "pv"):
            groups.setdefault(row["vg_name"], []).append(row["pv_name"])
    cards = {
        name: tree.text(f"/sys/class/net/{name}/address").strip()
        for name in tree.names("/sys/class/net")
        if tree.exists(f"/sys/class/net/{name}/device")
    }
    return Target(devices, paths, manifest_boot.boot_mode(tree), groups, tables, cards)


def identify_disks(target: Target, request: Request) -> dict[str, Facts]:
    """Return the device and identity of each disk to write to, for the check right before the first write."""
    found = {path: target.find(path) for path in request.disks.values()}
    return {
        path: {"device": target.devices[name]["path"], **target.identity(name)} for path, name in sorted(found.items())
    }
