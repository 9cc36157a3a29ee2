"""The cost of a run by the number of hosts: `script/bench --hosts 1 5 20`.

The hosts are containers of Debian 13 with systemd and sshd. site.yml gives them mirrors, ssh, samba and the firewall. The
first run installs everything; the counted ones change nothing. All hosts share this machine's processors with the controller, so compare
processor seconds.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from harness.progress import say, step
from harness.sandbox import engine, lab, lifecycle
from harness.sandbox.clients import Machine
from harness.sandbox.lab import ROOT, STATE, Refusal

LAB = "scale"
ROLES = ("mirrors", "ssh", "samba", "firewall")
MOST = 200
VARIABLES = {
    "mirrors_apt_urls": ["http://{{ sandbox_depot }}/debian"],
    "mirrors_max_age_days": 3650,  # the archive behind the depot may be old
    "samba_users": [{"name": "owner", "password": "not-secret-in-a-bench"}],
    "samba_shares": [{"name": "data", "path": "/srv", "valid_users": ["owner"], "read_only": False}],
    "firewall_allow": [],
}


class Cost(NamedTuple):
    """What a run took: seconds by the clock, of the controller's processors, of a host's; MiB of the largest process; modules a host."""

    wall: float
    controller: float
    host: float
    memory: float
    modules: float


def write_inventory(hosts: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write an inventory of hosts of Debian 13 with their variables; return its path."""
    STATE.mkdir(parents=True, exist_ok=True)
    shared = STATE / "group_vars"
    if not shared.is_symlink():
        shared.symlink_to(lab.LABS / "group_vars")
    placed = {
        name: {"sandbox_host": f"3.{number}", "sandbox_image": "debian13", **own}
        for number, (name, own) in enumerate(hosts.items(), start=1)
    }
    variables = {"sandbox_lab": LAB, "sandbox_frp_versions": ["0.70.1"]}
    inventory = STATE / f"{LAB}.json"
    groups: Any = {"workstations": {"hosts": {name: {} for name in placed}}}
    inventory.write_text(json.dumps({"sandbox": {"vars": variables, "hosts": placed, "children": groups}}))
    return inventory


def connection() -> list[str]:
    """Return the options that give ansible-playbook the connection to the hosts, once they are there."""
    return ["--extra-vars", json.dumps(lab.looked_up(LAB))]


def write_playbook(name: str, hosts: str, tasks: Collection[Mapping[str, Any]], **more: Any) -> Path:
    """Write a playbook of one play; return its path."""
    play = {"name": f"Apply {name}", "hosts": hosts, "become": True, "gather_facts": False, **more, "tasks": tasks}
    playbook = STATE / f"{LAB}_{name}.json"
    playbook.write_text(json.dumps([play]))
    return playbook


def host_seconds(machines: Collection[Machine]) -> float:
    """Return the processor time that hosts have used since they were started."""
    # Docker takes a second for each.
    with ThreadPoolExecutor(len(machines)) as pool:
        stats: list[Any] = list(pool.map(lambda machine: machine.container.stats(stream=False), machines))
    nanoseconds: list[int] = [stat["cpu_stats"]["cpu_usage"]["total_usage"] for stat in stats]
    return sum(nanoseconds) / 1e9


def timed(command: list[str | Path], machines: Collection[Machine], environment: Mapping[str, str]) -> tuple[Cost, str]:
    """Run a program; return its cost without module runs, and what it printed. Raises Refusal when it fails."""
    hosts = host_seconds(machines)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Refusal(f"{done.stdout[-3000:]}\nThe run ended with {done.returncode}.")
    controller = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = (host_seconds(machines) - hosts) / len(machines)
    return Cost(wall, controller, each, after.ru_maxrss / 1024, 0), done.stdout


def run(
    command: list[str | Path],
    machines: Collection[Machine],
    environment: Mapping[str, str],
    *,
    changes: bool,
    report: Path = STATE / f"{LAB}_report.json",
) -> Cost:
    """Run a playbook. Raises Refusal when it fails, or changes something although it may not."""
    cost, printed = timed(command, machines, {"RIGWRIGHT_REPORT_PATH": str(report), **environment})
    found = json.loads(report.read_text())["hosts"]
    changed = sum(host["stats"]["changed"] for host in found.values())
    if changed and not changes:
        raise Refusal(f"{printed[-3000:]}\nThe run changed {changed} tasks.")
    modules = sum(
        work["module_runs"] + work["verify_module_runs"]
        for host in found.values()
        for work in (*host["roles"].values(), host["outside_roles"])
    )
    return cost._replace(modules=modules / len(machines))


def median(costs: Collection[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def measure(count: int, runs: int, environment: Mapping[str, str]) -> tuple[Cost, Cost]:
    """Return what the first run on so many hosts takes, and the median of runs in which nothing has to change."""
    inventory = write_inventory({f"host{number:03}": VARIABLES for number in range(1, count + 1)})
    wanted = lab.read_inventory(inventory)
    lifecycle.up(wanted)
    try:
        machines = [Machine(engine.connect(), host) for host in wanted.hosts]
        command: list[str | Path] = [
            Path(sys.executable).with_name("ansible-playbook"),
            ROOT / "site.yml",
            *("--inventory", inventory, "--tags", ",".join(ROLES)),
            # With fewer, Ansible's main process asks without a pause whether a worker has ended.
            *("--forks", str(count)),
            *connection(),
        ]
        with step(f"{count} hosts: first run"):
            first = run(command, machines, environment, changes=True)
        later = []
        for number in range(runs):
            with step(f"{count} hosts: run {number + 1} of {runs}, in which nothing has to change"):
                later.append(run(command, machines, environment, changes=False))
    finally:
        lifecycle.down(LAB)
    return first, median(later)


def main(counts: list[int], runs: int, environment: Mapping[str, str]) -> int:
    wrong = [count for count in counts if not 1 <= count <= MOST]
    if wrong:
        raise Refusal(f"--hosts takes numbers from 1 to {MOST}, not {', '.join(map(str, wrong))}")
    rows = [(count, *measure(count, runs, environment)) for count in counts]
    say(f"{', '.join(ROLES)}, each with its proof (load {os.getloadavg()[0]:.1f}):")
    print("    hosts  run                 wall     controller      a host  largest process  modules of a host")
    for count, first, later in rows:
        for name, cost in (("first", first), ("nothing to change", later)):
            seconds = f"{cost.wall:6.1f} s  {cost.controller:6.1f} CPU-s  {cost.host:5.1f} CPU-s"
            print(f"    {count:5}  {name:17}  {seconds}  {cost.memory:11.0f} MiB  {cost.modules:17.0f}")
    return 0
