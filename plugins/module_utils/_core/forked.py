# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the work of several roles in one module: Python and what they share are loaded once, and each has a process of its own."""

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

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import NeedsPython
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Call, JsonObject

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, ModuleType

# Gone after a reboot, as the notes of configured sets are.
COMPILED = "/run/rigwright/compiled"
# Clients of services wait more than they compute.
AT_ONCE = 4
# The key of a result that is none: the work needs the Python that the key names, and to be started by itself.
ALONE = "alone"


class Failed(Exception):
    """Nothing could be run."""


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from their sources, which came with the request, as they were compiled by an earlier run of the same request."""

    def __init__(self, sources: Mapping[str, str], name: str) -> None:
        self._sources = sources
        self._packages = {parent for source in sources for parent in _parents(source)}
        # Another Python of the host compiles for itself.
        self._compiled = self._read_compiled(f"{COMPILED}/{name}.{sys.implementation.cache_tag}")

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


def run_all(
    sources: Mapping[str, str], entry: str, calls: Mapping[str, Call], module: t.Any, name: str
) -> dict[str, JsonObject]:
    """Do the work of each call, some at the same time, and return the results as JSON has them.

    All happens in a process of its own: that of Mitogen goes on, and is to know nothing of what is imported.

    :param sources: those of *entry* and of what it imports, by full name.
    :param entry: has ``load(call, module)``, which returns the work of a call.
    :param name: that of these sources; they are compiled once for it.
    :raises Failed: no work could be done.
    """
    outcome = _Process("role", lambda: {"results": _run_each(sources, entry, calls, module, name)}).result()
    if "results" not in outcome:
        raise Failed(outcome["msg"])
    return t.cast("dict[str, JsonObject]", outcome["results"])


def _run_each(
    sources: Mapping[str, str], entry: str, calls: Mapping[str, Call], module: t.Any, name: str
) -> dict[str, JsonObject]:
    sys.meta_path.insert(0, Sources(sources, name))
    load = importlib.import_module(entry).load
    results: dict[str, JsonObject] = {}
    running: list[tuple[str, _Process]] = []

    def finish(count: int) -> None:
        while len(running) > count:
            key, process = running.pop(0)
            results[key] = process.result()

    for key, call in calls.items():
        loading = _Guard()
        with loading:
            work = load(call, module)
        if loading.failure:
            results[key] = loading.failure
            continue
        finish(AT_ONCE - 1)
        running.append((key, _Process(key, work)))
    finish(0)
    return {key: results[key] for key in calls}


class _Guard:
    """Turns the exception that ends a work into its result, whatever it is: the others go on."""

    def __init__(self) -> None:
        self.failure: JsonObject = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, NeedsPython):
            self.failure = {ALONE: error.path}
        elif error is not None and not isinstance(error, SystemExit):
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            self.failure = {"failed": True, "msg": f"{type(error).__name__}: {error}", "exception": text}
        return True


class _Process:
    """A process of its own; its result is the last line of JSON that it prints."""

    def __init__(self, name: str, work: t.Callable[[], JsonObject]) -> None:
        # Not a pipe: a process that the work leaves behind would keep it open.
        self._printed = open(os.memfd_create(name), "w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = os.fork()
        if self._process == 0:
            try:
                self._run(work)
            finally:
                os._exit(0)

    def _run(self, work: t.Callable[[], JsonObject]) -> None:
        atexit._clear()
        sys.stdout = self._printed
        ended = _Guard()
        with ended:
            print(f"\n{json.dumps(work())}")
        if ended.failure:
            print(f"\n{json.dumps(ended.failure)}")
        # Before the callbacks: one that fails (Python 3.9 raises its exception here), or ends the process, loses no result.
        self._printed.flush()
        atexit._run_exitfuncs()

    def result(self) -> JsonObject:
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
        return {"failed": True, "msg": f"the role ended without a result (status {status})"}
