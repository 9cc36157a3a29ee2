# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that ``rigwright-first-boot.service`` runs once after a rebuild: the machine is as before. It needs no Ansible.

The result is in /var/lib/rigwright/first_boot.json and in the journal; the unit fails if something differs.
"""

from __future__ import annotations

import json
import re
import sys
import time

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts as system_mounts

PROGRAM = "_bare_metal.first_boot"
UNIT = "rigwright-first-boot.service"
DIRECTORY = "/var/lib/rigwright"
PLACE = f"{DIRECTORY}/first_boot"
EXPECTED, FOUND = f"{DIRECTORY}/first_boot_expected.json", f"{DIRECTORY}/first_boot.json"
NETWORK_S = 90
# The kernel links an interface to those below it by this prefix and their names.
_LOWER = "lower_"
# What programs make within a machine, as ip(8) names these kinds: it reaches others by a card below it, or as a tunnel in another one.
_WITHIN = frozenset({
    "bond", "bridge", "dummy", "geneve", "gre", "gretap", "ifb", "ip6gre", "ip6gretap", "ip6tnl", "ipip", "ipvlan", "macsec", "macvlan",
    "macvtap", "netkit", "nlmon", "ovpn", "sit", "team", "tun", "veth", "vlan", "vrf", "vti", "vti6", "vxlan", "wireguard", "xfrm",
})  # fmt: skip
UNIT_TEXT = f"""\
[Unit]
Description=Check that this machine is what it was before it was built again
ConditionPathExists={EXPECTED}
ConditionPathExists=!{FOUND}
After=multi-user.target
# Otherwise the unit and multi-user.target, which is also default.target, would wait for each other.
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -I {PLACE}
TimeoutStartSec=600

[Install]
WantedBy=default.target
"""


def judge(expected: Facts, found: Facts) -> list[str]:
    """Return what differs from the old machine, a line each."""
    problems = [
        f"{name} is {found[name]!r}, and was {expected[name]!r}"
        for name in ("host", "machine_id")
        if found[name] != expected[name]
    ]
    problems += [f"{target} is not mounted" for target in expected["mounts"] if target not in found["mounts"]]
    problems += [f"the host key {key} is gone" for key in expected["host_keys"] if key not in found["host_keys"]]
    if expected["swap"] and not found["swap"]:
        problems.append("there is no swap")
    if expected["driver"] and not found["driver"]:
        problems.append(f"no NVIDIA driver is loaded, and {expected['driver']} was: dkms status")
    if expected.get("network") and not found["network"]:
        problems.append(
            f"no network card has an address, and {', '.join(expected['network'])} had: `ip -br address` has the names of today, "
            f"and {', '.join(document.NETWORK)} those that are set up"
        )
    return problems + [f"the unit {unit} has failed: systemctl status {unit}" for unit in found["failed_units"]]


def read_machine(tree: Tree, wait_s: float) -> Facts:
    """Read what is compared.

    :param wait_s: how long an address may take.
    """
    network = read_network(tree, wait_s)
    mounts = system_mounts.parse_mountinfo(tree.text("/proc/self/mountinfo"))
    keys = [name for name in tree.names("/etc/ssh") if re.fullmatch(r"ssh_host_\w+_key\.pub", name)]
    failed = programs.run(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--full"]).stdout
    return {
        "host": tree.text("/proc/sys/kernel/hostname").strip(),
        "machine_id": tree.text("/etc/machine-id").strip(),
        "mounts": [mount.target for mount in mounts],
        "host_keys": [document.fingerprint_of_host_key(tree.text(f"/etc/ssh/{name}")) for name in keys],
        "swap": len(tree.text("/proc/swaps").splitlines()) > 1,
        "driver": tree.exists("/proc/driver/nvidia/version"),
        "network": network,
        "failed_units": [line.split()[0] for line in failed.splitlines() if line.split()],
    }


def addresses(tree: Tree) -> list[str]:
    """Return the interfaces that have an address for others to reach. Bridges of containers and tunnels reach nobody by themselves."""
    text = programs.run(["ip", "-j", "-d", "address"]).stdout
    return [
        interface["ifname"]
        for interface in (json.loads(text) if text.strip() else [])
        if any(address.get("scope") == "global" for address in interface.get("addr_info", ()))
        and (_reaches_others(interface) or has_card(tree, interface["ifname"]))
    ]


def _reaches_others(interface: Facts) -> bool:
    """Return whether an interface may reach others without a card below it, as a port of Open vSwitch or a line of PPP."""
    kind = interface.get("linkinfo", {}).get("info_kind", "")
    return kind not in _WITHIN and interface.get("link_type") != "loopback"


def has_card(tree: Tree, name: str) -> bool:
    """Return whether an interface is a network card, or a bridge, a bond or a VLAN on one."""
    place = f"/sys/class/net/{name}"
    return tree.exists(f"{place}/device") or any(
        has_card(tree, entry[len(_LOWER) :]) for entry in tree.names(place) if entry.startswith(_LOWER)
    )


def read_network(tree: Tree, wait_s: float) -> list[str]:
    """Return the interfaces that have an address. A server of DHCP may take its time."""
    deadline = time.monotonic() + wait_s
    while True:
        found = addresses(tree)
        if found or time.monotonic() >= deadline:
            return found
        time.sleep(1)


def main(root: str = "/") -> int:
    tree = Tree(root)
    expected = json.loads(tree.text(EXPECTED))
    problems = judge(expected, read_machine(tree, NETWORK_S if expected.get("network") else 0))
    replace_file(tree.at(FOUND), json.dumps({"passed": not problems, "faults": problems}, indent=1))
    sys.stdout.write("".join(f"{line}\n" for line in problems or ["this machine is what it was"]))
    return 1 if problems else 0
