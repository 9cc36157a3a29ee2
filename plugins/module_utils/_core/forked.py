# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run several modules of Ansible in one: Python and what they share are loaded once, and each has a process of its own."""

from __future__ import annotations

import atexit
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
import typing as t

from ansible.module_utils import basic
from ansible.module_utils.common import respawn

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

MODULES = "ansible_collections.rigwright.workstation.plugins.modules"
# The result of a module that has to be started by itself.
ALONE = {"alone": True}


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from their sources, which came with the request."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._packages = {
            name.rpartition(".")[0] for source in sources for name in _with_parents(source) if "." in name
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname not in self._sources and fullname not in self._packages:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages

    def get_source(self, fullname: str) -> str:
        return self._sources.get(fullname, "")


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def run_all(sources: Mapping[str, str], calls: Mapping[str, Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """Run each module of *calls* with its arguments, and return the results.

    :param sources: those of the modules and of what they import, by full name.
    """
    # What starts a module again with another Python knows this one only.
    respawn.respawn_module = _need_another_python
    finder = Sources(sources)
    sys.meta_path.insert(0, finder)
    try:
        entries = {name: importlib.import_module(f"{MODULES}.{name}").main for name in calls}
    finally:
        sys.meta_path.remove(finder)
    return {name: _run(entry, calls[name], finder) for name, entry in entries.items()}


class _NeedsAnotherPython(BaseException):
    pass


def _need_another_python(_interpreter: str) -> t.NoReturn:
    raise _NeedsAnotherPython


def _run(main: t.Callable[[], None], arguments: Mapping[str, t.Any], finder: Sources) -> dict[str, t.Any]:
    """Run a module in a process of its own, which also ends it if it waits for one that it has started."""
    # Not a pipe: a process that a module leaves behind would keep it open.
    with open(os.memfd_create("result"), "w+", encoding="utf-8") as result:
        child = os.fork()
        if child == 0:
            try:
                _serve(main, arguments, finder, result)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        result.seek(0)
        lines = result.read().splitlines()
    if not lines:
        return {"failed": True, "msg": f"the module ended without a result (status {status})"}
    return t.cast("dict[str, t.Any]", json.loads(lines[-1]))


def _serve(main: t.Callable[[], None], arguments: Mapping[str, t.Any], finder: Sources, result: t.TextIO) -> None:
    atexit._clear()
    sys.meta_path.insert(0, finder)
    sys.stdout = result
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {**_internal(), **arguments}}).encode()
    try:
        main()
    except SystemExit:
        pass
    except _NeedsAnotherPython:
        print(json.dumps(ALONE))
    except Exception as error:
        failure = {"failed": True, "msg": f"{type(error).__name__}: {error}", "exception": traceback.format_exc()}
        print(f"\n{json.dumps(failure)}")
    atexit._run_exitfuncs()
    result.flush()


def _internal() -> dict[str, t.Any]:
    """Return what Ansible hands to each module besides its arguments, such as check mode."""
    given = json.loads(basic._ANSIBLE_ARGS or b"{}").get("ANSIBLE_MODULE_ARGS", {})
    return {name: value for name, value in given.items() if name.startswith("_ansible_")}
