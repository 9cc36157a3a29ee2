# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: The progress of a run by host and role
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - On a terminal, shows a table of the hosts while the play runs. A row has the role and the task of a host, the seconds of the task,
    and the changes of the role. Roles of this play that have ended are shown as far as the terminal has room.
  - Without a terminal, or where C(TERM) is V(dumb), shows one line for each host and role when the role ends on the host.
  - Tasks outside roles count as V((playbook)). Roles that a role includes count for the role that the play applies.
  - Shows what Ansible's own output shows without being asked, namely failed tasks and unreachable hosts, diffs, warnings, the messages of
    M(ansible.builtin.debug), and the recap. Failures that C(ignore_errors) ignores are left out.
  - Shows less than Ansible of a task with C(no_log). Ansible 2.21 shows the message of its error.
  - With C(-v), the output is Ansible's own.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - C(stdout_callback = rigwright.workstation.progress) in C(ansible.cfg)
seealso:
  - plugin: rigwright.workstation.report
    plugin_type: callback
    description: Ends the run with the findings.
"""

import atexit
import contextlib
import functools
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.utils.color import stringc
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.plugin_utils._progress import (
    OUTSIDE,
    Line,
    Progress,
    Task,
    installs_packages,
    is_live,
    is_rescued,
    role_of,
    width,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._shown import KEPT, Shown

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook import Playbook
    from ansible.playbook.included_file import IncludedFile
    from ansible.playbook.play import Play
    from ansible.utils.display import Display

_COLORS = {
    "ok": C.COLOR_OK,
    "changed": C.COLOR_CHANGED,
    "failed": C.COLOR_ERROR,
    "unreachable": C.COLOR_UNREACHABLE,
    "skipped": C.COLOR_SKIP,
    "interrupted": C.COLOR_WARN,
    "": None,
}
# Of a result, what its message says already, or what says nothing about its problem.
_LEFT_OUT = {
    *("changed", "failed", "unreachable", "censored", "start", "end", "delta", "stdout_lines", "stderr_lines"),
    *("ansible_loop_var", "item", "argument_spec_data", "validate_args_context"),
}
# The least time between drawings, and the most: the seconds of a task go on.
_FRAME_S = 0.2
_CLOCK_S = 1.0
_HIDE_CURSOR = "\x1b[?25l"
_SHOW_CURSOR = "\x1b[?25h"


class _Block:
    """Lines at the bottom of the terminal, which are drawn again and again below all that Ansible displays.

    The cursor is hidden within a write alone, so that a run that is killed or suspended leaves the terminal as it should be.
    """

    def __init__(self, display: Display, lines: Callable[[int, int], list[Line]]) -> None:
        self._display, self._lines = display, lines
        # Ansible forks its workers with this lock held, so no worker begins in the middle of a write.
        self._lock = display._lock
        self._process = os.getpid()
        self._widths: list[int] = []
        self._changed = self._paused = False
        self._unended = False
        self._ended = threading.Event()
        self._opened = contextlib.ExitStack()

    def open(self) -> None:
        self._opened.enter_context(self._wrapped("display", self._above))
        for prompt in ("prompt_until", "do_var_prompt"):
            self._opened.enter_context(self._wrapped(prompt, self._instead))
        # Ctrl-C is no event for callbacks; the thread must end with the process anyway.
        thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        thread.start()
        self._opened.callback(thread.join)
        self._opened.callback(self._ended.set)

    def close(self) -> None:
        self._opened.close()
        with self._lock:
            self._erase()

    def change(self) -> None:
        """Have the lines drawn soon. Events come in bursts, and each drawing takes time from them."""
        self._changed = True

    @contextlib.contextmanager
    def _wrapped(self, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
        method = getattr(self._display, name)

        @functools.wraps(method)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            # Workers send what they display to this process.
            if os.getpid() != self._process:
                return method(*args, **kwargs)
            return wrapper(method, *args, **kwargs)

        setattr(self._display, name, wrapped)
        try:
            yield
        finally:
            delattr(self._display, name)

    def _above(self, method: Callable[..., Any], msg: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("log_only"):
            return method(msg, *args, **kwargs)
        with self._lock:
            self._erase()
            result = method(msg, *args, **kwargs)
            self._unended = not (kwargs.get("newline", True) or msg.endswith("\n"))
            sys.stdout.flush()
            sys.stderr.flush()
            self._changed = True
        return result

    def _instead(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self._erase()
            self._paused = True
        try:
            return method(*args, **kwargs)
        finally:
            self._paused, self._changed = False, True

    def _watch(self) -> None:
        drawn = time.monotonic()
        # A terminal that is gone is no reason to fail the run.
        with contextlib.suppress(OSError, ValueError):
            while not self._ended.wait(_FRAME_S):
                if not self._paused and (self._changed or time.monotonic() - drawn >= _CLOCK_S):
                    with self._lock:
                        if not self._paused:
                            self._draw()
                    drawn = time.monotonic()

    def _draw(self) -> None:
        size = _terminal_size()
        # The cursor is in the line below the block.
        lines = self._lines(size.columns, size.lines - 1)
        before = "\n" if self._unended and lines else ""
        text = "".join(f"{_colored(line)}\x1b[K\n" for line in lines)
        above, self._widths = self._up(size.columns), [width(line.text) for line in lines]
        self._changed = self._unended = False
        self._write(f"{_HIDE_CURSOR}{before}{above}{text}\x1b[J{_SHOW_CURSOR}")

    def _erase(self) -> None:
        if self._widths:
            above, self._widths = self._up(_terminal_size().columns), []
            self._write(f"{above}\x1b[J{_SHOW_CURSOR}")

    def _up(self, columns: int) -> str:
        # A terminal that became narrower has broken the lines.
        rows = sum(max(1, -(-cells // columns)) for cells in self._widths)
        return f"\r\x1b[{rows}A" if rows else ""

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _terminal_size() -> os.terminal_size:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    # A serial line has no size.
    return os.terminal_size((size.columns or 80, size.lines or 24))


def _colored(line: Line) -> str:
    color = _COLORS[line.status]
    return stringc(line.text, color) if color else line.text


def _without_v(method: Callable[..., None]) -> Callable[..., None]:
    """Leave an event to Ansible's own output when the user gave `-v`."""

    @functools.wraps(method)
    def chosen(self: CallbackModule, *args: Any, **kwargs: Any) -> None:
        if self._display.verbosity > 0:
            getattr(Default, method.__name__)(self, *args, **kwargs)
        else:
            method(self, *args, **kwargs)

    return chosen


class CallbackModule(Shown, Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "rigwright.workstation.progress"

    def __init__(self) -> None:
        super().__init__()
        self._progress = Progress(began=time.monotonic())
        self._block: _Block | None = None
        # The strategy templates the name of a task for the start of the task only.
        self._names: dict[str, str] = {}
        # Ansible reports a failed item before it knows whether the task ignores failures.
        self._failed_items: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        self._subject = ""
        self._apart = True

    @_without_v
    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        super().v2_playbook_on_start(playbook)
        self._progress.show_skipped = self.get_option("display_skipped_hosts")
        if is_live(sys.stdout.isatty(), os.environ):
            self._block = _Block(self._display, lambda *room: self._progress.table(time.monotonic(), *room))
            self._block.open()
        # Ctrl-C, and an error of a playbook, end a run without an event.
        atexit.register(self._end_early)

    @_without_v
    def v2_playbook_on_play_start(self, play: Play) -> None:
        self._play = play
        mode = " (check mode)" if play.check_mode else ""
        self._note(self._progress.begin_play, f"{play.get_name().strip()}{mode}")

    @_without_v
    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._display.display(f"{self._play.get_name().strip()}: no hosts matched", color=C.COLOR_SKIP)

    @_without_v
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        self._names[task._uuid] = _name(task)

    @_without_v
    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._names[task._uuid] = _name(task)

    @_without_v
    def v2_playbook_on_include(self, included_file: IncludedFile) -> None:
        pass

    @_without_v
    def v2_runner_on_start(self, host: Host, task: Any) -> None:
        if not isinstance(task, TaskInclude):
            started = Task(self._name(task), role_of(task), installs_packages(task.action))
            self._note(self._progress.begin_task, host.get_name(), started, time.monotonic())

    @_without_v
    def v2_runner_retry(self, result: CallbackTaskResult) -> None:
        self._note(self._progress.retry, result.host.get_name(), result.result.get("attempts", 0) + 1)

    @_without_v
    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        if isinstance(result.task, TaskInclude):
            return
        self._end(result, "ok")
        self._handle_warnings(result.result)
        if not (result.task.loop and "results" in result.result):
            self._show_verbose(result)

    @_without_v
    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        if not isinstance(result.task, TaskInclude):
            self._end(result, "skipped")

    @_without_v
    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self._end(result, "ok" if ignore_errors else "rescued" if is_rescued(result.task) else "failed")
        self._handle_warnings(result.result)
        items = self._failed_items.pop((result.host.get_name(), result.task._uuid), [])
        if ignore_errors:
            return
        if _is_censored(result.result) or not items:
            self._show_problem(result, "FAILED", result.result, C.COLOR_ERROR)
            return
        for item in items:
            self._show_problem(result, "FAILED", item, C.COLOR_ERROR, item)

    @_without_v
    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        ignored = result.task.ignore_unreachable
        self._end(result, "ok" if ignored else "unreachable")
        self._handle_warnings(result.result)
        if not ignored:
            self._show_problem(result, "UNREACHABLE", result.result, C.COLOR_UNREACHABLE)

    @_without_v
    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        if not isinstance(result.task, TaskInclude):
            self._handle_warnings(result.result)
            self._show_verbose(result)

    @_without_v
    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        self._handle_warnings(result.result)
        self._failed_items.setdefault((result.host.get_name(), result.task._uuid), []).append(result.result)

    @_without_v
    def v2_runner_item_on_skipped(self, result: CallbackTaskResult) -> None:
        pass

    @_without_v
    def v2_runner_on_async_poll(self, result: CallbackTaskResult) -> None:
        pass

    @_without_v
    def v2_runner_on_async_ok(self, result: CallbackTaskResult) -> None:
        pass

    @_without_v
    def v2_runner_on_async_failed(self, result: CallbackTaskResult) -> None:
        pass

    @_without_v
    def v2_on_file_diff(self, result: CallbackTaskResult) -> None:
        subject = self._subject_of(result)
        # Ansible's own code shows the task once, before its first diff: `_print_task_banner`.
        if subject != self._subject:
            self._subject, self._last_task_banner = subject, None
        super().v2_on_file_diff(result)

    def _print_task_banner(self, task: Any) -> None:
        if self._display.verbosity > 0:
            super()._print_task_banner(task)
        else:
            self._last_task_banner = task._uuid
            self._display.display(f"{'' if self._apart else chr(10)}{shown(self._subject)}")
            self._apart = False

    @_without_v
    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        atexit.unregister(self._end_early)
        self._note(self._progress.end_play)
        self._close()
        super().v2_playbook_on_stats(stats)

    def _end_early(self) -> None:
        self._close()
        self._note(self._progress.interrupt, time.monotonic())
        sys.stdout.flush()

    def _close(self) -> None:
        if self._block:
            self._block.close()
            self._block = None

    def _note(self, event: Callable[..., list[Line] | None], *args: Any) -> None:
        """Take an event in, and show its lines where there is no table. Events come from several threads of Ansible."""
        with self._display._lock:
            lines = event(*args)
            for line in lines or ():
                # The table has it on the screen; the log has no table. A pipe is read while it grows.
                self._display.display(shown(line.text), color=_COLORS[line.status], log_only=bool(self._block))
            if self._block:
                self._block.change()
            elif lines:
                self._subject, self._apart = "", False
                sys.stdout.flush()

    def _end(self, result: CallbackTaskResult, status: str) -> None:
        host, role = result.host.get_name(), role_of(result.task)
        self._note(self._progress.end_task, host, role, status, result.is_changed(), time.monotonic())

    def _name(self, task: Any) -> str:
        return self._names.get(task._uuid) or _name(task)

    def _subject_of(self, result: CallbackTaskResult, item: Mapping[str, Any] | None = None) -> str:
        label = "" if item is None else f" (item={self._get_item_label(item)})"
        return f"{self.host_label(result)}, {role_of(result.task) or OUTSIDE}: {self._name(result.task)}{label}"

    def _show_verbose(self, result: CallbackTaskResult) -> None:
        """Show a result that Ansible shows without `-v`, as those of `debug`."""
        if not self._run_is_verbose(result):
            return
        self._clean_results(result.result, result.task.action)
        item = result.result if "ansible_loop_var" in result.result else None
        self._show_paragraph(f"{self._subject_of(result, item)}\n{self._message(result.result)}", C.COLOR_OK)

    def _show_problem(
        self,
        result: CallbackTaskResult,
        kind: str,
        values: Mapping[str, Any],
        color: str,
        item: Mapping[str, Any] | None = None,
    ) -> None:
        text = f"{kind} {self._subject_of(result, item)}\n{self._message(values)}"
        self._show_paragraph(text, color, stderr=self.get_option("display_failed_stderr"))

    def _show_paragraph(self, text: str, color: str, *, stderr: bool = False) -> None:
        """Show text between empty lines. As in Ansible's own output, nothing in it changes the terminal."""
        text = f"{'' if self._apart else chr(10)}{shown(text, keep=KEPT)}\n\n"
        self._display.display(text, color=color, stderr=stderr)
        self._subject, self._apart = "", True

    def _message(self, result: Mapping[str, Any]) -> str:
        """Return the message of a result with all its lines, and then the other values as Ansible would show them."""
        if _is_censored(result):
            # Not its exception, in which Ansible 2.21 leaves the message.
            return f"  {result.get('censored', 'the output is hidden, since the task has `no_log`')}"
        values = self._dump_results(result, serialize=False)
        message = values.pop("msg", "") if isinstance(values.get("msg"), str) else ""
        values = {
            name: value for name, value in values.items() if name not in _LEFT_OUT and value not in ("", [], None)
        }
        parts = textwrap.indent(message.strip("\n"), "  "), self._dump_results(values).strip("\n") if values else ""
        return "\n".join(filter(None, parts))


def _name(task: Any) -> str:
    return str(task.name or task.action)


def _is_censored(result: Mapping[str, Any]) -> bool:
    return "censored" in result or bool(result.get("_ansible_no_log"))
