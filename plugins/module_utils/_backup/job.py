# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of a job, as the steps of its unit: hooks before, dumps, files, and the last step, however the run ended.

systemd runs the steps (_backup/units.py). Hooks, dumps and the last step run as root, since they stop containers and query databases. The
step that reads all files is sandboxed, and has only the capability to read them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import caches, coverage, identity
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.commands import (
    HOOK_TIMEOUT_S,
    Dump,
    Failure,
    run_hook,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job, Place, Target
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import excluded
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.hooks import exposed
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import PATH, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    OK,
    PARTIAL,
    Outcome,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import (
    Drawn,
    DumpResult,
    Result,
    State,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.retention import snapshots
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.sample import Sampler
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.step_files import (
    DUMPS,
    MANIFEST,
    PROGRESS,
    PROGRESS_KEYS,
    RESULT,
    SAMPLE,
    Refused,
    folder,
    read_step_file,
    write_step_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import DUMP, FILES
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.unread import unread
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    Mount,
    is_within,
    read_fstab,
    read_mounts,
)


class Progress:
    """Reads restic's JSON, and reports the progress once a second."""

    def __init__(self, report: t.Callable[[JsonObject], None] | None = None) -> None:
        self.report = report
        self.last = 0.0
        self.shown = False
        self.summary: t.Any = {}

    def take(self, line: str) -> None:
        """Read a line of restic's output."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if message.get("message_type") == "summary":
            self.summary = message
        elif self.report and message.get("message_type") == "status" and time.monotonic() - self.last >= 1:
            self.last = time.monotonic()
            self.shown = True
            self.report(message)


def report_in(path: str) -> t.Callable[[JsonObject], None]:
    """Return a function that writes the progress to a file, for the process that has started the unit and waits."""

    def report(status: JsonObject) -> None:
        with contextlib.suppress(OSError):
            replace_file(path, json.dumps({key: status[key] for key in PROGRESS_KEYS if key in status}))

    return report


# The steps before


def keep_manifest(path: str) -> str:
    """Write the manifest of the machine, if it has changed; return the error. The files are worth a backup without it."""
    # Only this step needs it: for the others it would be a third of the time in which the program starts.
    from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import machine as machines

    try:
        return machines.keep(machines.Machine(_ask, Tree("/")), path)[2]
    except (machines.ProbeError, OSError, ValueError, KeyError) as error:
        return f"no manifest of the machine could be made: {error}"


def _ask(command: list[str]) -> tuple[int, str]:
    try:
        done = programs.run(command, {"PATH": PATH}, timeout=HOOK_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return 127, ""
    return done.returncode, done.stdout


def pre(config: Config, place: Place, verb: str, subject: str) -> int:
    """Check the password file, and for a backup write the manifest and run the hooks before; the first failure ends the run."""
    job = None if verb in states.OF_REPOSITORIES else config.job(subject)
    problem = exposed_password(config.target(job.repository if job else subject))
    if job and verb == states.RUN and not problem:
        if config.manifest and job.paths:
            write_step_file(place, verb, subject, MANIFEST, {"problem": keep_manifest(config.manifest)})
        problem = run_hooks("pre", job, {})
    if problem:
        write_step_file(place, verb, subject, RESULT, {**problem.result(), "exit_code": 1})
    return int(problem is not None)


def exposed_password(target: Target) -> Failure | None:
    """Return a failure if users other than root can read or change the password file."""
    found = exposed(target.password_file, secret=True) if target.password_file else []
    message = f"users other than root can read or change the password of {target.name}: {', '.join(found)}"
    return Failure(states.EXPOSED, message) if found else None


def run_hooks(kind: str, job: Job, result: Result) -> Failure | None:
    """Run the hooks of one kind; return the first failure, which ends those of `pre`."""
    first = None
    for number, hook in enumerate(getattr(job, kind)):
        problem = run_hook(hook, f"{kind}[{number}]", job.name, result)
        first = first or problem
        if problem and kind == "pre":
            break
    return first


# Dumps


def dumps(config: Config, place: Place, job: Job, restic: Restic) -> dict[str, DumpResult]:
    """Back up the output of commands, each as a snapshot of its own."""
    results: dict[str, DumpResult] = {}
    for spec in job.dumps:
        name = spec["name"]
        dump, progress = Dump(spec), Progress()
        path = f"/{spec.get('filename') or name}"
        arguments = ["backup", "--json", "--stdin", "--stdin-filename", path]
        arguments += [
            "--host",
            job.host,
            "--tag",
            job.tag,
            "--tag",
            f"{DUMP}{name}",
            *identity.tags(place),
            *limits(config),
        ]
        done = restic.run(*arguments, retry_lock_s=config.retry_lock_s, on_line=progress.take, feed=dump.feed)
        outcome = judge(done)
        kind, problem = outcome.kind, outcome.message
        if dump.problem:
            restic.run("unlock", timeout_s=HOOK_TIMEOUT_S)  # its own, if it had to be killed
            kind, problem = dump.kind, f"the dump {name} {dump.problem}"
        elif not outcome.ok:
            problem = f"the dump {name}: {problem}"
        results[name] = {"kind": kind, "words": problem, "bytes": dump.bytes}
        if kind == OK:
            snapshot = str(progress.summary.get("snapshot_id", ""))
            results[name].update({"sha256": dump.sha256, "snapshot": snapshot, "path": path})
    write_step_file(place, states.RUN, job.name, DUMPS, results)
    return results


def limits(config: Config) -> list[str]:
    """Return the options of restic that limit the bandwidth, in KiB a second."""
    up = ["--limit-upload", str(config.limit_upload_kib)] if config.limit_upload_kib else []
    return up + (["--limit-download", str(config.limit_download_kib)] if config.limit_download_kib else [])


# Files


def problems_of_sources(job: Job, place: Place) -> Result | None:
    """Return why no snapshot may be made: it would lack files that older ones have, and then replace them."""
    mounts = read_mounts(place.mountinfo)
    unusable = coverage.unusable(job, mounts)
    if unusable:
        return {"kind": states.SOURCE_MISSING, "words": unusable}
    # A mount by hand, of ZFS or of a unit is in no table: the last good run says that it existed.
    before = states.read_state(place, states.RUN, job.name)
    if "damaged" in before:
        return {"kind": states.RECORD, "words": before["words"]}
    mounted = before.get("mounts", [])
    wanted = {where: "mounted in the last good run" for where in mounted if coverage.draws_from(job, where)}
    wanted.update((where, "in fstab") for where in read_fstab(place.fstab))
    off = coverage.not_mounted(job, wanted, mounts)
    listed = ", ".join(f"{where} ({wanted[where]})" for where in off)
    return {"kind": states.NOT_MOUNTED, "words": f"not mounted: {listed}; no snapshot was made"} if off else None


def arguments(config: Config, job: Job, machine: t.Sequence[str] = (), exclude_file: str = "") -> list[str]:
    """Return the arguments of restic for a backup.

    :param machine: the options that tag the snapshot with this machine.
    :param exclude_file: the file with what is in tagged directories.
    """
    command = ["backup", "--json", "--host", job.host, *machine, *limits(config)]
    for tag in (job.tag, FILES, *job.tags):
        command += ["--tag", tag]
    command += ["--one-file-system"] if job.one_file_system else []
    command += ["--exclude-file", exclude_file] if exclude_file else []
    for pattern in job.excludes:
        command += ["--exclude", pattern]
    return [*command, "--", *job.paths, *manifest_beside(config, job)]


def manifest_beside(config: Config, job: Job) -> list[str]:
    """Return the manifest, if no path of the job contains it."""
    path = config.manifest
    inside = any(is_within(path, other) for other in job.paths) and not excluded(path, job.excludes, job.paths)
    return [path] if path and os.path.exists(path) and not inside else []


def files(config: Config, place: Place, job: Job, restic: Restic) -> Result:
    """Back up the files of a job, and draw those that a drill restores."""
    problem = problems_of_sources(job, place)
    if problem:
        return problem
    mounts = read_mounts(place.mountinfo)
    mounted = coverage.sources(job, mounts)
    own = folder(place, states.RUN, job.name)
    excludes = os.path.join(own, "caches") if job.exclude_caches else ""
    if excludes:
        tagged = caches.patterns(job, [mount.target for mount in mounts])
        replace_file(excludes, caches.as_file(tagged), 0o600)
    content = {path: coverage.names_in(job, path) for path in job.paths}
    progress = Progress(report_in(os.path.join(own, PROGRESS)))
    done = restic.run(
        *arguments(config, job, identity.tags(place), excludes),
        retry_lock_s=config.retry_lock_s,
        timeout_s=job.timeout_s,
        on_line=progress.take,
    )
    mounts = read_mounts(place.mountinfo)
    outcome = judge(done)
    summary = progress.summary
    # restic 0.19 ends with 0 also when a file was deleted meanwhile.
    lost, gone = unread(done.err, job, mounts)
    if outcome.kind == PARTIAL:
        if lost:
            outcome = Outcome(PARTIAL, f"{len(lost)} could not be read: {', '.join(map(shown, lost[:5]))}")
        elif done.dropped:
            outcome = Outcome(
                PARTIAL, f"{done.dropped} of restic's messages were too many to be kept; {outcome.message}"
            )
        elif gone:
            outcome = Outcome(OK, "")
    result: Result = {"kind": outcome.kind, "words": outcome.message}
    if not summary.get("snapshot_id"):
        return result
    result["snapshot"], result["vanished"] = summary["snapshot_id"], len(gone)
    result["bytes_added"] = summary.get("data_added_packed", summary.get("data_added", 0))
    result["bytes"], result["files"] = summary.get("total_bytes_processed", 0), summary.get("total_files_processed", 0)
    foreign = ""
    with contextlib.suppress(ValueError):  # the backup is good without their number
        listed, rows = snapshots(restic, *job.hosts, "--tag", f"{job.tag},{FILES}")
        if listed.ok:
            counts, foreign = identity.counted(place, job, rows)
            result.update(counts)
    unlisted, lacking = sample(config, place, job, restic, str(summary["snapshot_id"]))
    nothing = [shown(path) for path in lacking if coverage.names_in(job, path) & content[path]]
    if result["kind"] == OK:
        vanished = f"{len(gone)} files vanished while they were read" if gone else ""
        result["words"] = "; ".join(text for text in (vanished, unlisted) if text)
    if result["kind"] == OK and nothing:
        result.update({"kind": states.EMPTY, "words": f"nothing of {', '.join(nothing)} is in the snapshot"})
    elif result["kind"] == OK and foreign:
        result.update({"kind": states.FOREIGN, "words": foreign})
    result.update(problems_of_mounts(config, job, mounted, mounts, outcome))
    if result["kind"] == OK:
        result["mounts"] = mounted
    return result


def problems_of_mounts(
    config: Config, job: Job, mounted: t.Iterable[str], mounts: t.Sequence[Mount], outcome: Outcome
) -> Result:
    """Return what the snapshot lacks because it was not mounted, or not visible.

    :param mounted: where the job's files were mounted before the backup.
    """
    lost = coverage.not_mounted(job, mounted, mounts)
    if lost:
        # This is the reason for whatever else restic could not read.
        message = f"unmounted during the run, and not whole in its snapshot: {', '.join(lost)}"
        return {"kind": states.NOT_MOUNTED, "words": message}
    if not outcome.ok:
        return {}
    covered = coverage.hidden(job, mounts)
    if covered:
        return {"kind": states.HIDDEN, "words": f"hidden from the unit, and not in the snapshot: {', '.join(covered)}"}
    out = [mount.target for mount in coverage.left_out(mounts, config.jobs.values(), config.local_paths())]
    if out:
        return {"kind": states.UNCOVERED, "words": f"in no job, and excluded by none: {', '.join(out)}"}
    return {}


def sample(config: Config, place: Place, job: Job, restic: Restic, snapshot: str) -> tuple[str, list[str]]:
    """Write a list of some files of the snapshot with all their attributes.

    Return why there is no list, without which the backup is valid, and the paths of the job of which the snapshot has nothing.
    """
    sampler = Sampler(config.drill_files, config.drill_paths, roots=job.paths)
    outcome = judge(restic.run("ls", "--json", "--no-lock", snapshot, on_line=sampler.take))
    drawn: Drawn = {"snapshot": snapshot}
    if outcome.ok:
        own = [path for path in config.drill_paths if any(is_within(path, above) for above in job.paths)]
        listed = sampler.files()
        drawn["total"], drawn["files"] = sampler.total, listed
        drawn["missing"] = [path for path in own if path not in sampler.met | sampler.directories]
        drawn["directories"] = [path for path in own if path in sampler.directories]
        drawn["changed"] = [path for path in own if path in sampler.met and path not in listed]
    else:
        # It replaces the list before, with which the drill would check an older snapshot.
        drawn["problem"] = (
            f"the snapshot could not be listed, and a drill has nothing to compare with: {outcome.message}"
        )
    write_step_file(place, states.RUN, job.name, SAMPLE, drawn)
    return str(drawn.get("problem", "")), list(sampler.lacking.values()) if outcome.ok else []


def run(config: Config, place: Place, job: Job, restic: Restic) -> Result:
    """Run the step that reads files; its result includes that of the dumps."""
    started, clock = time.time(), time.monotonic()
    result: Result = files(config, place, job, restic) if job.paths else {"kind": OK, "words": ""}
    if not job.paths:
        listed, rows = snapshots(restic, *job.hosts, "--tag", job.tag)
        counts, foreign = identity.counted(place, job, rows)
        if listed.ok:
            result.update(counts)
        if listed.ok and foreign:
            result.update({"kind": states.FOREIGN, "words": foreign})
    dumped: dict[str, DumpResult] = read_step_file(config, place, states.RUN, job.name, DUMPS)
    failed = [row for row in dumped.values() if row["kind"] != OK]
    if failed and result["kind"] == OK:
        result.update({"kind": failed[0]["kind"], "words": "; ".join(row["words"] for row in failed)})
    result["started"], result["duration_s"] = started, round(time.monotonic() - clock, 1)
    result["exit_code"] = int(result["kind"] != OK)
    write_step_file(place, states.RUN, job.name, RESULT, result)
    return result


# The last step


def ended_by_systemd(environment: t.Mapping[str, str]) -> Result:
    """Return the result of a unit that left none, or one that is not valid, as systemd reports it."""
    how, status = environment.get("SERVICE_RESULT", ""), environment.get("EXIT_STATUS", "")
    kind = {"timeout": "timeout", "success": "cancelled"}.get(how, "cancelled" if how == "signal" else "failed")
    return {"kind": kind, "words": f"the unit was ended: {how or 'unknown'} {status}".strip(), "exit_code": 1}


def ended(config: Config, place: Place, verb: str, subject: str, environment: t.Mapping[str, str]) -> Result:
    """Return the result of the unit. It is a success only if systemd agrees: the unit's user writes the result."""
    try:
        result: Result = read_step_file(config, place, verb, subject, RESULT)
    except Refused as error:
        return _refused(error)
    succeeded = environment.get("SERVICE_RESULT") == "success" and environment.get("EXIT_STATUS", "0") == "0"
    if not result or (result["kind"] == OK and not succeeded):
        return ended_by_systemd(environment)
    return {**result, "exit_code": int(result["kind"] != OK)}


def _refused(error: Refused) -> Result:
    return {"kind": "failed", "words": f"what the unit has left is not taken: {error}", "exit_code": 1}


def finish(config: Config, place: Place, verb: str, subject: str, environment: t.Mapping[str, str]) -> State:
    """Run the last hooks, and write state and metrics. systemd runs this also when the other steps were killed."""
    result = ended(config, place, verb, subject, environment)
    try:
        if verb == states.RUN and subject in config.jobs:
            finish_run(config, config.jobs[subject], place, result)
        elif verb == states.RUN:
            message = (
                f"{subject} went out of backup_jobs while it ran: its hooks of the end, such as `always`, were not run"
            )
            result.update({"kind": "failed", "words": message, "exit_code": 1})
    except BaseException as error:
        result.update({"kind": "failed", "words": f"the last step failed: {type(error).__name__}", "exit_code": 1})
        raise
    finally:
        state = states.save(config, place, verb, subject, result, time.time())
    return state


def finish_run(config: Config, job: Job, place: Place, result: Result) -> None:
    """Run the hooks that follow a run, and keep what a drill needs of it."""
    contents: JsonObject = {}
    for name in (DUMPS, MANIFEST, SAMPLE):
        try:
            contents[name] = read_step_file(config, place, states.RUN, job.name, name)
        except Refused as error:
            contents[name] = {}
            result.update(_refused(error))
    results, drawn = contents[DUMPS], contents[SAMPLE]
    # Also those that a run did not reach: a drill tells them from those that are in the job since then.
    result["dumps_of_job"] = [str(spec["name"]) for spec in job.dumps]
    if results:
        result["dumps"] = results
    for kind in ("post" if result["kind"] == OK else "post_failure", "always"):
        problem = run_hooks(kind, job, result)
        if problem and result["kind"] == OK:
            result.update({"kind": problem.kind, "words": problem.message, "exit_code": 1})
    if contents[MANIFEST].get("problem"):
        result["manifest"] = contents[MANIFEST]["problem"]
    make_directories(place.state, existing=True)
    if drawn:
        replace_file(states.list_of(place, "sample", job.name), states.dump(drawn), 0o600)
    if drawn.get("problem"):
        result["sample"] = drawn["problem"]
    if job.dumps:
        path, names = states.list_of(place, "dumps", job.name), [spec["name"] for spec in job.dumps]
        # The last good dump remains the one to restore when a later one has failed.
        good = {**states.read_list(path), **{name: row for name, row in results.items() if row["kind"] == OK}}
        replace_file(path, states.dump({name: row for name, row in good.items() if name in names}), 0o600)
