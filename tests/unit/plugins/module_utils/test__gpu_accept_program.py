# SPDX-License-Identifier: GPL-3.0-or-later
"""The measuring program where there is no GPU for it: what it says of PyTorch, and how a window is timed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept_loads as loads
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept_patterns as patterns
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept_run as runner

REQUEST = {
    "warm_up_s": 0,
    "window_s": 0.1,
    "windows": 1,
    "burn_in_s": 0,
    "memory_share": 0.9,
    "dtypes": ["bf16"],
    "seed": 6,
    "limit_s": 60,
}


def start(tmp_path: Path, torch: str | None, request: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Hand the program to a Python over standard input; *torch* is the text of a module of that name."""
    if torch is not None:
        (tmp_path / "torch.py").write_text(torch)
    own = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules.pop('torch', None)\n"
    command = [sys.executable, "-I", "-u", "-c", own + runner.STARTER, json.dumps({**REQUEST, **(request or {})})]
    text = json.dumps(runner.sources()) + "\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        (None, "no_torch"),
        ("raise ImportError('libcudart.so.13: cannot open shared object file')", "broken_torch"),
        ("from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda=None)", "cpu_build"),
        (
            "from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda='13.0'); "
            "cuda = N(is_available=lambda: False)",
            "no_gpu",
        ),
        (
            "from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda='13.0'); "
            "cuda = N(is_available=lambda: True); manual_seed = print\n"
            "def lost(*_): raise RuntimeError('CUDA error: unspecified launch failure')\n"
            "cuda.get_device_properties = lost; backends = N(cuda=N(matmul=N()))",
            "broke_off",
        ),
    ],
)
def test_why_nothing_is_measured_is_told_apart(tmp_path: Path, torch: str | None, reason: str):
    done = start(tmp_path, torch)

    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["reason"]) == ("failed", reason)
    assert done.returncode in (3, 4)


def test_a_program_that_hangs_ends_itself(tmp_path: Path):
    done = start(tmp_path, "import time; time.sleep(60)", {"limit_s": 1})

    assert done.returncode == 1
    assert "Timeout" in done.stderr


class Gpu:
    """Marks are the host's clock, and a step takes what it takes."""

    def synchronize(self) -> None:
        pass

    def mark(self) -> Any:
        return SimpleNamespace(at=time.monotonic(), synchronize=lambda: None)

    def seconds(self, first: Any, last: Any) -> float:
        return last.at - first.at


class Load:
    test, unit = "copy", "gb_s"

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> float:
        self.steps += 1
        time.sleep(0.01)
        return 5.0

    def told(self) -> dict[str, Any]:
        return {"wrong": 0}


def test_a_window_counts_what_was_done_in_it_and_not_what_settled_before():
    said: list[dict[str, Any]] = []
    load = Load()

    loads.window(Gpu(), load, 0.2, lambda event, **facts: said.append({"event": event, **facts}))  # type: ignore[arg-type]

    (window,) = said
    assert (window["event"], window["test"], window["unit"], window["wrong"]) == ("window", "copy", "gb_s", 0)
    # 5 GB in at least 10 ms; a busy machine sleeps longer, never shorter
    assert 0 < window["value"] <= 500
    counted = window["value"] * (window["to"] - window["from"]) / 5
    assert counted < load.steps
    assert window["to"] - window["from"] >= 0.2


def test_the_first_wrong_word_is_told_with_its_place_and_bits():
    expected = patterns.CONSTANTS["0xaa"]

    found = patterns.first_wrong("0xaa", 4096, 0x7F0000001000, expected, expected ^ 0b1001)

    assert found == {
        "pattern": "0xaa",
        "offset": 4096,
        "address": "0x7f0000001000",
        "expected": "0xaaaaaaaaaaaaaaaa",
        "found": "0xaaaaaaaaaaaaaaa3",
        "bits": [0, 3],
    }


@pytest.mark.parametrize("bit", [0, 62, 63])
def test_every_bit_is_found_also_that_of_the_sign(bit: int):
    found = patterns.first_wrong("ones", 0, 0, -1, patterns.signed((1 << 64) - 1 - (1 << bit)))

    assert found["bits"] == [bit]


def test_each_bit_is_once_0_and_once_1_and_words_differ():
    assert patterns.CONSTANTS["zeros"] == ~patterns.CONSTANTS["ones"] == 0
    assert patterns.CONSTANTS["0x55"] == ~patterns.CONSTANTS["0xaa"]
    assert {"address", "random"} < set(patterns.PATTERNS)
