"""Our roles beside other collections' roles for the same work: `script/bench --peers FOLDER`.

FOLDER has what you fetched yourself: `roles/geerlingguy.docker`, `roles/willshersystems.sshd`, and
`collections/ansible_collections/vladgh/samba`; and `pyinfra`, a Python environment with it. What is
missing there is left out, with a line.

Each side has a fresh container of Debian 13. After the first runs, all run by turns with nothing to change, without proofs on our side,
which the others do not have either. The same checks then look at all hosts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.bench import scale
from harness.progress import say, step
from harness.sandbox import engine, lab, lifecycle
from harness.sandbox.clients import Machine
from harness.sandbox.lab import Refusal

PASSWORD = "not-secret-in-a-bench"  # noqa: S105 - of a container without a way out
OURS, THEIRS, PYINFRA = "ours", "theirs", "pyinfra"
# The changes in what pyinfra prints at the end.
TOTAL = re.compile(r"Grand total +\d+ +(\d+|-) ")
DEPLOYS = Path(__file__).parent / "deploys"


@dataclass(frozen=True)
class Pair:
    """A role of ours and one of others, the variables of both, and a command that ends well on hosts that either has set up."""

    role: str
    peer: str
    place: str
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]
    check: str
    extra: Mapping[str, Any] = field(default_factory=dict)


PAIRS = (
    Pair(
        "samba",
        "vladgh.samba.server",
        "collections/ansible_collections/vladgh/samba",
        {
            "samba_users": [{"name": "owner", "password": PASSWORD}],
            "samba_shares": [{"name": "data", "path": "/srv", "valid_users": ["owner"], "read_only": False}],
        },
        {
            "samba_users": [{"name": "owner", "password": PASSWORD}],
            "samba_shares": [
                {"name": "data", "path": "/srv", "valid_users": "owner", "write_list": "owner", "owner": "owner"}
            ],
        },
        f"apt-get install -y smbclient >/dev/null && PASSWD={PASSWORD} smbclient -U owner //localhost/data -c ls",
    ),
    Pair(
        "docker",
        "geerlingguy.docker",
        "roles/geerlingguy.docker",
        {"docker_users": ["owner"]},
        {
            "docker_add_repo": False,
            "docker_packages": ["docker.io"],
            "docker_install_compose": False,
            "docker_install_compose_plugin": False,
            "docker_users": ["owner"],
            "docker_daemon_options": {"log-driver": "local"},
        },
        "docker info --format '{{.LoggingDriver}}' | grep -qx local && id -nG owner | grep -qw docker",
        # Its vars/Debian.yml overrides variables of a play: without this, each run removes docker and installs it again.
        {"docker_obsolete_packages": []},
    ),
    Pair(
        "ssh",
        "willshersystems.sshd",
        "roles/willshersystems.sshd",
        {},
        {
            "sshd_config": {
                "PasswordAuthentication": False,
                "KbdInteractiveAuthentication": False,
                "PermitRootLogin": "prohibit-password",
                "Include": "/etc/ssh/sshd_config.d/*.conf",
                "UsePAM": True,
            }
        },
        "sshd -T | grep -qx 'passwordauthentication no'",
    ),
)


def playbooks(pair: Pair) -> dict[str, Path]:
    """Write the playbook of each side; return them."""
    ours = [{"name": "Apply the role", "ansible.builtin.import_role": {"name": f"rigwright.workstation.{pair.role}"}}]
    theirs = [{"name": "Apply the role", "ansible.builtin.import_role": {"name": pair.peer}}]
    return {
        OURS: scale.write_playbook(f"{pair.role}_ours", OURS, ours, vars=pair.ours),
        THEIRS: scale.write_playbook(
            f"{pair.role}_theirs", THEIRS, theirs, vars={**pair.theirs, **pair.extra}, gather_facts=True
        ),
    }


def write_pyinfra_inventory(wanted: lab.Lab) -> Path:
    """Write the hosts for pyinfra; return the path."""
    data = {
        "ssh_user": "owner",
        "ssh_key": str(lifecycle.KEY),
        "ssh_known_hosts_file": str(lab.STATE / f"{wanted.name}.known_hosts"),
        "ssh_strict_host_key_checking": "yes",
        "_sudo": True,
    }
    hosts = [(str(host.address), data) for host in wanted.hosts if host.name == PYINFRA]
    path = lab.STATE / f"{wanted.name}_pyinfra.py"
    path.write_text(f"hosts = {hosts!r}\n")
    return path


def run_pyinfra(
    command: list[str | Path], machines: list[Machine], environment: Mapping[str, str], *, changes: bool
) -> scale.Cost:
    """Run a deploy of pyinfra. Raises Refusal when it fails, or changes something although it may not."""
    cost, printed = scale.timed(command, machines, environment)
    changed = TOTAL.search(printed)
    if changed is None or (changed[1] != "-" and not changes):
        raise Refusal(f"{printed[-3000:]}\npyinfra changed something, or printed no total.")
    return cost


def commands(pair: Pair, folder: Path, inventory: Path, hosts: Path) -> dict[str, list[str | Path]]:
    """Return the command of each side that FOLDER has."""
    program = Path(sys.executable).with_name("ansible-playbook")
    extra = [word for name, value in pair.extra.items() for word in ("-e", f'{{"{name}": {value}}}')]
    found = playbooks(pair)
    pyinfra = folder / "pyinfra/bin/pyinfra"
    return {
        OURS: [program, found[OURS], "--inventory", inventory, *scale.connection()],
        **(
            {THEIRS: [program, found[THEIRS], "--inventory", inventory, *scale.connection(), *extra]}
            if (folder / pair.place).is_dir()
            else {}
        ),
        **({PYINFRA: [pyinfra, "-y", hosts, DEPLOYS / f"{pair.role}.py"]} if pyinfra.is_file() else {}),
    }


def compare(
    pair: Pair,
    folder: Path,
    machines: Mapping[str, Machine],
    sides: Mapping[str, list[str | Path]],
    runs: int,
    environment: Mapping[str, str],
) -> dict[str, tuple[scale.Cost, scale.Cost]]:
    """Return the cost of the first run, and the median of those in which nothing has to change, of each side."""
    found = Path(os.environ.get("ANSIBLE_COLLECTIONS_PATH", "collections"))
    places = {
        "ANSIBLE_ROLES_PATH": str(folder / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": f"{found}:{folder / 'collections'}",
        **environment,
    }

    def run(side: str, *, changes: bool) -> scale.Cost:
        start = run_pyinfra if side == PYINFRA else scale.run
        return start(sides[side], [machines[side]], places, changes=changes)

    first: dict[str, scale.Cost] = {}
    later: dict[str, list[scale.Cost]] = {side: [] for side in sides}
    for side in sides:
        with step(f"{pair.role}, {side}: first run"):
            first[side] = run(side, changes=True)
    for number in range(runs):
        for side in sides:
            with step(f"{pair.role}, {side}: run {number + 1} of {runs}, in which nothing has to change"):
                later[side].append(run(side, changes=False))
    for side in sides:
        machines[side].must(pair.check, seconds=120)
    return {side: (first[side], scale.median(costs)) for side, costs in later.items()}


def main(folder: Path, runs: int, environment: Mapping[str, str]) -> int:
    if not folder.is_dir():
        raise Refusal(f"--peers {folder} is no directory: give the one that has `roles` and `collections` of the peers")
    folder = folder.resolve()
    for place in (*(pair.place for pair in PAIRS), "pyinfra/bin/pyinfra"):
        if not (folder / place).exists():
            say(f"{folder / place} is missing: left out")
    inventory = scale.write_inventory({OURS: {}, THEIRS: {}, PYINFRA: {}})
    wanted = lab.read_inventory(inventory)
    lifecycle.up(wanted)
    try:
        machines = {host.name: Machine(engine.connect(), host) for host in wanted.hosts}
        hosts = write_pyinfra_inventory(wanted)
        rows = [
            (pair, compare(pair, folder, machines, sides, runs, environment))
            for pair in PAIRS
            if len(sides := commands(pair, folder, inventory, hosts)) > 1
        ]
    finally:
        lifecycle.down(scale.LAB)
    say(f"one role alone, nothing to change, median of {runs} (load {os.getloadavg()[0]:.1f}):")
    for pair, costs in rows:
        names = {OURS: pair.role, THEIRS: pair.peer, PYINFRA: f"pyinfra, {pair.role}"}
        for side, (first, later) in costs.items():
            print(
                f"    {names[side]:22} first {first.wall:6.1f} s   wall {later.wall:5.1f} s   controller {later.controller:4.1f} CPU-s"
                f"   host {later.host:4.1f} CPU-s   {later.modules:.0f} module runs   ratio {costs[OURS][1].wall / later.wall:5.2f}"
            )
    return 0
