# SPDX-License-Identifier: GPL-3.0-or-later
"""A model as Hugging Face keeps it: a folder with a configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.support.gpu_fit import LLAMA


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return folder / "config.json"
