# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of the role conda says is due."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import compare, plan, run

REQUEST: dict[str, Any] = {
    "prefix": "/opt/conda",
    "environments": [{"name": "base", "state": "present", "packages": ["conda"]}],
    "exclusive": False,
    "channels": ["conda-forge"],
    "channel_alias": "",
    "keep": 1,
    "index_url": "",
    "torch_index": True,
    "timeout": 600,
    "python": "py-rattler==1.0\n",
}


def planned(folder: Path, **changes: Any) -> dict[str, Any]:
    def run_command(*_arguments: Any, **_options: Any) -> tuple[int, str, str]:
        return 0, "", ""

    return compare.plan({**REQUEST, "prefix": str(folder / "conda"), **changes}, ("", ""), run_command)[0]


def test_options_of_the_module_are_complete() -> None:
    options = compare.options(REQUEST)
    assert options["root"] == "/opt/conda"
    assert options["environments"][0] == {
        **compare.UNNAMED, "channels": None, "name": "base", "state": "present", "packages": ["conda"]
    }  # fmt: skip


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch, open_path: Path) -> None:
    monkeypatch.setattr(compare, "PYTHON", str(open_path / "python/bin/python3"))


@pytest.mark.usefixtures("python")
def test_what_has_to_be_solved_is_due_and_not_solved(open_path: Path) -> None:
    found = planned(open_path)
    assert (found["environments_due"], found["python_due"], found["environments"]) == (True, True, {})
    assert not (open_path / "conda").exists()


@pytest.mark.usefixtures("python")
def test_nothing_is_due_without_environments(open_path: Path) -> None:
    found = planned(open_path, environments=[])
    assert (found["environments_due"], found["drift"]) == (False, [])


@pytest.mark.usefixtures("python")
def test_a_place_that_is_used_otherwise_is_refused(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> None:
        raise plan.CondaError("is a conda of its own")

    monkeypatch.setattr(run.conda, "check_place", refuse)
    with pytest.raises(plan.CondaError, match="of its own"):
        planned(open_path)
