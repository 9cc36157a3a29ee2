# SPDX-License-Identifier: GPL-3.0-or-later
"""dataset-cache against a model: whatever is got, pinned, used, changed and evicted, in any order."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import CASES, Running, tree

SIZES = {"a": 100_000, "b": 200_000, "c": 300_000, "d": 400_000}
QUOTA = 750_000
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
NAMES = st.sampled_from(sorted(SIZES))


class Model(RuleBasedStateMachine):
    """What the tool has to have: for each source the version it has, who reads which path, and in which order they were used."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = contextlib.contextmanager(processes.place)()
        self.place = self.maker.__enter__()
        self.place.configure(quota=QUOTA)
        self.sources = {name: self.place.source(name) for name in SIZES}
        self.paths: dict[str, Path] = {}
        self.order: list[str] = []
        self.pinned: set[str] = set()
        self.readers: list[tuple[str, Path, Running, dict[bytes, Any]]] = []
        for name in SIZES:
            self.write(name)

    def teardown(self) -> None:
        self.maker.__exit__(None, None, None)

    def write(self, name: str) -> None:
        (self.sources[name] / "file").write_bytes(os.urandom(SIZES[name]))

    def used(self, name: str) -> None:
        self.order = [*(other for other in self.order if other != name), name]

    def kept(self, name: str) -> bool:
        return name in self.pinned or any(path == self.paths[name] for _name, path, _reader, _tree in self.readers)

    def follow(self, before: dict[str, Path]) -> None:
        """Remove from the model what was evicted: it has to be what was used longest ago, and nothing that had to stay."""
        cached = self.place.cached()
        gone = [name for name in self.order if name in before and name not in cached]
        free_to_go = [name for name in self.order if name in before and not self.kept(name)]
        assert gone == free_to_go[: len(gone)]
        for name in gone:
            del self.paths[name]
            self.order.remove(name)

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        before = {other: path for other, path in self.paths.items() if other != name}
        done = self.place.get(self.sources[name])
        if done.rc == 0:
            assert tree(done.path) == tree(self.sources[name])
            self.follow(before)
            self.paths[name] = done.path
            self.used(name)
            return
        assert done.rc == 5, done.err
        # It could not fit, even without all that may go; and then nothing went. A pinned copy stays until its successor is whole.
        stays = sum(SIZES[other] for other in self.paths if self.kept(other))
        stays += sum(
            SIZES[other]
            for other, _path in {(other, path) for other, path, _reader, _tree in self.readers}
            if other not in before
        )
        stays += sum(
            SIZES[other]
            for other, path in {(other, path) for other, path, _reader, _tree in self.readers}
            if other in before and path != before[other]
        )
        assert stays + SIZES[name] + 50_000 > QUOTA
        assert set(before) <= self.place.cached()

    @rule(name=NAMES)
    def change(self, name: str) -> None:
        self.write(name)

    @rule(name=NAMES)
    def pin(self, name: str) -> None:
        assert self.place.run("pin", self.sources[name]).rc == 0
        self.pinned.add(name)

    @rule(name=NAMES)
    def unpin(self, name: str) -> None:
        assert self.place.run("unpin", self.sources[name]).rc == (0 if name in self.pinned else 9)
        self.pinned.discard(name)

    @precondition(lambda self: self.paths and len(self.readers) < 3)
    @rule(data=st.data())
    def begin_to_read(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.paths)))
        if name in self.place.cached() and self.place.get(self.sources[name], "--offline").rc == 0:
            reader = self.place.start(
                "run", "--offline", self.sources[name], "--", "sh", "-c", "echo {}; exec sleep 1000"
            )
            processes.await_that(lambda: reader.read(0).endswith("\n"))
            path = Path(reader.read(0)[:-1])
            assert path == self.paths[name]
            self.readers.append((name, path, reader, tree(path)))
            self.used(name)

    @precondition(lambda self: self.readers)
    @rule()
    def end_reading(self) -> None:
        self.readers.pop(0)[2].kill()

    @rule(need=st.sampled_from([0, 1, 200_000, 500_000, 700_000]))
    def evict(self, need: int) -> None:
        before = dict(self.paths)
        done = self.place.run("evict", "--need", need)
        assert done.rc in (0, 5), done.err
        self.follow(before)
        if done.rc == 5:
            assert self.paths == before
        elif need:
            assert self.place.status()["used"] + need <= QUOTA

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        done = self.place.run("rm", self.sources[name])
        read = any(other == name for other, _path, _reader, _tree in self.readers)
        if name in self.pinned or read:
            assert done.rc == 8, done.err
        elif name in self.paths:
            assert done.rc == 0, done.err
            del self.paths[name]
            self.order.remove(name)

    @invariant()
    def holds(self) -> None:
        state = self.place.status()
        assert state["used"] <= QUOTA
        assert {Path(row["source"]).name for row in state["datasets"] if row["state"] == "whole"} == set(self.paths)
        for _name, path, _reader, content in self.readers:
            assert tree(path) == content
        assert self.place.leftovers() == []


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=max(4, CASES // 6), stateful_step_count=15, suppress_health_check=list(HealthCheck)
)
