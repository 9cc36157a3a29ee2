"""Many runs of the module `gpu_accept` on all GPUs of a host: the spread of each figure, and the rate of false alarms.

    python3 -m harness.bench.gpu_sharing.accept_host --repeats 5 --out host.json

Needs Ansible, PyTorch with CUDA, root, and idle GPUs. No setting is changed. Runs that are in the file are kept: a second call adds to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import adhoc
from harness.bench import results

Facts = dict[str, Any]


def accept(arguments: Facts) -> Facts:
    """Run the module once, without a baseline."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        answer = adhoc.ask("gpu_accept", {"python": sys.executable, "directory": folder, **arguments}, shown=False)
    if not answer.result:
        raise SystemExit(f"gpu_accept gave no result: {answer.output}")
    return {"seconds": round(time.monotonic() - begun, 1), **short(answer.result)}


def short(found: Facts) -> Facts:
    """Return the verdicts, problems and figures of a result."""
    return {
        "verdict": found.get("verdict"),
        "problems": [problem for gpu in found["gpus"] for problem in gpu["problems"]] + found["links"]["problems"],
        "notes": [note for gpu in found["gpus"] for note in gpu["notes"]],
        "verdicts": [gpu["verdict"] for gpu in found["gpus"]],
        "figures": dict(figures(found)),
    }


def figures(found: Facts) -> list[tuple[str, float]]:
    """Return every measured figure with its name."""
    rows = []
    for gpu in found["gpus"]:
        for kind in ("tests", "together"):
            rows += [(f"gpu {gpu['index']} {kind} {test}", facts["value"]) for test, facts in gpu[kind].items()]
        if gpu["memory_test"]:
            rows += [
                (f"gpu {gpu['index']} memory GB", gpu["memory_test"]["tested_bytes"] / 1e9),
                (f"gpu {gpu['index']} memory wrong", gpu["memory_test"]["wrong"]),
            ]
    for pair in found["links"]["pairs"]:
        name = "pair {}-{}".format(*pair["gpus"])
        rows += [(f"{name} GB/s", pair["gb_s"]), (f"{name} latency us", pair["latency_us"])]
    if found["links"]["all_reduce"]:
        rows.append(("all-reduce GB/s", found["links"]["all_reduce"]["gb_s"]))
    return rows


def spread(runs: list[Facts]) -> Facts:
    """Return least, median and most of each figure."""
    names = runs[0]["figures"]
    values = {name: [run["figures"][name] for run in runs if name in run["figures"]] for name in names}
    return {name: [min(row), statistics.median(row), max(row)] for name, row in values.items()}


def main(arguments: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "harness.bench.gpu_sharing.accept_host", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--repeats", type=int, default=10, help="how often (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("accept_host.json"), help="results (default: %(default)s)")
    parser.add_argument("--arguments", type=json.loads, default={"quick": True, "windows": 1}, help="of the module")
    wanted = parser.parse_args(arguments)
    runs = json.loads(wanted.out.read_text())["runs"] if wanted.out.exists() else []
    for _repeat in range(wanted.repeats):
        runs.append(accept(wanted.arguments))
        print(runs[-1]["seconds"], runs[-1]["verdict"], runs[-1]["problems"], flush=True)
        passed = sum(run["verdict"] == "passed" for run in runs)
        found = {"arguments": wanted.arguments, "passed": passed, "of": len(runs), "spread": spread(runs), "runs": runs}
        results.write(wanted.out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
