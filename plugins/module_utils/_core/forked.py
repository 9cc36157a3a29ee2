# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run several modules of Ansible in one: Python and what they share are loaded once, and each has a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import marshal
import os
import sys
import traceback
import typing as t

from ansible.module_utils import basic
from ansible.module_utils.common import respawn
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, ModuleType

MODULES = "ansible_collections.rigwright.workstation.plugins.modules"
# Gone after a reboot, as the notes of configured sets are.
COMPILED = "/run/rigwright/compiled"
# Clients of services wait more than they compute.
AT_ONCE = 4
# The result of a module that has to be started by itself.
ALONE = {"alone": True}


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from their sources, which came with the request, as they were compiled by an earlier run of the same request."""

    def __init__(self, sources: Mapping[str, str], name: str) -> None:
        self._sources = sources
        self._packages = {parent for source in sources for parent in _parents(source)}
        self._compiled = self._read_compiled(f"{COMPILED}/{name}")

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

    def get_code(self, fullname: str) -> CodeType:
        return self._compiled[fullname]

    def _read_compiled(self, path: str) -> dict[str, CodeType]:
        """Return the compiled sources, from a file below a directory of root, or make it."""
        text = json.dumps(self._sources, sort_keys=True).encode()
        key = importlib.util.MAGIC_NUMBER + hashlib.sha256(text).digest()
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError), open(path, "rb") as file:
            if file.read(len(key)) == key:
                return t.cast("dict[str, CodeType]", marshal.load(file))  # noqa: S302 - a file of root
        texts = {**dict.fromkeys(self._packages, ""), **self._sources}
        compiled = {name: self.source_to_code(source, f"<{name}>") for name, source in texts.items()}
        if os.geteuid() == 0:
            os.makedirs(COMPILED, mode=0o700, exist_ok=True)
            replace_file(path, key + marshal.dumps(compiled), mode=0o600)
        return compiled


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:depth]) for depth in range(1, len(parts)))


def run_all(sources: Mapping[str, str], calls: Mapping[str, Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """Run each module of *calls* with its arguments, some at the same time, and return the results.

    :param sources: those of the modules and of what they import, by full name.
    """
    # What starts a module again with another Python knows this one only.
    respawn.respawn_module = _need_another_python
    finder = Sources(sources, next(iter(calls), "").rpartition("_")[2])
    sys.meta_path.insert(0, finder)
    entries = {name: importlib.import_module(f"{MODULES}.{name}").main for name in calls}
    running: list[_Running] = []
    results: dict[str, dict[str, t.Any]] = {}
    for name, entry in entries.items():
        if len(running) == AT_ONCE:
            results.update([running.pop(0).result()])
        running.append(_Running(name, entry, calls[name]))
    results.update(each.result() for each in running)
    return {name: results[name] for name in calls}


class _NeedsAnotherPython(BaseException):
    pass


def _need_another_python(_interpreter: str) -> t.NoReturn:
    raise _NeedsAnotherPython


class _Running:
    """A module in a process of its own."""

    def __init__(self, name: str, main: t.Callable[[], None], arguments: Mapping[str, t.Any]) -> None:
        self._name = name
        # Not a pipe: a process that a module leaves behind would keep it open.
        self._result = open(os.memfd_create(name), "w+", encoding="utf-8")  # noqa: SIM115
        self._process = os.fork()
        if self._process == 0:
            try:
                _serve(main, arguments, self._result)
            finally:
                os._exit(0)

    def result(self) -> tuple[str, dict[str, t.Any]]:
        """Wait for the end, and return the name and the result of the module."""
        _, status = os.waitpid(self._process, 0)
        with self._result as file:
            file.seek(0)
            lines = file.read().splitlines()
        if not lines:
            return self._name, {"failed": True, "msg": f"the module ended without a result (status {status})"}
        return self._name, json.loads(lines[-1])


class _Ending:
    """Prints the result of a module that ends with an exception, whatever it is: the other modules go on."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, _NeedsAnotherPython):
            print(f"\n{json.dumps(ALONE)}")
        elif error is not None and not isinstance(error, SystemExit):
            text = "".join(traceback.format_exception(error))
            print(f"\n{json.dumps({'failed': True, 'msg': f'{type(error).__name__}: {error}', 'exception': text})}")
        return True


def _serve(main: t.Callable[[], None], arguments: Mapping[str, t.Any], result: t.TextIO) -> None:
    atexit._clear()
    sys.stdout = result
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {**_internal(), **arguments}}).encode()
    with _Ending():
        main()
    atexit._run_exitfuncs()
    result.flush()


def _internal() -> dict[str, t.Any]:
    """Return what Ansible hands to each module besides its arguments, such as check mode."""
    given = json.loads(basic._ANSIBLE_ARGS or b"{}").get("ANSIBLE_MODULE_ARGS", {})
    return {name: value for name, value in given.items() if name.startswith("_ansible_")}
