# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of runs: a state for each job and repository, metrics for Prometheus, and findings with a remedy.

A state is a small file of JSON that all users can read, `/var/lib/rigwright_backup/<verb>-<subject>.json`. Root writes it when the
unit has ended; the unit's own user cannot.
"""

from __future__ import annotations

import fcntl
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import OK, REMEDIES
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Result, State, States
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    write_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

RUN, FORGET, PRUNE, CHECK, DRILL = "run", "forget", "prune", "check", "drill"
OF_JOBS = (RUN, FORGET, DRILL)
OF_REPOSITORIES = (PRUNE, CHECK)
TEXTFILE = "rigwright_backup.prom"

# Results that are not restic's own.
SOURCE_MISSING = "source_missing"
NOT_MOUNTED = "not_mounted"
UNCOVERED = "uncovered"
HIDDEN = "hidden"
HOOK = "hook"
EXPOSED = "exposed"
DUMP = "dump"
CLOCK = "clock"
GAP = "gap"
LOST = "lost"
NOTHING = "nothing"
EMPTY = "empty"
FOREIGN = "foreign"
RECORD = "record"

OWN_REMEDIES = {
    SOURCE_MISSING: "bring it back, or take it out of backup_jobs; no snapshot was made that could let older whole ones expire",
    NOT_MOUNTED: "mount it; where it is gone for good, take it out of the paths and exclude it by name in backup_jobs; where its directory"
    " has the files itself now, remove /var/lib/rigwright_backup/run-JOB.json",
    UNCOVERED: "add it to the paths of a job, or to backup_excludes if it can be lost; all else is in the snapshot",
    HIDDEN: "take what hides it out of the unit (`systemctl cat rigwright-backup-run-JOB`); all else is in the snapshot",
    HOOK: "run the hook by hand, and look at the unit's journal",
    EXPOSED: "have it and every directory above belong to root and be writable by root alone: `chown root:root`, `chmod go-w`, a file of"
    " a password `chmod 600`; or name another one",
    DUMP: "run the command of the dump by hand; no snapshot of it was made",
    CLOCK: "set the clock, and remove snapshots from the future: `rigwright-backup restic REPOSITORY forget ID`",
    GAP: "see whether the clock was wrong; if they may go: `rigwright-backup restic REPOSITORY forget ID`, or keep some by `daily: 7` too",
    LOST: "restore these files by hand and look; check the repository: `rigwright-backup check REPOSITORY`",
    NOTHING: "run the job once: `rigwright-backup run JOB`; where it has run, name files of it in backup_drill_paths",
    EMPTY: "see what excludes it or empties it for the unit: `rigwright-backup restic REPOSITORY ls latest --tag job:JOB`",
    FOREIGN: "set backup_host on one of them to a name of its own; if it is this machine, as before it was installed again:"
    " `rigwright-backup adopt JOB`",
    RECORD: "mount all disks of the job, remove this file, and run it again; what was mounted in the last good run is not known",
}

HOUR_S = 3600
# The maximum age of the last success in hours; backup_max_age_h changes them.
MAX_AGE_H = {RUN: 36, FORGET: 24 * 15, PRUNE: 24 * 45, CHECK: 24 * 15, DRILL: 24 * 45}


def remedy(kind: str, job: str = "JOB", repository: str = "REPOSITORY") -> str:
    """Return the remedy of a kind of result."""
    text = OWN_REMEDIES.get(kind) or REMEDIES.get(kind) or REMEDIES["failed"]
    return text.replace("JOB", job).replace("REPOSITORY", repository)


def read_state(place: Place, verb: str, subject: str) -> State:
    """Return the state of the last run. A damaged one is the state of a failure, and is marked: it hides what a good run had mounted."""
    try:
        found: State | None = record.read(path_of(place, verb, subject), "see what it had, and remove it")
        return found or {}
    except Damaged as error:
        return {"kind": RECORD, "words": str(error), "exit_code": 1, "damaged": True}


def closed(place: Place) -> str:
    """Return that this user may not read the states: earlier versions created their directory under root's umask."""
    try:
        os.stat(os.path.join(place.state, "."))
    except FileNotFoundError:
        return ""
    except PermissionError:
        return f"{place.state} was closed to this user: what earlier runs left did not count; the last step of each unit opens it"
    return ""


def read_list(path: str, strict: bool = False) -> t.Any:
    """Return the list that a drill compares with: a `Drawn`, or dumps by their names. It is empty where there is none.

    The next run replaces a damaged one, which counts as none.

    :raises Damaged: it is damaged, and the reader is strict.
    """
    try:
        return record.read(path, "run the job again") or {}
    except Damaged:
        if strict:
            raise
        return {}


def dump(data: t.Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def path_of(place: Place, verb: str, subject: str) -> str:
    return os.path.join(place.state, f"{verb}-{subject}.json")


def list_of(place: Place, kind: str, job: str) -> str:
    """Return the path of the list that a drill compares with, of files (`sample`) or of `dumps`."""
    return os.path.join(place.state, f"{kind}-{job}.json")


def subjects(config: Config) -> t.Iterator[tuple[str, str]]:
    """Yield what should run regularly on this host, by verb and subject."""
    for job in config.jobs.values():
        only_appends = config.repositories[job.repository].append_only
        if job.paths or job.dumps:
            yield RUN, job.name
        if job.retention and not only_appends:
            yield FORGET, job.name
        if job.paths or job.dumps:
            yield DRILL, job.name
    for target in config.repositories.values():
        yield CHECK, target.name
        if not target.append_only:
            yield PRUNE, target.name


def read_states(config: Config, place: Place) -> dict[tuple[str, str], State]:
    return {key: read_state(place, *key) for key in subjects(config)}


def words_of(state: State) -> str:
    """Return the message of a state for people. It may have names of users' files, and files of earlier versions have them as they are."""
    return shown(str(state.get("words") or ""))


def merge(before: State, result: Result, ended: float) -> State:
    """Merge the result of a run into the state. What only a success reports stays from the run before."""
    names = ("last_success", "snapshot", "snapshots", "mounts", "next_part", "unchanged_since")
    kept = {key: value for key, value in before.items() if key in names}
    state = t.cast("State", {**kept, **result, "ended": ended})
    if result.get("kind") == OK:
        state["last_success"] = ended
        if result.get("bytes_added") is not None:
            idle = before.get("unchanged_since") or ended
            state["unchanged_since"] = ended if result["bytes_added"] else idle
    return state


def _for_root(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def save(config: Config, place: Place, verb: str, subject: str, result: Result, ended: float) -> State:
    """Write the state of a run that has ended, and the metrics of all.

    :raises OSError: one of the files cannot be written.
    """
    make_directories(place.state, existing=True)
    # With read rights another user could hold the lock for ever.
    with open(os.path.join(place.state, ".lock"), "w", encoding="utf-8", opener=_for_root) as lock:
        os.fchmod(lock.fileno(), 0o600)
        # Two units that end at once would each write metrics without those of the other.
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_state(place, verb, subject)
        # A damaged list of mounts stays, and fails each run, until a person has looked; other states are only reports.
        state = before if verb == RUN and "damaged" in before else merge(before, result, ended)
        if state is not before:
            replace_file(path_of(place, verb, subject), dump(state))
        if config.textfile_directory:
            write_file(os.path.join(config.textfile_directory, TEXTFILE), metrics(read_states(config, place)))
    return state


_METRICS = (
    # name, verb, key, help
    ("last_success_timestamp_seconds", RUN, "last_success", "When the job was last backed up whole"),
    ("last_exit_code", RUN, "exit_code", "0: the last run was whole"),
    ("duration_seconds", RUN, "duration_s", "How long the last run took"),
    ("bytes_added", RUN, "bytes_added", "What the last run added to the repository"),
    ("bytes_processed", RUN, "bytes", "What the last run looked at"),
    ("files_total", RUN, "files", "Files in the last snapshot"),
    ("snapshots", RUN, "snapshots", "Snapshots of the job"),
    (
        "unchanged_since_timestamp_seconds",
        RUN,
        "unchanged_since",
        "Since when runs have added nothing; the last run, if it has",
    ),
    ("last_forget_success_timestamp_seconds", FORGET, "last_success", "When old snapshots were last forgotten"),
    ("forget_exit_code", FORGET, "exit_code", "0: the last time old snapshots were forgotten"),
    ("last_drill_success_timestamp_seconds", DRILL, "last_success", "When files were last restored and compared"),
    ("drill_exit_code", DRILL, "exit_code", "0: the last drill found all files as they were"),
    ("drill_files", DRILL, "files", "Files that the last drill compared"),
    (
        "last_check_success_timestamp_seconds",
        CHECK,
        "last_success",
        "When a part of the repository was last read and found whole",
    ),
    ("check_exit_code", CHECK, "exit_code", "0: the last check found nothing"),
    ("last_prune_success_timestamp_seconds", PRUNE, "last_success", "When room was last freed"),
    ("prune_exit_code", PRUNE, "exit_code", "0: room was freed the last time"),
)


def metrics(states: States) -> str:
    """Return the metrics for Prometheus' textfile collector. An unknown value is left out, never 0; no success counts as 1970."""
    lines = []
    for name, wanted, key, description in _METRICS:
        rows = []
        for (verb, subject), state in sorted(states.items()):
            if verb != wanted:
                continue
            label = "job" if verb in OF_JOBS else "repository"
            value = state.get(key, 0 if key == "last_success" else None)
            if value is not None:
                rows.append(f'rigwright_backup_{name}{{{label}="{subject}"}} {value}')
        if rows:
            full = f"rigwright_backup_{name}"
            lines += [f"# HELP {full} {description}", f"# TYPE {full} gauge", *rows]
    return "\n".join(lines) + "\n"


_DONE = {
    RUN: "backed up",
    FORGET: "old snapshots forgotten",
    PRUNE: "room freed",
    CHECK: "checked",
    DRILL: "restored and compared",
}


# What a good backup may lack, and the remedy.
_EXTRAS = {
    "manifest": "see docs/bare_metal.md; without it only files can be restored",
    "sample": "run the job once more; if the message comes again, check the repository",
}


def oldest_h(config: Config, verb: str, subject: str) -> int:
    """Return the maximum age of the last success in hours; 0 for what has no timer, and can be of any age."""
    if not config.schedule(verb, subject):
        return 0
    own = config.jobs[subject].max_age_h if verb == RUN else 0
    return own or config.max_age_h.get(verb) or MAX_AGE_H[verb]


def findings(config: Config, states: States, now: float, configured: float = 0) -> list[Finding]:
    """Return the findings: how the last run ended, and how old the last success is.

    :param configured: when the configuration was last changed, in seconds since 1970. What has failed before that is to be tried again.
    """
    rows: list[Finding] = []
    for (verb, subject), state in states.items():
        limit_h = oldest_h(config, verb, subject)
        command = f"rigwright-backup {verb} {subject}"
        status, evidence, advice = "pass", "", f"run it now: `{command}`"
        last = state.get("last_success")
        kind = state.get("kind")
        names = (subject, config.jobs[subject].repository) if verb in OF_JOBS else ("JOB", subject)
        if kind not in (None, OK):
            status, evidence = "fail", f"the last run failed: {words_of(state) or kind}"
            advice = remedy(str(kind), *names)
            if state.get("ended", now) < configured:
                status, evidence = "warn", f"{evidence}; the configuration has changed since"
                advice = f"run it again: `{command}`"
        elif last is None:
            # The first backup should not wait for its timer; other runs may.
            waiting = "warn" if verb == RUN and limit_h else "skip"
            status = waiting if not limit_h or now - configured <= limit_h * HOUR_S else "fail"
            evidence = f"not yet {_DONE[verb]}" + ("" if limit_h else ", and has no timer")
            advice = f"wait for its timer, or run it now: `{command}`" if limit_h else f"run it: `{command}`"
        elif last > now + HOUR_S:
            status, evidence, advice = "fail", f"last {_DONE[verb]} in the future", remedy(CLOCK, *names)
        elif limit_h and now - last > limit_h * HOUR_S:
            age = int((now - last) // HOUR_S)
            status, evidence = "fail", f"last {_DONE[verb]} {age} h ago, more than {limit_h}"
        else:
            evidence = f"{_DONE[verb]} {int((now - last) // HOUR_S)} h ago{_details(verb, state)}"
        if kind not in (None, OK) and last is not None:
            evidence += f"; last {_DONE[verb]} {int((now - last) // HOUR_S)} h ago"
        rows.append({"id": f"backup.{verb}.{subject}", "status": status, "evidence": evidence, "remedy": advice})
        rows += [
            finding(f"backup.{extra}.{subject}", "warn", shown(str(state.get(extra))), _EXTRAS[extra])
            for extra in _EXTRAS
            if state.get(extra)
        ]
    return rows


def _details(verb: str, state: State) -> str:
    if verb == RUN:
        counted = (("snapshots", "snapshots"), ("vanished", "files vanished while they were read"))
        counts = [f", {state.get(key)} {label}" for key, label in counted if state.get(key)]
        return "".join(counts)
    if verb == DRILL and state.get("files") is not None:
        return f", {state['files']} files and {state.get('dumps', 0)} dumps as they were"
    if verb == CHECK and state.get("part"):
        return f", part {state['part']} of {state.get('parts') or 1}"
    return ""
