# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged record of a role is refused with its path: it never counts as none, whatever damaged it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_record, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts as docker_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker_model
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files as gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_record

from tests.unit.support.damage import DAMAGE

Case = tuple[str, dict[str, Any], Callable[[Tree, str], Any], type[Exception]]
SET = "/var/lib/rigwright/config_files/x"
STATE = {"kind": "file", "mode": 420, "uid": 0, "gid": 0}
RECORDS: dict[str, Case] = {
    "manifest of a set": (
        f"{SET}/manifest.json",
        {"transaction": "1", "paths": {"/etc/a": {**STATE, "mtime_ns": 1, "written": None, "secret": False}}},
        lambda tree, _path: config_files_record.read_manifest(tree.at(SET)),
        record.Damaged,
    ),
    "journal of a set": (
        f"{SET}/journal.json",
        {"transaction": "1", "staged": True, "steps": []},
        lambda tree, _path: config_files_record.read_journal(tree.at(SET)),
        record.Damaged,
    ),
    "docker": (
        docker_model.MEMORY,
        {"host": {}, "written": {}, "users": [], "held": []},
        lambda tree, _path: docker_facts.read_memory(tree),
        ValueError,
    ),
    "docker without root": (
        rootless_facts.RECORD,
        {"alice": {}},
        lambda tree, _path: rootless_facts.read_record(tree),
        ValueError,
    ),
    "nvidia_driver": (
        driver_record.RECORD,
        {"brought": ["nvidia-driver"]},
        lambda tree, _path: driver_record.Record.load(tree),
        driver_record.Stuck,
    ),
    "modes of GPUs": ("/etc/rigwright/x.json", {"gpus": {"GPU-1": {"mode": "x"}}}, gpu_files.read, Refusal),
    "daemons of gpu_sharing": ("/var/lib/rigwright_x/d.json", {"daemons": ["a"]}, sharing.read_record, Refusal),
}


def place(root: Path, path: str, content: bytes) -> Tree:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return Tree(str(root))


@pytest.mark.parametrize("name", RECORDS)
def test_whole_record_is_taken(tmp_path: Path, name: str) -> None:
    path, good, read, _error = RECORDS[name]
    assert read(place(tmp_path, path, json.dumps(good).encode()), path)


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", RECORDS)
def test_damage_is_refused_with_the_path(tmp_path: Path, name: str, kind: str) -> None:
    path, good, read, error = RECORDS[name]
    tree = place(tmp_path, path, DAMAGE[kind](json.dumps(good).encode()))
    with pytest.raises(error) as refused:
        read(tree, path)
    assert path in str(refused.value)
