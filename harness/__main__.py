"""The command line: `python -m harness <subcommand>`.

A subcommand is a module with `add_arguments(parser)` and `main(args) -> int` (the exit status); a module that serves two of them
reads `args.subcommand`. Only the module that was asked for is imported.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import NamedTuple


class Subcommand(NamedTuple):
    module: str
    help: str


SUBCOMMANDS = {
    "up": Subcommand("harness.sandbox.lifecycle", "start the sandbox hosts"),
    "down": Subcommand("harness.sandbox.lifecycle", "remove everything that the sandbox made"),
    "depot": Subcommand("harness.depot.lifecycle", "serve the depot: what roles download"),
    "serve": Subcommand("harness.depot.content", "put into the depot what roles of a lab download"),
    "demo": Subcommand("harness.demo", "provision a gateway and a workstation, then use them"),
    "bench": Subcommand("harness.bench.site", "measure a run of the site in which nothing has to change"),
    "bare-metal": Subcommand("harness.vm.drill", "lose machines of qemu, and build them again from their backups"),
    "words": Subcommand("harness.testing.words", "check the words of files against CONTRIBUTING.md"),
    "pages": Subcommand("harness.pages", "write the pages of docs/ that are made from code"),
    "new-role": Subcommand("harness.new_role", "write a role that passes the contract of roles"),
    "test": Subcommand("harness.testing.run", "run every check"),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m harness", description="The sandbox, the demo and the tests of Rigwright."
    )
    subparsers = parser.add_subparsers(dest="subcommand", metavar="subcommand", required=True)
    chosen = next((word for word in argv if word in SUBCOMMANDS), None)
    for name, subcommand in SUBCOMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=subcommand.help, description=f"{subcommand.help[0].upper()}{subcommand.help[1:]}."
        )
        if name == chosen:
            module = importlib.import_module(subcommand.module)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.main, parser=subparser)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(f"unknown: {' '.join(unknown)}")  # with the usage of the subcommand, which names the choices
    # What a subcommand cannot do, it says in a sentence with the remedy.
    from harness.sandbox.lab import Refusal

    try:
        status: int = args.run(args)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
