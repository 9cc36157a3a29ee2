# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of a checkout that has no Python environment yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.sandbox.lab import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the scripts and what they install."""
    for name in ("script", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    return tmp_path / "checkout"


@pytest.mark.parametrize("name", ["bootstrap", "test", "demo", "bench"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_changes_nothing(checkout: Path, name: str, option: str) -> None:
    before = sorted(checkout.rglob("*"))
    shown = subprocess.run([checkout / "script" / name, option], cwd="/", capture_output=True, text=True, check=True)
    assert "script/bootstrap" in shown.stdout
    assert sorted(checkout.rglob("*")) == before


def test_environment_behind_a_link_is_left_alone(checkout: Path) -> None:
    other = checkout.parent / "other"
    other.mkdir()
    (other / "file").touch()
    (checkout / ".venv").symlink_to(other)

    refused = subprocess.run([checkout / "script/bootstrap"], capture_output=True, text=True, check=False)

    assert refused.returncode == 1
    assert ".venv is a symbolic link" in refused.stderr
    assert (other / "file").exists()
