# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: report
type: aggregate
short_description: Findings, module runs and timings of a run, as a table and as JSON
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Gathers the findings that M(rigwright.workstation.finding) and M(rigwright.workstation.verify) recorded, and counts for each
    host and role how many modules
    were started on the target, how many tasks changed something, and how long they took.
  - Ends the run with a table, and writes the same as one JSON file when O(path) is set.
  - The count is taken where Ansible starts a module, so that an action such as M(ansible.builtin.template), which starts
    several, counts as several. What a role's C(tasks/verify.yml) starts is counted apart.
  - Values of variables and results of tasks never enter, only what a role wrote as the evidence of a finding.
  - Says which task is still running when nothing was shown for a while, unless P(rigwright.workstation.progress#callback) shows a table.
  - Leaves the argument spec of a role out of the error about an argument, unless C(-v) is given.
options:
  internals:
    description:
      - Whether private parts of ansible-core are used. Without them, the report counts no modules, no role is planned ahead, and a run
        takes longer. Nothing else depends on them.
    type: bool
    default: true
    ini:
      - section: callback_rigwright_report
        key: internals
    env:
      - name: RIGWRIGHT_REPORT_INTERNALS
  silence:
    description: After so many seconds without a word the running task is named, and again after as many more. V(0) never does.
    type: float
    default: 20
    ini:
      - section: callback_rigwright_report
        key: silence
    env:
      - name: RIGWRIGHT_REPORT_SILENCE
  passes:
    description:
      - How the table shows what passes.
      - V(list) shows the findings of each host, and module runs, changes and seconds by host and role.
      - V(count) shows the findings that are no pass by host, and the number of those that are one by role, over all hosts.
      - V(auto) is V(count) where P(rigwright.workstation.progress#callback) shows the run, and V(list) with C(-v) or elsewhere.
    type: str
    choices: [auto, list, count]
    default: auto
    ini:
      - section: callback_rigwright_report
        key: passes
    env:
      - name: RIGWRIGHT_REPORT_PASSES
  path:
    description:
      - The JSON file to write. No file is written when it is unset.
      - A file of an earlier run is moved to the same name with the ending C(.previous) at the start. So a run which is killed leaves none
        that looks like its own, and M(rigwright.workstation.write_report) can compare two runs.
      - Its owner alone can read it, since evidence names users, services and versions.
      - A playbook that does nothing else than write a page of the report leaves both files as they are.
    type: path
    ini:
      - section: callback_rigwright_report
        key: path
    env:
      - name: RIGWRIGHT_REPORT_PATH
requirements:
  - C(rigwright.workstation.report) in C(callbacks_enabled) of C(ansible.cfg)
"""

import contextlib
import datetime
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ansible import __version__ as ansible_version
from ansible import constants as C
from ansible import context
from ansible.playbook.role_include import IncludeRole
from ansible.plugins.callback import CallbackBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _internals, _report_files, _unchanged
from ansible_collections.rigwright.workstation.plugins.plugin_utils._progress import is_live, named
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import (
    PREVIOUS,
    ModuleRun,
    PlayRun,
    Report,
    own_role,
    proves,
    summary,
    table,
)

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook import Playbook
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

# The actions that record findings.
FINDERS = tuple(f"rigwright.workstation.{action}" for action in ("finding", "verify", "config_files"))
PROGRESS = "rigwright.workstation.progress"
PREPARE = "rigwright.workstation.prepare"
WRITER = "rigwright.workstation.write_report"
_COLORS = {"pass": C.COLOR_OK, "warn": C.COLOR_WARN, "fail": C.COLOR_ERROR, "skip": C.COLOR_SKIP, "": None}


def _noted(task: Task) -> ModuleRun:
    """Return what is noted of a module that a task starts."""
    # Facts are gathered once for all roles, by the first that asks.
    return {"role": "common" if task.action == PREPARE else own_role(task), "verify": proves(task)}


def _name_of(task: Task) -> str:
    # An included role takes no argument: its condition may be what failed.
    return task.get_name() if isinstance(task, IncludeRole) else task.get_name(include_role_fqcn=False)


def _only_writes_pages(playbook: Playbook) -> bool:
    """Return True if each play of *playbook* has a task that writes a page of reports."""

    def writes_pages(play: Play) -> bool:
        return any(task.action == WRITER for block in play.tasks for task in block.get_tasks())

    plays = playbook.get_plays()
    return bool(plays) and all(writes_pages(play) for play in plays)


class _Silence:
    """Names the task that runs when nothing was shown for some seconds.

    A thread, since callbacks hear nothing while a task runs. It only ever calls `say`; Ansible forks its workers with the lock of
    its display held, as it has threads of its own that show something.
    """

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._say = say
        self._running: dict[tuple[str, str], tuple[str, float]] = {}
        self._heard = time.monotonic()
        self._ended = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        # An interrupted run has no end event; the thread must end with it anyway.
        thread = threading.Thread(target=self._watch, name="report silence", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def begin(self, host: str, task: Task) -> None:
        self._running[host, task._uuid] = (task.get_name(), time.monotonic())
        self._heard = time.monotonic()

    def end(self, host: str, task: Task) -> None:
        self._running.pop((host, task._uuid), None)
        self._heard = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._seconds / 4)):
            now = time.monotonic()
            running = list(self._running.items())
            if running and now - self._heard >= self._seconds:
                (_host, uuid), (name, began) = min(running, key=lambda item: item[1][1])
                hosts = named([host for (host, other), _begun in running if other == uuid])
                self._say(f"still: {name} ({hosts}, {now - began:.0f} s)")
                self._heard = now


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rigwright.workstation.report"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        self._report = Report(
            playbook=Path(playbook._file_name).name,
            ansible_core=ansible_version,
            check_mode=bool(context.CLIARGS.get("check")),
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )
        self._internals = _internals.Internals(_noted) if self.get_option("internals") else None
        if self._internals:
            _unchanged.watch()
        self._began = self._play_began = time.monotonic()
        self._task_began: dict[tuple[str, str], float] = {}
        self._open = contextlib.ExitStack()
        self._silence = _Silence(
            self.get_option("silence"), lambda line: self._display.display(shown(line), color=C.COLOR_SKIP)
        )
        # The live table shows the task and its seconds.
        if self.get_option("silence") > 0 and not (
            self._follows_progress() and is_live(sys.stdout.isatty(), os.environ)
        ):
            self._open.enter_context(self._silence.watched())
        # A run that reads the report must not replace it.
        self._path = None if _only_writes_pages(playbook) else self.get_option("path")
        with self._warning_of_an_unusable_path():
            if self._path and Path(self._path).is_file():
                Path(self._path).replace(self._path + PREVIOUS)
        if self._internals:
            self._internals.start()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        self._end_play()
        self._report.plays.append(PlayRun(name=play.get_name().strip(), seconds=0.0))
        if self._internals:
            self._internals.start_play(play.strategy)

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        self._task_began[host.get_name(), task._uuid] = time.monotonic()
        self._silence.begin(host.get_name(), task)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        self._end_task(result)
        if result.task.action in FINDERS:
            # A censored result (no_log) has none.
            self._report.host(result.host.get_name()).add_findings(result.result.get("findings", []))

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        self._end_task(result)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self._end_task(result, failed=True)
        if not ignore_errors:
            self._note_failure(result)

    def v2_runner_retry(self, result: CallbackTaskResult) -> None:
        _unchanged.hear(result, failed=True)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self._end_task(result, failed=True)
        self._note_failure(result)

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        self._end_play()
        self._report.seconds = time.monotonic() - self._began
        for name in stats.processed:
            self._report.host(name).stats = stats.summarize(name)
        for run in self._internals.end() if self._internals else ():
            self._report.add_module_run(run)
        self._open.close()
        # The order of the hosts' results differs between runs.
        self._report.hosts = dict(sorted(self._report.hosts.items()))
        with self._warning_of_an_unusable_path():
            if self._path:
                text = json.dumps(self._report.as_data(), indent=2, ensure_ascii=False)
                _report_files.write(Path(self._path), f"{text}\n")
        self._display.banner("REPORT")
        passes = self.get_option("passes")
        counted = passes == "count" or (passes == "auto" and self._follows_progress())
        if not self._internals:
            self._display.display(
                "`internals` is off: modules were not counted, and no role was planned ahead", color=C.COLOR_SKIP
            )
        for line, status in (summary if counted else table)(self._report):
            self._display.display(shown(line), color=_COLORS[status])

    def _follows_progress(self) -> bool:
        return C.DEFAULT_STDOUT_CALLBACK == PROGRESS and self._display.verbosity == 0

    def _end_play(self) -> None:
        now = time.monotonic()
        if self._report.plays:
            self._report.plays[-1]["seconds"] = now - self._play_began
        self._play_began = now

    def _end_task(self, result: CallbackTaskResult, failed: bool = False) -> None:
        now = time.monotonic()
        host = result.host.get_name()
        self._silence.end(host, result.task)
        work = self._report.host(host).work(own_role(result.task))
        # Tasks that the strategy plugin runs itself (meta, includes) have no start.
        work.seconds += now - self._task_began.pop((host, result.task._uuid), now)
        work.changed += result.is_changed()
        _unchanged.hear(result, failed)

    def _note_failure(self, result: CallbackTaskResult) -> None:
        # Without the message, which may have content for the terminal of this run only.
        failure = {"role": own_role(result.task), "task": _name_of(result.task)}
        self._report.host(result.host.get_name()).failures.append(failure)

    @contextlib.contextmanager
    def _warning_of_an_unusable_path(self) -> Iterator[None]:
        # A report that cannot be written is no reason to fail the run.
        try:
            yield
        except OSError as error:
            self._display.warning(f"report: {error.strerror}: {error.filename}")
