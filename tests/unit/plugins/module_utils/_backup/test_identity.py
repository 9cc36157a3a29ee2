# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines of one name at one repository, with the real restic: neither lets the snapshots of the other go."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli, identity, restore, status
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.retention import Snapshot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.backup.hosts import Host, restic


@pytest.fixture
def host(tmp_path: Path) -> Host:
    prepared = Host(tmp_path, restic())
    prepared.init()
    (prepared.source / "file").write_text("first")
    return prepared


def be(host: Host, letter: str) -> None:
    """Make the host another machine of the same name."""
    host.write("machine_id", letter * 32 + "\n")


def test_snapshots_of_another_machine_fail_run_and_forget(host: Host) -> None:
    host.configure(job={"retention": {"last": 1}})
    assert host.do("run")["kind"] == "ok"
    be(host, "b")
    state = host.do("run")
    assert state["kind"] == "foreign"
    assert "another machine makes snapshots as ws" in state["words"]
    assert host.do("forget")["kind"] == "foreign"
    assert len(host.snapshots()) == 2


def test_adopted_machine_is_no_other_one(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.configure(job={"retention": {"last": 1}})
    host.do("run")
    be(host, "b")
    host.do("run")
    assert cli.act(argparse.Namespace(command="adopt", job="home"), host.place) == 0
    assert "2 snapshots are of this machine" in capsys.readouterr().out
    assert [host.do(verb)["kind"] for verb in ("run", "forget")] == ["ok", "ok"]
    assert len(host.snapshots()) == 1


def test_snapshots_under_the_former_name_are_found(host: Host) -> None:
    host.configure(job={"host": "localhost", "retention": {"last": 1}})
    host.do("run")
    old = host.snapshots()[0]
    host.configure(job={"host": "ws", "former_host": "localhost"})
    job = host.config.jobs["home"]
    assert restore.make_plan(job, host.open(), "latest", [], str(host.root / "to")).snapshot == old.id
    (host.source / "file").write_text("second")
    assert host.do("run")["kind"] == "ok"
    new = next(row for row in host.snapshots() if row.host == "ws")
    assert restore.make_plan(job, host.open(), "latest", [], str(host.root / "to")).snapshot == new.id
    assert restore.make_plan(job, host.open(), old.id, [], str(host.root / "to")).snapshot == old.id
    # Another machine may have made it: it goes only after the owner has said whose it is.
    assert host.do("forget")["kind"] == "ok"
    assert len(host.snapshots()) == 2
    cli.act(argparse.Namespace(command="adopt", job="home"), host.place)
    host.do("run")
    assert host.do("forget")["kind"] == "ok"
    assert [row.host for row in host.snapshots()] == ["ws"]


def of_former_name(host: Host) -> Finding | None:
    rows = status.findings(host.config, host.place, lambda *_words: (0, "active loaded"), False)
    return next((row for row in rows if row["id"] == "backup.former.home"), None)


@pytest.mark.parametrize("job", [{}, {"paths": [], "dumps": [{"name": "wiki", "command": ["echo", "x"]}]}])
def test_snapshots_that_never_expire_are_a_finding(host: Host, job: dict[str, Any]) -> None:
    host.configure(job={"host": "localhost", **job})
    host.do("run")
    host.configure(job={"host": "ws", "former_host": "localhost"})
    assert host.do("run")["kind"] == "ok"
    row = of_former_name(host)
    assert row and row["status"] == "warn" and "1 snapshots as localhost" in row["evidence"]
    assert "`rigwright-backup adopt home`" in row["remedy"]
    cli.act(argparse.Namespace(command="adopt", job="home"), host.place)
    assert of_former_name(host) is None


def test_snapshots_that_a_server_lets_go_are_no_finding(host: Host) -> None:
    host.configure(job={"host": "localhost"})
    host.do("run")
    host.configure(job={"host": "ws", "former_host": "localhost"}, repositories=[{"name": "disk", "append_only": True}])
    assert host.do("run")["kind"] == "ok" and of_former_name(host) is None


def test_damaged_record_of_adoptions_is_kept(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.do("run")
    path = host.write("state/adopted.json", '{"other": ["machine:')
    assert cli.main(["adopt", "home"], host.place) == 1
    assert f"{path} is damaged" in capsys.readouterr().err and path.read_text() == '{"other": ["machine:'


def rows(*machines: str) -> list[Snapshot]:
    tags = [("job:home", *([f"machine:{name}"] if name else [])) for name in machines]
    return [Snapshot(f"{number:08}", number, "ws", tag, ("/home",)) for number, tag in enumerate(tags)]


def test_job_for_another_host_takes_snapshots_of_one_machine(tmp_path: Path) -> None:
    place = dataclasses.replace(Place(), state=str(tmp_path), machine_id=str(tmp_path / "id"))
    job = Job("home", "disk", "ws")
    assert identity.problem(place, job, rows("one", "", "one")) == ""
    assert "another machine" in identity.problem(place, job, rows("one", "two"))


@given(st.lists(st.sampled_from(["", "own", "two", "three"]), max_size=6), st.sets(st.sampled_from(["two", "three"])))
def test_machine_is_alone_or_refused(machines: list[str], accepted: set[str]) -> None:
    """Whatever snapshots there are: with one of another machine, that nobody has adopted, there is a problem."""
    job = Job("home", "disk", "ws", paths=("/home",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "tag", lambda _place: "machine:own")
        patch.setattr(identity, "adopted", lambda _place, _job: frozenset(f"machine:{name}" for name in accepted))
        found = identity.problem(Place(), job, rows(*machines))
    assert bool(found) is bool({*machines} - {"", "own"} - accepted)
