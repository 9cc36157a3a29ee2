# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of dataset-cache."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.commands import (
    evict,
    pin,
    release,
    remove,
    unpin,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed, Stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.making import SUMS, VERSION
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.obtain import get, run
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import CONFIGURATION
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.status import status
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import say
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.verify import verify

HELP = """\
Keeps whole, verified copies of datasets from a slow disk (HDD, NFS) on a fast one, within a quota. What was used
longest ago goes first; what is pinned or in use stays.
"""
MANUAL = """\
EXAMPLES
    dataset-cache run /data/imagenet -- python train.py --data {}
    DATA=$(dataset-cache get --or-source /data/imagenet)
    dataset-cache pin /data/imagenet
    dataset-cache status
    dataset-cache evict --need 200G --dry-run

WHILE IT IS USED
    `run` keeps the copy until its command and all that it started have ended. `get` keeps it for the process that
    called it (--pid names another one) until that has ended. In a container use `run`: processes of another pid
    namespace cannot be watched, and their leases end after lease_hours.

WHAT IS PROMISED
    A path is printed only for a copy of which every byte was hashed while it was read, was flushed, and was read back
    from the disk with the same hash (--hash full); whose source was the same before and after; and whose sizes and
    times are still those of that moment. A source that has changed since is copied again; the old copy
    stays until its readers end. A source with SHA256SUMS must match it. The group reads copies, nobody writes them.

CONFIGURATION
    /etc/rigwright/dataset-cache.json, an object with
    cache            directory of the cache; it must exist
    mount            where its file system is mounted: with nothing mounted there, nothing is done
    sources          directories whose datasets may be copied
    quota, free      what copies may take together, what must stay free on the file system: "800G" (1024),
                     "800GB" (1000), "80%"
    group            the group that reads the copies
    file_mode, directory_mode            "0440", "0550"
    hash, algorithm  "full" or "once"; "auto", "sha256" or "blake2b"
    jobs             files copied at the same time; 0: by the kind of disk
    evict_service    whether root's `evict --requests` answers users
    share_private    whether files that the group may not read are copied for it
    lease_hours      how long a lease from another pid namespace counts

EXIT STATUS
    0    done
    1    an error of this program
    2    wrong usage or configuration
    3    source refused: missing, outside of `sources`, unreadable, private, or holds what cannot be copied
    4    source corrupt: a read error, or it does not match its checksums
    5    no room: quota, free space or disk full
    6    the source changed while it was copied
    7    a copy is wrong: it differs from what was read
    8    in use or pinned
    9    not in the cache
    10   the cache cannot be used: not mounted, no permission, an error of its disk
    11   waited longer than --wait
    128+N ended by signal N; what was half made is removed
    `run` ends as its command does; where the dataset cannot be had, with the status above; 126: the command cannot be
    run, 127: it is not there
    --or-source turns 5, 6, 7, 10 and 11 into the path of the source and a warning
"""


def parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    for option, text in (
        ("config", f"another configuration than {CONFIGURATION}"),
        ("cache", "another directory of the cache"),
    ):
        shared.add_argument(f"--{option}", metavar="PATH", default=argparse.SUPPRESS, help=text)
    shared.add_argument(
        "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="no progress, only failures"
    )
    top = argparse.ArgumentParser(
        "dataset-cache",
        description=HELP,
        epilog=MANUAL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"dataset-cache {VERSION}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, work: t.Callable[[argparse.Namespace], Exit], summary: str) -> argparse.ArgumentParser:
        created = commands.add_parser(name, help=summary, description=summary, parents=[shared], allow_abbrev=False)
        created.set_defaults(work=work)
        return created

    jobs = {"type": int, "default": 0, "metavar": "N", "help": "files at the same time (default: by the kind of disk)"}
    for name, work, text in (
        ("get", get, "print the path of the whole copy; make it when it is missing"),
        ("run", run, "run a command (after --) with the copy, which stays until it ends; {} in it is the path"),
    ):
        subparser = command(name, work, text)
        subparser.add_argument("source", metavar="SOURCE")
        subparser.add_argument(
            "--hash", choices=("full", "once"), help="read the copy back from the disk (full), or not (once)"
        )
        subparser.add_argument("--jobs", **t.cast(t.Any, jobs))
        subparser.add_argument(
            "--or-source", action="store_true", help="where the cache fails, give the path of the source"
        )
        subparser.add_argument(
            "--offline", action="store_true", help="serve a whole copy without looking at its source"
        )
        subparser.add_argument(
            "--wait", type=float, metavar="S", help="seconds to wait for another process that copies (default: no end)"
        )
        subparser.add_argument("--sums", metavar="FILE", help=f"SHA-256 of the files (default: {SUMS} in the source)")
        subparser.add_argument("--expect", metavar="SHA256", help="the SHA-256 of a source that is one file")
        subparser.add_argument(
            "--share", action="store_true", help="copy also what the group may not read in the source"
        )
        if name == "get":
            subparser.add_argument("--pid", type=int, help="the process to keep the copy for (default: the caller)")
        else:
            subparser.add_argument(
                "--env", default="DATASET_CACHE_PATH", metavar="NAME", help="variable with the path (%(default)s)"
            )
    for name, work, text in (
        ("pin", pin, "never evict it"),
        ("unpin", unpin, "let it be evicted again"),
        ("release", release, "end what `get` keeps for a process before that ends"),
        ("rm", remove, "remove its copies"),
    ):
        subparser = command(name, work, text)
        subparser.add_argument("sources", nargs="+", metavar="SOURCE")
        if name == "release":
            subparser.add_argument("--pid", type=int, help="the process (default: the caller)")
    subparser = command("status", status, "what there is: size, last use, state, pin, users")
    subparser.add_argument("sources", nargs="*", metavar="SOURCE")
    subparser.add_argument("--json", action="store_true", help="for programs")
    subparser.add_argument(
        "--check", action="store_true", help="take_survey at the sources: a copy may be stale, or its source gone"
    )
    subparser = command("evict", evict, "remove what was used longest ago, until under the quota")
    subparser.add_argument("--dry-run", action="store_true", help="only report")
    subparser.add_argument("--need", metavar="SIZE", help="until this much more fits")
    subparser.add_argument(
        "--requests", action="store_true", help="answer users who need room that others hold (root's service)"
    )
    subparser = command("verify", verify, "read copies again; a wrong one is never served any more")
    subparser.add_argument("sources", nargs="*", metavar="SOURCE")
    subparser.add_argument("--jobs", **t.cast(t.Any, jobs))
    subparser.add_argument(
        "--source", dest="with_source", action="store_true", help="compare with what the sources hold, too"
    )
    return top


def on_signal(number: int, _frame: object) -> None:
    raise Stopped(number)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command: list[str] = []
    if "run" in arguments and "--" in arguments:
        cut = arguments.index("--")
        arguments, command = arguments[:cut], arguments[cut + 1 :]
    args = parser().parse_args(arguments)
    for name, value in (("config", None), ("cache", None), ("quiet", False)):
        setattr(args, name, getattr(args, name, value))
    args.command = command
    # What is made belongs to the group as a whole; the command of `run` gets its own mask back.
    args.umask = os.umask(0o007)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, on_signal)
    try:
        return int(args.work(args))
    except Failed as error:
        say(str(error))
        return int(error.status)
    except Stopped as stopped:
        return 128 + stopped.number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        say(f"the cache cannot be used: {error}")
        return int(Exit.CACHE)
