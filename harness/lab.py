"""The labs: what hosts the sandbox has, read from ordinary Ansible inventories.

`harness/labs/<lab>.yml` is the only place that names the hosts of a lab, their addresses and their images: the harness, Ansible
and the tests all read that file.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
LABS = ROOT / "harness" / "labs"


class Refusal(SystemExit):
    """One sentence to the user: what is wrong and what to do. Ends the program with status 1, without a traceback."""


@dataclass(frozen=True)
class Host:
    """A sandbox host. `image` is a key of `images.SUITES`; `groups` are the inventory groups that it is in."""

    lab: str
    name: str
    address: ipaddress.IPv4Address
    image: str
    groups: frozenset[str]

    @property
    def container(self) -> str:
        return f"rigwright-{self.lab}-{self.name}"


@dataclass(frozen=True)
class Lab:
    """The hosts of one inventory, the network that all labs share, the depot's address on it, and what frp it has to serve."""

    name: str
    inventory: Path
    subnet: ipaddress.IPv4Network
    depot: ipaddress.IPv4Address
    frp_versions: tuple[str, ...]
    hosts: tuple[Host, ...]

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def group(self, name: str) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if name in host.groups)


def names() -> list[str]:
    return sorted(path.stem for path in LABS.glob("*.yml"))


def read(name: str) -> Lab:
    """Read `harness/labs/<name>.yml` the way Ansible does. Raises Refusal when it declares an address outside the subnet."""
    inventory = LABS / f"{name}.yml"
    listing = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "--inventory", str(inventory), "--list"],
        check=True,
        capture_output=True,
        text=True,
    )
    return parse(inventory, json.loads(listing.stdout))


def parse(inventory: Path, listing: dict[str, Any]) -> Lab:
    """Build a Lab from what `ansible-inventory --list` says."""
    variables = listing["_meta"]["hostvars"]
    groups = {group: content.get("hosts", []) for group, content in listing.items() if group != "_meta"}
    # What concerns the whole lab stands in the group `sandbox`, so any host knows it.
    shared = next(iter(variables.values()))
    subnet, depot = ipaddress.IPv4Network(shared["sandbox_subnet"]), ipaddress.IPv4Address(shared["sandbox_depot"])
    hosts = tuple(
        Host(
            lab=shared["sandbox_lab"],
            name=host,
            address=ipaddress.IPv4Address(content["ansible_host"]),
            image=content["sandbox_image"],
            groups=frozenset(group for group, members in groups.items() if host in members),
        )
        for host, content in variables.items()
    )
    for what, address in [("sandbox_depot", depot), *((host.name, host.address) for host in hosts)]:
        if address not in subnet:
            raise Refusal(f"{inventory}: the address {address} of {what} is not in sandbox_subnet {subnet}")
    return Lab(shared["sandbox_lab"], inventory, subnet, depot, tuple(shared["sandbox_frp_versions"]), hosts)
