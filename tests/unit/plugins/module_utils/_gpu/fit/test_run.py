# SPDX-License-Identifier: GPL-3.0-or-later
"""Tracing with an interpreter of the test, and who runs it."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, host, run
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
    "phases": [{"parameter": 4000, "activation": 8000, "temp": 50}, {"parameter": 4000, "optstate": 8000}],
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
        ('{"failed": "entry", "message": "A\\nB\\u001b"}', "`model` could not be traced: A B[?]: correct"),
        ("Segmentation fault", "`model` could not be traced: it ended with status 0 and no result"),
        ("", "`model` could not be traced: it ended with status 0 and no result"),
        ("5", "`model` could not be traced"),
        ('{"phases": 5}', "`model` could not be traced"),
        ('{"failed": "values", "message": ""}', "reads values of tensors, and a trace has only their shapes: move"),
    ],
)
def test_a_model_that_cannot_be_traced(tmp_path: Path, output: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        fit(interpreter(tmp_path, output)).estimate({"model": "model.py:build"}, [])


def test_an_unknown_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.os, "geteuid", lambda: 0)
    with pytest.raises(Refusal, match="There is no user nemo: set `user`"):
        run.Fit("python3", "nemo").estimate({"model": "model.py:build"}, [])


def counting(folder: Path) -> str:
    """Return an interpreter that counts its starts and keeps its arguments."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho \"$4\" >> {folder}/starts\necho '{json.dumps(TRACED)}'\n")
    path.chmod(0o755)
    return str(path)


def test_a_model_is_traced_once_for_all_cards(tmp_path: Path) -> None:
    rows = [host.HostCard(cards.find(name), 2**34, None) for name in ("L4", "T4", "A10")]
    found = fit(counting(tmp_path)).on_host({"model": "model.py:build", "sequence": 16}, rows)
    assert [row["unit"] for row in found["cards"]] == ["sequences/s"] * 3
    assert len((tmp_path / "starts").read_text().splitlines()) == 2


def test_the_largest_batch_knows_the_phase_that_grows(tmp_path: Path) -> None:
    """With a small batch the step of the optimizer is the highest; with a large one it is not."""
    gib = 2**30
    path = tmp_path / "python"
    traces = [
        json.dumps(
            {
                **TRACED,
                "phases": [
                    {"parameter": gib, "activation": batch * gib // 100},
                    {"parameter": gib, "optstate": 2 * gib},
                ],
            }
        )
        for batch in (1, 2)
    ]
    path.write_text(f"#!/bin/sh\ncase \"$4\" in *'\"batch\": 2'*) echo '{traces[1]}';; *) echo '{traces[0]}';; esac\n")
    path.chmod(0o755)
    found = fit(str(path)).estimate({"model": "model.py:build", "batch": 1, "image": 32}, [cards.find("A10")])
    assert found["need_bytes"]["parts"]["optimizer"] == 2 * gib
    assert 500 < found["cards"][0]["max_batch"] < 2500


def test_other_models_of_torchvision_are_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The path of an interpreter may be relative.
    counting(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = fit("./python").estimate({"model": "efficientnet_b0", "batch": 4}, [cards.find("L4")])
    wanted = json.loads((tmp_path / "starts").read_text().splitlines()[0])
    assert (wanted["torchvision"], wanted["image"], wanted["batch"]) == ("efficientnet_b0", 224, 4)
    assert (found["name"], found["basis"], found["cards"][0]["unit"]) == ("efficientnet_b0", "traced", "images/s")


@pytest.mark.parametrize("python", ["/does/not/exist", "/etc/passwd"])
def test_an_interpreter_that_is_none(python: str) -> None:
    with pytest.raises(Refusal, match=f"`python`: {python} cannot be started .*: name an interpreter"):
        fit(python).estimate({"model": "model.py:build"}, [])
