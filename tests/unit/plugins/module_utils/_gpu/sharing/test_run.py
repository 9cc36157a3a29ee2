# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of daemons. The plan itself is in the tests of gpu_sharing_plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import read_record


@pytest.mark.parametrize(("text", "names"), [(None, []), ("", []), ('{"daemons": ["team"]}', ["team"]), ("{}", [])])
def test_record_names_the_daemons_of_the_last_run(tmp_path: Path, text: str | None, names: list[str]) -> None:
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    assert read_record(Tree(str(tmp_path)), "/record.json") == names


@pytest.mark.parametrize("text", ["{", "[]", '{"daemons": 3}'])
def test_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(Refusal, match=r"/record.json is damaged"):
        read_record(Tree(str(tmp_path)), "/record.json")
