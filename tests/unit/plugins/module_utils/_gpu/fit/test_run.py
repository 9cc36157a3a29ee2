# SPDX-License-Identifier: GPL-3.0-or-later
"""Tracing with an interpreter of the test, and who runs it."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


def interpreter(folder: Path, output: str) -> str:
    """Return a program in place of Python with PyTorch: it prints a result."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    path.chmod(0o755)
    return str(path)


def fit(python: str) -> run.Fit:
    return run.Fit(python, getpass.getuser())


TRACED = {
    "torch": "2",
    "parts": {"parameter": 4000, "activation": 8000, "temp": 50},
    "parameters": 1000,
    "flops": 10**9,
    "layers": 5,
}


def test_a_traced_model(tmp_path: Path) -> None:
    python = interpreter(tmp_path, json.dumps(TRACED))
    found = fit(python).estimate({"model": "model.py:build", "batch": 2, "image": 32}, [cards.find("L4")])
    assert found["basis"] == "traced"
    assert found["need_bytes"]["parts"]["weights"] == 4000
    assert found["need_bytes"]["parts"]["activations"] == 8000


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ('{"failed": "no_torch", "message": ""}', "has no PyTorch"),
        ('{"failed": "entry", "message": "KeyError: x"}', "KeyError: x: correct the entry point"),
        ('{"failed": "recurrent", "message": ""}', "has recurrent layers"),
        ("Segmentation fault", "`model` could not be traced"),
        ("", "`model` could not be traced"),
    ],
)
def test_a_model_that_cannot_be_traced(tmp_path: Path, output: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        fit(interpreter(tmp_path, output)).estimate({"model": "model.py:build"}, [])


def test_an_unknown_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.os, "geteuid", lambda: 0)
    with pytest.raises(Refusal, match="There is no user nemo: set `user`"):
        run.Fit("python3", "nemo").estimate({"model": "model.py:build"}, [])
