"""Training on several GPUs of one host with PyTorch's DistributedDataParallel: the rate, by the number of GPUs.

    torchrun --standalone --nproc-per-node 2 -m harness.bench.gpu_sharing.distributed --load R256 G --seconds 8 --out two.json

The loads are ResNet-50 (R256) and GPT-2 124M (G) of loads.py. Each GPU has its own batch, so twice the GPUs do twice the work at best.
`NCCL_P2P_DISABLE=1` keeps NCCL from copying between GPUs without the host.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

from harness.bench.gpu_sharing import loads

WARM_UP_STEPS = 8
# What a step of one GPU works through.
RESNET_BATCH, GPT2_BATCH, GPT2_LENGTH = 256, 8, 1024
UNITS = {"R256": ("images", RESNET_BATCH), "G": ("tokens", GPT2_BATCH * GPT2_LENGTH)}


def build(torch: Any, load: str, rank: int) -> loads.Step:
    """Build the training of a load on the GPU of this process, with gradients that all processes share."""
    torch.manual_seed(loads.SEED + rank)
    if load == "R256":
        model = loads.resnet(torch, (3, 4, 6, 3), True, 1000, False).to("cuda", memory_format=torch.channels_last)
        inputs = torch.randn(RESNET_BATCH, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        targets = torch.randint(0, 1000, (RESNET_BATCH,), device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        model = loads.gpt2(torch, length=GPT2_LENGTH).to("cuda")
        tokens = torch.randint(0, 50257, (GPT2_BATCH, GPT2_LENGTH + 1), device="cuda")
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    shared = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    return loads.training(torch, shared, inputs, targets, optimizer)


def measure(torch: Any, load: str, seconds: float, rank: int) -> dict[str, Any]:
    """Train for some seconds on all GPUs; return the rate of all together."""
    step = build(torch, load, rank)
    for _step in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    torch.distributed.barrier()
    started, steps = time.monotonic(), 0
    more = torch.ones(1, device="cuda")
    while more.item():
        for _step in range(4):
            loss = step()
        steps += 4
        # All processes do the same number of steps: the first says when it is enough.
        more.fill_(time.monotonic() - started < seconds)
        torch.distributed.broadcast(more, 0)
    torch.cuda.synchronize()
    unit, each = UNITS[load]
    world = torch.distributed.get_world_size()
    rate = steps * each * world / (time.monotonic() - started)
    return {"unit": f"{unit}/s", "rate": round(rate, 1), "steps": steps, "gpus": world, "loss": round(loss.item(), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", nargs="+", choices=sorted(UNITS), default=sorted(UNITS))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    found = {}
    for load in options.load:
        found[load] = measure(torch, load, options.seconds, rank)
        loads.free()
    if rank == 0:
        facts = {"nccl_p2p_disable": os.environ.get("NCCL_P2P_DISABLE", "0"), "torch": torch.__version__}
        options.out.write_text(json.dumps({**facts, "loads": found}, indent=1) + "\n")
        print(options.out.read_text())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
