# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with GPUs for tests: each fixtures/gpu/<name>.yml has the files of one, and the output of apt-cache policy on it.

``policy`` is the output for packages, ``sources`` that for apt's sources. ``about`` names the parts that were recorded on a machine and
those that were composed from documentation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as nvidia_facts

FIXTURES = Path(__file__).parents[2] / "fixtures/gpu"
# When it is there: branches end as time goes by.
MONTH = "2026-11"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.yml"))


def lay_out(name: str, root: Path) -> dict[str, Any]:
    """Write the files of a recorded host below *root* and return the record."""
    record: dict[str, Any] = yaml.safe_load((FIXTURES / f"{name}.yml").read_text())
    files = {path: text.encode() for path, text in record.get("files", {}).items()}
    files |= {path: bytes.fromhex(text) for path, text in record.get("bytes", {}).items()}
    for path, content in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for path, target in record.get("links", {}).items():
        link = root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return record


def gather(name: str, root: Path) -> dict[str, Any]:
    """Return the facts of a recorded host."""
    record = lay_out(name, root)
    tree = nvidia_facts.Tree(str(root))
    facts = nvidia_facts.gather(tree, lambda names: record.get("policy" if names else "sources", ""))
    return {**facts, "month": MONTH}
