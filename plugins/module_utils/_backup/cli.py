# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program `rigwright-backup`: the commands of a user, and the steps of the units.

The commands `run`, `check`, `drill` ... start the unit that the timer starts too, and show its progress. So a backup is always made
with the same rights and secrets, and closing the terminal ends nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import drill as drilling
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import identity, step_files
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import import_tar as archives
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import job as jobs
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import restore as restoring
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import retention as keeping
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import status as status_findings
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import RESTORE, ConfigError, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Result, State
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system import notify

VERBS = (states.RUN, states.FORGET, states.PRUNE, states.CHECK, states.DRILL)
Probe = t.Callable[[Config], "list[Finding]"]
_PARTS = ("pre", "dumps", "main", "end")


def say(text: str) -> None:
    """Print text. Names of files in it neither change the terminal, nor are bytes that are not UTF-8."""
    printable = text.encode("utf-8", "backslashreplace").decode()
    sys.stdout.write(shown(printable, keep="\n") + "\n")
    sys.stdout.flush()


def call(*command: str) -> tuple[int, str]:
    done = programs.run(command)
    return done.returncode, done.stdout.strip()


# Steps of the units


def step(config: Config, place: Place, part: str, verb: str, subject: str) -> int:
    """Run a step of a unit; its exit status decides whether systemd goes on."""
    if part == "end":
        state = jobs.finish(config, place, verb, subject, os.environ)
        say(f"{verb} {subject}: {state['kind']} {states.words_of(state)}".rstrip())
        if verb == states.DRILL:
            drilling.clear(place, subject)
        return int(state["kind"] != "ok")
    if part == "pre":
        return jobs.pre(config, place, verb, subject)
    name = subject if verb in states.OF_REPOSITORIES else config.job(subject).repository
    restic = configuration.open_repository(config, place, name)
    if part == "dumps":
        jobs.dumps(config, place, config.job(subject), restic)
        return 0
    if verb == states.RUN:
        return int(jobs.run(config, place, config.job(subject), restic)["exit_code"])

    # The other units may read all files, or read no state.
    closed = states.closed(place) if verb in (states.FORGET, states.CHECK) else ""

    def work() -> Result:
        if verb == states.FORGET:
            job = config.job(subject)
            foreign = functools.partial(identity.problem, place, job)
            return keeping.forget(config, job, restic, time.time(), identity.hosts(place, job), foreign)
        if verb == states.PRUNE:
            return keeping.prune(config, restic)
        if verb == states.CHECK:
            return keeping.check(config, restic, {} if closed else states.read_state(place, verb, subject))
        return drilling.drill(config, place, config.job(subject), restic)

    result = keeping.timed(work)
    if closed:
        result["words"] = "; ".join(filter(None, (result.get("words"), closed)))
    step_files.write_step_file(place, verb, subject, step_files.RESULT, result)
    return int(result["exit_code"])


def report(config: Config, place: Place, unit: str) -> int:
    """Send that a unit has failed to the notify list."""
    problem = notify.send(*status_findings.failure(config, place, unit))
    if problem:
        say(problem)
    return int(bool(problem))


# Commands of a user


def start(config: Config, place: Place, verb: str, subject: str) -> int:
    """Start the unit, show its progress, and print how it ended."""
    if (verb, subject) not in set(states.subjects(config)):
        (config.target if verb in states.OF_REPOSITORIES else config.job)(subject)
        raise ConfigError(
            f"{verb} of {subject} has no unit: the server only appends, or there is nothing to do (docs/backup.md)"
        )
    unit = status_findings.unit_of(verb, subject)
    before = states.read_state(place, verb, subject).get("ended")
    rc, _out = call("systemctl", "start", "--no-block", unit)
    if rc:
        raise ConfigError(f"systemd does not start {unit}: look at `systemctl status {unit}`, and run this as root")
    shown = ""
    try:
        while at_work(unit):
            line = progress_line(read_progress(config, place, verb, subject))
            if line != shown and sys.stdout.isatty():
                show(line)
                shown = line
            time.sleep(0.5)
    except KeyboardInterrupt:
        say(f"\n{unit} goes on. `systemctl stop {unit}` ends it, `rigwright-backup status` shows how it ended.")
        return 130
    if shown:
        say("")
    state = states.read_state(place, verb, subject)
    if state.get("ended") == before and "damaged" not in state:
        say(f"{unit} left no result: look at `journalctl -u {unit}`")
        return 1
    return print_result(config, verb, subject, state)


def read_progress(config: Config, place: Place, verb: str, subject: str) -> JsonObject:
    try:
        return step_files.read_step_file(config, place, verb, subject, step_files.PROGRESS)
    except step_files.Refused:
        return {}


def at_work(unit: str) -> bool:
    """Return whether a unit runs, or waits for another one: it is inactive then, with a job."""
    properties = call("systemctl", "show", "--property=ActiveState,Job", "--value", unit)[1].split()
    return any(word not in ("inactive", "failed") for word in properties)


def show(line: str) -> None:
    """Replace the line that was shown before."""
    sys.stdout.write(f"\r\x1b[K{line}")
    sys.stdout.flush()


def progress_line(progress: JsonObject) -> str:
    """Format the progress of a run."""
    if not progress:
        return ""
    done, total = progress.get("bytes_done") or progress.get("bytes_restored") or 0, progress.get("total_bytes", 0)
    remaining = progress.get("seconds_remaining")
    return (
        f"{100 * progress.get('percent_done', 0):5.1f} %  {size(done)} of {size(total)}"
        f"  {progress.get('files_done', progress.get('files_restored', 0))} of {progress.get('total_files', 0)} files"
        + (f"  {int(remaining) // 60} min {int(remaining) % 60} s left" if remaining else "")
    )


def size(number: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def print_result(config: Config, verb: str, subject: str, state: State) -> int:
    kind = str(state.get("kind"))
    facts = []
    # A run that made no snapshot still has the one before.
    if verb == states.RUN and state.get("files") is not None:
        facts.append(
            f"snapshot {str(state['snapshot'])[:8]}, {state.get('files')} files, {size(state.get('bytes_added') or 0)} added"
        )
    if verb == states.DRILL and state.get("files"):
        facts.append(f"{state['files']} files restored and compared")
    if verb == states.DRILL and state.get("dumps"):
        facts.append(f"{state['dumps']} dumps read and compared")
    if verb == states.CHECK and state.get("part"):
        facts.append(f"part {state['part']} of {state['parts']} read")
    facts.append(f"{state.get('duration_s', '?')} s")
    say(f"{verb} {subject}: {kind}, {', '.join(facts)}")
    if kind != "ok":
        names = (subject, config.jobs[subject].repository) if verb in states.OF_JOBS else ("JOB", subject)
        say(f"  {states.words_of(state)}\n  To do: {states.remedy(kind, *names)}")
    elif state.get("words"):
        say(f"  {states.words_of(state)}")
    return int(kind != "ok")


def status(config: Config, place: Place, as_json: bool, probe: Probe | None) -> int:
    """Print the findings: timers, last successes, and with root's rights whether the repositories open."""
    found = status_findings.findings(config, place, call, probe is not None) + (probe(config) if probe else [])
    if as_json:
        say(json.dumps({"findings": found}, indent=1))
    else:
        for row in found:
            say(
                f"{row['status']:5} {row['id']}: {row['evidence']}"
                + ("" if row["status"] == "pass" else f"\n      To do: {row['remedy']}")
            )
    return int(any(row["status"] == "fail" for row in found))


def adopt(config: Config, place: Place, job: Job) -> int:
    """Declare the snapshots of a job to be of this machine, so that runs take and `forget` lets go what is under its names."""
    restic = configuration.open_repository(config, place, job.repository)
    outcome, found = keeping.snapshots(restic, *job.hosts, "--tag", job.tag)
    if not outcome.ok:
        raise ConfigError(f"{outcome.message}: {outcome.remedy}")
    say(
        f"{job.name}: {len(found)} snapshots are of this machine: {', '.join(identity.adopt(place, job, found)) or job.host}"
    )
    return 0


def restore(config: Config, place: Place, args: argparse.Namespace) -> int:
    """Show the plan of a restore, and carry it out."""
    job = config.job(args.job)
    restic = configuration.open_repository(config, place, job.repository)
    if args.dump:
        return restore_dump(job, restic, args)
    if not args.target:
        raise ConfigError("say where to: `--target /var/restore`, or / for the old place")
    plan = restoring.make_plan(job, restic, args.when, args.path, args.target)
    against = restoring.objection(plan, args.overwrite, args.without_room)
    if args.json:
        say(json.dumps({**plan.as_dict(), "objection": against.message, "about": against.about}))
    else:
        named = restoring.shown(", ".join(plan.paths))
        say(f"snapshot {plan.snapshot[:8]} of {plan.time}: {plan.files} files, {size(plan.bytes)}, of {named}")
        say(f"to {restoring.shown(plan.target)}")
        for row in plan.short_of:
            say(f"too little room at {row} (holes and hard links are counted in full)")
        if plan.conflicts:
            conflicting = restoring.shown(", ".join(plan.conflicting[:5]))
            say(f"{plan.conflicts} files are there already and would be replaced: {conflicting}")
    if args.plan:
        return 0
    if against.message:
        raise ConfigError(against.message)
    restic.rights = RESTORE
    progress = jobs.Progress(lambda status: show(progress_line(status))) if sys.stdout.isatty() else jobs.Progress()
    problem, skipped = restoring.carry_out(config, plan, restic, args.overwrite, progress.take)
    if progress.shown:
        say("")
    if problem:
        raise ConfigError(f"not all was restored: {problem}")
    kept = f"; {skipped} files were there by then, and stayed as they are" if skipped else ""
    say(f"restored to {restoring.shown(plan.target)}{kept}")
    return 0


def restore_dump(job: Job, restic: Restic, args: argparse.Namespace) -> int:
    """Write the output of a dump's command to stdout."""
    chosen = restoring.dump_of(job, restic, args.dump, args.when)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(chosen.time))
    sys.stderr.write(f"snapshot {chosen.id[:8]} of {moment}: {chosen.paths[0]}\n")
    return 0 if args.plan else in_person(restic, "dump", chosen.id, chosen.paths[0])


def in_person(restic: Restic, *arguments: str) -> int:
    """Run restic with the caller's own input and output: a dump is no text, and restic may ask questions."""
    return programs.run(restic.command(*arguments), restic.environment(), capture_output=False).returncode


@contextlib.contextmanager
def ending_together() -> t.Iterator[None]:
    """End as by Ctrl-C, with all children, also when the terminal closes or the connection is cut."""

    def end(number: int, _frame: t.Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def import_tar(config: Config, place: Place, args: argparse.Namespace) -> int:
    """Import an archive of tar into a repository, and report what the archive had lost."""
    try:
        report = archives.survey(args.archive)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{args.archive} cannot be read as an archive of tar: {error}") from None
    restic = configuration.open_repository(config, place, args.repository)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(os.stat(args.archive).st_mtime))
    os.makedirs(args.scratch, exist_ok=True)
    free = shutil.disk_usage(args.scratch).free
    if free < report["bytes"]:
        raise ConfigError(
            f"{args.scratch} has {size(free)} free, and {size(report['bytes'])} are to be unpacked: name another place by --scratch"
        )
    with tempfile.TemporaryDirectory(prefix="rigwright-import-", dir=args.scratch) as scratch:
        problem = archives.unpack(args.archive, scratch)
        if problem:
            report["lost"].append(f"tar could not unpack all of it: {problem}")
        snapshot, problem = archives.back_up(restic, scratch, args.archive, args.host, args.tag, moment)
    if problem:
        raise ConfigError(problem)
    report.update(snapshot=snapshot, time=moment)
    say(
        json.dumps(report, indent=1)
        if args.json
        else "\n".join([f"snapshot {snapshot[:8]} of {moment}", *(f"lost: {row}" for row in report["lost"])])
    )
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="rigwright-backup",
        description="Backups of this machine: run, look, drill, restore.",
        epilog="Each command has a --help of its own. `status` shows the names of the jobs and repositories.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for verb, description in (
        (states.RUN, "back a job up now"),
        (states.FORGET, "let old snapshots of a job go"),
        (states.DRILL, "restore files of a job into a scratch place and compare them"),
        (states.CHECK, "check a repository and read a part of its data"),
        (states.PRUNE, "free the room in a repository that nothing needs"),
    ):
        command = commands.add_parser(verb, help=description, description=description)
        command.add_argument("subject", metavar="REPOSITORY" if verb in states.OF_REPOSITORIES else "JOB")
    command = commands.add_parser("status", help="how the last runs ended and how old the last successes are")
    command.add_argument("--json", action="store_true")
    command.add_argument("--probe", action="store_true", help="see whether the repositories open, too")
    command = commands.add_parser("snapshots", help="list the snapshots of a job")
    command.add_argument("job")
    command = commands.add_parser(
        "adopt", help="declare all snapshots of a job to be of this machine, as before it was installed again"
    )
    command.add_argument("job")
    command = commands.add_parser("restore", help="show what a restore would do, and do it")
    command.add_argument("job")
    command.add_argument(
        "--path", action="append", default=[], help="what to restore, again for more; all of it, if nothing is named"
    )
    command.add_argument(
        "--when", default=restoring.LATEST, help="`latest`, a time such as '2026-11-22 18:00', or the id of a snapshot"
    )
    command.add_argument("--target", help="below which directory; / is the old place")
    command.add_argument("--dump", help="instead of files this dump of the job, to stdout")
    command.add_argument("--plan", action="store_true", help="show the plan and change nothing")
    command.add_argument("--overwrite", action="store_true", help="replace files that are there")
    command.add_argument("--without-room", action="store_true", help="go on where there seems to be too little room")
    command.add_argument("--json", action="store_true")
    command = commands.add_parser(
        "import-tar", help="bring an archive of tar into a repository, with a report of what it had lost"
    )
    command.add_argument("archive")
    command.add_argument("--repository", required=True)
    command.add_argument("--host", default=os.uname().nodename)
    command.add_argument("--tag", default="tar")
    command.add_argument("--scratch", default="/var/tmp", help="where it is unpacked for the time being")  # noqa: S108
    command.add_argument("--json", action="store_true")
    command = commands.add_parser("restic", help="restic with the address and the secrets of a repository")
    command.add_argument("repository")
    command.add_argument("arguments", nargs=argparse.REMAINDER)
    command = commands.add_parser("report")  # what the unit of a failure runs
    command.add_argument("unit")
    command = commands.add_parser("step")  # what the units run
    command.add_argument("part", choices=_PARTS)
    command.add_argument("verb", choices=VERBS)
    command.add_argument("subject")
    return top


def act(args: argparse.Namespace, place: Place, probe: Probe = lambda _config: []) -> int:
    config = configuration.read(place)
    if args.command in VERBS:
        return start(config, place, args.command, args.subject)
    if args.command == "step":
        return step(config, place, args.part, args.verb, args.subject)
    if args.command == "report":
        return report(config, place, args.unit)
    if args.command == "status":
        return status(config, place, args.json, probe if args.probe else None)
    if args.command in ("restore", "import-tar"):
        with ending_together():
            return (restore if args.command == "restore" else import_tar)(config, place, args)
    if args.command == "adopt":
        return adopt(config, place, config.job(args.job))
    name = config.job(args.job).repository if args.command == "snapshots" else args.repository
    restic = configuration.open_repository(config, place, name)
    arguments = (
        ["snapshots", *config.job(args.job).hosts, "--tag", config.job(args.job).tag]
        if args.command == "snapshots"
        else args.arguments
    )
    return in_person(restic, *arguments)


def main(
    arguments: t.Sequence[str] | None = None, place: Place | None = None, probe: Probe = lambda _config: []
) -> int:
    args = parser().parse_args(arguments)
    with contextlib.suppress(BrokenPipeError):
        try:
            return act(args, place or Place(), probe)
        except KeyboardInterrupt:
            sys.stderr.write(f"\nrigwright-backup: {args.command} was ended, and is not whole\n")
            return 130
        except PermissionError as error:
            sys.stderr.write(f"rigwright-backup: {shown(str(error))}: run it as root\n")
        except (ConfigError, OSError, states.Damaged) as error:
            sys.stderr.write(f"rigwright-backup: {shown(str(error))}\n")
    return 1
