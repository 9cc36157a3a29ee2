# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import identity, record
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job, Place, Target
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import State
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

from tests.unit.support.damage import DAMAGE

NOW = 1_800_000_000.0
HOUR = 3600


@pytest.fixture
def config(tmp_path: Path) -> Config:
    job = Job("home", "disk", "ws", ["/home"], retention={"last": 1})
    return Config(textfile_directory=str(tmp_path), repositories={"disk": Target("disk")}, jobs={"home": job})


def found(config: Config, state: State, verb: str = "run", configured: float = 0) -> Finding:
    rows = states.findings(config, {(verb, "home"): state}, NOW, configured)
    return rows[0]


def test_an_old_success_is_a_failed_finding(config: Config) -> None:
    fresh = found(config, {"kind": "ok", "last_success": NOW - 2 * HOUR, "snapshots": 7})
    assert (fresh["status"], fresh["evidence"]) == ("pass", "backed up 2 h ago, 7 snapshots")
    old = found(config, {"kind": "ok", "last_success": NOW - 40 * HOUR})
    assert (old["status"], old["evidence"]) == ("fail", "last backed up 40 h ago, more than 36")
    assert old["remedy"] == "run it now: `rigwright-backup run home`"
    assert found(config, {"kind": "ok", "last_success": NOW - 40 * HOUR}, "drill")["status"] == "pass"


def test_a_job_without_backup_warns_and_a_failure_has_a_reason(config: Config) -> None:
    assert found(config, {}, configured=NOW)["status"] == "warn"
    failed = found(config, {"kind": "source_missing", "words": "missing: /home", "last_success": NOW - 5 * HOUR})
    assert failed["status"] == "fail"
    assert failed["evidence"] == "the last run failed: missing: /home; last backed up 5 h ago"


def test_a_new_job_is_due_and_other_work_waits(config: Config) -> None:
    def status(verb: str, days: int) -> str:
        return found(config, {}, verb, configured=NOW - days * 24 * HOUR)["status"]

    assert [status("run", days) for days in (0, 2)] == ["warn", "fail"]
    assert [status("drill", days) for days in (0, 44, 46)] == ["skip", "skip", "fail"]


def test_limits_of_age_depend_on_timer_and_job(config: Config) -> None:
    old: Any = {"kind": "ok", "last_success": NOW - 1000 * HOUR}
    by_hand = replace(config, jobs={"home": replace(config.job("home"), schedule="")})
    assert found(by_hand, old)["status"] == "pass"
    assert (found(by_hand, {})["status"], found(by_hand, {})["evidence"]) == (
        "skip",
        "not yet backed up, and has no timer",
    )
    assert found(replace(config, schedules={"drill": ""}), old, "drill")["status"] == "pass"
    weekly = replace(config, jobs={"home": replace(config.job("home"), max_age_h=200)})
    assert found(weekly, {"kind": "ok", "last_success": NOW - 100 * HOUR})["status"] == "pass"
    assert found(weekly, old)["evidence"].endswith("more than 200")


def test_a_failure_before_a_new_configuration_is_a_warning(config: Config) -> None:
    failed: Any = {"kind": "uncovered", "words": "in no job: /mnt", "ended": NOW - HOUR}
    assert found(config, failed, configured=NOW - 2 * HOUR)["status"] == "fail"
    again = found(config, failed, configured=NOW)
    assert (again["status"], again["remedy"]) == ("warn", "run it again: `rigwright-backup run home`")


def test_a_success_in_the_future_is_a_clock_that_was_set_back(config: Config) -> None:
    row = found(config, {"kind": "ok", "last_success": NOW + 50 * HOUR})
    assert row["status"] == "fail" and "clock" in row["remedy"]


def test_every_failure_has_a_remedy_of_its_own() -> None:
    kinds = {*states.OWN_REMEDIES, *states.REMEDIES} - {"failed"}
    assert all(states.remedy(kind) != states.remedy("failed") for kind in kinds)


def test_a_failure_keeps_the_data_of_the_last_success(config: Config, tmp_path: Path) -> None:
    place = Place(state=str(tmp_path / "state"))
    states.save(config, place, "run", "home", {"kind": "ok", "exit_code": 0, "bytes_added": 10, "snapshot": "abc"}, NOW)
    state = states.save(config, place, "run", "home", {"kind": "locked", "exit_code": 1}, NOW + HOUR)
    assert (state["last_success"], state["snapshot"], state["ended"]) == (NOW, "abc", NOW + HOUR)
    text = (tmp_path / states.TEXTFILE).read_text()
    assert f'rigwright_backup_last_success_timestamp_seconds{{job="home"}} {NOW}' in text
    assert 'rigwright_backup_last_exit_code{job="home"} 1' in text
    assert 'rigwright_backup_last_success_timestamp_seconds{job="home"}' in text
    assert 'rigwright_backup_last_drill_success_timestamp_seconds{job="home"} 0' in text
    assert (tmp_path / states.TEXTFILE).stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_metrics_are_not_written_through_a_link(config: Config, tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "node").symlink_to("roots")
    place = Place(state=str(tmp_path / "state"))
    with pytest.raises(OSError, match="link"):
        states.save(
            replace(config, textfile_directory=str(tmp_path / "node")), place, "run", "home", {"kind": "ok"}, NOW
        )
    assert list((tmp_path / "roots").iterdir()) == []
    assert states.read_state(place, "run", "home")["last_success"] == NOW


def test_idle_runs_are_counted_from_the_first() -> None:
    state: Any = {}
    for hour, added in enumerate((5, 0, 0, 7, 0)):
        state = states.merge(state, {"kind": "ok", "bytes_added": added}, NOW + hour)
        assert state["unchanged_since"] == NOW + (0, 0, 0, 3, 3)[hour]


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_state_of_a_run_is_a_failure_and_stays(config: Config, tmp_path: Path, kind: str) -> None:
    place = Place(state=str(tmp_path))
    path = Path(states.path_of(place, "run", "home"))
    path.write_bytes(DAMAGE[kind](b'{"kind": "ok", "mounts": ["/"]}'))
    before = path.read_bytes()
    assert states.save(config, place, "run", "home", {"kind": "ok"}, NOW)["kind"] == "record"
    assert path.read_bytes() == before
    row = next(
        row for row in states.findings(config, states.read_states(config, place), NOW) if row["id"] == "backup.run.home"
    )
    assert row["status"] == "fail" and f"{path} is damaged" in row["evidence"] and "remove this file" in row["remedy"]


def test_damaged_state_of_a_check_is_a_failure_until_the_next(config: Config, tmp_path: Path) -> None:
    place = Place(state=str(tmp_path))
    Path(states.path_of(place, "check", "disk")).write_text('{"half')
    assert states.read_state(place, "check", "disk")["kind"] == "record"
    assert states.save(config, place, "check", "disk", {"kind": "ok"}, NOW)["kind"] == "ok"
    assert states.read_state(place, "check", "disk")["last_success"] == NOW


@contextlib.contextmanager
def umask_of_hardened_hosts() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("writer", ["state", "record", "adopted"])
def test_directory_of_states_is_open_to_all(config: Config, tmp_path: Path, writer: str, existed: bool) -> None:
    place = Place(state=str(tmp_path / "state"))
    with umask_of_hardened_hosts():
        if existed:
            (tmp_path / "state").mkdir()
        if writer == "state":
            states.save(config, place, "check", "disk", {"kind": "ok"}, NOW)
        elif writer == "record":
            record.write(f"{place.state}/repositories.json", {})
        else:
            identity.adopt(place, config.job("home"), [])
    assert (tmp_path / "state").stat().st_mode & 0o7777 == 0o755


def holds_for_user(check: Callable[[], bool]) -> bool:
    """Return what a check returns in a process of a user without root's rights."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            status = int(not check())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_closed_states_are_reported_and_count_as_none(config: Config) -> None:
    job = config.job("home")
    # Users cannot enter tmp_path.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place, missing = Place(state=f"{folder}/state"), Place(state=f"{folder}/missing")
        os.mkdir(place.state)
        states.save(config, place, "check", "disk", {"kind": "ok", "next_part": 3}, NOW)
        assert holds_for_user(lambda: states.closed(place) == states.closed(missing) == "")
        assert holds_for_user(lambda: states.read_state(place, "check", "disk")["next_part"] == 3)
        os.chmod(place.state, 0o700)
        assert holds_for_user(lambda: place.state in states.closed(place))
        assert holds_for_user(lambda: identity.adopted(place, job) == frozenset())
