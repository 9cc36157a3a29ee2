"""Write a role that passes the contract of roles, from harness/scaffold: `script/new-role NAME [--unit] [--port N] [--metric]`."""

from __future__ import annotations

import argparse
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml

from harness import rows
from harness.sandbox.lab import ROOT, Refusal

SCAFFOLD = Path(__file__).with_name("scaffold")
# What a role may not be called: Ansible, or a person, would take it for something else.
OTHERS = (
    "plugins/modules/{}.py",
    "plugins/action/{}.py",
    "playbooks/{}.yml",
    "plugins/module_utils/_{}",
    "docs/{}.md",
    "molecule/{}",
)
PLAY = "workstations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the name of the role, such as disk_health")
    parser.add_argument("--does", metavar="TEXT", default="", help='what it does, such as "Watch the fans"')
    parser.add_argument("--unit", action="store_true", help="with a unit of systemd that runs its program")
    parser.add_argument("--port", type=int, metavar="N", help="with a TCP port on which the unit answers HTTP")
    parser.add_argument("--metric", action="store_true", help="with metrics for Prometheus on the port")


def main(args: argparse.Namespace) -> int:
    check(args.name, args.port, unit=args.unit, metric=args.metric)
    files = render(args.name, does=args.does, unit=args.unit, port=args.port, metric=args.metric)
    for path, text in files.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
        print(path)
    # The name decides where imports are sorted to. Pages are written by a process of its own, which finds the new role.
    sources = [path for path in files if path.endswith(".py")]
    for command in (
        ["ruff", "check", "--fix", "--quiet", *sources],
        ["ruff", "format", "--quiet", *sources],
        ["harness", "pages"],
    ):
        if subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode != 0:
            raise Refusal(f"`{' '.join(command)}` failed: the role is written, and not complete")
    return 0


def check(name: str, port: int | None = None, *, unit: bool = False, metric: bool = False, root: Path = ROOT) -> None:
    """Refuse what would not become a role, before anything is written."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise Refusal(
            f"{name} must be an identifier such as disk_health: lower-case letters, digits, single underscores"
        )
    if (root / "roles" / name).exists():
        raise Refusal(f"{name} is a role already: choose another name")
    for place in (other.format(name) for other in OTHERS):
        if (root / place).exists():
            raise Refusal(f"{name} is the name of {place}: choose another name")
    if port is not None and not unit:
        raise Refusal("--port needs --unit, which answers on it")
    if metric and port is None:
        raise Refusal("--metric needs --port, on which the metrics are read")
    if port is not None and not 1024 <= port <= 65535:
        raise Refusal(f"--port {port} must be from 1024 to 65535: the unit is not root's")
    if port is not None and (holders := sorted({role for role, taken in ports(root) if taken == port})):
        raise Refusal(f"--port {port} is taken by the role {', '.join(holders)}: choose another one")
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    if changed.stdout:
        raise Refusal(
            "the tree has uncommitted changes: commit them first, so that `git status` shows the new role alone"
        )


def ports(root: Path = ROOT) -> Iterator[tuple[str, int]]:
    """Yield the ports of roles: those in their rows, and defaults of options that are called so."""
    for row in rows.read(root):
        yield from ((row.role, port) for port in row.ports)
        specs = yaml.safe_load((root / f"roles/{row.role}/meta/argument_specs.yml").read_text())
        for option, spec in specs["argument_specs"]["main"]["options"].items():
            if re.search(r"_ports?$", option):
                default = spec.get("default")
                found = default if isinstance(default, list) else [default]
                yield from ((row.role, port) for port in found if isinstance(port, int) and port)


def render(name: str, root: Path = ROOT, **options: Any) -> dict[str, str]:
    """Return the files of a role by path."""
    environment = jinja2.Environment(  # noqa: S701 - no HTML
        loader=jinja2.FileSystemLoader(SCAFFOLD),
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    last = [row.role for row in rows.read(root) if row.play == PLAY][-1]
    unit, settings = f"rigwright-{name.replace('_', '-')}.service", f"/etc/rigwright/{name}.json"
    proofs = [f"{name}.unit", f"{name}.confinement"] if options["unit"] else [f"{name}.settings"]
    proofs += [f"{name}.{'metric' if options['metric'] else 'page'}"] if options["port"] else []
    values = {
        **options,
        "name": name,
        "last": last,
        "sentence": (options.get("does") or f"Run {name.replace('_', ' ')}").rstrip("."),
        "proofs": tuple(proofs),
        "breaks": f"systemctl stop {unit}" if options["unit"] else f"mv {settings} {settings}.away",
        "repairs": f"systemctl start {unit}" if options["unit"] else f"mv {settings}.away {settings}",
    }
    files = {}
    for path in sorted(path for path in SCAFFOLD.rglob("*") if path.is_file()):
        template = str(path.relative_to(SCAFFOLD))
        text = environment.get_template(template).render(values)
        # A template without content is for other options.
        if text.strip():
            files[template.removesuffix(".tmpl").replace("NAME", name)] = text
    return files
