# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and units as one transaction, with a fake systemd whose service reads a real file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    Transaction,
    sets_in_place,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system import systemd_run
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configure import Configure
from ansible_collections.rigwright.workstation.plugins.modules import config_files_apply

from tests.unit.support.units import FakeService
from tests.unit.support.units import service as service

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def configure(run_module: Run, service: FakeService) -> Run:
    def run(
        text: str, check: bool = False, absent: bool = False, checks: Sequence[str] = (), **unit: Any
    ) -> dict[str, Any]:
        path = str(service.file)
        service.verbs.clear()
        return run_module(
            config_files_apply,
            check=check,
            name="x",
            state="absent" if absent else "present",
            files=[] if absent else [{"path": path}],
            contents=json.dumps({"files": {} if absent else {path: text}, "secrets": []}),
            units=[{"name": "x.service", "enabled": True, "restart_on": [path], **unit}],
            checks=list(checks),
            settle=0,
        )

    return run


def test_files_come_before_the_unit_that_reads_them(configure: Run, service: FakeService) -> None:
    result = configure("good 1")
    assert (result["changed_paths"], result["actions"]) == ([str(service.file)], {"x.service": ["enable", "start"]})
    assert (service.state, service.loaded, service.enabled) == ("active", "good 1", True)


def test_the_second_run_calls_nothing(configure: Run, service: FakeService) -> None:
    configure("good 1")
    result = configure("good 1")
    assert (result["changed"], service.verbs) == (False, [])


def test_a_unit_that_fails_leaves_files_and_unit_as_before(configure: Run, service: FakeService) -> None:
    configure("good 1")
    result = configure("bad 2")
    assert result["failed"] and "x: bad line 1" in result["msg"]
    assert "Files and units are as they were before" in result["msg"]
    assert (service.file.read_text(), service.state, service.loaded) == ("good 1", "active", "good 1")
    assert configure("good 1")["changed"] is False


def test_a_unit_that_never_ran_is_stopped_and_disabled_again(configure: Run, service: FakeService) -> None:
    assert configure("bad 1")["failed"]
    assert (service.file.exists(), service.state, service.enabled) == (False, "inactive", False)


def test_a_unit_is_stopped_before_its_files_change(configure: Run, service: FakeService) -> None:
    configure("good 1")
    contents = []
    real = service.systemctl

    def systemctl(verb: str, *names: str) -> tuple[int, str, str]:
        if verb == "stop":
            contents.append(service.file.read_text())
        return real(verb, *names)

    service.systemctl = systemctl  # type: ignore[method-assign]
    result = configure("", absent=True, state="stopped", enabled=False)
    assert (contents, service.file.exists(), service.enabled) == (["good 1"], False, False)
    assert result["actions"] == {"x.service": ["stop", "disable"]}


def test_check_mode_announces_files_and_verbs_and_calls_none(configure: Run, service: FakeService) -> None:
    configure("good 1")
    result = configure("good 2", check=True)
    assert (result["changed"], result["actions"], service.verbs) == (True, {"x.service": ["restart"]}, [])
    assert service.file.read_text() == "good 1"
    assert [part["after"] for part in result["diff"]][-1] == "x.service: started (restart)\n"


def test_a_restart_that_has_to_wait_is_pending(configure: Run, service: FakeService) -> None:
    configure("good 1")
    result = configure("good 2", may_restart=False)
    assert (result["pending"], service.loaded) == (["x.service"], "good 1")


def test_rollback_loads_the_restored_unit_files_again(configure: Run, service: FakeService) -> None:
    configure("good 1")
    reloads = service.reloads
    # systemd says NeedDaemonReload=no here: it compares mtimes, and that of a restored file is older.
    assert configure("bad 2")["failed"]
    assert service.reloads == reloads + 1


def test_rollback_does_not_restart_what_was_only_reloaded(
    configure: Run, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(service.file)
    configure("good 1", restart_on=[], reload_on=[path])
    monkeypatch.setattr(Transaction, "finish", fail_with_full_disk)
    result = configure("good 2", restart_on=[], reload_on=[path])
    assert result["failed"] and service.file.read_text() == "good 1"
    assert service.verbs == ["reload", "reload"]


def fail_with_full_disk(_transaction: Transaction) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture
def interrupt(configure: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run once, and end it like kill -9 after the unit has started."""

    def run(text: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "finish", fail_with_full_disk)
            patch.setattr(Transaction, "rollback", lambda _transaction: None)
            patch.setattr(Configure, "_use_old", lambda _run: None)
            assert configure(text)["failed"]

    return run


def test_unit_of_an_interrupted_first_run_is_removed(
    configure: Run, service: FakeService, interrupt: Callable[[str], None], tmp_path: Path
) -> None:
    interrupt("good 1")
    assert service.state == "active" and service.enabled
    # Roles hand over the unit if the set is in place.
    assert sets_in_place(str(tmp_path / "store")) == ["x"]
    present = []
    real = service.systemctl

    def systemctl(verb: str, *names: str) -> tuple[int, str, str]:
        if verb in ("stop", "disable"):
            present.append(service.file.exists())
        return real(verb, *names)

    service.systemctl = systemctl  # type: ignore[method-assign]
    result = configure("", absent=True, state="stopped", enabled=False)
    # systemctl cannot tell that a unit is enabled once its file is away.
    assert (present, service.file.exists(), service.state, service.enabled) == ([True, True], False, "inactive", False)
    assert result["actions"] == {"x.service": ["stop", "disable"]}
    assert sets_in_place(str(tmp_path / "store")) == []


def test_recovered_unit_files_are_loaded_again(
    configure: Run, service: FakeService, interrupt: Callable[[str], None]
) -> None:
    configure("good 1")
    interrupt("good 2")
    reloads = service.reloads
    assert configure("good 1")["recovered"]
    assert (service.reloads, service.loaded) == (reloads + 1, "good 1")


def test_failure_with_unchanged_files_is_reported_as_it_is(
    configure: Run, service: FakeService, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("1")
    watched = [str(service.file), str(program)]
    configure("good 1", restart_on=watched)
    program.write_text("2")
    service.bad_program = True
    result = configure("good 1", restart_on=watched)
    assert result["failed"] and "these do not run with the old files either: x.service" in result["msg"]


def test_units_that_a_failed_check_has_ended_are_named(configure: Run, service: FakeService) -> None:
    configure("good 1")
    service.bad_program = True
    result = configure("good 2", checks=["false"], state="stopped")
    assert result["failed"] and "refused by `false`" in result["msg"]
    assert "do not run with the old files either: x.service" in result["msg"]


@pytest.mark.parametrize("state", ["started", "stopped"])
def test_refused_run_after_an_interrupted_one_starts_units(
    run_module: Run, configure: Run, service: FakeService, interrupt: Callable[[str], None], state: str
) -> None:
    configure("good 1")
    interrupt("good 2")
    paths = [str(service.file), f"{service.file.parent}/missing/x.toml"]
    result = run_module(
        config_files_apply,
        name="x",
        files=[{"path": path} for path in paths],
        contents=json.dumps({"files": dict.fromkeys(paths, "good 3"), "secrets": []}),
        units=[{"name": "x.service", "state": state}],
        settle=0,
    )
    assert result["failed"] and "no such directory" in result["msg"] and "Nothing was changed" not in result["msg"]
    assert "Files are as they were before the interrupted run" in result["msg"]
    # A unit that is to run is not touched: the next run restarts it.
    assert (service.file.read_text(), service.state) == ("good 1", "active")
    assert service.loaded == {"started": "good 2", "stopped": "good 1"}[state]


@pytest.mark.parametrize("states", [("started", "started"), ("started", "stopped")], ids=["same", "contradicting"])
def test_unit_that_is_listed_twice_is_refused(run_module: Run, service: FakeService, states: tuple[str, str]) -> None:
    result = run_module(
        config_files_apply,
        name="x",
        files=[{"path": str(service.file)}],
        contents=json.dumps({"files": {str(service.file): "good 1"}, "secrets": []}),
        units=[{"name": "x.service", "state": state} for state in states],
    )
    assert result["failed"] and "units are listed twice: x.service" in result["msg"]
    assert (service.file.exists(), service.verbs) == (False, [])


class Killed(BaseException):
    """kill -9: the process does nothing more."""


STEPS = (
    (Transaction, "stage"),
    (Transaction, "commit"),
    (Transaction, "finish"),
    (Transaction, "rollback"),
    (config_files_boot, "arm"),
    (config_files_boot, "disarm"),
    (systemd_run.Units, "_note"),
)


@contextmanager
def killed_before(number: int, service: FakeService) -> Iterator[list[str]]:
    """Kill the run before its nth step: a change of files, of a record, or of the unit. Yields the steps, the killed one last."""
    steps: list[str] = []

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            name_of_step = arguments[0] if name == "systemctl" else name
            if name_of_step != "show":
                steps.append(name_of_step)
                if len(steps) >= number:
                    raise Killed
            return real(*arguments)

        return step

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        for owner, name in STEPS:
            patch.setattr(owner, name, dying(name, getattr(owner, name)))
        patch.setattr(service, "systemctl", dying("systemctl", service.systemctl))
        yield steps


@pytest.mark.parametrize(
    ("before", "wanted", "then"),
    [
        pytest.param("", "good 1", "good 1", id="install"),
        pytest.param("", "good 1", "", id="install, then remove"),
        pytest.param("good 1", "good 2", "good 2", id="change"),
        pytest.param("good 1", "good 2", "good 1", id="change, then not"),
        pytest.param("good 1", "", "", id="remove"),
    ],
)
def test_run_killed_between_two_steps_is_completed(
    configure: Run,
    service: FakeService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    wanted: str,
    then: str,
) -> None:
    # Half of the time. The kernel writes what a killed process has not synced.
    monkeypatch.setattr(config_files_boot.bundle, "bundle", lambda _module: b"program")
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)

    def run(text: str) -> dict[str, Any]:
        return configure(text) if text else configure("", absent=True, state="stopped", enabled=False)

    for number in range(1, 100):
        run(before)
        with killed_before(number, service) as steps:
            run(wanted)
        if len(steps) < number:
            break
        service.age = 60
        run(then)
        found = service.file.read_text() if service.file.exists() else ""
        state = "active" if then else "inactive"
        assert (found, service.enabled, service.state) == (then, bool(then), state), steps
        assert not then or service.loaded == then, steps
        armed = [path for path in tmp_path.joinpath("root").rglob("*") if not path.is_dir()]
        assert (sets_in_place(str(tmp_path / "store")), armed) == (["x"] * bool(then), []), steps
        assert (run(then)["changed"], service.verbs) == (False, []), steps
    assert number > 7
