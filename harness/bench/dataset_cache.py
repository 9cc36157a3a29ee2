"""The benchmark of dataset-cache: what its copies cost, compared with those of `cp -r` and `rsync -a`, which check nothing.

Seconds depend on the machine, its disk and what else it does: they are printed, never tested. Every program gets its turn in every round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "collections"))

from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import bundle

from harness.progress import say, step
from harness.sandbox.lab import Refusal

MIB = 1 << 20
# Name, files, bytes of each.
DATASETS = (("many small files", 10_000, 20_000), ("few large files", 4, 128 * MIB))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset-cache", action="store_true", help="measure copies of datasets instead")
    parser.add_argument(
        "--at", type=Path, help="folder of a disk for --dataset-cache (default: that of temporary files)"
    )


def make(folder: Path, count: int, size: int) -> None:
    block = os.urandom(min(size, MIB))
    for number in range(count):
        place = folder / f"class{number % 100:02}"
        place.mkdir(parents=True, exist_ok=True)
        with (place / f"{number:06}").open("wb") as file:
            for _part in range(size // len(block)):
                file.write(block)


def set_page_cache(folder: Path, warm: bool) -> None:
    """Make the kernel hold all pages of these files, or none: of these alone, since others use the machine too."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                if warm:
                    while file.read(MIB):
                        pass
                else:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def flush(folder: Path) -> None:
    subprocess.run(["sync", "-f", folder], check=True)


def processor_seconds() -> float:
    """Return what all programs so far have computed; it depends less than time on other work of the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def remove(folder: Path) -> None:
    for path, _folders, _files in os.walk(folder):
        Path(path).chmod(0o700)
    shutil.rmtree(folder)


def copiers(program: Path, target: Path) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield functions that copy a folder into *target*; the first ones let the kernel decide when it gets to the disk."""

    def run(*command: object, durable: bool = False) -> None:
        subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, check=True)
        if durable:
            flush(target)

    for tool, option in (("cp", "-r"), ("rsync", "-a")):
        if shutil.which(tool):
            yield f"{tool} {option}", lambda source, tool=tool, option=option: run(tool, option, source, target)  # type: ignore[misc]
            yield (
                f"{tool} {option}; sync -f",
                lambda source, tool=tool, option=option: run(tool, option, source, target, durable=True),  # type: ignore[misc]
            )
    for policy in ("once", "full"):
        cached = (sys.executable, "-I", program, "--cache", target, "--quiet", "get", "--hash", policy)
        yield f"dataset-cache --hash {policy}", lambda source, cached=cached: run(*cached, source)  # type: ignore[misc]


def measure(at: Path, runs: int) -> None:
    target, program = at / "target", at / "dataset-cache"
    program.write_bytes(bundle("_dataset_cache.cli"))
    for name, count, size in DATASETS:
        source = at / "source"
        with step(f"{name}: {count} of {size / MIB:.2f} MiB"):
            make(source, count, size)
            flush(source)
        costs: dict[tuple[str, bool], list[tuple[float, float]]] = {}
        for number in range(runs):
            with step(f"round {number + 1} of {runs}"):
                for tool, copy in copiers(program, target):
                    for warm in (False, True):
                        target.mkdir()
                        set_page_cache(source, warm)
                        flush(at)
                        start, used = time.monotonic(), processor_seconds()
                        copy(source)
                        cost = time.monotonic() - start, processor_seconds() - used
                        costs.setdefault((tool, warm), []).append(cost)
                        remove(target)
        say(f"{name} ({count} files, {count * size / MIB:.0f} MiB), median of {runs} (load {os.getloadavg()[0]:.1f}):")
        print(f"    {'':<28} cold: s, MiB/s, processor s; warm")
        for tool in dict.fromkeys(tool for tool, _warm in costs):
            columns = []
            for warm in (False, True):
                wall, used = (statistics.median(column) for column in zip(*costs[tool, warm], strict=True))
                columns.append(f"{wall:6.2f} {count * size / MIB / wall:6.0f} {used:6.2f}")
            print(f"    {tool:<28} {'; '.join(columns)}")
        remove(source)


def main(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=args.at)))
        needed = 3 * max(count * size for _name, count, size in DATASETS)
        if shutil.disk_usage(at).free < needed:
            raise Refusal(f"{at} has less than {needed / MIB:.0f} MiB free: name a folder of another disk with --at")
        measure(at, args.runs)
    return 0
