"""The labs: what hosts the sandbox has, read from ordinary Ansible inventories.

`harness/sandbox/labs/<lab>.yml` is the only place that names the hosts of a lab, their addresses and their images: the harness, Ansible
and the tests all read that file.

A sandbox has a number, N of 10.N.0.0/16, and everything that it is made of: a network, a depot, hosts, files in the cache. So two
runs go side by side with RIGWRIGHT_SANDBOX=77 for one of them, and neither sees the other.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
LABS = ROOT / "harness/sandbox/labs"
DEFAULT_NUMBER = 213  # as in harness/sandbox/labs/group_vars/sandbox.yml


class Refusal(SystemExit):
    """One sentence to the user: what is wrong and what to do. Ends the program with status 1, without a traceback."""


def read_number(text: str) -> int:
    """Return the number of the sandbox.

    :raises Refusal: 10.<number>.0.0/16 would be no network.
    """
    if not (text.isdecimal() and int(text) <= 255):
        raise Refusal(f"RIGWRIGHT_SANDBOX is {text!r}, and must be N of a free network 10.N.0.0/16: set it to 0 to 255")
    return int(text)


def subnet(number: int) -> ipaddress.IPv4Network:
    """Return the network of a sandbox."""
    return ipaddress.IPv4Network(f"10.{number}.0.0/16")


NUMBER = read_number(os.environ.get("RIGWRIGHT_SANDBOX") or str(DEFAULT_NUMBER))
SUBNET = subnet(NUMBER)
DEPOT = SUBNET.network_address + 2
# Files that this sandbox keeps between runs. Files that are expensive to make and never change are next to it, for all sandboxes.
STATE = CACHE / "sandbox" / str(NUMBER)


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
        return f"rigwright-{NUMBER}-{self.lab}-{self.name}"


@dataclass(frozen=True)
class Lab:
    """The hosts of one inventory, and what the depot has to serve them: versions of frp, and names of harness/depot/content.py.

    `loop_devices`: the hosts can mount file systems in files. `keeps_bytecode`: Ansible's modules are compiled once (bytecode.py).
    """

    name: str
    inventory: Path
    frp_versions: tuple[str, ...]
    hosts: tuple[Host, ...]
    serves: tuple[str, ...] = ()
    loop_devices: bool = False
    keeps_bytecode: bool = False

    def host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def group(self, name: str) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if name in host.groups)


def names() -> list[str]:
    return sorted(path.stem for path in LABS.glob("*.yml"))


def read(name: str) -> Lab:
    """Read `harness/sandbox/labs/<name>.yml`. Raises Refusal when it declares something that is no address."""
    return read_inventory(LABS / f"{name}.yml")


def read_inventory(inventory: Path) -> Lab:
    """Read the inventory of a lab the way Ansible does. Raises Refusal when it declares something that is no address."""
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
    # Variables of the whole lab are in the group `sandbox`, so every host has them.
    shared = next(iter(variables.values()))
    hosts = tuple(
        Host(
            lab=shared["sandbox_lab"],
            name=host,
            address=address_of(inventory, host, content["sandbox_host"]),
            image=content["sandbox_image"],
            groups=frozenset(group for group, members in groups.items() if host in members),
        )
        for host, content in variables.items()
    )
    return Lab(
        name=shared["sandbox_lab"],
        inventory=inventory,
        frp_versions=tuple(shared["sandbox_frp_versions"]),
        hosts=hosts,
        serves=tuple(shared.get("sandbox_serves", ())),
        loop_devices=shared.get("sandbox_loop_devices", False),
        keeps_bytecode=shared.get("sandbox_keep_bytecode", False),
    )


def address_of(inventory: Path, host: str, rest: object) -> ipaddress.IPv4Address:
    """Return the address of a host: `"1.10"` is 10.N.1.10. Ansible builds `ansible_host` from the same two parts."""
    try:
        if not isinstance(rest, str):  # without quotes YAML reads 1.10 as the number 1.1
            raise ValueError(rest)
        return ipaddress.IPv4Address(f"10.{NUMBER}.{rest}")
    except ValueError:
        raise Refusal(
            f'{inventory}: sandbox_host of {host} is {rest!r}, and must be the rest of its address in quotes, as "1.10"'
        ) from None


def looked_up(name: str) -> dict[str, str]:
    """Return what group_vars/sandbox.yml looks up, and what it makes of that for connections, as an inventory of real hosts has it.

    Ansible would do so again for every task of every host.
    """
    known_hosts = STATE / f"{name}.known_hosts"
    text = known_hosts.read_text().rstrip() if known_hosts.exists() else ""
    values = {
        "sandbox_number": str(NUMBER),
        "sandbox_cache": str(STATE),
        "sandbox_generation": hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8],
        "sandbox_known_hosts": str(known_hosts),
    }
    shared = yaml.safe_load((LABS / "group_vars/sandbox.yml").read_text())
    for option in ("ansible_ssh_private_key_file", "ansible_ssh_args"):
        values[option] = re.sub(r"\{\{ (\w+) \}\}", lambda match: values[match[1]], shared[option])
    return values
