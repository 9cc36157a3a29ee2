"""The sandbox: systemd containers that Ansible meets as ordinary machines, over ssh.

    python -m harness up --lab demo       start the hosts of a lab; those that run already are kept
    python -m harness down --lab demo     remove them again; without --lab everything that the sandbox made

All labs share one docker network without a way out: a role that fetches something from elsewhere fails here, not at a user's.
Everything is found by the labels `rigwright` and `rigwright.lab`, so what a broken run left behind goes away like the rest.
"""

from __future__ import annotations

import argparse
import io
import ipaddress
import shutil
import socket
import struct
import subprocess
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import docker
import docker.errors
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from harness import depot, images, lab
from harness.lab import CACHE, Host, Lab, Refusal
from harness.progress import say, step

STATE = CACHE / "sandbox"
KEY = STATE / "id_ed25519"
NETWORK = "rigwright"
GIB = 1 << 30
DISK_NEEDED = 4 * GIB

# What systemd, sshd, cron, nftables and FUSE need in a container. Never --privileged: a sandbox host may not touch this machine.
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_ADMIN NET_RAW IPC_LOCK "
    "SYS_CHROOT SYS_PTRACE SYS_ADMIN SYS_NICE SYS_TIME MKNOD AUDIT_WRITE AUDIT_CONTROL SETFCAP SYSLOG"
).split()

T = TypeVar("T")


def connect() -> docker.DockerClient:
    """Return a client of the local docker engine. Raises Refusal when none answers."""
    try:
        return docker.from_env(timeout=300)
    except docker.errors.DockerException as error:
        raise Refusal(f"No docker engine answers ({error}): run script/bootstrap, which installs and starts it") from None


def up(wanted: Lab) -> None:
    """Start the hosts of a lab, and before them what they need: images, the network, the depot."""
    client = connect()
    check_disk(client)
    with ThreadPoolExecutor() as pool:
        tasks = [pool.submit(images.ensure_all, client, {host.image for host in wanted.hosts}), pool.submit(depot.build)]
        for task in tasks:
            task.result()
    ensure_network(client, wanted)
    depot.up(client, wanted, NETWORK)
    make_key()
    with step(f"start {', '.join(host.name for host in wanted.hosts)}"), ThreadPoolExecutor(len(wanted.hosts)) as pool:
        keys = list(pool.map(lambda host: start(client, wanted, host), wanted.hosts))
    known_hosts = "".join(f"{host.address} {key}\n" for host, key in zip(wanted.hosts, keys, strict=True))
    (STATE / f"{wanted.name}.known_hosts").write_text(known_hosts)


def down(name: str | None = None) -> None:
    """Remove the hosts of one lab, or of all; with the last host also the depot and the network."""
    client = connect()
    label = f"rigwright.lab={name}" if name else "rigwright.lab"
    remove_containers(client, label)
    if not client.containers.list(all=True, filters={"label": "rigwright.lab"}):
        remove_containers(client, "rigwright")
        for network in client.networks.list(filters={"label": "rigwright"}):
            network.remove()


def remove_containers(client: docker.DockerClient, label: str) -> None:
    found = client.containers.list(all=True, filters={"label": label})
    if found:
        with step(f"remove {', '.join(sorted(container.name for container in found))}"), ThreadPoolExecutor() as pool:
            list(pool.map(lambda container: container.remove(force=True, v=True), found))


def check_disk(client: docker.DockerClient) -> None:
    root = Path(client.info()["DockerRootDir"])
    for path in (root, CACHE.parent):
        free = shutil.disk_usage(path).free
        if free < DISK_NEEDED:
            raise Refusal(f"{path} has {free / GIB:.1f} GiB free, the sandbox needs {DISK_NEEDED / GIB:.0f} GiB: make room there")


def make_key() -> None:
    """Make this machine's own ssh key for its sandbox hosts."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not KEY.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rigwright-sandbox", "-f", str(KEY)], check=True)


def ensure_network(client: docker.DockerClient, wanted: Lab) -> None:
    """Make the network of the sandbox. Raises Refusal when its addresses are in use elsewhere on this machine."""
    found = client.networks.list(names=[NETWORK], filters={"label": "rigwright"})
    if found:
        subnet = found[0].attrs["IPAM"]["Config"][0]["Subnet"]
        if subnet != str(wanted.subnet):
            raise Refusal(f"The sandbox runs with {subnet}, {wanted.inventory} wants {wanted.subnet}: `python -m harness down` first")
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
        raise Refusal(f"docker refuses the network {wanted.subnet} ({error.explanation}): choose another in harness/labs") from None


def host_routes(table: str) -> list[ipaddress.IPv4Network]:
    """The networks in the text of /proc/net/route, without the default route."""
    routes = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, mask = (socket.inet_ntoa(struct.pack("=I", int(field, 16))) for field in (fields[1], fields[7]))
        if mask != "0.0.0.0":  # noqa: S104: the mask of the default route
            routes.append(ipaddress.IPv4Network((address, mask)))
    return routes


def start(client: docker.DockerClient, wanted: Lab, host: Host) -> str:
    """Make sure that a host runs, and return its public ssh host key."""
    image = images.reference(host.image)
    for container in client.containers.list(all=True, filters={"label": f"rigwright.host={wanted.name}/{host.name}"}):
        if container.status == "running" and image in container.image.tags:
            return wait_until_ready(container, host)
        container.remove(force=True, v=True)
    container = client.containers.create(
        image,
        name=host.container,
        hostname=host.name,
        labels={"rigwright": "host", "rigwright.lab": wanted.name, "rigwright.host": f"{wanted.name}/{host.name}"},
        environment={"container": "docker"},
        cap_drop=["ALL"],
        cap_add=CAPABILITIES,
        security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        cgroupns="private",
        tmpfs={"/run": "", "/run/lock": "", "/tmp": "exec"},  # noqa: S108: the host's own
        stop_signal="SIGRTMIN+3",
        network=NETWORK,
        networking_config={NETWORK: client.api.create_endpoint_config(ipv4_address=str(host.address))},
        extra_hosts={"depot": str(wanted.depot)} | {other.name: str(other.address) for other in wanted.hosts},
    )
    container.put_archive("/", archive(first_files(wanted)))
    try:
        container.start()
    except docker.errors.APIError as error:
        container.remove(force=True, v=True)
        raise Refusal(f"{host.name} does not start at {host.address}: {error.explanation}") from None
    return wait_until_ready(container, host)


def first_files(wanted: Lab) -> dict[str, tuple[str, int, int]]:
    """What a host is given before it starts: `{path: (content, mode, owner)}`."""
    return {
        "home/owner/.ssh": ("", 0o700, 1000),
        "home/owner/.ssh/authorized_keys": (KEY.with_suffix(".pub").read_text(), 0o600, 1000),
        "etc/apt/apt.conf.d/90sandbox": (
            "// The depot caches packages; what it serves itself is fetched without this detour.\n"
            f'Acquire::http::Proxy "http://{wanted.depot}:{depot.APT_PORT}";\n'
            f'Acquire::http::Proxy::{wanted.depot} "DIRECT";\n',
            0o644,
            0,
        ),
    }


def archive(files: dict[str, tuple[str, int, int]]) -> bytes:
    """A tar archive of files (a name with empty content is a directory) for docker's put_archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode, owner) in files.items():
            data = content.encode()
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.REGTYPE if data else tarfile.DIRTYPE
            entry.size, entry.mode, entry.uid, entry.gid, entry.mtime = len(data), mode, owner, owner, int(time.time())
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def wait_until_ready(container: Container, host: Host) -> str:
    """Wait for systemd and sshd, and return the host key. A host with failed units is used, and they are named."""

    def booted() -> str | None:
        state = container.exec_run(["systemctl", "is-system-running"]).output.decode().strip()
        return state if state in ("running", "degraded") else None

    def host_key() -> str | None:
        with socket.create_connection((str(host.address), 22), timeout=2) as connection:
            if not connection.recv(8).startswith(b"SSH-2.0"):
                return None
        found = container.exec_run(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])
        return found.output.decode().strip() if found.exit_code == 0 else None

    if wait_for(booted, f"systemd on {host.name}") == "degraded":
        failed = container.exec_run(["systemctl", "--failed", "--plain", "--no-legend"]).output.decode()
        say(f"{host.name} runs, but these units failed: {', '.join(line.split()[0] for line in failed.splitlines())}")
    return wait_for(host_key, f"sshd on {host.name}")


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
            raise Refusal(f"Waited {seconds:.0f} s in vain for {what}: see `docker logs` and `docker exec` of its container")
        time.sleep(0.2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lab", choices=lab.names(), help="the hosts of this lab only")
    parser.add_argument("--images", action="store_true", help="down: remove the images too")


def main(args: argparse.Namespace) -> int:
    if args.subcommand == "up":
        for name in [args.lab] if args.lab else lab.names():
            up(lab.read(name))
        return 0
    down(args.lab)
    if args.images:
        images.remove_all(connect())
    return 0
