# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loads of a GPU: products, copies, and transfers over PCIe. The measuring program runs them, and passes PyTorch."""

from __future__ import annotations

import ctypes
import hashlib
import time
import typing as t

GIB = 1 << 30
# A product of this size loads every card fully. It is smaller where three matrices would not fit.
SIDE = 8192
COPY_BYTES = 4 * GIB
# Pinned memory of the host.
HOST_BYTES = GIB // 2
# Seconds of products between two comparisons with the first result.
BLOCK_S = 0.1
# Rows of a product that are computed again in double precision.
ROWS = 16
# Each window starts with this time that does not count: clocks follow a new load in some hundred milliseconds.
SETTLE_S = 0.5

Emit = t.Callable[..., None]


class Gpu:
    """PyTorch's first GPU."""

    def __init__(self, torch: t.Any, seed: int, kinds: int) -> None:
        """Choose the sizes for the free memory.

        :param kinds: the number of kinds of products.
        """
        self.torch = torch
        self.device = "cuda"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.manual_seed(seed)
        properties = torch.cuda.get_device_properties(0)
        self.name = properties.name
        free, _total = torch.cuda.mem_get_info()
        self.side = SIDE
        # Two factors, the product and the first product, four bytes a number on average.
        while self.side > 1024 and 4 * 4 * kinds * self.side**2 > free * 0.7:
            self.side //= 2
        self.copy_bytes = min(COPY_BYTES, free // 10)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.torch.cuda.synchronize()

    def mark(self) -> t.Any:
        """Record an event in the current stream."""
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, first: t.Any, last: t.Any) -> float:
        """Return the seconds between two events."""
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000


class Product:
    """C = A B of random numbers. The GPU compares every result with the first, bit by bit."""

    unit = "tflops"

    def __init__(self, gpu: Gpu, dtype: str) -> None:
        torch = gpu.torch
        self.gpu, self.dtype, self.test, self.torch = gpu, dtype, f"matmul_{dtype}", torch
        kinds = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
        kind = getattr(torch, kinds.get(dtype, "float8_e4m3fn"))
        self.side = gpu.side if dtype != "fp64" else self.side_for(kind)
        # Scaled, so that no sum of fp16 overflows.
        self.a, self.b = (
            (torch.randn(self.side, self.side, device=gpu.device) / (1 if dtype == "fp8" else 16)).to(kind)
            for _number in range(2)
        )
        self.out = torch.empty(
            self.side, self.side, device=gpu.device, dtype=torch.bfloat16 if dtype == "fp8" else kind
        )
        self.bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[self.out.element_size()]
        self.wrong = torch.zeros((), dtype=torch.int64, device=gpu.device)
        self.scale = torch.ones((), device=gpu.device)
        self.run(1)
        gpu.synchronize()
        self.first = self.out.clone()
        begun = time.monotonic()
        self.run(4)
        gpu.synchronize()
        self.block = max(1, int(BLOCK_S * 4 / max(1e-6, time.monotonic() - begun)))

    def side_for(self, kind: t.Any) -> int:
        """Return a side with which a product takes a fraction of a second: many cards do fp64 64 times slower than fp32."""
        side, seconds = 512, 0.0
        while side < self.gpu.side and seconds < BLOCK_S / 8:
            side *= 2
            matrix = self.torch.zeros(side, side, device=self.gpu.device, dtype=kind)
            matrix @ matrix
            self.gpu.synchronize()
            begun = time.monotonic()
            matrix @ matrix
            self.gpu.synchronize()
            seconds = time.monotonic() - begun
        return side

    def checksum(self) -> str:
        """Return the SHA-256 of the first product."""
        first = self.first.cpu()
        return hashlib.sha256(ctypes.string_at(first.data_ptr(), first.numel() * first.element_size())).hexdigest()

    def error(self) -> float:
        """Return the error of some rows of the first product against double precision. A product that is always wrong has no other sign."""
        rows = self.a[:ROWS].double() @ self.factor().double()
        return float((self.first[:ROWS].double() - rows).norm() / rows.norm())

    def factor(self) -> t.Any:
        """Return the right factor; fp8 needs it by columns."""
        return self.b.t() if self.dtype == "fp8" else self.b

    def run(self, times: int) -> None:
        """Multiply so many times."""
        self.torch.backends.cuda.matmul.allow_tf32 = self.dtype == "tf32"
        for _number in range(times):
            if self.dtype == "fp8":
                self.torch._scaled_mm(
                    self.a,
                    self.factor(),
                    scale_a=self.scale,
                    scale_b=self.scale,
                    out_dtype=self.out.dtype,
                    use_fast_accum=True,
                    out=self.out,
                )
            else:
                self.torch.matmul(self.a, self.b, out=self.out)

    def step(self) -> float:
        """Run one block, compare the last result, and return the operations in 10^12."""
        self.run(self.block)
        self.wrong += (self.out.view(self.bits) != self.first.view(self.bits)).sum()
        return self.block * 2 * self.side**3 / 1e12

    def result(self) -> dict[str, int]:
        """Return the number of wrong results. This waits for the GPU, so it is called at the end of a window."""
        return {"wrong": int(self.wrong.item()), "side": self.side}


class Copy:
    """A copy within the memory of the GPU: each byte is read and written."""

    unit = "gb_s"
    test = "copy"

    def __init__(self, gpu: Gpu) -> None:
        torch = gpu.torch
        numbers = gpu.copy_bytes // 4
        self.source = torch.randint(-(2**31), 2**31 - 1, (numbers,), dtype=torch.int32, device=gpu.device)
        self.target = torch.empty_like(self.source)
        self.torch, self.bytes = torch, numbers * 4

    def step(self) -> float:
        """Run one block, and return the bytes in 10^9."""
        times = 8
        for _number in range(times):
            self.target.copy_(self.source)
        return times * 2 * self.bytes / 1e9

    def result(self) -> dict[str, int]:
        """Return whether the copy is wrong."""
        return {"wrong": 0 if self.torch.equal(self.source, self.target) else 1, "bytes": self.bytes}


class Bus:
    """A copy between pinned memory of the host and the GPU."""

    unit = "gb_s"

    def __init__(self, gpu: Gpu, test: str) -> None:
        torch = gpu.torch
        host = torch.randint(-(2**31), 2**31 - 1, (HOST_BYTES // 4,), dtype=torch.int32).pin_memory()
        self.test, self.torch = test, torch
        # The right result is on the GPU: to compare on the host would take longer than the test.
        self.card = host.to(gpu.device)
        self.source, self.target = host, torch.empty_like(self.card)
        if test == "d2h":
            self.source, self.target = self.card, torch.zeros_like(host).pin_memory()

    def step(self) -> float:
        """Run one block, and return the bytes in 10^9."""
        times = 4
        for _number in range(times):
            self.target.copy_(self.source, non_blocking=True)
        return times * HOST_BYTES / 1e9

    def result(self) -> dict[str, int]:
        """Return whether the copy is wrong."""
        self.torch.cuda.synchronize()
        same = self.torch.equal(self.target.to(self.card.device), self.card)
        return {"wrong": 0 if same else 1, "bytes": HOST_BYTES}


class BothWays:
    """Copies between pinned memory of the host and the GPU, in both directions at once. The rate is the sum of both."""

    unit = "gb_s"
    test = "h2d_d2h"

    def __init__(self, gpu: Gpu) -> None:
        self.torch = gpu.torch
        self.ways = [Bus(gpu, "h2d"), Bus(gpu, "d2h")]
        self.streams = [gpu.torch.cuda.Stream() for _way in self.ways]

    def step(self) -> float:
        """Run one block, and return the bytes in 10^9."""
        current = self.torch.cuda.current_stream()
        worth = 0.0
        for way, stream in zip(self.ways, self.streams):
            stream.wait_stream(current)
            with self.torch.cuda.stream(stream):
                worth += way.step()
        # Events are recorded in the default stream: it has to wait for both.
        for stream in self.streams:
            current.wait_stream(stream)
        return worth

    def result(self) -> dict[str, int]:
        """Return whether the copy is wrong."""
        return {"wrong": sum(way.result()["wrong"] for way in self.ways), "bytes": HOST_BYTES}


def window(gpu: Gpu, load: t.Any, seconds: float, emit: Emit, kind: str = "window") -> None:
    """Run a load for some time, and emit its rate. It is two blocks ahead of the GPU, so that the GPU never waits."""
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
    emit(kind, **facts, **load.result())


def one_line(error: BaseException) -> str:
    """Return the text of an error as one short line."""
    return " ".join(str(error).split())[:400] or type(error).__name__
