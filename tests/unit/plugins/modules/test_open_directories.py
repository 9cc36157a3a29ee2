# SPDX-License-Identifier: GPL-3.0-or-later
"""Public modules write nothing where another user may put a link in the way. gpu_accept and gpu_mps: their own tests."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODULES = "ansible_collections.rigwright.workstation.plugins.modules"
ARCHIVE = {"name": "x", "version": "1", "url": "file:///none", "checksum": f"sha256:{'0' * 64}"}
REPOSITORY = {"repositories": [], "names": [], "user": "nobody", "program": "/none"}


@pytest.mark.parametrize("check", [False, True], ids=["applied", "check mode"])
@pytest.mark.parametrize("way", ["mode", "owner", "link"])
@pytest.mark.parametrize(
    ("name", "params", "option"),
    [
        ("tls_certificate", {"names": ["a.test"], "directory": "{}/new"}, "directory"),
        ("tls_certificate", {"state": "absent", "directory": "{}/ours"}, "directory"),
        ("release_archive", {**ARCHIVE, "programs": {"/usr/local/bin/x": "x"}, "install_root": "{}"}, "install_root"),
        ("release_archive", {"name": "x", "state": "absent", "install_root": "{}/ours"}, "install_root"),
        ("release_archive", {**ARCHIVE, "programs": {"{}/ours/x": "x"}, "install_root": "{root}"}, "programs"),
        ("python_environment", {"user": "x", "requirements": "", "path": "{}/python"}, "path"),
        ("python_environment", {"user": "x", "state": "absent", "path": "{}/ours"}, "path"),
        ("machine_manifest", {"path": "{}/ours/manifest.json"}, "path"),
        ("backup_repository", {**REPOSITORY, "folder": "{root}", "record": "{}/ours/record.json"}, "record"),
        ("backup_repository", {**REPOSITORY, "folder": "{}/ours", "record": "{root}/record.json"}, "folder"),
    ],
)
def test_a_place_that_others_may_write_is_refused(
    run_module: Callable[..., dict[str, Any]],
    open_path: Path,
    name: str,
    params: dict[str, Any],
    option: str,
    way: str,
    check: bool,
) -> None:
    place = open_path / "place"
    (place / "ours").mkdir(parents=True)
    if way == "link":
        (open_path / "link").symlink_to(place)
    if way == "owner":
        os.chown(place, 65534, 65534)
    else:
        place.chmod(0o777)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {filled(key): filled(each) for key, each in value.items()}
        named = open_path / "link" if way == "link" else place
        return value.replace("{}", str(named)).replace("{root}", str(open_path)) if isinstance(value, str) else value

    before = sorted(open_path.rglob("*"))
    result = run_module(importlib.import_module(f"{MODULES}.{name}"), check=check, **filled(params))
    assert result["failed"] and "users other than root may write in" in result["msg"]
    assert str(filled("{}")) in result["msg"] and f"`{option}`" in result["msg"]
    assert sorted(open_path.rglob("*")) == before
