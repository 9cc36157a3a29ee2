"""What the depot serves besides frp: by name, what puts it there. A lab names what its hosts need (`sandbox_serves`), a scenario too.

python -m harness serve docker conda      put them in the depot of this sandbox
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from harness.depot import conda_channel, container_toolkit, cuda_repository, docker_repository, restic_releases, wheels
from harness.sandbox.lab import ROOT, Refusal

SERVED: dict[str, Callable[[], None]] = {
    "conda": conda_channel.put,
    "container_toolkit": container_toolkit.put,
    "cuda": cuda_repository.put,
    "docker": docker_repository.put,
    "restic": restic_releases.put,
    # What modules need on a target (the role common).
    "notify": lambda: wheels.hand_on_list(ROOT / "roles" / "common" / "files" / "notify.txt"),
    "python": lambda: wheels.hand_on_list(ROOT / "roles" / "common" / "files" / "python.txt"),
}


def put(names: Iterable[str]) -> None:
    """Put these into the depot. Raises Refusal for a name that is none."""
    for name in names:
        if name not in SERVED:
            raise Refusal(f"The depot serves no {name!r}: name one of {', '.join(SERVED)}")
        SERVED[name]()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", choices=SERVED, metavar="NAME", help="%(choices)s")


def main(args: argparse.Namespace) -> int:
    put(args.names)
    return 0
