# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of daemons, and when it and the Python of modules are due. The plan itself is in the tests of gpu_sharing_plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import venv
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import (
    RECORD,
    environment_due,
    read_record,
    record_text,
    records,
)


@pytest.mark.parametrize(("text", "names"), [(None, []), ('{"daemons": ["team"]}', ["team"]), ('{"daemons": []}', [])])
def test_record_names_the_daemons_of_the_last_run(tmp_path: Path, text: str | None, names: list[str]) -> None:
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    assert read_record(Tree(str(tmp_path)), "/record.json") == names


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"daemons": 3}'])
def test_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(Refusal, match=r"/record.json is damaged"):
        read_record(Tree(str(tmp_path)), "/record.json")


@pytest.mark.parametrize(
    ("on_disk", "declared", "mps_changes", "before", "after"),
    [
        (None, set(), False, None, set()),
        (None, {"a"}, True, {"a"}, None),
        ({"a"}, {"a"}, False, None, None),
        ({"a"}, {"a"}, True, None, None),
        ({"a"}, set(), True, None, set()),
        ({"a"}, {"b"}, True, {"a", "b"}, {"b"}),
    ],
)
def test_record_is_written_when_it_differs(
    tmp_path: Path,
    on_disk: set[str] | None,
    declared: set[str],
    mps_changes: bool,
    before: set[str] | None,
    after: set[str] | None,
) -> None:
    if on_disk is not None:
        (tmp_path / "etc/rigwright").mkdir(parents=True, mode=0o755)
        (tmp_path / RECORD.lstrip("/")).write_text(record_text(on_disk))
    found = records(Tree(str(tmp_path)), declared, on_disk or set(), mps_changes)

    def content(names: set[str] | None) -> list[dict[str, str]]:
        return [] if names is None else [{"path": RECORD, "content": record_text(names)}]

    assert found == {"files_before": content(before), "files": content(after)}


def test_environment_is_due_until_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "python"
    monkeypatch.setattr(sharing_run, "ENVIRONMENT", str(link))
    assert environment_due("nvidia-ml-py==13.0", present=True)
    assert not environment_due("", present=False)

    directory = Path(venv.name_of(str(link), "nvidia-ml-py==13.0"))
    (directory / "bin").mkdir(parents=True)
    for name in (venv.RECEIPT, "bin/python3"):
        (directory / name).touch()
    link.symlink_to(directory.name)
    venv.write_users(str(link), ["gpu_health", "gpu_sharing"])
    assert not environment_due("nvidia-ml-py==13.0", present=True)
    assert environment_due("nvidia-ml-py==14.0", present=True)
    assert environment_due("", present=False)

    venv.write_users(str(link), ["gpu_health"])
    assert environment_due("nvidia-ml-py==13.0", present=True)
    assert not environment_due("", present=False)


def test_foreign_environment_is_left_to_python_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").mkdir()
    monkeypatch.setattr(sharing_run, "ENVIRONMENT", str(tmp_path / "python"))
    assert environment_due("nvidia-ml-py==13.0", present=True)
