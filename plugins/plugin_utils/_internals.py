# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that depends on private parts of ansible-core, behind one switch: the option ``internals`` of the callback report.

Switched off, or where an ansible-core does not have a part, everything works: modules are not counted, the error about an argument of a
role ends with its argument spec, and each worker loads its plugins itself. Only `hidden_output`, which keeps secrets, has no switch.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any

from ansible import constants as C
from ansible.plugins import loader
from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import ModuleRun

# Any filter: Ansible looks for it in all files with filters of its collection.
FILTER = "rigwright.workstation.release"
LOOKUPS = ("rigwright.workstation.unknown_variables", "ansible.builtin.template")

Note = Callable[[Any], ModuleRun]


class Internals:
    """What the callback has from private parts of ansible-core, from the start of a run to its end."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._open = contextlib.ExitStack()
        self._journal = self._open.enter_context(_journal())
        self._starters: list[Any] = []

    def start(self) -> None:
        self._count_in(ActionBase)
        self._open.enter_context(_argument_specs_left_out())
        preload()

    def start_play(self, strategy: str) -> None:
        self._count_in(_starter_of_mitogen(strategy))

    def end(self) -> list[ModuleRun]:
        """Return what was noted of each module that was started."""
        self._journal.seek(0)
        runs = [json.loads(line) for line in self._journal]
        self._open.close()
        return runs

    def _count_in(self, starter: Any | None) -> None:
        if hasattr(starter, "_execute_module") and starter not in self._starters:
            self._starters.append(starter)
            self._open.enter_context(_module_runs_noted(starter, self._journal, self._note))


@contextlib.contextmanager
def _journal() -> Iterator[IO[bytes]]:
    """Give a file to which workers append, which are forked later and inherit it open."""
    with tempfile.TemporaryFile() as journal:
        fcntl.fcntl(journal, fcntl.F_SETFL, os.O_APPEND)
        yield journal


@contextlib.contextmanager
def _module_runs_noted(starter: Any, journal: IO[bytes], note: Note) -> Iterator[None]:
    """Note each module that actions start, in whichever process: a line of JSON in the journal.

    Ansible reports tasks to a callback, not modules, and an action plugin may start none or several. All of them go
    through one method of *starter*, in workers that are forked after it is wrapped.
    """
    execute = starter._execute_module

    @functools.wraps(execute)
    def noted(self: ActionBase, *args: Any, **kwargs: Any) -> JsonObject:
        # Ansible's own actions give task_vars by name; an action that gives none is counted under no host's name.
        task_vars = kwargs.get("task_vars") or {}
        run: ModuleRun = {**note(self._task), "host": task_vars.get("inventory_hostname", "unknown host")}
        os.write(journal.fileno(), json.dumps(run).encode() + b"\n")
        result: JsonObject = execute(self, *args, **kwargs)
        return result

    starter._execute_module = noted
    try:
        yield
    finally:
        starter._execute_module = execute


def _starter_of_mitogen(strategy: str) -> Any | None:
    """Return what starts modules under a strategy of Mitogen; it comes before Ansible's own."""
    if not strategy.rpartition(".")[2].startswith("mitogen"):
        return None
    try:
        return importlib.import_module("ansible_mitogen.mixins").ActionModuleMixin
    except ImportError:
        return None


@contextlib.contextmanager
def _argument_specs_left_out() -> Iterator[None]:
    """Let the error about a role's argument end with the error, not with pages of the role's argument spec."""
    dump = CallbackBase._dump_results

    @functools.wraps(dump)
    def shortened(self: CallbackBase, result: JsonObject, *args: Any, **kwargs: Any) -> str:
        if "argument_spec_data" in result and self._display.verbosity == 0:
            result = {"msg": result["msg"]}
        return dump(self, result, *args, **kwargs)

    CallbackBase._dump_results = shortened
    try:
        yield
    finally:
        CallbackBase._dump_results = dump


def preload() -> None:
    """Load plugins into the process from which Ansible forks a worker for each task and host.

    What cannot be loaded fails in the task that needs it.
    """
    loads = (
        partial(loader.filter_loader.get, FILTER),
        partial(loader.test_loader.get, "ansible.builtin.defined"),
        *(partial(loader.lookup_loader.get, name, class_only=True) for name in LOOKUPS),
        partial(loader.connection_loader.get, C.DEFAULT_TRANSPORT, class_only=True),
        partial(loader.become_loader.get, C.DEFAULT_BECOME_METHOD, class_only=True),
        partial(loader.shell_loader.get, "ansible.builtin.sh", class_only=True),
    )
    for load in loads:
        # A third-party plugin may raise any exception when it is imported.
        with contextlib.suppress(Exception):
            load()


@contextlib.contextmanager
def hidden_output(connection: Any) -> Iterator[None]:
    """Keep a connection from showing the output of programs, as ssh and winrm of ansible-core do with -vvv.

    They ask the play context that is theirs, which no attribute of a task but `no_log` changes: that would hide errors, too.
    """
    context: Any = getattr(connection, "_play_context", None)
    if not hasattr(context, "no_log"):
        yield
        return
    before, context.no_log = context.no_log, True
    try:
        yield
    finally:
        context.no_log = before
