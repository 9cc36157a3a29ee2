"""The sandbox: systemd containers that Ansible meets as ordinary machines, over ssh.

    python -m harness up --lab demo       start the hosts of a lab; those that run already are kept
    python -m harness down --lab demo     remove them again; without --lab everything that this sandbox made

The labs of a sandbox share one docker network without a way out: a role that fetches something from elsewhere fails here, not at a
user's.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import docker
import docker.errors

from harness.depot import content
from harness.depot import lifecycle as depot
from harness.progress import say, step
from harness.sandbox import bytecode, engine, images, lab
from harness.sandbox.clients import Entry, Machine
from harness.sandbox.engine import NETWORK, wait_for
from harness.sandbox.lab import DEPOT, STATE, Host, Lab, Refusal

KEY = STATE / "id_ed25519"
OWNER = 1000  # the user that image_setup.sh makes
# Of all hosts; nothing uses it on a host that has no ccache (gpu_host.share_compiler_cache).
COMPILER_CACHE = depot.BUILDS / "ccache"

BOOT = Path(__file__).with_name("host_boot.sh")
BOOT_LIMIT = 180  # seconds: a host boots in two, and on a machine with much else to do it has taken a minute

# Devices of fake GPUs (gpu_host_files/boot.py). No driver of the machine has them, so opening one shows what a control group allows.
FAKE_GPU_RULES = ["c 60:* rwm", "c 61:* rwm"]

# Block major 7 and the misc device that hands out a free one. They are the machine's, so only a lab that mounts file systems has them.
LOOP_DEVICE_RULES = ["b 7:* rwm", "c 10:237 rwm"]
LOOP_NODES = 64  # the kernel hands out the lowest free number, and all hosts of the machine share them
PARTITION_MAJOR = 259  # of partitions of loop devices, and of NVMe disks too

INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_INSTANCES = 1024

# What systemd, sshd, cron, nftables, FUSE, dockerd and `chattr +i` need in a container. Never --privileged: a sandbox host may not touch
# this machine.
CAPABILITIES = [
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "SETFCAP", "MKNOD", "SYS_CHROOT"),
    *("SETUID", "SETGID", "SETPCAP", "KILL", "SYS_NICE", "SYS_PTRACE", "SYS_TIME", "SYS_ADMIN", "IPC_LOCK"),
    *("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "AUDIT_CONTROL", "AUDIT_WRITE", "SYSLOG", "LINUX_IMMUTABLE"),
]


def up(wanted: Lab) -> None:
    """Start the hosts of a lab, and before them what they need: images, the network, the depot."""
    client = engine.connect()
    engine.check_disk(client)
    engine.ensure_network(client)  # first of all: it may be refused
    raise_inotify_limit()
    with ThreadPoolExecutor() as pool:
        for task in (
            pool.submit(images.ensure_all, client, {host.image for host in wanted.hosts}),
            pool.submit(depot.build, wanted.frp_versions),
        ):
            task.result()
    depot.up(client)
    content.put(wanted.serves)
    make_key()
    with step(f"start {', '.join(host.name for host in wanted.hosts)}"), ThreadPoolExecutor(len(wanted.hosts)) as pool:
        keys = list(pool.map(lambda host: start(client, wanted, host), wanted.hosts))
    known_hosts = "".join(f"{host.address} {key}\n" for host, key in zip(wanted.hosts, keys, strict=True))
    (STATE / f"{wanted.name}.known_hosts").write_text(known_hosts)
    (STATE / f"{wanted.name}.ssh_config").write_text(ssh_config(wanted))


def raise_inotify_limit() -> None:
    """Raise the limit of inotify instances until the next boot: all hosts share those of the machine's root, and a dockerd uses many.

    Where that may not be done, a host that finds none left is refused with the words (`wait_until_ready`).
    """
    limit = int(INOTIFY_LIMIT.read_text())
    if limit < INOTIFY_INSTANCES:
        with suppress(OSError):
            INOTIFY_LIMIT.write_text(str(INOTIFY_INSTANCES))
            say(f"raised fs.inotify.max_user_instances of this machine from {limit} to {INOTIFY_INSTANCES}")


def ssh_config(wanted: Lab) -> str:
    """Return a configuration for `ssh -F`, so that a person can log in to the hosts by name."""
    names = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in wanted.hosts)
    known_hosts = STATE / f"{wanted.name}.known_hosts"
    return (
        f"{names}Host *\n  User owner\n  IdentityFile {KEY}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known_hosts}\n"
    )


def down(name: str | None = None) -> None:
    """Remove the hosts of one lab, or of all; with the last host also the depot and the network."""
    client = engine.connect()
    engine.owner(client)  # refuses what is another checkout's
    if not engine.containers(client, *([f"rigwright.lab={name}"] if name else [])):
        say(f"no hosts{f' of the lab {name}' if name else ''} to remove")
    if name:
        engine.remove_containers(client, f"rigwright.lab={name}")
    if not name or not engine.containers(client, "rigwright.lab"):
        engine.remove_all(client)
    for kind in ("known_hosts", "ssh_config", "fingerprint.json"):
        for file in STATE.glob(f"{name or '*'}.{kind}"):
            file.unlink()


def make_key() -> None:
    """Make this machine's own ssh key for its sandbox hosts."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not KEY.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rigwright-sandbox", "-f", str(KEY)], check=True
        )


def start(client: docker.DockerClient, wanted: Lab, host: Host) -> str:
    """Make sure that a host runs, and return its public ssh host key."""
    image = images.reference(host.image)
    labels = {"rigwright.lab": wanted.name, "rigwright.host": host.name}
    for container in engine.containers(client, *(f"{key}={value}" for key, value in labels.items())):
        if container.status == "running" and container.attrs["Config"]["Image"] == image:
            return wait_until_ready(Machine(client, host))
        container.remove(force=True, v=True)
    container = client.containers.create(
        image,
        ["sh", "-c", BOOT.read_text(), BOOT.name, str(LOOP_NODES if wanted.loop_devices else 0)],
        name=host.container,
        hostname=host.name,
        labels=engine.LABELS | labels,
        environment={"container": "docker"},
        cap_drop=["ALL"],
        cap_add=CAPABILITIES,
        device_cgroup_rules=FAKE_GPU_RULES + (loop_device_rules() if wanted.loop_devices else []),
        security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        # As on a machine: docker lets every user of a container bind each port.
        sysctls={"net.ipv4.ip_unprivileged_port_start": "1024"},
        cgroupns="private",
        tmpfs={"/run": "", "/run/lock": "", "/tmp": "exec"},  # noqa: S108
        stop_signal="SIGRTMIN+3",
        # Without SYS_BOOT, the init of a container ends at a reboot, and docker starts it again, with /run empty.
        restart_policy={"Name": "always"},
        volumes={
            str(COMPILER_CACHE): {"bind": "/var/cache/ccache", "mode": "rw"},
            **(bytecode.volume() if wanted.keeps_bytecode else {}),
        },
        network=NETWORK,
        networking_config={NETWORK: client.api.create_endpoint_config(ipv4_address=str(host.address))},
        extra_hosts={"depot": str(DEPOT)} | {other.name: str(other.address) for other in wanted.hosts},
    )
    machine = Machine(client, host)
    machine.put(first_files(wanted))
    try:
        container.start()
    except docker.errors.APIError as error:
        container.remove(force=True, v=True)
        raise Refusal(f"{host.name} does not start at {host.address}: {error.explanation}") from None
    return wait_until_ready(machine)


def loop_device_rules() -> list[str]:
    """Return the rules for loop devices and their partitions, without the NVMe disks of this machine, whose numbers are the same."""
    numbers = [f"{PARTITION_MAJOR}:{minor}" for minor in range(LOOP_NODES)]
    theirs = [
        number
        for number in numbers
        if (device := Path("/sys/dev/block", number)).exists() and "/loop" not in str(device.resolve())
    ]
    return [*LOOP_DEVICE_RULES, *(f"b {number} rwm" for number in numbers if number not in theirs)]


def first_files(wanted: Lab) -> dict[str, Entry]:
    """Return the files that a host gets before it starts."""
    proxy = f"""\
// The depot caches packages; what it serves itself is fetched without this detour.
Acquire::http::Proxy "http://{DEPOT}:{depot.APT_PORT}";
Acquire::http::Proxy::{DEPOT} "DIRECT";
"""
    return {
        "/home/owner/.ssh": Entry(None, mode=0o700, owner=OWNER),
        "/home/owner/.ssh/authorized_keys": Entry(KEY.with_suffix(".pub").read_bytes(), mode=0o600, owner=OWNER),
        "/etc/apt/apt.conf.d/90sandbox": Entry(proxy.encode()),
        **({path: Entry(text.encode()) for path, text in bytecode.FILES.items()} if wanted.keeps_bytecode else {}),
    }


def wait_until_ready(machine: Machine) -> str:
    """Wait for systemd and sshd, and return the host key. A host with failed units is used, and they are named."""
    name = machine.host.name

    def booted() -> str | None:
        state = machine.run("systemctl is-system-running").stdout.strip()
        return state if state in ("running", "degraded") else None

    def host_key() -> str | None:
        with socket.create_connection((str(machine.host.address), 22), timeout=2) as connection:
            if not connection.recv(8).startswith(b"SSH-2.0"):
                return None
        return machine.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.strip() or None

    try:
        state = wait_for(booted, f"systemd on {name}", BOOT_LIMIT)
    except Refusal as refusal:
        raise Refusal(f"{refusal}\n{machine.run('systemctl list-jobs; journalctl --lines=10').stdout}") from None
    if state == "degraded":
        failed = machine.run("systemctl --failed --plain --no-legend").stdout
        say(f"{name} runs, but these units failed: {', '.join(line.split()[0] for line in failed.splitlines())}")
        # The limit is of this machine and of root's processes together, in all containers.
        if machine.run("journalctl --boot --quiet --grep 'inotify.*Too many open files'").stdout:
            limit = INOTIFY_LIMIT.read_text().strip()
            raise Refusal(
                f"{name} does not start: this machine has only {limit} inotify instances, and they are used up."
                f" Stop other containers, or raise the limit: sysctl fs.inotify.max_user_instances={INOTIFY_INSTANCES}"
            )
    return wait_for(host_key, f"sshd on {name}", BOOT_LIMIT)


def reboot(machine: Machine) -> None:
    """Reboot a host, and wait until it is running again."""

    def boot_id() -> str | None:
        return machine.run("cat /proc/sys/kernel/random/boot_id").stdout or None

    before = boot_id()
    machine.start("systemctl reboot")
    wait_for(lambda: boot_id() not in (None, before) or None, f"the reboot of {machine.host.name}")
    wait_until_ready(machine)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lab", choices=lab.names(), help="the hosts of this lab only")
    parser.add_argument("--images", action="store_true", help="down: remove the images too")


def main(args: argparse.Namespace) -> int:
    if args.subcommand == "up":
        for name in [args.lab] if args.lab else lab.names():
            up(lab.read(name))
        return 0
    down(lab.read(args.lab).name if args.lab else None)
    if args.images:
        images.remove_all(engine.connect())
    return 0
