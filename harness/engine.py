"""The docker engine as the sandbox uses it: the connection, the network, removal by label, and waiting.

Everything that the sandbox makes carries the label `rigwright`, and is found by it: what a broken run left behind goes away like
the rest.
"""

from __future__ import annotations

import ipaddress
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import docker
import docker.errors
from docker.types import IPAMConfig, IPAMPool

from harness.lab import CACHE, Lab, Refusal
from harness.progress import step

NETWORK = "rigwright"
GIB = 1 << 30
DISK_NEEDED = 4 * GIB

T = TypeVar("T")


def connect() -> docker.DockerClient:
    """Return a client of the local docker engine. Raises Refusal when none answers."""
    try:
        return docker.from_env(timeout=300)
    except docker.errors.DockerException as error:
        raise Refusal(
            f"No docker engine answers ({error}): run script/bootstrap, which installs and starts it"
        ) from None


def check_disk(client: docker.DockerClient) -> None:
    root = Path(client.info()["DockerRootDir"])
    for path in (root, CACHE.parent):
        free = shutil.disk_usage(path).free
        if free < DISK_NEEDED:
            raise Refusal(
                f"{path} has {free / GIB:.1f} GiB free, the sandbox needs {DISK_NEEDED / GIB:.0f} GiB: make room there"
            )


def ensure_network(client: docker.DockerClient, wanted: Lab) -> None:
    """Make the network of the sandbox. Raises Refusal when its addresses are in use elsewhere on this machine."""
    found = client.networks.list(names=[NETWORK], filters={"label": "rigwright"})
    if found:
        subnet = found[0].attrs["IPAM"]["Config"][0]["Subnet"]
        if subnet != str(wanted.subnet):
            raise Refusal(
                f"The sandbox runs with {subnet}, {wanted.inventory} wants {wanted.subnet}: `python -m harness down` first"
            )
        return
    for route in host_routes(Path("/proc/net/route").read_text()):
        if route.overlaps(wanted.subnet):
            raise Refusal(
                f"The sandbox wants the addresses {wanted.subnet}, but this machine has a route to {route}: choose others in "
                "harness/labs (sandbox_subnet, sandbox_depot and the ansible_host lines)"
            )
    try:
        client.networks.create(
            NETWORK,
            driver="bridge",
            internal=True,
            labels={"rigwright": "network"},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(wanted.subnet))]),
        )
    except docker.errors.APIError as error:
        raise Refusal(
            f"docker refuses the network {wanted.subnet} ({error.explanation}): choose another in harness/labs"
        ) from None


def host_routes(table: str) -> list[ipaddress.IPv4Network]:
    """The networks in the text of /proc/net/route, without the default route."""
    rows = (line.split() for line in table.splitlines()[1:])
    routes = (ipaddress.IPv4Network((dotted(row[1]), dotted(row[7]))) for row in rows)
    return [route for route in routes if route.prefixlen > 0]


def dotted(address: str) -> str:
    """`000AD50A`, as a little-endian machine writes it, is 10.213.10.0."""
    return str(ipaddress.IPv4Address(int(address, 16).to_bytes(4, sys.byteorder)))


def remove_containers(client: docker.DockerClient, label: str) -> None:
    found = client.containers.list(all=True, filters={"label": label})
    if found:
        with (
            step(f"remove {', '.join(sorted(str(container.name) for container in found))}"),
            ThreadPoolExecutor() as pool,
        ):
            list(pool.map(lambda container: container.remove(force=True, v=True), found))


def wait_for(probe: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """Call `probe` until it returns something; a refused connection counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            result = probe()
        except OSError:
            result = None
        if result is not None:
            return result
        if time.monotonic() > deadline:
            raise Refusal(
                f"Waited {seconds:.0f} s in vain for {what}: see `docker logs` and `docker exec` of its container"
            )
        time.sleep(0.2)
