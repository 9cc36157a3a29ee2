"""Training on several GPUs of one host: the rate and the memory by the number of GPUs, and NCCL's all-reduce by size.

    torchrun --standalone --nproc-per-node 2 -m harness.bench.gpu_sharing.distributed --load R256 G --seconds 8 --out two.json

The loads are ResNet-50 (R256) and GPT-2 124M (G) of loads.py, shared by PyTorch's DistributedDataParallel, or with `--share fsdp` by
fully_shard. Each GPU has its own batch, so twice the GPUs do twice the work at best. `NCCL_P2P_DISABLE=1` keeps NCCL from copying
between GPUs without the host.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.bench import results
from harness.bench.gpu_sharing import loads

WARM_UP_STEPS = 8
# What a step of one GPU works through.
RESNET_BATCH, GPT2_BATCH, GPT2_LENGTH = 256, 8, 1024
UNITS = {"R256": ("images", RESNET_BATCH), "G": ("tokens", GPT2_BATCH * GPT2_LENGTH)}
# Bytes of an all-reduce: from the gradients of a small layer to those of a large model.
SIZES = [2**power for power in range(10, 33, 2)]
SUMS = 20


def spread(torch: Any, how: str) -> Callable[[Any], Any]:
    """Return what shares a model among all GPUs."""
    if how == "ddp":
        device = torch.cuda.current_device()
        return lambda model: torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    fully_shard = importlib.import_module("torch.distributed.fsdp").fully_shard

    def shard(model: Any) -> Any:
        for layer in getattr(model, "layers", ()):
            fully_shard(layer)
        return fully_shard(model)

    return shard


def build(torch: Any, load: str, rank: int, how: str) -> loads.Step:
    """Build the training of a load on the GPU of this process, with gradients that all processes share."""
    torch.manual_seed(loads.SEED + rank)
    if load == "R256":
        return loads.train_resnet50(torch, RESNET_BATCH, spread=spread(torch, how))
    return loads.train_gpt2(torch, GPT2_BATCH, GPT2_LENGTH, spread=spread(torch, how))


def all_reduces(torch: Any) -> list[dict[str, float]]:
    """Measure the sum over all GPUs for each size: the rate of the bus, as nccl-tests calculate it."""
    world, rows = torch.distributed.get_world_size(), []
    for size in SIZES:
        numbers = torch.zeros(size // 4, device="cuda")
        for _number in range(3):
            torch.distributed.all_reduce(numbers)
        torch.cuda.synchronize()
        started = time.monotonic()
        for _number in range(SUMS):
            torch.distributed.all_reduce(numbers)
        torch.cuda.synchronize()
        seconds = (time.monotonic() - started) / SUMS
        rate = size / seconds / 1e9 * 2 * (world - 1) / world
        rows.append({"bytes": size, "us": round(seconds * 1e6, 1), "bus_gb_s": round(rate, 2)})
    return rows


def measure(torch: Any, load: str, seconds: float, rank: int, how: str) -> dict[str, Any]:
    """Train for some seconds on all GPUs; return the rate of all together, and the memory of one."""
    torch.cuda.reset_peak_memory_stats()
    step = build(torch, load, rank, how)
    for _step in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    torch.distributed.barrier()
    started, steps = time.monotonic(), 0
    more = torch.ones(1, device="cuda")
    while more.item():
        for _step in range(4):
            step()
        steps += 4
        # All processes do the same number of steps: the first says when it is enough.
        more.fill_(time.monotonic() - started < seconds)
        torch.distributed.broadcast(more, 0)
    torch.cuda.synchronize()
    unit, each = UNITS[load]
    world = torch.distributed.get_world_size()
    rate = steps * each * world / (time.monotonic() - started)
    memory = {
        "allocated_mib": torch.cuda.max_memory_allocated() >> 20,
        "reserved_mib": torch.cuda.max_memory_reserved() >> 20,
    }
    return {"unit": f"{unit}/s", "rate": round(rate, 1), "steps": steps, "gpus": world, "share": how, **memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", nargs="+", choices=sorted(UNITS), default=sorted(UNITS))
    parser.add_argument("--share", choices=("ddp", "fsdp"), default="ddp", help="how the model is shared")
    parser.add_argument("--sizes", action="store_true", help="measure all-reduce by size, too")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.share == "fsdp" and "R256" in options.load:
        parser.error("--share fsdp: PyTorch shards no model in channels-last order, as R256 is: add --load G")
    torch: Any = importlib.import_module("torch")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    found = {}
    for load in options.load:
        found[load] = measure(torch, load, options.seconds, rank, options.share)
        loads.free()
    sums = all_reduces(torch) if options.sizes else []
    if rank == 0:
        facts = {"nccl_p2p_disable": os.environ.get("NCCL_P2P_DISABLE", "0"), "torch": torch.__version__}
        results.write(options.out, {**facts, "loads": found, "all_reduce": sums})
        print(options.out.read_text())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
