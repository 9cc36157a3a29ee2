# SPDX-License-Identifier: GPL-3.0-or-later
"""The measuring program without a GPU: its checks of PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import workers

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
    """Run the program by standard input of a Python; *torch* is the text of the module torch."""
    if torch is not None:
        (tmp_path / "torch.py").write_text(torch)
    own = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules.pop('torch', None)\n"
    command = [sys.executable, "-I", "-u", "-c", own + workers.STARTER, json.dumps({**REQUEST, **(request or {})})]
    text = json.dumps(workers.sources()) + "\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        (None, "no_torch"),
        ("raise ImportError('libcudart.so.13: cannot open shared object file')", "broken_torch"),
        ("from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda=None)", "cpu_build"),
        (
            "from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda='13.0'); "
            "cuda = N(is_available=lambda: False, init=print)",
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
def test_failures_of_pytorch_have_reasons(tmp_path: Path, torch: str | None, reason: str):
    done = start(tmp_path, torch)

    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["reason"]) == ("failed", reason)
    assert done.returncode in (3, 4)


def test_cuda_says_why_it_finds_no_gpu(tmp_path: Path):
    torch = (
        "from types import SimpleNamespace as N; __version__ = '2.11.0'; version = N(cuda='13.0')\n"
        "def init(): raise RuntimeError('Error 802: system not yet initialized')\n"
        "cuda = N(is_available=lambda: False, init=init)"
    )
    done = start(tmp_path, torch)
    assert json.loads(done.stdout.splitlines()[-1])["words"].endswith("can use: Error 802: system not yet initialized")


def test_a_program_that_hangs_ends_itself(tmp_path: Path):
    done = start(tmp_path, "import time; time.sleep(60)", {"limit_s": 1})

    assert done.returncode == 1
    assert "Timeout" in done.stderr
