"""The docker engine as the sandbox uses it: the connection, the network, removal by label, and waiting.

Everything that a sandbox makes carries the label `rigwright.sandbox=<number>`, and is found by it: what a broken run left behind
goes away like the rest. The network also says which checkout the sandbox belongs to: another one does not take it over.
"""

from __future__ import annotations

import fcntl
import ipaddress
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import docker
import docker.errors
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from harness.progress import say, step
from harness.sandbox.lab import CACHE, NUMBER, ROOT, SUBNET, Refusal, subnet

NETWORK = f"rigwright-{NUMBER}"
LABELS = {"rigwright.sandbox": str(NUMBER)}
LABEL = f"rigwright.sandbox={NUMBER}"
ANOTHER = "or choose the number of another sandbox: RIGWRIGHT_SANDBOX=77 takes 10.77.0.0/16"
GIB = 1 << 30
DISK_NEEDED = 4 * GIB

T = TypeVar("T")


def connect() -> docker.DockerClient:
    """Return a client of the local docker engine. Raises Refusal when none answers."""
    try:
        return docker.from_env(timeout=300)
    except docker.errors.DockerException as error:
        raise Refusal(
            f"No docker engine answers ({error}): run script/bootstrap --sandbox, which installs and starts it"
        ) from None


def check_disk(client: docker.DockerClient) -> None:
    root = Path(client.info()["DockerRootDir"])
    for path in (root, CACHE.parent):
        free = shutil.disk_usage(path).free
        if free < DISK_NEEDED:
            raise Refusal(
                f"{path} has {free / GIB:.1f} GiB free, the sandbox needs {DISK_NEEDED / GIB:.0f} GiB: make room there"
            )


def ensure_network(client: docker.DockerClient) -> None:
    """Make the network of the sandbox. Raises Refusal when its addresses are in use, or another checkout has this sandbox."""
    if owner(client) == ROOT:
        return
    remove_all(client)  # of a checkout that is gone
    for route in host_routes():
        if route.overlaps(SUBNET):
            raise Refusal(
                f"The sandbox wants the addresses {SUBNET}, but this machine has a route to {route}: free them, {ANOTHER}"
            )
    try:
        client.networks.create(
            NETWORK,
            driver="bridge",
            internal=True,
            labels=LABELS | {"rigwright.checkout": str(ROOT)},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(SUBNET))]),
        )
    except docker.errors.APIError as error:
        raise Refusal(f"docker refuses the network {SUBNET} ({error.explanation}): free it, {ANOTHER}") from None


def host_routes(table: Path = Path("/proc/net/route")) -> list[ipaddress.IPv4Network]:
    """Return the networks that this machine has a route to, without the default route."""
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    routes = (ipaddress.IPv4Network((dotted(row[1]), dotted(row[7]))) for row in rows)
    return [route for route in routes if route.prefixlen > 0]


def dotted(address: str) -> str:
    """Return the dotted form of an address: `000AD50A`, as a little-endian machine writes it, is 10.213.10.0."""
    return str(ipaddress.IPv4Address(int(address, 16).to_bytes(4, sys.byteorder)))


def owner(client: docker.DockerClient) -> Path | None:
    """Return the checkout that this sandbox runs for, None if it does not run.

    :raises Refusal: it is another checkout, and exists.
    """
    checkout = checkouts(client).get(NUMBER)
    if is_of_another(checkout):
        raise Refusal(
            f"The sandbox {NUMBER} belongs to the checkout {checkout}: `.venv/bin/python -m harness down` there first, {ANOTHER}"
        )
    return checkout


def is_of_another(checkout: Path | None) -> bool:
    """Return True if this checkout is another one and exists: its sandbox must not be changed."""
    return checkout is not None and checkout != ROOT and checkout.exists()


def checkouts(client: docker.DockerClient) -> dict[int, Path]:
    """Return the checkouts that the sandboxes of this machine run for, by the sandbox's number."""
    networks = [network.attrs["Labels"] for network in client.networks.list(filters={"label": "rigwright.checkout"})]
    return {int(labels["rigwright.sandbox"]): Path(labels["rigwright.checkout"]) for labels in networks}


def free_numbers(owners: Mapping[int, Path], routes: Sequence[ipaddress.IPv4Network]) -> Iterator[int]:
    """Yield the numbers, from NUMBER on, of the sandboxes that this checkout has or can have."""
    for number in range(NUMBER, 256):
        checkout = owners.get(number)
        in_the_way = checkout is None and any(route.overlaps(subnet(number)) for route in routes)
        if not in_the_way and not is_of_another(checkout):
            yield number


def containers(client: docker.DockerClient, *labels: str) -> list[Container]:
    """Return the containers of this sandbox with all these labels, running or not."""
    found: list[Container] = client.containers.list(all=True, filters={"label": [LABEL, *labels]})
    return found


def remove_containers(client: docker.DockerClient, *labels: str) -> None:
    found = containers(client, *labels)
    if found:
        names = ", ".join(sorted(str(container.name) for container in found))
        with step(f"remove {names}"), ThreadPoolExecutor() as pool:
            list(pool.map(lambda container: container.remove(force=True, v=True), found))


def remove_all(client: docker.DockerClient) -> None:
    """Remove the containers and the network of this sandbox."""
    remove_containers(client)
    for network in client.networks.list(filters={"label": LABEL}):
        network.remove()


@contextmanager
def making(label: str) -> Iterator[None]:
    """Hold a lock on what all sandboxes of this checkout share, while it is made once: images, builds."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{label}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another run makes the {label}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_for(probe: Callable[[], T | None], label: str, seconds: float = 60) -> T:
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
                f"Waited {seconds:.0f} s in vain for {label}: see `docker logs` and `docker exec` of its container"
            )
        time.sleep(0.2)
