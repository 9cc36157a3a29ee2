"""Memory, speed and energy of real training and inference, to compare with what `gpu_fit` predicts.

    python3 -m harness.bench.fit_measure --out DIR [--limit 480] [--only NAME ...]

Each configuration of fit_cases.py runs in a process of its own: a child of one process that has imported PyTorch and not yet touched the
GPU. DIR/fit.json is written after each, so that a run that is cut off keeps what it has. The first figures are the card's rates.

A result has bytes of the allocator's peak (`allocated`, `reserved`), of the process by NVML (`process`: a difference to the
memory in use before it), of weights, of what remains between two steps, and the peak of each phase of a step.
`rate` is in `unit` a second; for inference with new tokens it counts new tokens. `energy_j` is of one step, by NVML's counter.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.bench import fit_cases, fit_models, results

# A configuration that hangs must not take the time of the others.
CASE_LIMIT_S = 120
WARM_UP_STEPS = 3
MEASURED_S = 2.0
REPEATS = 2


class Card:
    """What NVML reports of the first GPU; without NVML every figure is null."""

    def __init__(self) -> None:
        self.nvml: Any = None
        self.handle: Any = None
        with contextlib.suppress(Exception):  # whatever is missing, the memory of the allocator is still measured
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self.handle = nvml.nvmlDeviceGetHandleByIndex(0)
            self.nvml = nvml

    def read(self, function: str, *arguments: Any) -> Any:
        """Return an answer of NVML, or None."""
        if self.nvml is None:
            return None
        with contextlib.suppress(self.nvml.NVMLError, AttributeError):
            return getattr(self.nvml, function)(self.handle, *arguments)
        return None

    def used(self) -> int | None:
        """Return the bytes in use."""
        memory = self.read("nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.used)

    def energy_j(self) -> float | None:
        """Return the energy since the driver was loaded."""
        energy = self.read("nvmlDeviceGetTotalEnergyConsumption")
        return None if energy is None else energy / 1000

    def process_bytes(self) -> int | None:
        """Return the memory of this process as NVML lists it; None where NVML does not see it (in a container)."""
        for process in self.read("nvmlDeviceGetComputeRunningProcesses") or []:
            if process.pid == os.getpid():
                return int(process.usedGpuMemory or 0) or None
        return None

    def facts(self) -> dict[str, Any]:
        """Return name and settings."""
        if self.nvml is None:
            return {}
        memory = self.read("nvmlDeviceGetMemoryInfo")
        limit = self.read("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "name": self.read("nvmlDeviceGetName"),
            "driver": self.nvml.nvmlSystemGetDriverVersion(),
            "memory_bytes": memory and memory.total,
            "power_limit_w": limit and limit / 1000,
            "max_clock_mhz": self.read("nvmlDeviceGetMaxClockInfo", 1),
            "used_before_bytes": memory and memory.used,
        }


class Device:
    """The device as a child uses it."""

    def __init__(self, torch: Any, name: str) -> None:
        self.torch, self.name = torch, name
        self.cuda = name == "cuda"

    def synchronize(self) -> float:
        """Wait for the device; return the time."""
        if self.cuda:
            self.torch.cuda.synchronize()
        return time.monotonic()

    def reset(self) -> None:
        """Begin another peak."""
        if self.cuda:
            self.torch.cuda.synchronize()
            self.torch.cuda.reset_peak_memory_stats()

    def allocated(self) -> int:
        """Return the bytes of live tensors."""
        return int(self.torch.cuda.memory_allocated()) if self.cuda else 0

    def peak(self) -> int:
        """Return the highest `allocated` since the last reset."""
        return int(self.torch.cuda.max_memory_allocated()) if self.cuda else 0

    def reserved(self) -> int:
        """Return the highest memory that the allocator held."""
        return int(self.torch.cuda.max_memory_reserved()) if self.cuda else 0


def wait_for_memory(card: Card, before: int | None) -> int | None:
    """Wait until the driver has the memory of the last child back; return the bytes in use."""
    ended = time.monotonic() + 5
    while before is not None and (card.used() or 0) > before + (64 << 20) and time.monotonic() < ended:
        time.sleep(0.05)
    return card.used()


def timed(device: Device, card: Card, step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Run steps for a time; return the seconds and the energy of one."""
    energy, begun = card.energy_j(), device.synchronize()
    times = [begun]
    while times[-1] - begun < seconds or len(times) < 4:
        step()
        times.append(device.synchronize())
    after = card.energy_j()
    steps = [last - first for first, last in itertools.pairwise(times)]
    return {
        "steps": len(steps),
        "step_s": statistics.median(steps),
        "step_s_mean": statistics.fmean(steps),
        "step_s_least": min(steps),
        "step_s_most": max(steps),
        "energy_j": (after - energy) / len(steps) if energy is not None and after is not None else None,
    }


def phases(device: Device, built: fit_models.Built) -> dict[str, int]:
    """Run one step; return the peak of each of its phases."""
    found: dict[str, int] = {}
    if built.optimizer is None:
        return found
    device.reset()
    loss = built.forward()
    found["forward"] = device.peak()
    found["after_forward"] = device.allocated()
    device.reset()
    loss.backward()
    found["backward"] = device.peak()
    device.reset()
    built.optimizer.step()
    found["optimizer"] = device.peak()
    del loss
    built.optimizer.zero_grad(set_to_none=True)
    return found


def train_step(built: fit_models.Built) -> None:
    """Run one training step."""
    built.forward().backward()
    if built.optimizer is not None:
        built.optimizer.step()
        built.optimizer.zero_grad(set_to_none=True)


def measure(torch: Any, case: fit_cases.Case, options: dict[str, Any]) -> dict[str, Any]:
    """Measure one configuration in a child."""
    card = Card()
    device = Device(torch, options["device"])
    before, begun = wait_for_memory(card, options["before"]), time.monotonic()
    built = fit_models.build(torch, case, device.name)
    parameters = list(built.model.parameters())
    found: dict[str, Any] = {
        "source": built.source,
        "unit": built.unit,
        "items": built.items,
        "parameters": sum(weight.numel() for weight in parameters),
        "trainable": sum(weight.numel() for weight in parameters if weight.requires_grad),
        "weight_bytes": sum(weight.numel() * weight.element_size() for weight in parameters),
        "buffer_bytes": sum(buffer.numel() * buffer.element_size() for buffer in built.model.buffers()),
    }
    if device.cuda:
        torch.cuda.empty_cache()
    device.reset()
    found["built_bytes"], found["build_s"] = device.allocated(), time.monotonic() - begun
    if case["task"] != "infer":
        for _number in range(WARM_UP_STEPS):
            train_step(built)
        found["peak"] = device.peak()
        found["between_steps_bytes"] = device.allocated()
        found["phases"] = phases(device, built)
        found.update(timed(device, card, lambda: train_step(built), options["seconds"]))
        peak = max([found["peak"], device.peak(), *found["phases"].values()])
    elif built.decode is not None:
        built.decode()
        peak = device.peak()
        times = [built.decode() for _number in range(REPEATS if device.cuda else 1)]
        energy = card.energy_j()
        times.append(built.decode())
        after = card.energy_j()
        found["prompt_s"] = statistics.median(time["prompt_s"] for time in times)
        found["step_s"] = statistics.median(time["decode_s"] for time in times)
        found["energy_j"] = after - energy if energy is not None and after is not None else None
    else:
        for _number in range(WARM_UP_STEPS):
            built.forward()
        found.update(timed(device, card, built.forward, options["seconds"]))
        peak = device.peak()
    after_bytes = card.used()
    found.update(
        rate=built.items / found["step_s"],
        allocated=max(peak, device.peak()),
        reserved=device.reserved(),
        process=after_bytes - before if after_bytes is not None and before is not None and device.cuda else None,
        process_listed=card.process_bytes() if device.cuda else None,
        clock_mhz=card.read("nvmlDeviceGetClockInfo", 1),
        power_w=(card.read("nvmlDeviceGetPowerUsage") or 0) / 1000 or None,
        seconds=time.monotonic() - begun,
    )
    return found


def probe(torch: Any, _case: fit_cases.Case, options: dict[str, Any]) -> dict[str, Any]:
    """Read the card before and after a first use of it."""
    card = Card()
    facts = card.facts()
    torch.ones(8, device=options["device"]).sum().item()
    after = card.used()
    before = facts.get("used_before_bytes")
    return {**facts, "context_bytes": after - before if after is not None and before is not None else None}


def rates(torch: Any, _case: fit_cases.Case, options: dict[str, Any]) -> dict[str, Any]:
    """Measure matrix products and copies of the card, with random data."""
    device, card = Device(torch, options["device"]), Card()
    side = 8192 if device.cuda else 64
    found: dict[str, Any] = {}
    for name, dtype, tf32 in (
        ("bf16", torch.bfloat16, False),
        ("fp16", torch.float16, False),
        ("tf32", torch.float32, True),
        ("fp32", torch.float32, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        first, second = (torch.randn(side, side, device=device.name, dtype=dtype) for _number in range(2))

        def product(first: Any = first, second: Any = second) -> None:
            for _number in range(5):
                first @ second

        product()
        step = timed(device, card, product, options["seconds"] / 2)
        found[f"{name}_tflops"] = 5 * 2 * side**3 / step["step_s"] / 1e12
    source = torch.randn(side * side * 8, device=device.name)
    target = torch.empty_like(source)
    target.copy_(source)
    step = timed(device, card, lambda: target.copy_(source), options["seconds"] / 2)
    found["copy_gb_s"] = 2 * source.numel() * 4 / step["step_s"] / 1e9
    small = torch.zeros(16, device=device.name)

    def launches() -> None:
        for _number in range(1000):
            small.add_(1)

    found["launch_us"] = timed(device, card, launches, 0.3)["step_s"] * 1000
    return found


def child(pipe: Any, work: Callable[..., dict[str, Any]], case: fit_cases.Case, options: dict[str, Any]) -> None:
    """Run one measurement, and send its figures or the reason why there are none."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(options["threads"])
    try:
        found = work(torch, case, options)
    except fit_models.Skipped as reason:
        found = {"skipped": str(reason)}
    except Exception as error:  # noqa: BLE001 - one configuration that fails is a result, and does not end the others
        full = isinstance(error, getattr(torch, "OutOfMemoryError", ()))
        found = {"error": "out_of_memory" if full else "failed", "message": f"{type(error).__name__}: {error}"[:600]}
        if full and options["device"] == "cuda":
            found.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved())
    pipe.send(found)
    pipe.close()
    # Teardown of CUDA takes a second; the kernel releases the memory as well.
    os._exit(0)


def run_child(
    work: Callable[..., dict[str, Any]], case: fit_cases.Case, options: dict[str, Any], limit_s: float
) -> dict[str, Any]:
    """Fork a child for one measurement; end it after *limit_s*."""
    context: Any = multiprocessing.get_context(options["method"])
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(writer, work, case, options))
    process.start()
    writer.close()
    found: dict[str, Any] = {"error": "time", "message": f"no result after {limit_s:.0f} s"}
    try:
        if reader.poll(max(1.0, limit_s)):
            found = reader.recv()
    except EOFError:
        found = {"error": "died", "message": "the process ended without a result"}
    if process.is_alive() and found.get("error") == "time":
        process.kill()
    process.join()
    return found


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on. Importing here saves each child the time."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in ("torch", "torchvision", "transformers", "peft", "accelerate", "bitsandbytes"):
        if fit_models.has(name):
            module: Any = importlib.import_module(name)
            found[name] = str(module.__version__)
    if fit_models.has("transformers"):
        importlib.import_module("transformers.modeling_utils")
    return found


def report(name: str, found: dict[str, Any]) -> str:
    """Return one line for a result."""
    if "rate" in found:
        gib = 2**30
        return (
            f"{name}: {found['allocated'] / gib:.2f} GiB allocated, {found['reserved'] / gib:.2f} reserved, "
            f"{found['rate']:.1f} {found['unit']}/s, {found['seconds']:.1f} s"
        )
    return f"{name}: {json.dumps(found)[:300]}"


def main(arguments: list[str] | None = None) -> int:
    """Measure all configurations within the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for fit.json")
    parser.add_argument("--set", choices=tuple(fit_cases.SETS), default="first", help="configurations of fit_cases.py")
    parser.add_argument("--limit", type=float, default=480, help="seconds for everything")
    parser.add_argument("--seconds", type=float, default=MEASURED_S, help="seconds of timed steps for each")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to test this program")
    parser.add_argument("--only", nargs="*", default=[], help="names of configurations")
    parser.add_argument("--without-rates", action="store_true", help="do not measure the card itself")
    chosen = parser.parse_args(arguments)
    begun = time.monotonic()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    chosen.out.mkdir(parents=True, exist_ok=True)
    # A forked child has imported PyTorch already. It cannot use CUDA if its parent did, so the parent calls neither CUDA nor NVML.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    options: dict[str, Any] = {"device": chosen.device, "seconds": chosen.seconds, "before": None, "method": "fork"}
    options["threads"] = min(8, os.cpu_count() or 1)
    installed = versions()
    facts = run_child(probe, {}, options, CASE_LIMIT_S)
    if "error" in facts:
        print("a forked process cannot use the device:", facts["message"], flush=True)
        options["method"] = "spawn"
        facts = run_child(probe, {}, options, CASE_LIMIT_S)
    options["before"] = facts.get("used_before_bytes")
    result: dict[str, Any] = {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "tiny": chosen.tiny,
        "device": chosen.device,
        "card": facts,
        "method": options["method"],
        "versions": installed,
        "set": chosen.set,
        "split": {"seed": fit_cases.SPLIT_SEED, "tuning": fit_cases.TUNING},
        "rates": None,
        "cases": [],
        "not_run": [],
    }

    def save() -> None:
        result["seconds"] = round(time.monotonic() - begun, 1)
        results.write(chosen.out / "fit.json", result)

    if not chosen.without_rates:
        result["rates"] = run_child(rates, {}, options, CASE_LIMIT_S)
        print("rates:", json.dumps(result["rates"]), flush=True)
    for case in fit_cases.divided(chosen.set):
        if chosen.only and case["name"] not in chosen.only:
            continue
        remaining = chosen.limit - (time.monotonic() - begun)
        if remaining < 5:
            result["not_run"].append(case["name"])
            continue
        request = fit_cases.tiny(case) if chosen.tiny else case
        found = run_child(measure, request, options, min(CASE_LIMIT_S, remaining - 1))
        result["cases"].append({"request": request, "measured": found})
        print(report(case["name"], found), flush=True)
        save()
    save()
    print(f"{len(result['cases'])} configurations in {result['seconds']} s, not run: {result['not_run']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
