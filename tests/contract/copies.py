# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the tree, in which a test changes what a person would change, and runs what CI runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .sources import CHECKOUT


def copy_tree(parent: Path, *without: str) -> Path:
    """Copy the tree without hidden files, and without those that are named."""
    copy = parent / "copy"
    shutil.copytree(CHECKOUT, copy, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__", *without))
    return copy


def run(copy: Path, *command: str) -> str:
    """Run a program of this environment in a copy, and return its output; it must succeed."""
    environment = {
        "PYTHONPATH": f"{copy / 'collections'}:{copy}",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
