# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left for the next boot, and that it really runs there."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import ansible.module_utils
import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal

CHECKOUT = Path(__file__).parents[4]
ONE = {"devices": ["GPU-1"], "mode": "enabled"}


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive like the one in which Ansible sends a module: host_facts, the smallest that needs nothing, stands for all."""
    path = tmp_path_factory.mktemp("sent") / "payload.zip"
    utils = Path(ansible.module_utils.__file__).parent
    ours = "ansible_collections/rigwright/workstation/plugins"
    with zipfile.ZipFile(path, "w") as made:
        for file in utils.rglob("*.py"):
            if not {"facts", "csharp", "powershell"} & set(file.parts):
                made.write(file, f"ansible/module_utils/{file.relative_to(utils)}")
        for folder in ("module_utils", "modules"):
            for file in (CHECKOUT / "plugins" / folder).glob("*.py"):
                made.write(file, f"{ours}/{folder}/{file.name}")
        for package in (
            "ansible",
            *(str(one) for one in Path(ours, "modules").parents),
            f"{ours}/modules",
            f"{ours}/module_utils",
        ):
            if package != ".":
                made.writestr(f"{package}/__init__.py", "")
    return path


@pytest.fixture(autouse=True)
def sent(payload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "_modlib_path", str(payload), raising=False)


def declare(root: Path, changes: dict[str, Any], check: bool = False) -> list[str]:
    prepared = boot.prepare("host_facts", changes, root=str(root))
    changed = prepared.changed
    if not check:
        prepared.write(cast("AnsibleModule", SimpleNamespace()))
    return changed


def declared(root: Path) -> Any:
    return json.loads((root / "var/lib/rigwright/gpu_boot/host_facts/declared.json").read_text())


def test_what_is_declared_is_there_once_and_the_second_time_changes_nothing(tmp_path: Path) -> None:
    changed = declare(tmp_path, {"GPU-1": ONE})
    assert [Path(path).name for path in changed] == [
        "module.zip",
        "declared.json",
        "rigwright-host-facts.service",
        "rigwright-host-facts.service",
    ]
    assert declared(tmp_path) == {"GPU-1": ONE}
    link = tmp_path / "etc/systemd/system/multi-user.target.wants/rigwright-host-facts.service"
    assert str(link.readlink()) == "/etc/systemd/system/rigwright-host-facts.service"
    assert declare(tmp_path, {"GPU-1": ONE}) == []


def test_what_holds_for_one_run_only_makes_no_difference(
    tmp_path: Path, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ansible adds a sitecustomize.py that names the run's temporary directory."""
    declare(tmp_path / "root", {"GPU-1": ONE})
    other = tmp_path / "other.zip"
    other.write_bytes(payload.read_bytes())
    with zipfile.ZipFile(other, "a") as sent:
        sent.writestr("sitecustomize.py", "elsewhere = 1")
    monkeypatch.setattr(sys.modules["__main__"], "_modlib_path", str(other))
    assert declare(tmp_path / "root", {"GPU-1": ONE}) == []


def test_tasks_for_different_gpus_do_not_undo_each_other(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    declare(tmp_path, {"GPU-2": ONE})
    assert list(declared(tmp_path)) == ["GPU-1", "GPU-2"]
    declare(tmp_path, {"GPU-1": None})
    assert list(declared(tmp_path)) == ["GPU-2"]


def test_with_nothing_left_to_declare_unit_and_files_go(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    assert declare(tmp_path, {"GPU-1": None})
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert declare(tmp_path, {"GPU-1": None}) == []


def test_check_mode_tells_and_writes_nothing(tmp_path: Path) -> None:
    assert len(declare(tmp_path, {"GPU-1": ONE}, check=True)) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_cut_off_is_written_anew(tmp_path: Path) -> None:
    declare(tmp_path, {"GPU-1": ONE})
    (tmp_path / "var/lib/rigwright/gpu_boot/host_facts/declared.json").write_text('{"GPU-1"')
    declare(tmp_path, {"GPU-2": ONE})
    assert declared(tmp_path) == {"GPU-2": ONE}


def test_a_module_that_was_not_sent_as_an_archive_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "_modlib_path")
    with pytest.raises(Refusal, match="persist: none"):
        declare(tmp_path, {"GPU-1": ONE})
    assert list(tmp_path.iterdir()) == []


def test_units_say_who_comes_first() -> None:
    text = boot.unit_text("gpu_mig", "/opt/rigwright/python/bin/python3", after=["gpu_mode"])
    assert " rigwright-gpu-mode.service\n" in text
    assert "Before=nvidia-cdi-refresh.service docker.service" in text
    assert (
        "ExecStart=/opt/rigwright/python/bin/python3 /var/lib/rigwright/gpu_boot/gpu_mig/module.zip "
        "/var/lib/rigwright/gpu_boot/gpu_mig/declared.json\n" in text
    )


@pytest.mark.parametrize(("parameters", "rc"), [({}, 0), ({"nonsense": 1}, 1)])
def test_what_was_left_runs_alone_and_says_when_one_gpu_fails(
    tmp_path: Path, parameters: dict[str, Any], rc: int
) -> None:
    """In a Python that is told of no other path: what it imports of Ansible comes from the archive."""
    declare(tmp_path, {"GPU-1": parameters, "GPU-2": {}})
    place = tmp_path / "var/lib/rigwright/gpu_boot/host_facts"
    run = subprocess.run(
        [sys.executable, place / "module.zip", place / "declared.json"],
        env={"PYTHONNOUSERSITE": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    results = [json.loads(line) for line in run.stdout.splitlines() if line]
    assert (len(results), run.returncode) == (2, rc), run.stderr
    assert [bool(result.get("failed")) for result in results] == [bool(rc), False]
