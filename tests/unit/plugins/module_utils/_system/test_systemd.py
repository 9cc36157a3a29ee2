# SPDX-License-Identifier: GPL-3.0-or-due
"""What has to be done about a unit, from what systemd says and what its files are."""

from __future__ import annotations

import dataclasses
import os

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system import systemd
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import (
    Status,
    Watched,
    earliest,
    needs_daemon_reload,
    note,
    parse_show,
    plan,
    read_watched,
    show,
    stale,
)
from hypothesis import given
from hypothesis import strategies as st

# `systemctl show` of systemd 252 (Debian 12): ssh runs and is asked for by its other name, its socket waits, the third is not there.
SHOWN = """\
Type=notify
NRestarts=3
Id=ssh.service
Names=ssh.service sshd.service
LoadState=loaded
ActiveState=active
SubState=running
DropInPaths=/etc/systemd/system/ssh.service.d/a.conf /etc/systemd/system/ssh.service.d/b.conf
UnitFileState=enabled
ActiveEnterTimestamp=Sat 2026-11-21 10:10:47 UTC
NeedDaemonReload=no
InvocationID=6f1c0ea4f4c4477d9b1f3a3ac2ec35d2

Listen=0.0.0.0:22 (Stream)
Listen=[::]:22 (Stream)
Id=ssh.socket
Names=ssh.socket
LoadState=loaded
ActiveState=inactive
SubState=dead
DropInPaths=
UnitFileState=disabled
ActiveEnterTimestamp=
NeedDaemonReload=yes
InvocationID=

NRestarts=0
Type=
Id=nothing.service
Names=nothing.service
LoadState=not-found
ActiveState=inactive
SubState=dead
DropInPaths=
UnitFileState=
ActiveEnterTimestamp=
NeedDaemonReload=no
InvocationID=
"""

RUNNING = Status("loaded", "active", "running", "enabled", False, "id", 0, 1000.0)
STOPPED = dataclasses.replace(RUNNING, active="inactive", sub="dead", started=0.0)


def status(**changes) -> Status:
    return dataclasses.replace(RUNNING, **changes)


def test_units_are_found_by_each_name_in_any_order():
    units = parse_show(SHOWN, ["nothing.service", "ssh.socket", "sshd.service"])
    assert [properties["Id"] for properties in units.values()] == [["nothing.service"], ["ssh.socket"], ["ssh.service"]]


def test_a_property_that_is_printed_several_times_is_a_list():
    assert parse_show(SHOWN, ["ssh.socket"])["ssh.socket"]["Listen"] == ["0.0.0.0:22 (Stream)", "[::]:22 (Stream)"]


def test_missing_unit_in_the_output_is_an_error():
    with pytest.raises(KeyError):
        parse_show(SHOWN, ["ssh.socket", "other.service"])


def test_the_answer_of_systemctl_is_read():
    units = {
        name: Status.of(properties) for name, properties in parse_show(SHOWN, ["ssh.service", "ssh.socket"]).items()
    }
    assert units["ssh.service"] == Status(
        "loaded",
        "active",
        "running",
        "enabled",
        False,
        "6f1c0ea4f4c4477d9b1f3a3ac2ec35d2",
        3,
        1795255847.0,
        names=("ssh.service", "sshd.service"),
        drop_ins=("/etc/systemd/system/ssh.service.d/a.conf", "/etc/systemd/system/ssh.service.d/b.conf"),
    )
    assert units["ssh.socket"].outdated and units["ssh.socket"].started == 0.0


ONESHOT = """\
Type=oneshot
RemainAfterExit=no
Result=success
NRestarts=0
ExecMainStartTimestamp=Sat 2026-11-21 10:10:47 UTC
ExecMainStatus=0
Id=check.service
Names=check.service
LoadState=loaded
ActiveState=inactive
SubState=dead
DropInPaths=
UnitFileState=enabled
ActiveEnterTimestamp=
NeedDaemonReload=no
InvocationID=6f1c0ea4f4c4477d9b1f3a3ac2ec35d2
"""


@pytest.mark.parametrize(
    ("was", "now", "ran"),
    [
        ("", "", True),
        ("RemainAfterExit=no", "RemainAfterExit=yes", False),
        ("Result=success", "Result=exit-code", False),
        ("ExecMainStatus=0", "ExecMainStatus=1", False),
        ("ExecMainStartTimestamp=Sat 2026-11-21 10:10:47 UTC", "ExecMainStartTimestamp=", False),
        ("Type=oneshot", "Type=simple", False),
        ("ActiveState=inactive", "ActiveState=activating", False),
    ],
)
def test_oneshot_unit_has_run_if_it_succeeded(was, now, ran):
    shown = parse_show(ONESHOT.replace(was, now) if was else ONESHOT, ["check.service"])["check.service"]
    assert (Status.of(shown).ran, Status.of(shown).started) == (ran, 1795255847.0 if ran else 0.0)


@pytest.fixture
def drop_in(tmp_path):
    """Create a drop-in on the disk, in a folder of one of the names of the unit."""
    path = tmp_path / "sshd.service.d/limits.conf"
    path.parent.mkdir()
    path.write_text("[Service]\n")
    return str(path)


@pytest.mark.parametrize(
    ("is_loaded", "changes", "needed"),
    [
        pytest.param(True, {}, False, id="read"),
        pytest.param(False, {}, True, id="not read, and systemd does not say so"),
        pytest.param(True, {"outdated": True}, True, id="systemd says so"),
        pytest.param(False, {"names": ("cron.service",)}, False, id="of another unit"),
        pytest.param(False, {"load": "not-found"}, False, id="of a unit that is not installed"),
    ],
)
def test_unread_drop_in_needs_a_daemon_reload(tmp_path, drop_in, is_loaded, changes, needed):
    ssh = status(**{"names": ("ssh.service", "sshd.service"), "drop_ins": (drop_in,) if is_loaded else (), **changes})
    assert needs_daemon_reload(ssh, str(tmp_path)) is needed


def test_other_files_next_to_drop_ins_do_not_count(tmp_path, drop_in):
    os.rename(drop_in, f"{drop_in}.off")
    assert not needs_daemon_reload(status(names=("sshd.service",)), str(tmp_path))


def unit(**changes):
    return {"name": "x.service", "state": "started", "enabled": None, "restart_on": [], "reload_on": [], **changes}


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
def test_loaded_files_of_a_unit_are_compared_with_the_disk(now, loaded, expected):
    assert stale(RUNNING, {"/a": now}, loaded) == expected


@pytest.mark.parametrize(
    ("coming", "expected"),
    [
        ([], []),
        (["/etc/frp/frps.toml"], ["/etc/frp/frps.toml"]),
        (["/etc/frp/conf.d/a.toml"], ["/etc/frp/conf.d"]),
        (["/etc/frp/conf.d"], ["/etc/frp/conf.d"]),
        (["/etc/frp", "/etc/frp/frps.toml.d/a", "/etc/frp/conf.d2"], []),
    ],
)
def test_changes_of_check_mode_count_as_changed(coming, expected):
    watched = {"/etc/frp/frps.toml": Watched("same", 900.0), "/etc/frp/conf.d": Watched("same", 900.0)}
    loaded = {path: entry.digest for path, entry in watched.items()}
    assert stale(RUNNING, watched, loaded, coming) == expected


@pytest.mark.parametrize(
    ("loaded", "noted"),
    [
        pytest.param({"/a": "old", "/b": "old"}, {"/a": "old", "/b": "new"}, id="as it was noted"),
        pytest.param({}, {"/b": "new"}, id="still judged by its time"),
    ],
)
def test_a_postponed_file_is_not_recorded_as_loaded(loaded, noted):
    watched = {"/a": Watched("new", 1100.0), "/b": Watched("new", 1100.0)}
    assert note(watched, loaded, held_back=["/a"]) == noted
    assert stale(RUNNING, watched, noted) == ["/a"]


NOW, BOOT = 1_000_000.0, 900_000.0


@pytest.mark.parametrize(
    ("wall", "monotonic", "started"),
    [
        pytest.param(NOW - 50, NOW - 49.6 - BOOT, NOW - 49.6, id="the fraction of a second"),
        pytest.param(NOW - 50 + 8 * 3600, NOW - 50 - BOOT, NOW - 50, id="the clock was set back since"),
        pytest.param(NOW - 8 * 3600, NOW - 50 - BOOT, NOW - 8 * 3600, id="the clock was set forward, or it slept"),
        pytest.param(NOW - 50, 0.0, NOW - 50, id="no monotonic time"),
        pytest.param(9e9, 0.0, 0.0, id="in the future, which is unknown"),
        pytest.param(0.0, 0.0, 0.0, id="never"),
    ],
)
def test_start_of_a_unit_by_the_clock_of_now(wall, monotonic, started):
    assert earliest(wall, monotonic, BOOT) == pytest.approx(started)


def test_start_counts_from_the_main_process(monkeypatch):
    monkeypatch.setattr(systemd.time, "time", lambda: NOW)
    monkeypatch.setattr(systemd.time, "monotonic", lambda: NOW - BOOT)
    enter, process = 999_990.9, 999_990.2
    properties = {
        **dict.fromkeys(("LoadState", "SubState", "UnitFileState", "NeedDaemonReload", "InvocationID"), ""),
        "ActiveState": "active",
        "Names": "x.service",
        "DropInPaths": "",
        "ActiveEnterTimestamp": "Mon 1970-01-12 13:46:30 UTC",
        "ActiveEnterTimestampMonotonic": f"{(enter - BOOT) * 1e6:.0f}",
        "ExecMainStartTimestamp": "Mon 1970-01-12 13:46:30 UTC",
        "ExecMainStartTimestampMonotonic": f"{(process - BOOT) * 1e6:.0f}",
    }
    status = Status.of({key: [value] for key, value in properties.items()})
    assert status.started == pytest.approx(process)
    assert stale(status, {"/a": Watched("new", process + 0.3)}, {}) == ["/a"]
    assert stale(status, {"/a": Watched("new", process - 0.1)}, {}) == []


ACTIVE = ["active", "reloading", "inactive", "failed", "activating", "deactivating"]
ENABLEMENT = ["enabled", "enabled-runtime", "disabled", "static", "indirect", "alias", "generated", "linked", ""]
PATHS = st.lists(st.just("/etc/a"), max_size=1)


def obeyed(verbs, now, restart_for, reload_for):
    """Return the unit after systemctl has run the verbs."""
    effects = {
        "enable": {"enabled": "enabled"},
        "disable": {"enabled": "disabled"},
        "start": {"active": "active"},
        "restart": {"active": "active"},
        "reload": {"active": "active"},
        "stop": {"active": "inactive"},
    }
    for verb in verbs:
        now = dataclasses.replace(now, **effects[verb])
    due = not {"start", "restart"} & set(verbs) and now.running
    return now, restart_for if due else [], reload_for if due and "reload" not in verbs else []


@given(
    wanted=st.builds(unit, state=st.sampled_from(["started", "stopped"]), enabled=st.sampled_from([None, True, False])),
    now=st.builds(status, active=st.sampled_from(ACTIVE), enabled=st.sampled_from(ENABLEMENT)),
    restart_for=PATHS,
    reload_for=PATHS,
)
def test_second_run_of_a_plan_does_nothing(wanted, now, restart_for, reload_for):
    verbs = plan(wanted, now, restart_for, reload_for)
    then, *due = obeyed(verbs, now, restart_for, reload_for)
    assert then.running is (wanted["state"] == "started")
    if wanted["enabled"] is not None:
        fixed = ["static", "indirect", "alias", "generated"]  # nothing that enable or disable could change
        assert then.enabled in fixed or then.enabled.startswith("enabled") is wanted["enabled"]
    assert plan(wanted, then, *(due if wanted["state"] == "started" else ([], []))) == []


def test_directory_changes_with_its_visible_files(tmp_path):
    (tmp_path / "a.toml").write_text("1")
    first = read_watched(str(tmp_path)).digest
    (tmp_path / ".rigwright.a.toml").mkdir()
    assert read_watched(str(tmp_path)).digest == first
    (tmp_path / "b.toml").write_text("2")
    assert read_watched(str(tmp_path)).digest != first


def test_link_changes_with_its_target(tmp_path):
    link, versions = tmp_path / "program", [tmp_path / "1.0", tmp_path / "1.1"]
    for version in versions:
        version.write_text("program")
    digests = []
    for version in versions:
        link.unlink(missing_ok=True)
        os.symlink(version, link)
        digests.append(read_watched(str(link)).digest)
    (tmp_path / "repaired").write_text("program")
    os.replace(tmp_path / "repaired", versions[1])
    digests.append(read_watched(str(link)).digest)
    assert len(set(digests)) == 3


def test_show_reads_several_units_at_once() -> None:
    calls = []

    def run(command, **options):
        calls.append(command)
        return (
            0,
            "Id=a.service\nNames=a.service\nActiveState=active\n\nId=b.service\nNames=b.service c.service\nActiveState=failed\n",
            "",
        )

    shown = show(run, ["a.service", "c.service"], ["ActiveState"])
    assert {name: unit["ActiveState"] for name, unit in shown.items()} == {
        "a.service": ["active"],
        "c.service": ["failed"],
    }
    assert calls == [["systemctl", "show", "--property=Id,Names,ActiveState", "a.service", "c.service"]]


def test_show_of_no_unit_runs_nothing() -> None:
    assert show(lambda *_words, **_options: 1 / 0, [], ["ActiveState"]) == {}
