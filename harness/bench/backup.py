"""Compare the role backup with plain restic: back the same files up into a fresh repository and restore them, both ways.

Both ways alternate in one run on one host, with the same restic. The differences are the unit (with the lowest priority), the manifest,
and the list of files for the drill.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from typing import NamedTuple

from harness import playbook
from harness.depot import restic_releases
from harness.progress import say, step
from harness.sandbox import engine, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Machine
from harness.sandbox.lab import Refusal

HOST = "debian13"
PASSWORD = "only-for-the-benchmark"  # noqa: S105 - of a repository that nobody else reaches
PLACE = "/srv/bench"
LARGE_MIB, LARGE = 64, 24  # checkpoints
SMALL_KIB, SMALL = 32, 16_384  # code, configuration, thumbnails
MIB = LARGE * LARGE_MIB + SMALL * SMALL_KIB // 1024
# Random: compression and deduplication would distort the rates.
FILL = f"""
import os
for number in range({LARGE}):
    with open("{PLACE}/source/large%d" % number, "wb") as file:
        for block in range({LARGE_MIB}):
            file.write(os.urandom(1 << 20))
for number in range({SMALL}):
    folder = "{PLACE}/source/small%d" % (number % 64)
    os.makedirs(folder, exist_ok=True)
    with open("%s/%d" % (folder, number), "wb") as file:
        file.write(os.urandom({SMALL_KIB} << 10))
"""
BY_HAND = f"RESTIC_PASSWORD={PASSWORD} RESTIC_CACHE_DIR={PLACE}/cache restic --quiet --repo {PLACE}/hand"
WAYS = {
    "restic by hand": {
        "init": f"rm -rf {PLACE}/hand {PLACE}/cache; {BY_HAND} init",
        "backup": f"{BY_HAND} backup {PLACE}/source",
        "restore": f"{BY_HAND} restore latest --target {PLACE}/back",
    },
    "the role": {
        "init": f"rm -rf {PLACE}/role/* /var/cache/rigwright_backup/*; rigwright-backup restic bench init",
        "backup": "rigwright-backup run bench",
        "restore": f"rigwright-backup restore bench --target {PLACE}/back --path {PLACE}/source",
    },
}


class Rate(NamedTuple):
    """MB/s of a first backup, and of a restore of all of it."""

    backup: float
    restore: float


def apply_role() -> None:
    """Apply the role with a job for the directory, and with the measured release."""
    variables = {
        "backup_version": restic_releases.RESTIC,
        "backup_releases": {
            "restic": {
                "url": "http://depot/restic/restic/releases/download",
                "checksums": json.loads(restic_releases.CHECKSUMS.read_text()),
            }
        },
        "backup_repositories": [{"name": "bench", "url": f"{PLACE}/role", "password": PASSWORD}],
        "backup_jobs": [{"name": "bench", "paths": [f"{PLACE}/source"], "schedule": ""}],
    }
    done = playbook.apply_role("backup", HOST, variables)
    if done.rc != 0:
        raise Refusal(f"The role backup failed:\n{done.output[-2000:]}")


def measure(host: Machine, way: dict[str, str]) -> Rate:
    """Measure the rates of one way, from the start of a command to its end, as its user waits for it."""
    host.must(f"rm -rf {PLACE}/back; {way['init']}; sync")
    seconds = []
    for step_name in Rate._fields:
        start = time.monotonic()
        host.must(way[step_name], seconds=900)
        seconds.append(time.monotonic() - start)
    host.must(f"diff -r {PLACE}/source {PLACE}/back{PLACE}/source", seconds=300)
    return Rate(*(MIB * 1.048576 / elapsed for elapsed in seconds))


def main(runs: int) -> int:
    wanted = lab.read("molecule")
    sandbox.up(wanted)
    restic_releases.put()
    host = Machine(engine.connect(), wanted.host(HOST))
    with step(f"{MIB} MiB of files, and the role"):
        host.must(f"rm -rf {PLACE}; mkdir -p {PLACE}/source; python3 - <<'END'\n{FILL}\nEND", seconds=300)
        apply_role()
    rates: dict[str, list[Rate]] = {name: [] for name in WAYS}
    for number in range(runs):
        with step(f"round {number + 1} of {runs}"):
            for name, way in WAYS.items():
                rates[name].append(measure(host, way))
    host.must(f"rm -rf {PLACE}", seconds=300)
    cpu = host.must("sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1").strip()
    version = " ".join(host.must("restic version").split()[:2])
    say(
        f"{MIB} MiB, {LARGE + SMALL} files, {version}, {os.cpu_count()} processors ({cpu}), load {os.getloadavg()[0]:.1f}:"
    )
    print(f"    {'':20} {'backup MB/s':>12} {'restore MB/s':>13}   (median of {runs}; least to most)")
    for name, found in rates.items():
        backup, restore = ([getattr(rate, field) for rate in found] for field in Rate._fields)
        spread = f"{min(backup):.0f} to {max(backup):.0f}, {min(restore):.0f} to {max(restore):.0f}"
        print(f"    {name:20} {statistics.median(backup):12.0f} {statistics.median(restore):13.0f}   ({spread})")
    ratios = [
        statistics.median(
            getattr(role, field) / getattr(hand, field) for hand, role in zip(*rates.values(), strict=True)
        )
        for field in Rate._fields
    ]
    print(f"    {'ratio':20} {ratios[0]:12.2f} {ratios[1]:13.2f}   (median of the rounds)")
    return 0
