# SPDX-License-Identifier: GPL-3.0-or-later
"""The tracing program, without PyTorch: script/test has none."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import run, trace
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


def test_an_interpreter_without_torch_says_so(tmp_path: Path) -> None:
    """The real tracing program, in a Python that surely has no PyTorch."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(Refusal, match="has no PyTorch"):
        run.Fit(str(tmp_path / "python"), getpass.getuser()).estimate({"model": "model.py:build"}, [])


def test_outputs_of_every_form_become_one_loss() -> None:
    class Tensor:
        """Stands for a tensor: a number."""

        def __init__(self, number: float, floating: bool = True) -> None:
            self.number, self.floating = number, floating

        def is_floating_point(self) -> bool:
            return self.floating

        def float(self) -> Any:
            return self

        def sum(self) -> Any:
            return self.number

    torch = SimpleNamespace(Tensor=Tensor)
    output = {"loss": Tensor(1.0), "logits": (Tensor(2.0), [Tensor(4.0), Tensor(8.0, floating=False)]), "cache": None}
    assert trace.loss_of(output, torch) == 7.0


def test_an_entry_point_is_loaded_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def build():\n    return 'a model'\nbuild.inputs = lambda batch: (batch,)\n")
    model, inputs = trace.load({"entry": f"{tmp_path}/net.py:build"})
    assert model == "a model" and inputs(3) == (3,)
