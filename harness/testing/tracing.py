"""Record which files of the checkout each test file opens: a plugin of pytest, for the check of the selection (`selection.misses`).

Programs that a test starts are not seen, nor what it lists without opening it. Imports are left out: which test imports a file first
is chance, and the selection follows imports without running.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox.lab import ROOT

READS = ROOT / ".cache/test/reads"


class Trace:
    """The files that tests have opened, by test file; an audit hook stays as long as the interpreter."""

    def __init__(self) -> None:
        self.test = ""
        self.reads: dict[str, set[str]] = {}
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.test or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.path.normpath(os.fspath(arguments[0])) if isinstance(os.fspath(arguments[0]), str) else ""
        name = path.removeprefix(f"{ROOT}/")
        # Python imports sources with `rb`, and compiled files, which only a second run finds, with `r`.
        if name.endswith(".pyc") or (arguments[1] == "rb" and name.endswith(".py")):
            return
        # The links of collections/ lead to the same files.
        name = name.removeprefix("collections/ansible_collections/rigwright/workstation/")
        if path.startswith(f"{ROOT}/") and not name.startswith("."):
            self.reads.setdefault(self.test, set()).add(name)

    def enter(self, path: Path) -> None:
        self.test = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(), "rigwright-reads")


class Recorder:
    """Names to the trace the test file that is collected or run."""

    def __init__(self) -> None:
        self.trace = Trace()

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if isinstance(collector, pytest.Module):
            self.trace.enter(collector.path)

    def pytest_collectreport(self) -> None:
        # What follows may load the conftest.py of another directory.
        self.trace.test = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.trace.enter(item.path)

    def pytest_sessionfinish(self) -> None:
        self.trace.test = ""
        READS.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        reads = {test: sorted(names) for test, names in self.trace.reads.items() if Path(test).name.startswith("test_")}
        (READS / f"{worker}.json").write_text(json.dumps(reads))


def recorded() -> dict[str, list[str]]:
    """Return what the last run has recorded, of all its processes."""
    found: dict[str, set[str]] = {}
    for path in READS.glob("*.json"):
        for test, names in json.loads(path.read_text()).items():
            found.setdefault(test, set()).update(name for name in names if (ROOT / name).is_file())
    return {test: sorted(names) for test, names in found.items()}
