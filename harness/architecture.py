"""Read the packages of `plugins/module_utils` and their imports: what docs/architecture.md shows and tests/contract holds."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

from harness import rows
from harness.sandbox.lab import ROOT, Refusal

UTILS = "plugins/module_utils"
NAMESPACE = f"ansible_collections.rigwright.workstation.{UTILS.replace('/', '.')}."


class Package(NamedTuple):
    floor: int
    purpose: str


# A package imports those of its own floor and of the floors below it. That of one role is in its row (harness/rows.py).
PACKAGES = {
    **{f"_{row.role}": Package(**row.package) for row in rows.read() if row.package},
    "_core": Package(1, "files, directories, locks, records, releases, certificates, problems and findings"),
    "_apt": Package(2, "packages, package sources, mirrors"),
    "_dataset_cache": Package(2, "the program `dataset-cache`: copies of data sets on a fast disk"),
    "_system": Package(2, "systemd units, mounts, listeners, PCI devices, groups"),
    "_nvidia": Package(3, "driver, CUDA and cuDNN: catalogue, choice, change"),
    "_gpu": Package(4, "GPUs by NVML: state, health, modes, MIG, MPS, acceptance"),
    "_manifest": Package(4, "what a machine is, for its rebuild"),
    "_frp": Package(5, "frp's server and client: checks, tunnels, what a running frpc reports"),
    "_service": Package(5, "a role that is one service: its unit, settings, port, metrics"),
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
