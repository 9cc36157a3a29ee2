# SPDX-License-Identifier: GPL-3.0-or-later
"""Which requests of config_files a plan finds carried out, with a real set of files and the fake systemd of test_configure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._system import configured
from ansible_collections.rigwright.workstation.plugins.modules import config_files_apply

from tests.unit.support.units import FakeService
from tests.unit.support.units import service as service

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def configure(run_module: Run, service: FakeService) -> Run:
    def run(text: str = "good", digest: str = "d", **options: Any) -> dict[str, Any]:
        path = str(service.file)
        watched = str(service.file.parent / "watched")
        unit = {"name": "x.service", "enabled": True, "restart_on": [path, watched], **options.pop("unit", {})}
        return run_module(
            config_files_apply,
            name="x",
            directories=[{"path": str(service.file.parent / "folder")}],
            files=[{"path": path}],
            contents=json.dumps({"files": {path: text}, "secrets": [], "digest": digest}),
            units=[unit],
            settle=0,
            **options,
        )

    return run


@pytest.fixture
def found(tmp_path: Path, service: FakeService) -> Callable[..., dict[str, str]]:
    def run(role: str = "x") -> dict[str, str]:
        return configured.configured_sets(
            lambda command, **_options: service.systemctl(*command[1:]), role, str(tmp_path / "store")
        )

    return run


Found = Callable[..., dict[str, str]]


def test_a_request_is_found_carried_out(configure: Run, found: Found) -> None:
    assert found() == {}
    for _run in range(2):
        configure()
        assert (found(), found("other")) == ({"x": "d"}, {})


def etc(service: FakeService, name: str) -> Path:
    return service.file.parent / name


def open_transaction(service: FakeService) -> None:
    store = service.file.parents[1] / "store/y"
    store.mkdir()
    (store / "journal.json").write_text("{}")


def edit_manifest(service: FakeService) -> None:
    manifest = Path(Store("x", str(service.file.parents[1] / "store")).manifest)
    manifest.write_text(manifest.read_text() + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda service: service.file.write_text("GOOD"),
        lambda service: service.file.chmod(0o600),
        lambda service: os.chown(service.file, 1, -1),
        lambda service: service.file.unlink(),
        lambda service: service.file.rename(etc(service, "y")) and service.file.symlink_to("y"),
        lambda service: etc(service, "folder").chmod(0o777),
        lambda service: etc(service, "folder").rmdir(),
        lambda service: etc(service, "watched").write_text("new"),
        lambda service: setattr(service, "state", "inactive"),
        lambda service: setattr(service, "state", "failed"),
        lambda service: setattr(service, "enabled", False),
        lambda service: setattr(service, "invocation", 9),
        open_transaction,
        edit_manifest,
        lambda service: (service.file.parents[1] / "configured/x.json").write_text("{"),
        lambda service: (service.file.parents[1] / "configured/x.json").write_text('{"state": 1}'),
    ],
)
def test_any_change_since_is_noticed(
    configure: Run, found: Found, service: FakeService, change: Callable[[FakeService], object]
) -> None:
    configure()
    change(service)
    assert found() == {}


def test_a_failed_run_leaves_no_note(configure: Run, found: Found) -> None:
    configure()
    assert configure("bad", "d2")["failed"]
    assert found() == {}


def test_a_held_back_restart_leaves_no_note(configure: Run, found: Found, service: FakeService) -> None:
    configure()
    etc(service, "watched").write_text("new")
    assert configure(unit={"may_restart": False})["pending"] == ["x.service"]
    assert found() == {}


def test_a_reload_for_another_set_removes_the_note(run_module: Run, found: Found, service: FakeService) -> None:
    """As for fail2ban: one set adds a jail and reloads, and the jail goes again without a reload."""
    jails = etc(service, "jails")
    jails.mkdir()

    def configure(name: str, text: str | None, units: bool = True) -> dict[str, Any]:
        path = str(jails / name)
        return run_module(
            config_files_apply,
            name=name,
            state="present" if text else "absent",
            files=[{"path": path}] if text else [],
            contents=json.dumps({"files": {path: text} if text else {}, "secrets": [], "digest": "d" if text else ""}),
            units=[{"name": "x.service", "reload_on": [str(jails)]}] if units else [],
            settle=0,
        )

    configure("x", "jail")
    assert found() == {"x": "d"}
    assert configure("y", "jail")["actions"] == {"x.service": ["reload"]}
    configure("y", None, units=False)
    assert found() == {}
    assert configure("x", "jail")["actions"] == {"x.service": ["reload"]}


def test_a_unit_that_systemd_has_to_read_again_leaves_no_note(
    configure: Run, found: Found, service: FakeService
) -> None:
    show, systemctl = service.show, service.systemctl
    service.show = lambda: show().replace("NeedDaemonReload=no", "NeedDaemonReload=yes")  # type: ignore[method-assign]
    configure()
    assert found() == {}
    service.show, service.systemctl = show, systemctl  # type: ignore[method-assign]
    configure()
    assert found() == {"x": "d"}


def test_a_unit_of_recovery_that_was_left_is_noticed(
    configure: Run, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure()
    (tmp_path / "recover.service").touch()
    monkeypatch.setattr(configured, "RECOVERY_UNIT", str(tmp_path / "recover.service"))
    assert found() == {}


def test_a_request_without_a_digest_leaves_no_note(configure: Run, found: Found) -> None:
    configure()
    configure(digest="")
    assert found() == {}


def test_what_changes_during_a_run_is_noticed(configure: Run, found: Found, service: FakeService) -> None:
    configure()
    real = service.systemctl

    def systemctl(verb: str, *names: str) -> tuple[int, str, str]:
        if verb == "show":
            service.file.write_text("by hand")
        return real(verb, *names)

    service.systemctl = systemctl  # type: ignore[method-assign]
    configure()
    assert found() == {}


def test_only_root_reads_the_notes(configure: Run, tmp_path: Path) -> None:
    configure()
    assert (tmp_path / "configured").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "configured/x.json").stat().st_mode & 0o777 == 0o600
