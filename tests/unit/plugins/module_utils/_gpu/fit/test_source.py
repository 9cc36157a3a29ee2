# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of models: data that is read, and never followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import request, source
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu_fit import LLAMA


def test_a_file_and_its_directory_are_the_same_model(config: Path) -> None:
    assert (
        source.described({}, str(config))
        == source.described({}, str(config.parent))
        == {"name": "llama", "config": LLAMA}
    )


@pytest.mark.parametrize("content", [b"no json", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"model_type": NaN}'])
def test_a_model_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(Refusal, match="`model`.* give "):
        request.parse(source.described({}, str(tmp_path / "model.json")))


def test_a_link_to_a_model_is_refused(tmp_path: Path, config: Path) -> None:
    (tmp_path / "link.json").symlink_to(config)
    with pytest.raises(Refusal, match="is a link: give the file behind it"):
        source.described({}, str(tmp_path / "link.json"))


@pytest.mark.parametrize(("model", "is_entry"), [("net.py:build", True), ("net.py", False), ("net.py:1", False)])
def test_an_entry_point_is_a_file_and_a_function(model: str, is_entry: bool) -> None:
    assert source.is_entry(model) == is_entry


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "gpt2.json").write_bytes(b'\xef\xbb\xbf{"model_type": "gpt2"}')
    assert source.described({}, str(tmp_path / "gpt2.json"))["config"] == {"model_type": "gpt2"}


@pytest.mark.parametrize(
    ("given", "model", "message"),
    [
        ({}, "", "has no config.json"),
        ({}, "net.py", "is a file of Python: name the function"),
        ({}, "net.py:build", "is a Python entry point, which is traced alone"),
        ({"config": {}}, "resnet50", "`model` is given twice, as `config` besides"),
    ],
)
def test_a_model_that_is_something_else(tmp_path: Path, given: dict[str, object], model: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        source.described(given, model or str(tmp_path))


def test_a_name_from_a_path_changes_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.json").write_text("{}")
    assert source.described({}, str(tmp_path / "a\x1b[31m.json"))["name"] == "a?[31m"
