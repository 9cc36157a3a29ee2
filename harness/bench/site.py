"""The benchmark: what a run of the site costs when nothing has to change, on the hosts of the demo.

Seconds depend on the machine, so they are printed and never tested; tests hold the counts of module runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

from harness import demo
from harness.bench import backup as bench_backup
from harness.bench import dataset_cache as bench_dataset_cache
from harness.bench import peers as bench_peers
from harness.bench import scale as bench_scale
from harness.bench import smb as bench_smb
from harness.progress import say, step
from harness.sandbox.lab import Refusal


def mitogen() -> dict[str, str]:
    """Return the environment in which Ansible runs under Mitogen. Raises Refusal where it is not installed."""
    found = importlib.util.find_spec("ansible_mitogen")
    if found is None or not found.submodule_search_locations:
        raise Refusal("Mitogen is not installed: .venv/bin/pip install --require-hashes -r requirements/mitogen.txt")
    strategies = Path(next(iter(found.submodule_search_locations)), "plugins/strategy")
    return {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(strategies)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=3, help="runs that are counted (default: 3)")
    parser.add_argument(
        "--hosts", type=int, nargs="+", metavar="N", help="measure so many hosts with four roles instead: 1 5 20"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        metavar="FOLDER",
        help="measure roles next to those of others instead (docs/performance.md)",
    )
    parser.add_argument(
        "--limit", metavar="HOST", help="measure the runs of the demo's site on this host alone: workstation"
    )
    parser.add_argument("--mitogen", action="store_true", help="run Ansible under Mitogen (docs/performance.md)")
    parser.add_argument("--smb", action="store_true", help="measure the throughput of the role samba instead")
    parser.add_argument("--backup", action="store_true", help="measure the role backup next to plain restic instead")
    bench_dataset_cache.add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    environment = mitogen() if args.mitogen else {}
    if args.hosts:
        return bench_scale.main(args.hosts, args.runs, environment)
    if args.peers:
        return bench_peers.main(args.peers, args.runs, environment)
    if args.smb:
        return bench_smb.main(args.runs)
    if args.backup:
        return bench_backup.main(args.runs)
    if args.dataset_cache:
        return bench_dataset_cache.main(args)
    hosts = demo.hosts()
    if args.limit and args.limit not in hosts:
        raise Refusal(f"--limit {args.limit} is none of the demo's hosts: {', '.join(hosts)}")
    machines = [machine for name, machine in hosts.items() if args.limit in (None, name)]
    demo.provision()
    program, *arguments = demo.site_command()
    limit = ["--limit", args.limit] if args.limit else []
    command: list[str | Path] = [Path(sys.executable).with_name(program), *arguments, *limit]
    costs = []
    for number in range(args.runs):
        with step(f"run {number + 1} of {args.runs}, in which nothing has to change"):
            costs.append(bench_scale.run(command, machines, environment, changes=False, report=demo.REPORT))
    median = bench_scale.median(costs)
    load = os.getloadavg()[0]
    name = "site.yml under Mitogen" if args.mitogen else "site.yml"
    say(f"{name}, {len(machines)} hosts, nothing to change, median of {args.runs} (load {load:.1f}):")
    seconds = median.host * len(machines)
    print(f"    wall {median.wall:.1f} s, controller {median.controller:.1f} CPU-s, hosts {seconds:.1f} CPU-s")
    for alias, host in json.loads(demo.REPORT.read_text())["hosts"].items():
        runs = {name: role["module_runs"] for name, role in host["roles"].items() if role["module_runs"]}
        print(f"    {alias}: {runs} module runs")
    return 0
