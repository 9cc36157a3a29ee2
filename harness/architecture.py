"""Read the packages of `plugins/module_utils` and their imports: what docs/architecture.md shows and tests/contract holds."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

from harness.sandbox.lab import ROOT, Refusal

UTILS = "plugins/module_utils"
NAMESPACE = f"ansible_collections.rigwright.workstation.{UTILS.replace('/', '.')}."


class Package(NamedTuple):
    floor: int
    purpose: str


# A package imports those of its own floor and of the floors below it.
PACKAGES = {
    "_core": Package(1, "files, directories, locks, records, releases, certificates, problems and findings"),
    "_apt": Package(2, "packages, package sources, mirrors"),
    "_conda": Package(2, "conda environments: solve, store, link"),
    "_dataset_cache": Package(2, "the program `dataset-cache`: copies of data sets on a fast disk"),
    "_storage": Package(2, "disks, file systems, shared directories, quotas"),
    "_system": Package(2, "systemd units, mounts, listeners, PCI devices, groups"),
    "_status": Package(3, "the display of a host's state: readers, text, HTML; the program `workstation-status`"),
    "_docker": Package(3, "docker, its daemon.json, GPUs in containers"),
    "_nvidia": Package(3, "driver, CUDA and cuDNN: catalogue, choice, change"),
    "_samba": Package(3, "shares, their directories and users"),
    "_ssh": Package(3, "sshd's configuration and who can log in"),
    "_firewall": Package(4, "rules, what they open, the table of nftables"),
    "_gpu": Package(4, "GPUs by NVML: state, health, modes, MIG, MPS, acceptance"),
    "_manifest": Package(4, "what a machine is, for its rebuild"),
    "_backup": Package(5, "restic jobs, drills, restores; the program `rigwright-backup`"),
    "_frp": Package(5, "frp's server and client: checks, tunnels, what a running frpc reports"),
    "_xrdp": Package(5, "remote desktops: xrdp and GNOME Remote Desktop"),
    "_bare_metal": Package(6, "a machine rebuilt from its backup"),
    "_roles": Package(7, "what each role plans and proves, a file a role"),
}


def sources(root: Path = ROOT) -> list[Path]:
    return sorted((root / UTILS).rglob("*.py"))


def package_of(path: Path, root: Path = ROOT) -> str:
    """Return the package that a file of module_utils is in."""
    return path.relative_to(root / UTILS).parts[0]


def in_packages(path: Path, root: Path = ROOT) -> str:
    """Return where a file of module_utils is, and the name alone of any other file."""
    return str(path.relative_to(root / UTILS)) if path.is_relative_to(root / UTILS) else path.name


@functools.cache
def imported(text: str) -> tuple[str, ...]:
    """Return what a source imports from module_utils, as `_gpu.mig.plan`."""
    return tuple(
        ".".join(filter(None, [f"{node.module}.".removeprefix(NAMESPACE).rstrip("."), alias.name]))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(NAMESPACE)
        for alias in node.names
    )


def arrows(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    found: dict[str, set[str]] = {package_of(path, root): set() for path in sources(root)}
    for path in sources(root):
        package = package_of(path, root)
        found[package] |= {name.split(".")[0] for name in imported(path.read_text())} - {package}
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the packages of a circle of imports, and nothing when there is none."""
    remaining = {package: set(targets) for package, targets in graph.items()}
    while free := [package for package, targets in remaining.items() if not targets & remaining.keys()]:
        for package in free:
            del remaining[package]
    return sorted(remaining)


def picture(root: Path = ROOT) -> str:
    """Return the packages by floor, with what they import, as Markdown."""
    graph = arrows(root)
    if unknown := sorted(graph.keys() - PACKAGES.keys()):
        raise Refusal(f"{', '.join(unknown)}: give each new package its floor and subject in harness/architecture.py")
    lines = ["| floor | package | subject | imports |", "|---|---|---|---|"]
    for name in sorted(graph, key=lambda name: (-PACKAGES[name].floor, name)):
        floor, purpose = PACKAGES[name]
        lines.append(
            f"| {floor} | `{name}` | {purpose} | {', '.join(f'`{target}`' for target in sorted(graph[name])) or 'none'} |"
        )
    floors = sorted({PACKAGES[name].floor for name in graph}, reverse=True)
    chart = ["```mermaid", "graph TD"]
    for floor in floors:
        members = " & ".join(sorted(name for name in graph if PACKAGES[name].floor == floor))
        chart.append(f'  subgraph floor{floor} ["floor {floor}"]')
        chart += [f"    {name}" for name in members.split(" & ")]
        chart.append("  end")
    chart += [f"  {name} --> {' & '.join(sorted(targets))}" for name, targets in sorted(graph.items()) if targets]
    return "\n".join([*lines, "", *chart, "```"])
