# SPDX-License-Identifier: GPL-3.0-or-later
"""The tracing program, without PyTorch: script/test has none."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
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


STUB = {
    "__init__": "__version__ = 'fake'\nbfloat16 = float32 = float16 = 0\nset_default_dtype = print\n",
    "nn/__init__": "from . import init\n",
    "nn/init": "def normal_(tensor):\n    raise ValueError('it would draw again for ever')\n",
    "_subclasses/__init__": "",
    "_subclasses/fake_tensor": "import contextlib\ndef FakeTensorMode(**_options): return contextlib.nullcontext()\n",
    "distributed/__init__": "",
    "distributed/_tools/__init__": "",
    "distributed/_tools/mem_tracker": "",
    "utils/__init__": "",
    "utils/flop_counter": "",
}
MODELS = """
import atexit, os, sys, time
def fails(): raise AssertionError("no\\nway")
def exits(): sys.exit(3)
def ends(): os._exit(3)
def prints():
    print('{"failed": "no_torch"}')
    atexit.register(print, "bye")
    raise ZeroDivisionError
def needs(size): pass
def draws():
    import torch
    raise KeyError(torch.nn.init.normal_("kept", std=1))
def nothing(): pass
def reads(): return input()
def waits():
    if os.fork():
        os.wait()
    time.sleep(1000)
def floods():
    while True: print("x" * 100_000)
"""


@pytest.fixture
def entry(tmp_path: Path) -> Callable[[str], Any]:
    """Trace a function of MODELS with a fake of PyTorch that has what is needed until the model is built."""
    for name, text in STUB.items():
        path = tmp_path / "fakes/torch" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "net.py").write_text(MODELS)
    start = f"import sys; sys.path.insert(0, '{tmp_path}/fakes'); exec(sys.stdin.read())"
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$4"\n')
    (tmp_path / "python").chmod(0o755)
    fit = run.Fit(str(tmp_path / "python"), getpass.getuser())
    return lambda name: fit.estimate({"model": f"{tmp_path}/net.py:{name}"}, [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "AssertionError: no way: correct the entry point"),
        ("exits", "SystemExit: 3: correct the entry point"),
        ("ends", "it ended with status 3 and no result"),
        ("prints", "ZeroDivisionError: correct the entry point"),
        ("draws", "KeyError: 'kept'"),
        ("needs", "TypeError: .*required positional argument"),
        ("nothing", "'NoneType' object has no attribute 'train'"),
        ("reads", "EOFError"),
        ("absent", "has no attribute 'absent'"),
    ],
)
def test_what_an_entry_point_does_is_its_result(entry: Callable[[str], Any], name: str, message: str) -> None:
    with pytest.raises(Refusal, match=f"`model` could not be traced: .*{message}"):
        entry(name)


@pytest.mark.parametrize("name", ["waits", "floods"])
def test_an_entry_point_without_end_is_ended(
    entry: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(run, "TRACE_S", 0.5)
    with pytest.raises(Refusal, match="`model` was not traced in 0.5 seconds: correct the entry point"):
        entry(name)
