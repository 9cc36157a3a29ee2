# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run several modules of Ansible in one: Python and what they share are loaded once, and each has a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import functools
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


class Failed(Exception):
    """No module could be run."""


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
        found = self._compiled.get(fullname)
        # Not compiled: its error, for the modules that import it.
        return self.source_to_code(self.get_source(fullname), f"<{fullname}>") if found is None else found

    def _read_compiled(self, path: str) -> dict[str, CodeType]:
        """Return the compiled sources, from a file below a directory of root, or make it."""
        text = json.dumps(self._sources, sort_keys=True).encode()
        key = importlib.util.MAGIC_NUMBER + hashlib.sha256(text).digest()
        texts = {**dict.fromkeys(self._packages, ""), **self._sources}
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError), open(path, "rb") as file:
            head, digest, code = file.read(len(key)), file.read(hashlib.sha256().digest_size), file.read()
            # Damaged code would end Python itself.
            is_whole = head == key and hashlib.sha256(code).digest() == digest
            found = marshal.loads(code) if is_whole else None  # noqa: S302 - a file of root
            if isinstance(found, dict) and found.keys() == texts.keys():
                return found
        compiled: dict[str, CodeType] = {}
        for name, source in texts.items():
            with contextlib.suppress(SyntaxError):
                compiled[name] = self.source_to_code(source, f"<{name}>")
        if os.geteuid() == 0:
            # Without the file, as when /run is full, the next run compiles again.
            with contextlib.suppress(OSError):
                os.makedirs(COMPILED, mode=0o700, exist_ok=True)
                code = marshal.dumps(compiled)
                replace_file(path, key + hashlib.sha256(code).digest() + code, mode=0o600)
        return compiled


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:depth]) for depth in range(1, len(parts)))


def run_all(sources: Mapping[str, str], calls: Mapping[str, Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    """Run each module of *calls* with its arguments, some at the same time, and return the results.

    All happens in a process of its own: that of Mitogen goes on, and is to know nothing of these modules.

    :param sources: those of the modules and of what they import, by full name.
    :raises Failed: none could be run.
    """
    outcome = _Process("role_modules", lambda: print(json.dumps({"by_module": _run_each(sources, calls)}))).result()
    if "by_module" not in outcome:
        raise Failed(outcome["msg"])
    return t.cast("dict[str, dict[str, t.Any]]", outcome["by_module"])


def _run_each(sources: Mapping[str, str], calls: Mapping[str, Mapping[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    # What starts a module again with another Python knows this one only.
    respawn.respawn_module = _need_another_python
    sys.meta_path.insert(0, Sources(sources, next(iter(calls), "").rpartition("_")[2]))
    results: dict[str, dict[str, t.Any]] = {}
    running: list[tuple[str, _Process]] = []

    def finish(count: int) -> None:
        while len(running) > count:
            name, process = running.pop(0)
            results[name] = process.result()

    for name, arguments in calls.items():
        imported = _Guard()
        with imported:
            main = importlib.import_module(f"{MODULES}.{name}").main
        if imported.failure:
            results[name] = imported.failure
            continue
        finish(AT_ONCE - 1)
        running.append((name, _Process(name, functools.partial(_serve, name, main, arguments))))
    finish(0)
    return {name: results[name] for name in calls}


class _NeedsAnotherPython(BaseException):
    pass


def _need_another_python(_interpreter: str) -> t.NoReturn:
    raise _NeedsAnotherPython


class _Guard:
    """Turns the exception that ends a module into its result, whatever it is: the other modules go on."""

    def __init__(self) -> None:
        self.failure: dict[str, t.Any] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, _NeedsAnotherPython):
            self.failure = ALONE
        elif error is not None and not isinstance(error, SystemExit):
            text = "".join(traceback.format_exception(error))
            self.failure = {"failed": True, "msg": f"{type(error).__name__}: {error}", "exception": text}
        return True


class _Process:
    """A process of its own, whose result is the last line of JSON that it prints."""

    def __init__(self, name: str, main: t.Callable[[], None]) -> None:
        # Not a pipe: a process that a module leaves behind would keep it open.
        self._printed = open(os.memfd_create(name), "w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = os.fork()
        if self._process == 0:
            try:
                self._run(main)
            finally:
                os._exit(0)

    def _run(self, main: t.Callable[[], None]) -> None:
        atexit._clear()
        sys.stdout = self._printed
        ended = _Guard()
        with ended:
            main()
        if ended.failure:
            print(f"\n{json.dumps(ended.failure)}")
        atexit._run_exitfuncs()
        self._printed.flush()

    def result(self) -> dict[str, t.Any]:
        """Wait for the end, and return the result."""
        _, status = os.waitpid(self._process, 0)
        with self._printed as file:
            file.seek(0)
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found
        return {"failed": True, "msg": f"the module ended without a result (status {status})"}


def _serve(name: str, main: t.Callable[[], None], arguments: Mapping[str, t.Any]) -> None:
    given = {**_internal(), "_ansible_module_name": f"rigwright.workstation.{name}", **arguments}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
    main()


def _internal() -> dict[str, t.Any]:
    """Return what Ansible hands to each module besides its arguments, such as check mode."""
    given = json.loads(basic._ANSIBLE_ARGS or b"{}").get("ANSIBLE_MODULE_ARGS", {})
    return {name: value for name, value in given.items() if name.startswith("_ansible_")}
