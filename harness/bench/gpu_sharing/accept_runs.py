"""Many acceptance tests of one GPU: the spread of its figures, and the rate of false alarms.

    python3 -m harness.bench.gpu_sharing.accept_runs --repeats 20 --seconds 240 --out accept.json

One process measures all the time, as a run of the module `gpu_accept` does, with one warm-up and short windows. Each repeat is judged as a
run of its own. Needs PyTorch with CUDA, nvidia-ml-py and an idle GPU. No setting is changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import workers  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import (  # noqa: E402
    CardFacts,
    Report,
    Request,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.state import read_card  # noqa: E402

from harness.bench import results  # noqa: E402

Facts = dict[str, Any]
# Windows of each repeat: one long window is closer to the ten seconds of a real run than three short ones.
WINDOWS = 1
WARM_UP_S = 15.0
# Import of PyTorch, data, checksums.
START_S = 20.0
# A window's settling, and reading its results.
SETTLE_S = 0.1


def request_for(seconds: float, repeats: int, dtypes: list[str]) -> Request:
    """Return a request with the longest windows that fit into the time."""
    windows = repeats * WINDOWS
    tests = len(dtypes) + len(workers.COPY_TESTS)
    each = (seconds - START_S - WARM_UP_S) / (windows * tests) / 1.25 - SETTLE_S
    if each < 0.2:
        raise SystemExit(
            f"{seconds:g} s are too short for {repeats} repeats: windows would be of {each:.2f} s, and 0.2 is the least"
        )
    return {
        "warm_up_s": WARM_UP_S,
        "window_s": round(each, 2),
        "windows": windows,
        "burn_in_s": 0.0,
        "dtypes": dtypes,
        # The module fills the memory once.
        "memory_share": 0,
        "seed": 6,
    }


def split(events: list[Facts], repeats: int) -> list[list[Facts]]:
    """Return the events of each repeat: its windows, and the events that all repeats share."""
    common = [event for event in events if event["event"] in ("started", "checksum", "skipped")]
    counts: dict[str, int] = {}
    found: list[list[Facts]] = [list(common) for _repeat in range(repeats)]
    for event in events:
        if event["event"] == "window":
            number = counts[event["test"]] = counts.get(event["test"], -1) + 1
            found[number // WINDOWS].append(event)
    return found


def distribution(reports: list[Report]) -> dict[str, Facts]:
    """Return the distribution of value and efficiency of each test over the repeats."""
    found: dict[str, Facts] = {}
    for test in reports[0]["tests"]:
        rows = [report["tests"][test] for report in reports]
        values = [row["value"] for row in rows]
        mean = statistics.fmean(values)
        efficiencies = [row["efficiency"] for row in rows if row["efficiency"] is not None]
        found[test] = {
            "unit": rows[0]["unit"],
            "least": min(values),
            "median": statistics.median(values),
            "most": max(values),
            "standard_deviation_percent": 100 * statistics.pstdev(values) / mean,
            "efficiency_least": min(efficiencies, default=None),
            "efficiency_median": statistics.median(efficiencies) if efficiencies else None,
            "efficiency_most": max(efficiencies, default=None),
        }
        for key in ("clock_mhz", "power_w", "temperature_c", "pcie_generation", "pcie_width"):
            numbers = [value for value in (row.get(key) for row in rows) if isinstance(value, (int, float))]
            found[test][key] = [min(numbers), max(numbers)] if numbers else None
        found[test]["reasons"] = sorted({reason for row in rows for reason in row["reasons"]})
    return found


def measure(nvml: Nvml, card: Card, wanted: argparse.Namespace) -> Facts:
    """Measure a card, and judge each repeat."""
    before: CardFacts = {**read_card(nvml, card), "driver": nvml.driver_version()}
    request = request_for(wanted.seconds, wanted.repeats, accept.dtypes_of(before))
    print(f"{card.name}: {wanted.repeats} repeats of {WINDOWS} windows of {request['window_s']} s", flush=True)
    begun = time.monotonic()
    (outcome,) = workers.measure(nvml, [(card, request)], wanted.python)
    after: CardFacts = {**read_card(nvml, card), "driver": nvml.driver_version()}
    failure = accept.failure(outcome, wanted.python)
    found: Facts = {
        "card": {key: before.get(key) for key in ("name", "uuid", "compute_capability", "brand", "driver")},
        "setting": {
            "modes": before["modes"],
            "power": before["power"],
            "pcie": before["pcie"],
            "clocks": before["clocks"],
        },
        "request": request,
        "seconds": round(time.monotonic() - begun, 1),
        "failure": failure,
    }
    if failure:
        return {**found, "events": outcome.events[-5:], "words": outcome.output}
    reports = [
        accept.report(before, after, {**request, "windows": WINDOWS}, events, outcome.samples, None)
        for events in split(outcome.events, wanted.repeats)
    ]
    alarms = [report for report in reports if report["verdict"] != accept.PASSED]
    found["distribution"] = distribution(reports)
    found["verdicts"] = {
        verdict: sum(report["verdict"] == verdict for report in reports) for verdict in accept.VERDICTS
    }
    found["false_alarm_rate"] = len(alarms) / len(reports)
    found["problems"] = [problem for report in alarms for problem in report["problems"]]
    found["notes"] = sorted({note for report in reports for note in report["notes"]})
    found["checksums"] = reports[0]["checksums"]
    found["errors"] = {event["test"]: event["error"] for event in outcome.events if event["event"] == "checksum"}
    found["repeats"] = [report["tests"] for report in reports]
    found["samples_per_s"] = len(outcome.samples) / found["seconds"]
    return found


def main(arguments: list[str]) -> int:
    """Run the command line."""
    description, _separator, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "harness.bench.gpu_sharing.accept_runs",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=20, help="how often (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=240, help="how long in all (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch (default: this one)")
    parser.add_argument("--gpu", default="0", help="UUID, PCI address or index (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu_accept.json"), help="file for the results (default: %(default)s)"
    )
    wanted = parser.parse_args(arguments)
    with Nvml() as nvml:
        found = measure(nvml, nvml.find(wanted.gpu), wanted)
    results.write(wanted.out, found)
    print(
        json.dumps(
            {key: found.get(key) for key in ("failure", "seconds", "distribution", "verdicts", "notes")}, indent=1
        )
    )
    return 1 if found["failure"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
