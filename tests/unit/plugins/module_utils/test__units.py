# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done about a unit, from what systemd says and what its files are."""

from __future__ import annotations

import dataclasses
import os

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._units import (
    Status,
    Watched,
    look_at,
    parse_show,
    plan,
    stale,
)

# `systemctl show` of systemd 252 (Debian 12): frps runs, the second unit does not exist.
SHOWN = """\
Id=frps.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
NeedDaemonReload=no
InvocationID=6f1c0ea4f4c4477d9b1f3a3ac2ec35d2
NRestarts=3
ActiveEnterTimestamp=Sat 2026-11-21 10:10:47 UTC
Type=simple

Id=nothing.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
NeedDaemonReload=no
InvocationID=
NRestarts=0
ActiveEnterTimestamp=
Type=
"""

RUNNING = Status("loaded", "active", "running", "enabled", False, "id", 0, 1000.0)
STOPPED = dataclasses.replace(RUNNING, active="inactive", sub="dead", started=0.0)


def status(**changes) -> Status:
    return dataclasses.replace(RUNNING, **changes)


def test_the_answer_of_systemctl_is_read():
    units = parse_show(SHOWN, ["frps.service", "nothing.service"])
    assert units["frps.service"] == Status(
        "loaded", "active", "running", "enabled", False, "6f1c0ea4f4c4477d9b1f3a3ac2ec35d2", 3, 1795255847.0
    )
    assert units["nothing.service"].load == "not-found" and units["nothing.service"].started == 0.0


def unit(**changes):
    return {"name": "x.service", "state": "started", "enabled": None, **changes}


@pytest.mark.parametrize(
    ("wanted", "now", "restart_for", "reload_for", "verbs"),
    [
        pytest.param(unit(), RUNNING, [], [], [], id="as it should be"),
        pytest.param(unit(), STOPPED, [], [], ["start"], id="stopped"),
        pytest.param(unit(enabled=True), status(enabled="disabled"), [], [], ["enable"], id="not enabled"),
        pytest.param(unit(enabled=True), status(enabled="static"), [], [], [], id="static needs no enabling"),
        pytest.param(unit(), RUNNING, ["/etc/a"], ["/etc/b"], ["restart"], id="a restart reads everything"),
        pytest.param(unit(), RUNNING, [], ["/etc/b"], ["reload"], id="a reload is enough"),
        pytest.param(unit(), STOPPED, ["/etc/a"], [], ["start"], id="a start reads everything"),
        pytest.param(unit(), status(active="activating", sub="auto-restart"), [], [], ["restart"], id="crashing"),
        pytest.param(unit(), status(active="failed"), [], [], ["start"], id="failed"),
        pytest.param(unit(state="stopped", enabled=False), RUNNING, [], [], ["stop", "disable"], id="to be stopped"),
        pytest.param(
            unit(state="stopped", enabled=False), status(active="inactive", enabled=""), [], [], [], id="no unit"
        ),
    ],
)
def test_only_the_verbs_that_are_needed(wanted, now, restart_for, reload_for, verbs):
    assert plan(wanted, now, restart_for, reload_for) == verbs


@pytest.mark.parametrize(
    ("now", "loaded", "expected"),
    [
        pytest.param(Watched("new", 900.0), {"/a": "new"}, [], id="loaded"),
        pytest.param(Watched("new", 900.0), {"/a": "old"}, ["/a"], id="another one was loaded"),
        pytest.param(Watched("same", 1100.0), {"/a": "same"}, [], id="touched, the same content"),
        pytest.param(Watched("new", 900.0), {}, [], id="started after the last change"),
        pytest.param(Watched("new", 1100.0), {}, ["/a"], id="changed after the start"),
        pytest.param(Watched("missing", 0.0), {"/a": "old"}, ["/a"], id="removed"),
    ],
)
def test_what_a_unit_has_loaded_is_compared_with_what_is_there(now, loaded, expected):
    assert stale(RUNNING, {"/a": now}, loaded) == expected


def test_a_directory_changes_with_the_files_in_it_and_not_with_hidden_ones(tmp_path):
    (tmp_path / "a.toml").write_text("1")
    first = look_at(str(tmp_path)).digest
    (tmp_path / ".rigwright.a.toml").mkdir()
    assert look_at(str(tmp_path)).digest == first
    (tmp_path / "b.toml").write_text("2")
    assert look_at(str(tmp_path)).digest != first


def test_a_link_changes_with_the_version_that_it_leads_to_and_with_a_repaired_one(tmp_path):
    link, versions = tmp_path / "program", [tmp_path / "1.0", tmp_path / "1.1"]
    for version in versions:
        version.write_text("program")
    digests = []
    for version in versions:
        link.unlink(missing_ok=True)
        os.symlink(version, link)
        digests.append(look_at(str(link)).digest)
    (tmp_path / "repaired").write_text("program")
    os.replace(tmp_path / "repaired", versions[1])
    digests.append(look_at(str(link)).digest)
    assert len(set(digests)) == 3
