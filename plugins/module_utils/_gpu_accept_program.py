# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The program that loads one GPU and measures it, with PyTorch. It is handed to an interpreter by standard input and stands alone.

Its one argument is JSON: warm_up_s, window_s, windows, burn_in_s, dtypes (of the matrix products), seed, limit_s (when it ends itself).
It writes lines of JSON:

started   what it runs with
window    test, from and to (the host's monotonic clock), value, unit, and how many numbers were wrong so far
checksum  SHA-256 of the first product of a dtype: the same on every healthy GPU of a model with the same PyTorch; and its error
          against double precision
failed    reason and words
done

Data are random: a product of zeros runs faster than any real one (894 instead of 769 to 798 TFLOPS on an H200).
"""

from __future__ import annotations

import ctypes
import faulthandler
import hashlib
import importlib
import json
import os
import sys
import time
import typing as t

GIB = 1 << 30
# A product of this size fills every card; smaller where three matrices would not fit.
SIDE = 8192
COPY_BYTES = 4 * GIB
# Pinned memory of the host, and how long a bus is measured: it has nothing to warm up.
HOST_BYTES = GIB // 2
BUS_S = 1.0
# Seconds of products between two comparisons with the first result.
BLOCK_S = 0.1
# Rows of a product that are computed again in double precision.
ROWS = 16
# Left of each window before it counts: clocks follow a new load in some hundred milliseconds.
SETTLE_S = 0.5

Say = t.Callable[..., None]


class Failed(Exception):
    """Ends the program with a reason and words for it."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def say(event: str, **facts: t.Any) -> None:
    # Its standard output is read by the module, which is another process.
    print(json.dumps({"event": event, **facts}), flush=True)  # pylint: disable=ansible-bad-function


class Gpu:
    """PyTorch's first GPU, and the data that it computes with."""

    def __init__(self, torch: t.Any, seed: int) -> None:
        self.torch = torch
        self.device = "cuda"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.manual_seed(seed)
        properties = torch.cuda.get_device_properties(0)
        self.name = properties.name
        free, _total = torch.cuda.mem_get_info()
        self.side = SIDE
        while self.side > 1024 and 8 * 4 * self.side**2 > free:
            self.side //= 2
        self.copy_bytes = min(COPY_BYTES, free // 4)

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def mark(self) -> t.Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, first: t.Any, last: t.Any) -> float:
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000


class Product:
    """C = A B of random numbers. Every result is compared with the first, bit by bit, on the GPU."""

    unit = "tflops"

    def __init__(self, gpu: Gpu, dtype: str) -> None:
        torch = gpu.torch
        self.gpu, self.test, self.torch = gpu, f"matmul_{dtype}", torch
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
        self.bits = torch.int32 if dtype == "fp32" else torch.int16
        # Scaled, so that no sum of fp16 overflows.
        self.a, self.b = ((torch.randn(gpu.side, gpu.side, device=gpu.device) / 16).to(kind) for _number in range(2))
        self.out = torch.empty_like(self.a)
        self.wrong = torch.zeros((), dtype=torch.int64, device=gpu.device)
        self.run(1)
        gpu.synchronize()
        self.first = self.out.clone()
        begun = time.monotonic()
        self.run(4)
        gpu.synchronize()
        self.block = max(1, int(BLOCK_S * 4 / max(1e-6, time.monotonic() - begun)))

    def checksum(self) -> str:
        first = self.first.cpu()
        return hashlib.sha256(ctypes.string_at(first.data_ptr(), first.numel() * first.element_size())).hexdigest()

    def error(self) -> float:
        """Of some rows of the first product, against double precision: what was wrong from the start stays the same."""
        rows = self.a[:ROWS].double() @ self.b.double()
        return float((self.first[:ROWS].double() - rows).norm() / rows.norm())

    def run(self, times: int) -> None:
        for _number in range(times):
            self.torch.matmul(self.a, self.b, out=self.out)

    def step(self) -> float:
        """One block, and what it was worth."""
        self.run(self.block)
        self.wrong += (self.out.view(self.bits) != self.first.view(self.bits)).sum()
        return self.block * 2 * self.gpu.side**3 / 1e12

    def told(self) -> dict[str, t.Any]:
        """Read at the end of a window: reading waits for the GPU."""
        return {"wrong": int(self.wrong.item()), "side": self.gpu.side}


class Copy:
    """From memory of the GPU to memory of the GPU: each byte is read and written."""

    unit = "gb_s"
    test = "copy"

    def __init__(self, gpu: Gpu) -> None:
        torch = gpu.torch
        numbers = gpu.copy_bytes // 4
        self.source = torch.randint(-(2**31), 2**31 - 1, (numbers,), dtype=torch.int32, device=gpu.device)
        self.target = torch.empty_like(self.source)
        self.torch, self.bytes = torch, numbers * 4

    def step(self) -> float:
        times = 8
        for _number in range(times):
            self.target.copy_(self.source)
        return times * 2 * self.bytes / 1e9

    def told(self) -> dict[str, t.Any]:
        return {"wrong": 0 if self.torch.equal(self.source, self.target) else 1, "bytes": self.bytes}


class Bus:
    """Between pinned memory of the host and the GPU."""

    unit = "gb_s"

    def __init__(self, gpu: Gpu, test: str) -> None:
        torch = gpu.torch
        host = torch.randint(-(2**31), 2**31 - 1, (HOST_BYTES // 4,), dtype=torch.int32).pin_memory()
        self.test, self.torch = test, torch
        # What the results are compared with, on the GPU: the host would take longer for it than for the test.
        self.card = host.to(gpu.device)
        self.source, self.target = host, torch.empty_like(self.card)
        if test == "d2h":
            self.source, self.target = self.card, torch.zeros_like(host).pin_memory()

    def step(self) -> float:
        times = 4
        for _number in range(times):
            self.target.copy_(self.source, non_blocking=True)
        return times * HOST_BYTES / 1e9

    def told(self) -> dict[str, t.Any]:
        self.torch.cuda.synchronize()
        same = self.torch.equal(self.target.to(self.card.device), self.card)
        return {"wrong": 0 if same else 1, "bytes": HOST_BYTES}


def window(gpu: Gpu, load: t.Any, seconds: float, say: Say, kind: str = "window") -> None:
    """Have a load run for some time, two blocks ahead of the GPU so that it never waits, and tell what it was worth."""
    settle = time.monotonic() + min(SETTLE_S, seconds / 4)
    while time.monotonic() < settle:
        load.step()
        gpu.synchronize()
    begun = time.monotonic()
    first = gpu.mark()
    marks = [first]
    worth = 0.0
    while time.monotonic() < begun + seconds:
        worth += load.step()
        marks.append(gpu.mark())
        if len(marks) > 2:
            marks[-2].synchronize()
    elapsed = gpu.seconds(first, marks[-1])
    ended = time.monotonic()
    facts = {"test": load.test, "from": begun, "to": ended, "value": worth / elapsed, "unit": load.unit}
    say(kind, **facts, **load.told())


def measure(wanted: dict[str, t.Any], torch: t.Any, say: Say) -> None:
    gpu = Gpu(torch, wanted["seed"])
    say("started", torch=torch.__version__, cuda=torch.version.cuda, name=gpu.name, side=gpu.side)
    products = [Product(gpu, dtype) for dtype in wanted["dtypes"]]
    for product in products:
        say("checksum", test=product.test, sha256=product.checksum(), error=product.error(), side=gpu.side)
    ended = time.monotonic() + wanted["warm_up_s"]
    while time.monotonic() < ended:
        # The first kind is the one that draws the most power.
        products[0].step()
        gpu.synchronize()
    loads = [*products, Copy(gpu), Bus(gpu, "h2d"), Bus(gpu, "d2h")]
    for _number in range(wanted["windows"]):
        for load in loads:
            window(gpu, load, min(BUS_S, wanted["window_s"]) if isinstance(load, Bus) else wanted["window_s"], say)
    ended = time.monotonic() + wanted["burn_in_s"]
    number = 0
    while time.monotonic() < ended:
        burning = loads[number % (len(products) + 1)]
        window(gpu, burning, min(wanted["window_s"], max(0.5, ended - time.monotonic())), say, "burn_in")
        number += 1


def load_torch() -> t.Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        raise Failed("no_torch" if missing else "broken_torch", str(error)) from error
    if not torch.version.cuda:
        raise Failed("cpu_build", f"PyTorch {torch.__version__} was built without CUDA")
    if not torch.cuda.is_available():
        raise Failed(
            "no_gpu", f"PyTorch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU that it can use"
        )
    return torch


def main(arguments: list[str]) -> int:
    # cuBLAS wants to be told before it computes the same thing twice.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    wanted = json.loads(arguments[0])
    # A thread of its own: it also ends a program that hangs in a driver, and one whose starter is gone.
    faulthandler.dump_traceback_later(wanted["limit_s"], exit=True)
    try:
        measure(wanted, load_torch(), say)
    except Failed as failure:
        say("failed", reason=failure.reason, words=str(failure))
        return 3
    # PyTorch's own: memory that is full, a GPU that broke off.
    except (RuntimeError, OSError) as error:
        say("failed", reason="broke_off", words=" ".join(str(error).split())[:400])
        return 4
    say("done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
