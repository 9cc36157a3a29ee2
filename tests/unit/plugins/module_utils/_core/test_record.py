# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that is not whole is damaged, and a missing one is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record

from tests.unit.support.damage import DAMAGE

GOOD = b'{"name": "a", "number": 1, "none": null, "on": true, "rows": [{"x": 1}], "any": {"b": 2}}\n'
NUMBER = (int, type(None))
SHAPE = {"name": str, "number": NUMBER, "none": NUMBER, "on": bool, "rows": [{"x": int}], "any": {str: int}}


def test_whole_record_is_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert record.read(str(path), "remove it", SHAPE) is None
    path.write_bytes(GOOD)
    assert record.read(str(path), "remove it", SHAPE)["rows"] == [{"x": 1}]


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_with_path_and_remedy(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(DAMAGE[kind](GOOD))
    with pytest.raises(record.Damaged) as refused:
        record.read(str(path), "restore it", SHAPE)
    assert str(refused.value).startswith(f"{path} is damaged (") and str(refused.value).endswith("): restore it")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("name", None, "it.name is NoneType"),
        ("number", True, "it.number is bool"),
        ("on", 1, "it.on is int"),
        ("rows", [{}], "it.rows[0] has no x"),
        ("rows", {"x": 1}, "it.rows is dict"),
        ("any", {"b": "2"}, "it.any.b is str"),
    ],
)
def test_another_shape_is_named(name: str, value: Any, reason: str) -> None:
    found = {**record.json.loads(GOOD), name: value}
    with pytest.raises(record.Damaged) as refused:
        record.parse(record.json.dumps(found).encode(), "/x", "remove it", SHAPE)
    assert f"({reason})" in str(refused.value)


def test_link_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(GOOD)
    (tmp_path / "record.json").symlink_to("other")
    with pytest.raises(record.Damaged):
        record.read(str(tmp_path / "record.json"), "remove it")
