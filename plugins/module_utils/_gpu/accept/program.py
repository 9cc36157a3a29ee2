# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that loads one GPU and measures it, with PyTorch. An interpreter gets it as text, with the modules that it imports.

Its one argument is JSON: warm_up_s, window_s, windows, burn_in_s, dtypes (of the matrix products), memory_share, seed, and limit_s, when it
ends itself. It does a step (STEPS) for each line of JSON on its standard input, and ends with the input. It writes lines of JSON:

started   versions, and the name of the GPU
window    test, from and to (the host's monotonic clock), value, unit, and the number of wrong results so far
checksum  SHA-256 of the first product of a dtype: the same on every healthy GPU of a model with the same PyTorch; and its error
          against double precision
skipped   a test that this PyTorch or this GPU cannot do, and the reason
burn_in   like window
memory    the bytes that were filled with patterns, and the first wrong word
ready     its load is allocated: it waits for a line, so that all GPUs begin together
together  like window, while all GPUs are loaded
all_reduce  of all GPUs, through NCCL
trying, pair  from one GPU to another
did       the end of a step
failed    reason and message
done

Data are random: a product of zeros is faster than any real product (894 instead of 769 to 798 TFLOPS on an H200).
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import links, loads, patterns

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Command

BUS_S = 1.0


class Failed(Exception):
    """Ends the program with a reason and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def emit(event: str, **facts: t.Any) -> None:
    """Write an event for the module."""
    # The module is another process, and reads standard output.
    print(json.dumps({"event": event, **facts}), flush=True)  # pylint: disable=ansible-bad-function


def make_products(gpu: loads.Gpu, dtypes: t.Sequence[str]) -> list[loads.Product]:
    """Return products of the types that this PyTorch multiplies on this GPU; emit the others with the reason."""
    products = []
    for dtype in dtypes:
        try:
            products.append(loads.Product(gpu, dtype))
        # Only fp8 may be missing: its function is new, and not public.
        except (RuntimeError, AttributeError, TypeError, NotImplementedError, ValueError) as error:
            if dtype != "fp8":
                raise
            emit("skipped", test="matmul_fp8", words=loads.one_line(error))
    return products


def measure(gpu: loads.Gpu, wanted: Command) -> None:
    """Measure each test alone, in windows, after a warm-up; then burn in."""
    products = make_products(gpu, wanted["dtypes"])
    for product in products:
        emit("checksum", test=product.test, sha256=product.checksum(), error=product.error(), side=product.side)
    ended = time.monotonic() + wanted["warm_up_s"]
    while time.monotonic() < ended:
        # The first kind draws the most power.
        products[0].step()
        gpu.synchronize()
    running: list[t.Any] = [
        *products,
        loads.Copy(gpu),
        loads.Bus(gpu, "h2d"),
        loads.Bus(gpu, "d2h"),
        loads.BothWays(gpu),
    ]
    for _number in range(wanted["windows"]):
        for load in running:
            bus = isinstance(load, (loads.Bus, loads.BothWays))
            loads.window(gpu, load, min(BUS_S, wanted["window_s"]) if bus else wanted["window_s"], emit)
    ended = time.monotonic() + wanted["burn_in_s"]
    number = 0
    while time.monotonic() < ended:
        burning = running[number % (len(products) + 1)]
        loads.window(gpu, burning, min(wanted["window_s"], max(0.5, ended - time.monotonic())), emit, "burn_in")
        number += 1


def memory(gpu: loads.Gpu, wanted: Command) -> None:
    """Test the memory."""
    patterns.fill_memory(gpu, wanted["memory_share"], emit)


def together(gpu: loads.Gpu, wanted: Command) -> None:
    """Measure the load that draws the most power, and copies to and from the host, while all other GPUs do the same."""
    running: list[t.Any] = [loads.Product(gpu, wanted["dtypes"][0]), loads.Bus(gpu, "h2d"), loads.Bus(gpu, "d2h")]
    for load in running:
        emit("ready", test=load.test)
        if not read_line():
            return
        loads.window(
            gpu,
            load,
            min(BUS_S, wanted["window_s"]) if isinstance(load, loads.Bus) else wanted["window_s"],
            emit,
            "together",
        )


def all_reduce(gpu: loads.Gpu, wanted: Command) -> None:
    """Measure NCCL's sum over all GPUs."""
    links.all_reduce(gpu, wanted, emit)


def pairs(gpu: loads.Gpu, _wanted: Command) -> None:
    """Measure copies between all pairs of GPUs."""
    links.pairs(gpu, emit)


STEPS = {"measure": measure, "memory": memory, "together": together, "all_reduce": all_reduce, "pairs": pairs}


def read_line() -> str:
    """Read the next command; empty at the end of the input."""
    return sys.stdin.readline()


def work(wanted: Command, torch: t.Any) -> None:
    """Do a step for each command."""
    gpu = loads.Gpu(torch, wanted["seed"], len(wanted["dtypes"]))
    emit("started", torch=torch.__version__, cuda=torch.version.cuda, name=gpu.name, side=gpu.side)
    for text in iter(read_line, ""):
        line = json.loads(text)
        wanted["do"] = line["do"]
        STEPS[line["do"]](gpu, {**wanted, **line})
        torch.cuda.empty_cache()
        emit("did", step=line["do"])


def load_torch() -> t.Any:
    """Import PyTorch, and check that it can use a GPU.

    :raises Failed: it cannot.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        raise Failed("no_torch" if missing else "broken_torch", str(error)) from error
    if not torch.version.cuda:
        raise Failed("cpu_build", f"PyTorch {torch.__version__} was built without CUDA")
    if not torch.cuda.is_available():
        raise Failed(
            "no_gpu",
            f"PyTorch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU that it can use{why_no_gpu(torch)}",
        )
    return torch


def why_no_gpu(torch: t.Any) -> str:
    """Return the reason of CUDA, which PyTorch gives only when it is used."""
    try:
        torch.cuda.init()
    except RuntimeError as error:
        return f": {loads.one_line(error)}"
    return ""


def main(arguments: list[str]) -> int:
    """Run the program, and return its exit status."""
    # cuBLAS needs this setting to compute the same result each time.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    wanted: Command = json.loads(arguments[0])
    # A thread of its own also ends a program that hangs in a driver, or has lost the module that started it.
    faulthandler.dump_traceback_later(wanted["limit_s"], exit=True)
    try:
        work(wanted, load_torch())
    except Failed as failure:
        emit("failed", reason=failure.reason, words=str(failure))
        return 3
    # Errors of PyTorch: full memory, a GPU that failed.
    except (RuntimeError, OSError) as error:
        emit("failed", step=wanted.get("do"), reason="broke_off", words=loads.one_line(error))
        return 4
    emit("done")
    return 0
