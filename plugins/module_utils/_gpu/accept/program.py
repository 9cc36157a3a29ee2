# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The program that loads one GPU and measures it, with PyTorch. It is handed to an interpreter as text, with what it imports from here.

Its one argument is JSON: warm_up_s, window_s, windows, burn_in_s, dtypes (of the matrix products), memory_share, seed, and limit_s, when it
ends itself. It does a step (STEPS) for each line of JSON on its standard input, and ends with the input. It writes lines of JSON:

started   what it runs with
window    test, from and to (the host's monotonic clock), value, unit, and how many numbers were wrong so far
checksum  SHA-256 of the first product of a dtype: the same on every healthy GPU of a model with the same PyTorch; and its error
          against double precision
skipped   a test that this PyTorch or this GPU cannot do, and the reason
burn_in   like window
memory    what was filled with patterns, and the first word that was wrong
ready     loads are there: it waits for a line, so that all GPUs begin together
together  like window, while all GPUs are loaded
all_reduce  of all GPUs, through NCCL
trying, pair  from one GPU to another
did       a step has ended
failed    reason and words
done

Data are random: a product of zeros runs faster than any real one (894 instead of 769 to 798 TFLOPS on an H200).
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

BUS_S = 1.0


class Failed(Exception):
    """Ends the program with a reason and words for it."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def say(event: str, **facts: t.Any) -> None:
    # Its standard output is read by the module, which is another process.
    print(json.dumps({"event": event, **facts}), flush=True)  # pylint: disable=ansible-bad-function


def make_products(gpu: loads.Gpu, dtypes: t.Sequence[str]) -> list[loads.Product]:
    """Products of those types that this PyTorch multiplies on this GPU; the others are told with the reason."""
    products = []
    for dtype in dtypes:
        try:
            products.append(loads.Product(gpu, dtype))
        # fp8 alone may be missing: its function is young, and not a public one.
        except (RuntimeError, AttributeError, TypeError, NotImplementedError, ValueError) as error:
            if dtype != "fp8":
                raise
            say("skipped", test="matmul_fp8", words=loads.one_line(error))
    return products


def measure(gpu: loads.Gpu, wanted: dict[str, t.Any]) -> None:
    """Each test alone, in windows, after a warm-up; then the burn-in."""
    products = make_products(gpu, wanted["dtypes"])
    for product in products:
        say("checksum", test=product.test, sha256=product.checksum(), error=product.error(), side=product.side)
    ended = time.monotonic() + wanted["warm_up_s"]
    while time.monotonic() < ended:
        # The first kind is the one that draws the most power.
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
            loads.window(gpu, load, min(BUS_S, wanted["window_s"]) if bus else wanted["window_s"], say)
    ended = time.monotonic() + wanted["burn_in_s"]
    number = 0
    while time.monotonic() < ended:
        burning = running[number % (len(products) + 1)]
        loads.window(gpu, burning, min(wanted["window_s"], max(0.5, ended - time.monotonic())), say, "burn_in")
        number += 1


def memory(gpu: loads.Gpu, wanted: dict[str, t.Any]) -> None:
    patterns.fill_memory(gpu, wanted["memory_share"], say)


def together(gpu: loads.Gpu, wanted: dict[str, t.Any]) -> None:
    """What draws the most power, and what shares the host, while all other GPUs do the same."""
    running: list[t.Any] = [loads.Product(gpu, wanted["dtypes"][0]), loads.Bus(gpu, "h2d"), loads.Bus(gpu, "d2h")]
    for load in running:
        say("ready", test=load.test)
        if not read_line():
            return
        loads.window(
            gpu,
            load,
            min(BUS_S, wanted["window_s"]) if isinstance(load, loads.Bus) else wanted["window_s"],
            say,
            "together",
        )


def all_reduce(gpu: loads.Gpu, wanted: dict[str, t.Any]) -> None:
    links.all_reduce(gpu, wanted, say)


def pairs(gpu: loads.Gpu, _wanted: dict[str, t.Any]) -> None:
    links.pairs(gpu, say)


STEPS = {"measure": measure, "memory": memory, "together": together, "all_reduce": all_reduce, "pairs": pairs}


def read_line() -> str:
    """What to do next; empty when there is no more, or nobody who would say it."""
    return sys.stdin.readline()


def work(wanted: dict[str, t.Any], torch: t.Any) -> None:
    gpu = loads.Gpu(torch, wanted["seed"], len(wanted["dtypes"]))
    say("started", torch=torch.__version__, cuda=torch.version.cuda, name=gpu.name, side=gpu.side)
    for text in iter(read_line, ""):
        line = json.loads(text)
        wanted["step"] = line["do"]
        STEPS[line["do"]](gpu, {**wanted, **line})
        torch.cuda.empty_cache()
        say("did", step=line["do"])


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
        work(wanted, load_torch())
    except Failed as failure:
        say("failed", reason=failure.reason, words=str(failure))
        return 3
    # PyTorch's own: memory that is full, a GPU that broke off.
    except (RuntimeError, OSError) as error:
        say("failed", step=wanted.get("step"), reason="broke_off", words=loads.one_line(error))
        return 4
    say("done")
    return 0
