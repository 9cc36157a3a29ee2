# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program gpu-fit: does a job fit on a card, how fast will it be, and which card should one buy?"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer as estimate
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    compare,
    page,
    request,
    run,
    source,
    synonyms,
    wording,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Found
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.together import together
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

EXAMPLES = """examples:
  gpu-fit resnet50 --batch 256 --dtype amp --optimizer sgd
  gpu-fit llama/config.json --task infer --batch 8 --sequence 4096 --new-tokens 512 --dtype bf16 --card "RTX 4090"
  gpu-fit --compare jobs.json --prices prices.json --by money --html cards.html
"""
# Options of one job.
_JOB = (
    "model",
    "task",
    "batch",
    "sequence",
    "image",
    "new_tokens",
    "dtype",
    "optimizer",
    "checkpointing",
    "lora_rank",
    "lora_targets",
    "channels_last",
    "chunked_loss",
    "optimizer_in_backward",
    "compile",
    "offload",
    "half",
    "gpus",
    "sharing",
    "all_reduce_gb_s",
)
DEFAULT_CARDS = (
    "RTX 3060 12 GB",
    "RTX 4070 Ti SUPER",
    "RTX 3090",
    "RTX 4090",
    "RTX 5090",
    "RTX 6000 Ada",
    "L40S",
    "A100 SXM4 80 GB",
    "H100 SXM5 80 GB",
    "H200 SXM 141 GB",
)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the program: one line."""

    def error(self, message: str) -> t.NoReturn:
        # Of an option with several names, the first is ours.
        message = re.sub(r"(argument --[\w-]+)(/--[\w-]+)+", r"\1", message)
        raise Refusal(f"{message}; `gpu-fit --help` has all options")


def parser() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    options = _Parser(
        prog="gpu-fit", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "model", nargs="?", help="a config.json of Hugging Face, a name of torchvision, or FILE.py:FUNCTION"
    )
    options.add_argument(
        "--task",
        choices=request.TASKS,
        default="train",
        help="train all weights (default), LoRA's adapters of a model in 16 or of one in 4 bits, or infer",
    )
    add = options.add_argument
    add(
        "--batch",
        "--per-device-train-batch-size",
        type=int,
        default=1,
        help="of one step; of each GPU with ddp and fsdp",
    )
    add("--sequence", "--max-seq-length", "--max-length", type=int, help="tokens of one sequence, or of the prompt")
    add("--image", type=int, help="pixels of one side")
    add("--new-tokens", "--max-new-tokens", type=int, help="tokens that an inference adds, with a KV cache")
    add(
        "--dtype",
        choices=request.DTYPES,
        default="bf16",
        help="amp: weights in fp32 under autocast, as Trainer's bf16=True; bf16_amp: weights in bf16 under autocast; "
        "others: weights and activations in this type (default bf16)",
    )
    add(
        "--optimizer",
        "--optim",
        type=lambda name: synonyms.OPTIMIZERS.get(name, name),
        choices=tuple(request.OPTIMIZERS),
        default="adamw",
        help="sgd has momentum, adamw is fused, paged_ ones may move their state to the host's memory; Trainer's names are understood",
    )
    add(
        "--checkpointing",
        "--gradient-checkpointing",
        action="store_true",
        help="calculate activations again in the backward pass",
    )
    add("--lora-rank", "--lora-r", type=int, help="rank of LoRA's adapters (16)")
    add(
        "--lora-targets",
        choices=request.TARGETS,
        help="layers with adapters: queries and values (attention), or all linear layers",
    )
    add("--channels-last", action="store_true", help="a convolutional network whose memory format is channels_last")
    add(
        "--chunked-loss", action="store_true", help="logits a part at a time, as Liger and other fused losses have them"
    )
    add("--optimizer-in-backward", action="store_true", help="update each weight at once and keep no gradients")
    add("--compile", action="store_true", help="torch.compile: kernels without products are fused")
    add(
        "--offload",
        choices=request.OFFLOADS,
        default="none",
        help="what the host's memory holds: optimizer, as ZeRO-Offload does, or activations",
    )
    add(
        "--half",
        choices=request.HALVES,
        default="bf16",
        help="the type of autocast; it changes the speed of convolutional networks",
    )
    add("--gpus", type=int, default=1, help="GPUs that share the job (1)")
    add("--sharing", choices=request.SHARING, default="none", help="how several GPUs share the work")
    add(
        "--all-reduce-gb-s",
        type=float,
        help="bus rate of an all-reduce of these GPUs, as gpu_accept reports it in `links`",
    )
    options.add_argument(
        "--card", action="append", default=[], help="a card of the table; may be repeated; `all` for all"
    )
    options.add_argument("--baseline", help="gpu_accept's baseline of the card: its real rates")
    options.add_argument("--python", default="", help="an interpreter with PyTorch, to trace FILE.py:FUNCTION")
    options.add_argument("--user", default="nobody", help="who runs the code of FILE.py where root starts this program")
    options.add_argument("--compare", metavar="JOBS", help="a file of JSON with a list of jobs: rank cards for them")
    options.add_argument("--by", choices=compare.BY, help="what ranks cards whose memory is enough (speed)")
    options.add_argument("--prices", help='a file of JSON: {"currency": "EUR", "prices": {"RTX 4090": 1800}}')
    options.add_argument("--json", action="store_true", help="write JSON")
    options.add_argument("--html", metavar="FILE", help="write one page that needs nothing else")
    return options


def answer(chosen: argparse.Namespace) -> Found:
    """Return the answer to a command line.

    :raises Refusal: it cannot be given.
    """
    names = chosen.card or ([] if chosen.compare else list(DEFAULT_CARDS))
    cards = compare.choose([name for name in names if name != "all"])
    cards = compare.choose([]) if "all" in names else cards
    fit = run.Fit(chosen.python, chosen.user)
    baseline = source.read_json(chosen.baseline, "baseline") if chosen.baseline else None
    if chosen.baseline and len(cards) != 1:
        raise Refusal("`baseline` is of one card: name it with `card`")
    if not chosen.compare:
        for option in ("by", "prices"):
            if getattr(chosen, option) is not None:
                raise Refusal(f"`{option}` ranks cards: give `compare`, a file of jobs, or remove it")
        if chosen.model is None:
            raise Refusal("`model` is missing: give a config.json, a name of torchvision, or FILE.py:FUNCTION")
        job = {field: getattr(chosen, field) for field in _JOB}
        return {"jobs": [fit.estimate(job, cards, baseline)]}
    for option in (*_JOB, "baseline", "python"):
        if getattr(chosen, option) != parser().get_default(option):
            raise Refusal(f"`{option}` is of one job: write it into the file of `compare`, or remove it")
    requests = _requests(compare.jobs(source.read_json(chosen.compare, "jobs")))
    priced = compare.prices(source.read_json(chosen.prices, "prices")) if chosen.prices else None
    by = chosen.by or "speed"
    ranks = compare.rank(requests, by, cards, priced)
    best = compare.choose([ranks[0]["card"]])
    jobs = [estimate.estimate(job, best) for job, _weight in requests]
    pairs = [together((requests[0][0], other), best[0]) for other, _weight in requests[1:]]
    return {"by": by, "ranks": ranks, "jobs": jobs, "together": pairs}


def _requests(rows: t.Sequence[JsonObject]) -> list[tuple[request.Request, float]]:
    """Return the jobs of a file with their weights. Each has a name of its own.

    :raises Refusal: one cannot be estimated; it says which.
    """
    found: list[tuple[request.Request, float]] = []
    for number, row in enumerate(rows, 1):
        given = {key: value for key, value in row.items() if value is not None and key not in ("model", "count")}
        model = row.get("model") or ""
        try:
            if not isinstance(model, str):
                raise Refusal("`model` is no text: give a config.json or a name of torchvision")
            job = request.parse(source.described(given, model))
            names = [other.name for other, _weight in found]
            found.append(
                (job._replace(name=f"{job.name} ({number})") if job.name in names else job, compare.weight(row))
            )
        except Refusal as error:
            raise Refusal(f"job {number}: {error}") from error
    return found


def text(found: Found) -> str:
    """Return an answer as text."""
    blocks = [page.rank_text(found["ranks"])] if found.get("ranks") else []
    blocks += [page.job_text(job) for job in found["jobs"]]
    blocks += [page.pair_text(pair) for pair in found.get("together", ())]
    return "\n\n".join(blocks)


def main(arguments: list[str] | None = None) -> int:
    """Run the program, and return its exit status."""
    try:
        chosen = parser().parse_args(arguments)
        found = answer(chosen)
        if chosen.html:
            _write_page(chosen.html, page.page(found))
        _print(json.dumps(found, indent=1) if chosen.json else text(found))
    except Refusal as error:
        sys.stderr.write(f"gpu-fit: {wording.printable(' '.join(str(error).split()))}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has enough. Python would report the rest of the output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _write_page(path: str, content: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refusal(f"`html`: {path} cannot be written ({reason}): give another path") from error


def _print(content: str) -> None:
    """Write to standard output at once, in its encoding."""
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(content.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, AttributeError) as error:
        # Python has no standard output where it was closed.
        reason = getattr(error, "strerror", None) or "it is closed"
        raise Refusal(f"standard output cannot be written ({reason}): send it elsewhere") from error


if __name__ == "__main__":
    raise SystemExit(main())
