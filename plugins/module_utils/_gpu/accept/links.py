# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measurements between GPUs: copies of each pair, and NCCL's sum over all. The measuring program runs them, and passes PyTorch."""

from __future__ import annotations

import datetime
import importlib
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import loads

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Command

# Large enough that the rate of the links decides, not latency.
REDUCE_BYTES = loads.GIB // 2
REDUCE_TIMES = 20
PAIR_BYTES = loads.GIB // 4
PAIR_TIMES = 20
SMALL_TIMES = 200


def all_reduce(gpu: loads.Gpu, line: Command, emit: loads.Emit) -> None:
    """Measure the sum over all GPUs, which parallel training needs in every step."""
    try:
        distributed = importlib.import_module("torch.distributed")
        if not distributed.is_available() or not distributed.is_nccl_available():
            raise ImportError("this PyTorch was built without NCCL")
    except ImportError as error:
        emit("skipped", test="all_reduce", words=loads.one_line(error))
        return
    torch = gpu.torch
    emit("meeting", rank=line["rank"])
    store = distributed.FileStore(line["store"], line["world"])
    wait = datetime.timedelta(seconds=line["limit_s"])
    distributed.init_process_group("nccl", store=store, rank=line["rank"], world_size=line["world"], timeout=wait)
    numbers = torch.full((REDUCE_BYTES // 4,), float(line["rank"] + 1), device=gpu.device)
    distributed.all_reduce(numbers)
    sum_ = line["world"] * (line["world"] + 1) / 2
    wrong = int((numbers != sum_).sum().item())
    numbers.zero_()
    first = gpu.mark()
    for _number in range(REDUCE_TIMES):
        distributed.all_reduce(numbers)
    seconds = gpu.seconds(first, gpu.mark()) / REDUCE_TIMES
    # As nccl-tests calculate it: the least that each link has to carry.
    bus = REDUCE_BYTES / seconds / 1e9 * 2 * (line["world"] - 1) / line["world"]
    version = ".".join(map(str, torch.cuda.nccl.version()))
    emit("all_reduce", gb_s=bus, seconds=seconds, bytes=REDUCE_BYTES, wrong=wrong, nccl=version, ranks=line["world"])
    distributed.destroy_process_group()


def pairs(gpu: loads.Gpu, emit: loads.Emit) -> None:
    """Measure copies from each GPU to each other one, by their numbers in CUDA_VISIBLE_DEVICES."""
    torch = gpu.torch
    count = torch.cuda.device_count()
    for source in range(count):
        numbers = torch.randint(-(2**31), 2**31 - 1, (PAIR_BYTES // 4,), dtype=torch.int32, device=f"cuda:{source}")
        right = numbers.cpu()
        for target in range(count):
            if target != source:
                emit("trying", source=source, target=target)
                emit("pair", source=source, target=target, **pair(torch, numbers, right, source, target))
        del numbers


def pair(torch: t.Any, numbers: t.Any, right: t.Any, source: int, target: int) -> dict[str, float]:
    """Measure copies from one GPU to another.

    :param right: the numbers of the source, in memory of the host.
    """
    received = torch.zeros_like(numbers, device=f"cuda:{target}")

    def seconds(times: int, count: int) -> float:
        for _number in range(3):
            received[:count].copy_(numbers[:count], non_blocking=True)
        for device in (source, target):
            torch.cuda.synchronize(device)
        begun = time.monotonic()
        for _number in range(times):
            received[:count].copy_(numbers[:count], non_blocking=True)
        for device in (source, target):
            torch.cuda.synchronize(device)
        return (time.monotonic() - begun) / times

    latency = seconds(SMALL_TIMES, 1)
    whole = seconds(PAIR_TIMES, len(right))
    return {
        "gb_s": PAIR_BYTES / whole / 1e9,
        "latency_us": latency * 1e6,
        "peer_access": bool(torch.cuda.can_device_access_peer(source, target)),
        "wrong": 0 if torch.equal(received.cpu(), right) else 1,
    }
