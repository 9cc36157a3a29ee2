# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that start Python as root."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
PACKAGE = "ansible_collections/rigwright/workstation/plugins/module_utils"
STARTS = {
    (str(file.relative_to(CHECKOUT)), line)
    for folder in ("roles", "plugins/module_utils")
    for file in (CHECKOUT / folder).rglob("*.*")
    if file.suffix in (".py", ".j2")
    for line in re.findall(r"^Exec\w+=.*python.*$", file.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize(("file", "line"), sorted(STARTS))
def test_python_starts_isolated(file: str, line: str) -> None:
    assert re.search(r"python3?}? -I ", line), file


@pytest.mark.parametrize("role", ["gpu_health", "nvidia_driver"])
def test_program_in_a_package_starts(role: str, tmp_path: Path) -> None:
    (command,) = (line for file, line in STARTS if f"roles/{role}/" in file)
    folder = tmp_path / "library"
    name = re.search(r"module_utils\.(\w+)", command)
    package = folder / PACKAGE
    package.mkdir(parents=True)
    (package / "other.py").write_text("text = 'ran'")
    (package / f"{name[1] if name else ''}.py").write_text(
        f"import sys\nfrom {PACKAGE.replace('/', '.')} import other\nprint(__name__, other.text, sys.flags.isolated)\n"
    )
    _python, *options = shlex.split(command.partition("=")[2].replace(f"{{{{ __{role}_library }}}}", str(folder)))
    done = subprocess.run([sys.executable, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("__main__ ran 1\n", "")
