"""`script/test`: run the stages of harness/testing/stages.py, show what failed, and count.

Three lanes take the stages in turn. Each has a sandbox of its own: hosts wait for each other, and a lane of scenarios takes half a
processor (measured).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness import progress
from harness.sandbox import engine
from harness.sandbox.lab import NUMBER, Refusal
from harness.testing import changed, selection, stages
from harness.testing.stage import OUTPUT, ROOT, Log, Stage, StageFailed, Tally, at_least_one_failed

LANES = 3
SLOWEST = 25


@dataclass(frozen=True)
class Result:
    stage: Stage
    tally: Tally
    seconds: float
    problem: str = ""

    @property
    def verdict(self) -> str:
        return "failed" if self.tally.failed else "passed"


def run_stage(stage: Stage, sandbox: int) -> Result:
    log = Log(OUTPUT / f"{stage.name.replace(':', '-')}.log", {"RIGWRIGHT_SANDBOX": str(sandbox)})
    start = time.monotonic()
    progress.say(f"{stage.name}: {stage.proves}")
    try:
        tally, problem = stage.work(log), ""
    except StageFailed as failure:
        tally, problem = at_least_one_failed(failure.tally), str(failure)
    result = Result(stage, tally, time.monotonic() - start, problem)
    style = progress.RED if result.problem else progress.BOLD
    progress.say(f"{stage.name}: {result.verdict} ({tally}): {result.seconds:.1f} s", style=style)
    if result.problem:
        lines = [
            log.tail(),
            *result.tally.failures,
            f"{result.problem}; its whole output: {log.path.relative_to(ROOT)}",
        ]
        print("\n".join([lines[0], *(f"{stage.name}: {line}" for line in lines[1:])]), flush=True)
    return result


def lane_sandboxes() -> list[int]:
    """Return the number of each lane's sandbox, of those that no other checkout has. Raise Refusal when too few are free."""
    try:
        owners = engine.checkouts(engine.connect())
    except Refusal:  # the stages that need no docker run all the same, and the others say what is missing
        return list(range(NUMBER, NUMBER + LANES))
    numbers = list(itertools.islice(engine.free_numbers(owners, engine.host_routes()), LANES))
    if len(numbers) < LANES:
        raise Refusal(
            f"From 10.{NUMBER}.0.0/16 on, fewer than {LANES} networks are free here: choose a lower number, as RIGWRIGHT_SANDBOX=77"
        )
    return numbers


def run_stages(stages: Sequence[Stage], sandboxes: Sequence[int]) -> list[Result]:
    """Run every stage, one at a time in each sandbox, and return the results in the order of `stages`."""
    lane, numbers = threading.local(), iter(sandboxes)

    def enter_lane() -> None:
        lane.sandbox = next(numbers)

    with ThreadPoolExecutor(len(sandboxes), initializer=enter_lane) as pool:
        return list(pool.map(lambda stage: run_stage(stage, lane.sandbox), stages))


def summary(results: Sequence[Result]) -> str:
    """Return the failed tests and the table of all stages; its last line is the closing line, `N passed, N failed`."""
    failures = [f"{result.stage.name}: {fault}" for result in results for fault in result.tally.failures]
    width = max(len(result.stage.name) for result in results)
    lines = [*failures, *([""] if failures else []), f"{'stage':{width}}  result  passed  failed  skipped  seconds"]
    for result in results:
        tally = result.tally
        lines.append(
            f"{result.stage.name:{width}}  {result.verdict}  {tally.passed:6}  {tally.failed:6}  {tally.skipped:7}  {result.seconds:7.1f}"
        )
    return "\n".join([*lines, "", *slowest_tests(results), "", str(sum((result.tally for result in results), Tally()))])


def slowest_tests(results: Sequence[Result]) -> list[str]:
    """Return a line for each of the slowest tests of all stages, the slowest first."""
    times = [(seconds, f"{result.stage.name}: {name}") for result in results for seconds, name in result.tally.seconds]
    return [f"{seconds:7.1f} s  {name}" for seconds, name in sorted(times, reverse=True)[:SLOWEST]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group()
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the booted machine, a machine rebuilt from its backup, and the tests that are marked slow, which are skipped otherwise",
    )
    chosen.add_argument("--fast", action="store_true", help="only what needs no containers and takes seconds")
    chosen.add_argument(
        "--role", metavar="NAME", choices=stages.scenarios(), help="only this role's scenario and tests: %(choices)s"
    )
    chosen.add_argument(
        "--changed",
        metavar="BASE",
        nargs="?",
        const="",
        help="only what the change since BASE can reach (origin/main, or main): lint of changed files, unit tests, contract",
    )
    parser.add_argument(
        "--hosts",
        choices=(*changed.RELEASES, "all"),
        default="",
        help="with --changed: also the scenarios of the roles that the change reaches, on one release or on both",
    )
    parser.add_argument(
        "--roles", action="store_true", help="with --changed: print these roles as JSON, and run nothing"
    )
    chosen.add_argument("--gpu", action="store_true", help="only the hardware tests, on this machine's NVIDIA GPU")
    chosen.add_argument(
        "--bare-metal", action="store_true", help="only the four rebuilds of machines of qemu (docs/bare_metal.md)"
    )
    chosen.add_argument("--machine", action="store_true", help="only the booted machine of qemu (CONTRIBUTING.md)")
    parser.add_argument("--list", action="store_true", help="show the stages and run none")


def main(args: argparse.Namespace) -> int:
    if args.gpu and not stages.has_gpu():
        print(f"error: no NVIDIA GPU here ({stages.GPU_DEVICE} is missing): nothing was tested", file=sys.stderr)
        return 1
    every_stage = stages.every_stage()
    if args.changed is None and (args.roles or args.hosts):
        print("error: --hosts and --roles belong to --changed: add --changed BASE", file=sys.stderr)
        return 2
    names = selection.changed_files(args.changed or changed.default_base()) if args.changed is not None else []
    if args.roles:
        print(json.dumps(selection.select(names).roles))
        return 0
    chosen = stages.choose(
        every_stage,
        fast=args.fast,
        role=args.role,
        gpu=args.gpu,
        drills=args.bare_metal,
        machine=args.machine,
        everything=args.all,
    )
    if args.changed is not None:
        chosen = changed.stages_of(names, args.hosts) if names else []
        progress.say(f"{len(names)} files changed since {args.changed or changed.default_base()}")
        if not chosen:
            return 0
    if args.list:
        for stage in chosen:
            print(f"{stage.name:24} {stage.proves}")
        return 0

    if args.all:
        os.environ["RIGWRIGHT_SLOW"] = "1"
    start = time.monotonic()
    results = run_stages(chosen, lane_sandboxes())
    if args.fast:
        left_out = [stage.name for stage in every_stage if stage.by_default and stage not in chosen]
        progress.say(f"left out by --fast: {', '.join(left_out)}")
    progress.say(f"all stages: {time.monotonic() - start:.0f} s")
    print(f"\n{summary(results)}", flush=True)
    return 1 if any(result.tally.failed for result in results) else 0
