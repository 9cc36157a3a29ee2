# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged record of a role is refused with its path: it never counts as none, whatever damaged it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import mirror_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import identity
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import record as backup_record
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Place
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import first_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core import (
    config_files_record,
    record,
    release_run,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts as docker_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import (
    gpu_toolkit,
    gpu_toolkit_facts,
    rootless_facts,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker_model
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files as gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import state as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document as manifest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_facts,
    cuda_repository,
    driver_record,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import directories as samba_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import plan as samba_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import user_database as samba_users
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import apply as storage
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import facts as xrdp_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import plan as xrdp_plan

from tests.contract.sources import PYTHON, resolved
from tests.unit.support.damage import DAMAGE

KEPT = re.compile(r"\"(/var/lib/rigwright[^ {\"]*\.json)\"")
Case = tuple[str, Any, Callable[[Tree, str], Any], type[Exception]]
SET = "/var/lib/rigwright/config_files/x"
STATE = {"kind": "file", "mode": 420, "uid": 0, "gid": 0}
BACKUP = Place()


def place_of_backups(tree: Tree) -> Place:
    return dataclasses.replace(BACKUP, state=tree.at(BACKUP.state))


def read_run(tree: Tree) -> Any:
    """Raise for a state that refuses the next run, as a run does with its message."""
    state = states.read_state(place_of_backups(tree), states.RUN, "home")
    if state.get("damaged"):
        raise record.Damaged(state["words"], state["kind"], "")
    return state


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
    "units of docker": (
        docker_model.ROLE_UNITS,
        ["docker.service"],
        lambda tree, _path: docker_facts.read_role_units(tree),
        record.Damaged,
    ),
    "units of docker before 0.1.0": (
        docker_model.FORMER_ROLE_UNITS,
        ["docker.service"],
        lambda tree, _path: docker_facts.read_role_units(tree),
        record.Damaged,
    ),
    "docker without root": (
        rootless_facts.RECORD,
        {"alice": {}},
        lambda tree, _path: rootless_facts.read_record(tree),
        ValueError,
    ),
    "nvidia_driver": (
        driver_record.RECORD,
        {"installed": ["nvidia-driver"]},
        lambda tree, _path: driver_record.Record.load(tree),
        driver_record.Stuck,
    ),
    "modes of GPUs": ("/etc/rigwright/x.json", {"gpus": {"GPU-1": {"mode": "x"}}}, gpu_files.read, Refusal),
    "daemons of gpu_sharing": ("/var/lib/rigwright_x/d.json", {"daemons": ["a"]}, sharing.read_record, Refusal),
    "users of Samba": (
        samba_users.RECORD,
        ["alice"],
        lambda tree, _path: samba_users.read_record(tree),
        record.Damaged,
    ),
    "directories of Samba": (
        samba_directories.RECORD,
        {"/srv/a": {"state": [0, 0, 493, ""], "mount": ""}},
        lambda tree, _path: samba_directories.read_record(tree),
        record.Damaged,
    ),
    "host before Samba": (
        samba_plan.BEFORE,
        {"installed": False, "units": {"smbd.service": {"enabled": True, "active": False}}},
        lambda tree, _path: samba_plan.read_before(tree),
        record.Damaged,
    ),
    "xrdp": (
        xrdp_plan.RECORD,
        {"group": "desktop", "made": True, "added": ["alice"]},
        lambda tree, _path: xrdp_facts.read_record(tree),
        record.Damaged,
    ),
    "nvidia_container_toolkit": (
        gpu_toolkit.RECORD,
        {"packages": [], "settings": True, "held": []},
        lambda tree, _path: gpu_toolkit_facts.read_record(tree),
        record.Damaged,
    ),
    "nvidia_container_toolkit before 0.1.0": (
        gpu_toolkit.FORMER_RECORD,
        {"packages": [], "settings": True, "held": []},
        lambda tree, _path: gpu_toolkit_facts.read_record(tree),
        record.Damaged,
    ),
    "cuda_repository": (
        f"{cuda_repository.MEMORY}/{cuda_repository.RECORD}",
        {"package": True, "sources": {"/etc/apt/sources.list.d/cuda.list": None}},
        lambda tree, path: cuda_repository.read_record(tree.at(path)),
        record.Damaged,
    ),
    "packages of cuda": (
        cuda_facts.memory("cuda"),
        ["cuda-toolkit-13-0"],
        lambda tree, _path: cuda_facts.read_installed(tree, "cuda"),
        record.Damaged,
    ),
    "receipt of a release": (
        f"/opt/frp/1.0/{release_run.RECEIPT}",
        {"archive": "0" * 64, "url": "https://mirror.example.org/frp.tar.gz", "files": {"frps": "0" * 64}},
        lambda tree, path: release_run.read_receipt(os.path.dirname(tree.at(path))),
        record.Damaged,
    ),
    "user of a release": (
        "/opt/frp/.rigwright/frp_server.json",
        {"versions": ["1.0"], "links": ["/usr/local/bin/frps"]},
        lambda tree, path: release_run.read_record(tree.at(path)),
        record.Damaged,
    ),
    "repositories of backups": (
        backup_record.RECORD,
        {"disk": {"id": "1"}},
        lambda tree, path: backup_record.read(tree.at(path)),
        record.Damaged,
    ),
    "machines that were adopted": (
        f"{BACKUP.state}/{identity.ADOPTED}",
        {"home": ["machine:1"]},
        lambda tree, _path: identity.read_adopted(place_of_backups(tree)),
        record.Damaged,
    ),
    "files of a drill": (
        states.list_of(BACKUP, "sample", "home"),
        {"files": {}},
        lambda tree, path: states.read_list(tree.at(path), strict=True),
        record.Damaged,
    ),
    "run of a backup": (
        states.path_of(BACKUP, states.RUN, "home"),
        {"kind": "ok", "mounts": ["/"]},
        lambda tree, _path: read_run(tree),
        record.Damaged,
    ),
    "disks": (
        storage.RECORD,
        {"S1": {"uuid": "1"}},
        lambda tree, path: storage.read_record(tree.at(path)),
        record.Damaged,
    ),
}
# By path: why a damaged one is no risk.
OTHERS = {
    docker_model.RESTART: "a file that systemd_units compares, and that no program reads",
    first_boot.EXPECTED: "read once, at the first boot after a restore: the unit fails",
    first_boot.FOUND: "a report for people",
    health.STATE: "`_gpu/health/history.py` checks its shape, and a check reports one that it leaves out",
    health.REPORT: "a report that the next check writes again: without it, the health is unknown",
    mirror_plan.MEMORY: "what was measured: without it, the mirrors are measured again",
    manifest.PATH: "each part is checked by `document.check` where a machine is rebuilt",
    gpu_toolkit.PART: "options for docker: the role that merges them refuses what is no object",
}


def kept(text: str) -> set[str]:
    """Return the paths of records that a source names, also by the constant of their directory."""
    return set(KEPT.findall(resolved(text)))


def test_each_record_is_damaged_here() -> None:
    paths = {path for file in PYTHON for path in kept(file.read_text())}
    assert paths - {path for path, *_rest in RECORDS.values()} == set(OTHERS)


def test_next_record_is_found() -> None:
    assert kept('HOME = "/var/lib/rigwright_x"\nRECORD = f"{HOME}/x.json"\n') == {"/var/lib/rigwright_x/x.json"}


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
