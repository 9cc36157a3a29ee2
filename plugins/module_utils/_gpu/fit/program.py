# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program gpu-fit: does a job fit on a card, how fast will it be, and which card should one buy?"""

from __future__ import annotations

import argparse
import json
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import compare, page, request, run, source
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.together import together
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

EXAMPLES = """examples:
  gpu-fit resnet50 --batch 256 --dtype amp --optimizer sgd
  gpu-fit llama/config.json --task infer --batch 8 --sequence 4096 --new-tokens 512 --dtype bf16 --card "RTX 4090"
  gpu-fit --compare jobs.json --prices prices.json --by money --html cards.html
"""
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


def parser() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    options = argparse.ArgumentParser(
        prog="gpu-fit", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "model", nargs="?", help="a config.json of Hugging Face, a name of torchvision, or FILE.py:FUNCTION"
    )
    options.add_argument("--task", choices=request.TASKS, default="train")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--sequence", type=int, help="tokens of one sequence, or of the prompt")
    options.add_argument("--image", type=int, help="pixels of one side")
    options.add_argument("--new-tokens", type=int, help="tokens that an inference adds, with a KV cache")
    options.add_argument("--dtype", choices=request.DTYPES, default="bf16")
    options.add_argument("--optimizer", choices=tuple(request.OPTIMIZERS), default="adamw")
    options.add_argument(
        "--checkpointing", action="store_true", help="calculate activations again in the backward pass"
    )
    options.add_argument("--lora-rank", type=int)
    options.add_argument("--lora-targets", choices=request.TARGETS)
    options.add_argument("--gpus", type=int, default=1)
    options.add_argument("--sharing", choices=request.SHARING, default="none", help="how several GPUs share the work")
    options.add_argument(
        "--card", action="append", default=[], help="a card of the table; may be repeated; `all` for all"
    )
    options.add_argument("--baseline", help="gpu_accept's baseline of the card: its real rates")
    options.add_argument("--python", default="", help="an interpreter with PyTorch, to trace FILE.py:FUNCTION")
    options.add_argument("--user", default="nobody", help="who runs the code of FILE.py where root starts this program")
    options.add_argument("--compare", metavar="JOBS", help="a file of JSON with a list of jobs: rank cards for them")
    options.add_argument("--by", choices=compare.BY, default="speed", help="what ranks cards whose memory is enough")
    options.add_argument("--prices", help='a file of JSON: {"currency": "EUR", "prices": {"RTX 4090": 1800}}')
    options.add_argument("--json", action="store_true", help="write JSON")
    options.add_argument("--html", metavar="FILE", help="write one page that needs nothing else")
    return options


def answer(chosen: argparse.Namespace) -> dict[str, t.Any]:
    """Return the answer to a command line.

    :raises Refusal: it cannot be given.
    """
    names = chosen.card or ([] if chosen.compare else list(DEFAULT_CARDS))
    cards = compare.choose([] if "all" in names else names)
    fit = run.Fit(chosen.python, chosen.user)
    baseline = source.read_json(chosen.baseline, "baseline") if chosen.baseline else None
    if chosen.baseline and len(cards) != 1:
        raise Refusal("`baseline` is of one card: name it with `card`")
    if not chosen.compare:
        if chosen.model is None:
            raise Refusal("`model` is missing: give a config.json, a name of torchvision, or FILE.py:FUNCTION")
        fields = (
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
            "gpus",
            "sharing",
        )
        job = {field: getattr(chosen, field) for field in fields}
        return {"jobs": [fit.estimate(job, cards, baseline)]}
    jobs = compare.jobs(source.read_json(chosen.compare, "jobs"))
    requests = []
    for number, job in enumerate(jobs, 1):
        given = {key: value for key, value in job.items() if key not in ("model", "count")}
        parsed = request.parse(source.described({"name": f"job {number}", **given}, str(job.get("model", ""))))
        requests.append((parsed, compare.weight(job)))
    priced = compare.prices(source.read_json(chosen.prices, "prices")) if chosen.prices else None
    ranks = compare.rank(requests, chosen.by, cards, priced)
    best = compare.choose([ranks[0]["card"]])
    details = [fit.estimate({key: value for key, value in job.items() if key != "count"}, best) for job in jobs]
    pairs = []
    if len(requests) > 1:
        pairs = [together((requests[0][0], other), best[0]) for other, _weight in requests[1:]]
    return {"by": chosen.by, "ranks": ranks, "jobs": details, "together": pairs}


def text(found: t.Mapping[str, t.Any]) -> str:
    """Return an answer as text."""
    blocks = [page.rank_text(found["ranks"])] if found.get("ranks") else []
    blocks += [page.job_text(job) for job in found["jobs"]]
    for pair in found.get("together", ()):
        slow = pair["slowdown"]
        blocks.append(
            f"{' and '.join(pair['jobs'])} at once on one {pair['card']}: fits {pair['fits']}; "
            f"each takes {slow['time_sliced']:g} times as long "
            f"time-sliced, {slow['mps']:g} times under MPS ({pair['source']}); {pair['advice']}."
        )
    return "\n\n".join(blocks)


def main(arguments: list[str] | None = None) -> int:
    """Run the program, and return its exit status."""
    chosen = parser().parse_args(arguments)
    try:
        found = answer(chosen)
        if chosen.html:
            with open(chosen.html, "w", encoding="utf-8") as file:
                file.write(page.page(found))
    except Refusal as error:
        sys.stderr.write(f"gpu-fit: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"gpu-fit: `html`: {chosen.html} cannot be written ({error.strerror}): give another path\n")
        return 2
    sys.stdout.write((json.dumps(found, indent=1) if chosen.json else text(found)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
