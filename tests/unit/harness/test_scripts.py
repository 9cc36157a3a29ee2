# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of a checkout that has no Python environment yet."""

from __future__ import annotations

import os
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


# What apt-get does while another one has the lock of the lists, which no option waits for.
APT = """\
#!/bin/sh
echo "$*" >>"$CALLS"
[ "$1" = update ] && [ "$(grep -c ^update "$CALLS")" -le "$BUSY" ] || exit 0
echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)"
exit 100
"""


@pytest.mark.parametrize(
    ("busy", "message", "updates", "status"),
    [(2, "Could not get lock", 3, 0), (99, "Could not get lock", 61, 1), (99, "Temporary failure resolving", 1, 1)],
    ids=["another apt ends", "another apt hangs", "no network"],
)
def test_another_apt_is_waited_for(tmp_path: Path, busy: int, message: str, updates: int, status: int) -> None:
    programs = {"apt-get": APT.replace("Could not get lock", message), "sleep": "#!/bin/sh\n"}
    for name, program in programs.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    functions = (ROOT / "script/bootstrap").read_text().partition("# ---- The whole")[0]
    calls = tmp_path / "calls"

    ended = subprocess.run(
        [
            "bash",
            "-c",
            f"{functions}\nhas_service_manager() {{ true; }}\ninstall_packages hello",
            ROOT / "script/bootstrap",
        ],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), "BUSY": str(busy)},
        capture_output=True,
        text=True,
        check=False,
    )

    installed = [line for line in calls.read_text().splitlines() if line != "update"]
    assert ended.returncode == status
    assert calls.read_text().splitlines().count("update") == updates
    assert installed == (
        ["install --option DPkg::Lock::Timeout=600 --yes --no-install-recommends hello"] * (not status)
    )
