"""What the settings of the role samba cost: throughput on loopback, compared with a minimal smb.conf.

All in one run on one host, each client after the other, from and to a file system in memory: what differs is the configuration.
"""

from __future__ import annotations

import os
import shlex
import statistics
import time
from typing import NamedTuple

from harness import playbook
from harness.progress import say, step
from harness.sandbox import engine, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Machine
from harness.sandbox.lab import Refusal

HOST = "debian13"
PORT = 1445
PASSWORD = "only-for-the-benchmark"  # noqa: S105 - of hosts that nobody else reaches
SIZE_MIB = 512
RAM = "/srv/bench"
HAND = "/srv/hand"

# What a web page shows for a share of one's own: everything else is Samba's default.
BY_HAND = f"""\
[global]
    server role = standalone server
[bench]
    path = {RAM}
    read only = no
"""
# Only so that two servers can run side by side.
APART = f"""\
[global]
    private dir = {HAND}/private
    lock directory = {HAND}/lock
    state directory = {HAND}/state
    cache directory = {HAND}/cache
    pid directory = {HAND}/pid
    ncalrpc dir = {HAND}/ncalrpc
    log file = {HAND}/log
    disable netbios = yes
    bind interfaces only = yes
    interfaces = lo
"""


class Rate(NamedTuple):
    """MB/s of a file that was put, and of one that was got."""

    put: float
    get: float


def apply_role(encrypt: str) -> None:
    """Apply the role, which serves the directory on the host."""
    variables = {
        "samba_networks": [],
        "samba_encrypt": encrypt,
        "samba_users": [{"name": "owner", "password": PASSWORD}],
        "samba_shares": [{"name": "bench", "path": RAM, "read_only": False, "mount": "none"}],
    }
    done = playbook.apply_role("samba", HOST, variables)
    if done.rc != 0:
        raise Refusal(f"The role samba failed:\n{done.output[-2000:]}")


def serve_by_hand(host: Machine) -> None:
    folders = " ".join(f"{HAND}/{name}" for name in ("private", "lock", "state", "cache", "pid", "ncalrpc"))
    host.must(f"mkdir -p {folders}; cat > {HAND}/smb.conf <<'END'\n{BY_HAND}{APART}END")
    host.must(f"printf '%s\\n%s\\n' {PASSWORD} {PASSWORD} | smbpasswd -c {HAND}/smb.conf -s -a owner")
    host.start(f"smbd --foreground --no-process-group --configfile={HAND}/smb.conf --port={PORT}")
    host.must(f"for i in $(seq 100); do ss -Hlnt | grep -q ':{PORT} ' && exit; sleep 0.1; done; exit 1")


def measure(host: Machine, port: int) -> Rate:
    """Return the seconds of the whole client for one way each, as its user waits for it."""
    seconds = []
    for command in (f"put {RAM}/file there", f"get there {RAM}/back"):
        client = f"PASSWD={PASSWORD} smbclient --configfile=/dev/null -p {port} -U owner //127.0.0.1/bench"
        start = time.monotonic()
        host.must(f"{client} -c {shlex.quote(command)}", seconds=300)
        seconds.append(time.monotonic() - start)
    host.must(f"cmp {RAM}/file {RAM}/back && rm {RAM}/back {RAM}/there")
    return Rate(*(SIZE_MIB * 1.048576 / duration for duration in seconds))


def main(runs: int) -> int:
    wanted = lab.read("molecule")
    sandbox.up(wanted)
    host = Machine(engine.connect(), wanted.host(HOST))
    host.must(f"mkdir -p {RAM}; mountpoint -q {RAM} || mount -t tmpfs -o size=2G,uid=$(id -u owner) tmpfs {RAM}")
    host.must(f"head -c {SIZE_MIB}M /dev/urandom > {RAM}/file")
    with step("the role, and a server by hand"):
        apply_role("desired")
        serve_by_hand(host)
    rates: dict[str, list[Rate]] = {"by hand, port 1445": [], "the role": []}
    for number in range(runs):
        with step(f"round {number + 1} of {runs}"):
            rates["by hand, port 1445"].append(measure(host, PORT))
            rates["the role"].append(measure(host, 445))
    with step("the role, encrypted only for who asks"):
        apply_role("default")
        rates["the role, samba_encrypt: default"] = [measure(host, 445) for _round in range(runs)]
    cpu = host.must("sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1").strip()
    version = host.must("smbd --version").strip()
    say(f"{SIZE_MIB} MiB over loopback, {version}, {os.cpu_count()} processors ({cpu}), load {os.getloadavg()[0]:.1f}:")
    print(f"    {'':34} {'put MB/s':>9} {'get MB/s':>9}   (median of {runs}; least to most)")
    for name, found in rates.items():
        put, get = ([getattr(rate, way) for rate in found] for way in Rate._fields)
        spread = f"{min(put):.0f} to {max(put):.0f}, {min(get):.0f} to {max(get):.0f}"
        print(f"    {name:34} {statistics.median(put):9.0f} {statistics.median(get):9.0f}   ({spread})")
    return 0
