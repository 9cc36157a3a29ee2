# SPDX-License-Identifier: GPL-3.0-or-later
"""A part of the collection as one file."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle as program

CHECKOUT = Path(__file__).parents[5]
# What roles put in place (`program:` of config_files).
PROGRAMS = sorted(
    {
        name
        for path in (CHECKOUT / "roles").rglob("*.yml")
        for name in re.findall(r"\bprogram: (_[\w.]+)", path.read_text())
    }
)


@pytest.mark.parametrize("entry", PROGRAMS)
def test_program_of_a_role_needs_no_ansible(entry: str, tmp_path: Path) -> None:
    archive = tmp_path / "program.pyz"
    archive.write_bytes(program.bundle(entry))
    (tmp_path / "pynvml.py").symlink_to(str(pynvml.__file__))
    code = f"import sys; sys.path[:0] = {[str(archive), str(tmp_path)]}; from {program.PACKAGE}.{entry} import main"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_program_starts_by_its_path(tmp_path: Path) -> None:
    archive = tmp_path / "rigwright-backup"
    archive.write_bytes(program.bundle("_backup.cli"))
    archive.chmod(0o755)
    done = subprocess.run([archive, "--help"], capture_output=True, text=True, check=False)
    assert "import-tar" in done.stdout, done.stderr


def test_bundle_has_exactly_the_imported_modules() -> None:
    names = {name.removeprefix(f"{program.PACKAGE}.") for name in program.collect("_gpu.mode.boot")}
    assert {
        "_gpu.mode.boot",
        "_gpu.mode.apply",
        "_gpu.mode.plan",
        "_gpu.nvml",
        "_gpu.nvml_errors",
        "_core.rootfs",
    } <= names
    assert not names & {"_gpu.state", "_nvidia.catalogue", "_conda.rattler"}


def test_package_of_mitogen_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loader gives an empty line for a package."""
    expected = program.collect("_firewall.apply")

    def find(name: str) -> SimpleNamespace:
        text = expected.get(name, "\n")
        return SimpleNamespace(loader=SimpleNamespace(get_source=lambda _name: text))

    monkeypatch.setattr(program.importlib.util, "find_spec", find)
    assert program.collect("_firewall.apply") == expected


def test_the_same_code_makes_the_same_bytes() -> None:
    assert program.bundle("_gpu.mode.boot") == program.bundle("_gpu.mode.boot")


def test_python_finds_the_packages_of_the_archive() -> None:
    folder = "ansible_collections/rigwright/workstation/plugins/module_utils"
    with zipfile.ZipFile(io.BytesIO(program.bundle("_gpu.mode.boot"))) as archive:
        names = set(archive.namelist())
    assert {"__main__.py", "ansible_collections/__init__.py", f"{folder}/__init__.py"} <= names
    assert {f"{folder}/_gpu/__init__.py", f"{folder}/_gpu/mode/__init__.py", f"{folder}/_gpu/mode/boot.py"} <= names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"from {program.PACKAGE}._core import lock, atomic as c", {"_core.lock", "_core.atomic"}),
        (f"from {program.PACKAGE}._core.lock import x", {"_core.lock"}),
        (
            f"from {program.PACKAGE}._gpu.mig import (\n    plan,\n    search,\n)\n",
            {"_gpu.mig.plan", "_gpu.mig.search"},
        ),
        (f"from {program.PACKAGE}._core.lock import (\n    x,\n    y,\n)\n", {"_core.lock"}),
        (f"def f():\n    from {program.PACKAGE}._core.lock import x", {"_core.lock"}),
        ("import os\nfrom ansible.module_utils.basic import AnsibleModule", set()),
    ],
)
def test_only_private_modules_of_the_collection_are_followed(text: str, names: set[str]) -> None:
    assert program.imported(text) == {f"{program.PACKAGE}.{name}" for name in names}


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ImportError, match="_no_such_module has no source"):
        program.collect("_no_such_module")
