# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore files: the plan, the refusals, and the restore, with the real restic."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import restore as restoring
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import ConfigError
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.retention import Snapshot

from tests.unit.support.backup.hosts import EACH_RESTIC, Host, fill, same


def at(text: str, identity: str) -> Snapshot:
    return Snapshot(identity, time.mktime(time.strptime(text, "%Y-%m-%d %H:%M")), "ws", (), ())


SNAPSHOTS = [at("2026-11-01 02:00", "aa11"), at("2026-11-02 02:00", "aa22"), at("2026-11-03 02:00", "bb33")]


@pytest.mark.parametrize(
    ("when", "identity"),
    [
        ("latest", "bb33"),
        ("2026-11-02", "aa22"),
        ("2026-11-02 01:59", "aa11"),
        ("2026-11-02T02:00", "aa22"),
        ("2030-01-01 00:00:00", "bb33"),
        ("aa22", "aa22"),
    ],
)
def test_the_snapshot_is_the_last_one_by_then(when: str, identity: str) -> None:
    assert restoring.choose(SNAPSHOTS, when).id == identity


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("taken", "fraction", "when"),
    [
        # As the plan and `snapshots` show it, without the fraction.
        ("2026-11-02 02:00:05", 0.9, "2026-11-02 02:00:05"),
        ("2026-11-02 02:00:59", 0.9, "2026-11-02 02:00"),
        # Days of 25 and of 23 hours.
        ("2026-10-25 23:59:59", 0.9, "2026-10-25"),
        ("2026-03-29 23:59:59", 0.9, "2026-03-29"),
    ],
)
def test_a_time_includes_its_whole_day_minute_or_second(taken: str, fraction: float, when: str) -> None:
    seconds = time.mktime(time.strptime(taken, "%Y-%m-%d %H:%M:%S"))
    within = Snapshot("aa11", seconds + fraction, "ws", (), ())
    after = Snapshot("bb22", seconds + 1, "ws", (), ())
    assert restoring.choose([within, after], when) == within


@pytest.mark.parametrize(
    ("when", "message"),
    [("2026-10-31", "the first is of 2026-11-01 02:00"), ("yesterday", "neither"), ("aa", "neither")],
)
def test_a_time_with_no_snapshot_is_refused(when: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        restoring.choose(SNAPSHOTS, when)
    with pytest.raises(ConfigError, match="has no snapshot"):
        restoring.choose([], "latest")


@pytest.mark.parametrize("restic", EACH_RESTIC)
def test_existing_files_are_replaced_only_on_request(tmp_path: Path, restic: Callable[[], str]) -> None:
    host = Host(tmp_path, restic())
    host.init()
    fill(host.source)
    host.do("run")
    job, opened = host.config.job("home"), host.open()

    plan = restoring.make_plan(
        job,
        opened,
        "latest",
        [str(host.source / "deep"), str(host.source / "odd\nname [x] *?\\ é")],
        str(tmp_path / "to"),
    )
    assert (plan.files, plan.conflicts, plan.unknown) == (2, 0, [])
    assert restoring.objection(plan, overwrite=False).message == ""
    assert restoring.carry_out(host.config, plan, opened, overwrite=False) == ("", 0)
    back = Path(f"{tmp_path}/to{host.source}")
    assert sorted(path.name for path in back.iterdir()) == ["deep", "odd\nname [x] *?\\ é"]
    assert same(host.source / "deep", back / "deep") == []

    (host.source / "plain").write_text("newer")
    plan = restoring.make_plan(job, opened, "latest", [str(host.source / "plain")], "/")
    assert plan.conflicting == [str(host.source / "plain")]
    assert "1 files are there already" in restoring.objection(plan, overwrite=False).message
    assert restoring.objection(plan, overwrite=True).message == ""
    assert restoring.carry_out(host.config, plan, opened, overwrite=True) == ("", 0)
    assert (host.source / "plain").stat().st_size == 200_000

    plan = restoring.make_plan(job, opened, "latest", ["/no/such"], "/")
    assert "nothing at /no/such" in restoring.objection(plan, overwrite=True).message
    assert json.dumps(plan.as_dict())


@pytest.fixture(params=EACH_RESTIC)
def each(request: pytest.FixtureRequest) -> str:
    return str(request.param())


@pytest.fixture
def backed_up(each: str, tmp_path: Path) -> Host:
    """Return a host with a backup of project/job and other."""
    host = Host(tmp_path, each)
    host.init()
    (host.source / "project").mkdir()
    (host.source / "project/job").write_text("content")
    (host.source / "other").write_text("other")
    host.do("run")
    return host


def plan(host: Host, *names: str, target: str = "/") -> restoring.Plan:
    paths = [str(host.source / name) for name in names]
    return restoring.make_plan(host.config.job("home"), host.open(), "latest", paths, target)


def carry_out(host: Host, planned: restoring.Plan, overwrite: bool = False) -> str:
    return restoring.carry_out(host.config, planned, host.open(), overwrite)[0]


def is_like(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mode, found.st_uid, found.st_mtime_ns


def test_directories_that_are_there_stay_as_they_are(backed_up: Host) -> None:
    (backed_up.source / "project/job").unlink()
    for folder, mode in ((backed_up.source, 0o711), (backed_up.source / "project", 0o750)):
        folder.chmod(mode)
        os.chown(folder, 1234, 4321)
        os.setxattr(folder, "user.comment", b"new")
        os.utime(folder, (5, 5))
    before = [is_like(folder) for folder in (backed_up.source, backed_up.source / "project")]
    planned = plan(backed_up, "project")
    assert restoring.objection(planned, overwrite=False).message == ""
    assert carry_out(backed_up, planned) == ""
    assert (backed_up.source / "project/job").read_text() == "content"
    assert [is_like(folder) for folder in (backed_up.source, backed_up.source / "project")] == before
    assert os.getxattr(backed_up.source, "user.comment") == b"new"

    assert carry_out(backed_up, plan(backed_up, "project"), overwrite=True) == ""
    assert is_like(backed_up.source) == before[0], "nobody asked for it"
    assert (backed_up.source / "project").stat().st_uid == 0, "it was asked for, and may be overwritten"


def test_a_link_in_the_place_of_a_directory_is_never_followed(backed_up: Host) -> None:
    elsewhere = backed_up.root / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(backed_up.source / "project")
    (backed_up.source / "project").symlink_to(elsewhere)
    planned = plan(backed_up, "project/job")
    assert planned.in_the_way == [str(backed_up.source / "project")]
    assert "restore to another place" in restoring.objection(planned, overwrite=True).message


def test_an_entry_of_another_type_is_never_replaced(backed_up: Host) -> None:
    shutil.rmtree(backed_up.source / "project")
    (backed_up.source / "project").write_text("precious")
    (backed_up.source / "other").unlink()
    (backed_up.source / "other").symlink_to("/etc/hostname")
    for name in ("project", "other"):
        planned = plan(backed_up, name)
        assert planned.in_the_way == [str(backed_up.source / name)]
        assert restoring.objection(planned, overwrite=True).message


def behind(host: Host, message: str, when: str = "restore") -> None:
    """Let a user do something at the moment at which restic begins to do something."""
    wrapper = host.write(
        "wrapper",
        f'#!/bin/sh\necho "$*" >> {host.root}/openings\ncase " $* " in *\' {when} \'*) {message};; esac\nexec {host.restic} "$@"\n',
    )
    wrapper.chmod(0o755)
    host.configure(program=str(wrapper))


def test_a_link_that_a_user_sets_meanwhile_is_not_followed(backed_up: Host) -> None:
    project, elsewhere = backed_up.source / "project", backed_up.root / "elsewhere"
    elsewhere.mkdir()
    (project / "job").unlink()
    behind(backed_up, f"mv {project} {project}.away; ln -s {elsewhere} {project}")
    planned = plan(backed_up, "project/job")
    assert restoring.objection(planned, overwrite=True).message == ""
    assert carry_out(backed_up, planned, overwrite=True) == f"{project}: something of another kind is there now"
    assert [*elsewhere.iterdir()] == [] and project.is_symlink()


def test_a_directory_that_becomes_a_link_is_not_followed(backed_up: Host) -> None:
    home, elsewhere = backed_up.root / "home", backed_up.root / "elsewhere"
    for folder in (home / "alice", elsewhere):
        folder.mkdir(parents=True)
    behind(backed_up, f"mv {home}/alice {home}/away; ln -s {elsewhere} {home}/alice")
    planned = plan(backed_up, "project", target=str(home / "alice"))
    with pytest.raises(OSError, match="is a link or no directory"):
        carry_out(backed_up, planned)
    assert [*elsewhere.iterdir()] == [] and [*(home / "away").iterdir()] == []


def test_a_file_that_comes_into_its_place_meanwhile_stays(backed_up: Host) -> None:
    job = backed_up.source / "project/job"
    job.unlink()
    behind(backed_up, f"echo newer > {job}")
    planned = plan(backed_up, "project")
    assert restoring.carry_out(backed_up.config, planned, backed_up.open(), overwrite=False) == ("", 1)
    assert job.read_text() == "newer\n"


def test_the_stage_is_private_and_removed(backed_up: Host) -> None:
    shutil.rmtree(backed_up.source / "project")
    os.chown(backed_up.source, 1234, 1234)
    before = is_like(backed_up.source)
    behind(backed_up, f"stat -c '%a %u' {backed_up.source}/.rigwright-restore-* > {backed_up.root}/seen")
    assert carry_out(backed_up, plan(backed_up, "project")) == ""
    assert (backed_up.root / "seen").read_text() == "700 0\n"
    assert sorted(os.listdir(backed_up.source)) == ["other", "project"] and is_like(backed_up.source) == before


def test_damage_keeps_other_files_and_a_lost_server_none(backed_up: Host) -> None:
    to = backed_up.root / "to"
    for stderr, exists in (("unable to open: connection refused", False), ("Fatal: There were 1 errors", True)):
        behind(backed_up, f'{backed_up.restic} "$@"; echo "{stderr}" >&2; exit 1')
        assert stderr in carry_out(backed_up, plan(backed_up, "other", target=str(to)))
        assert to.exists() is exists
    assert (to / str(backed_up.source)[1:] / "other").read_text() == "other"


def test_a_mount_below_a_restored_path_is_refused(backed_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    project = str(backed_up.source / "project")
    monkeypatch.setattr(restoring.os.path, "ismount", lambda place: place in ("/", project))
    (backed_up.source / "project/job").unlink()
    planned = plan(backed_up)
    assert planned.crossing == [project]
    assert f"{project}: another file system is mounted there" in restoring.objection(planned, overwrite=True).message
    assert restoring.objection(plan(backed_up, "project"), overwrite=True).message == ""
    assert plan(backed_up, target=str(backed_up.root / "to")).crossing == []


def test_the_repository_is_opened_once_for_the_plan(backed_up: Host) -> None:
    behind(backed_up, ":")
    (first,) = backed_up.snapshots()
    (backed_up.root / "openings").unlink()
    for when in ("latest", first.id):
        planned = restoring.make_plan(
            backed_up.config.job("home"), backed_up.open(), when, [], str(backed_up.root / "to")
        )
        assert (planned.snapshot, planned.files, planned.host) == (first.id, 2, "ws")
    openings = (backed_up.root / "openings").read_text().splitlines()
    assert [" ls " in line for line in openings if line != "version"] == [True, True]


def test_a_snapshot_of_another_job_is_refused(backed_up: Host) -> None:
    backed_up.ask("backup", "--host", "another", "--tag", "job:home", "--tag", "part:files", str(backed_up.source))
    other = next(row.id for row in backed_up.snapshots() if row.host == "another")
    assert plan(backed_up).snapshot != other
    with pytest.raises(ConfigError, match="is no snapshot of the files of home"):
        restoring.make_plan(backed_up.config.job("home"), backed_up.open(), other, [], "/")
    with pytest.raises(ConfigError, match="neither"):
        restoring.make_plan(backed_up.config.job("home"), backed_up.open(), "0" * 64, [], "/")
    backed_up.configure(job={"host": "nobody"})
    with pytest.raises(ConfigError, match="the job has no snapshot"):
        plan(backed_up)


def test_too_little_room_is_refused_before(backed_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(backed_up, target=str(backed_up.root / "to")).short_of == []
    monkeypatch.setattr(restoring.shutil, "disk_usage", lambda _place: shutil._ntuple_diskusage(100, 90, 10))
    planned = plan(backed_up, target=str(backed_up.root / "to"))
    assert planned.short_of == [f"{backed_up.root}: up to 12 bytes are needed, 10 are free"]
    assert "too little room" in restoring.objection(planned, overwrite=True).message
    assert restoring.objection(planned, overwrite=False, without_room=True).message == ""


def test_existing_files_with_odd_bytes_are_found(tmp_path: Path, each: str) -> None:
    host = Host(tmp_path, each)
    host.init()
    file, folder = (
        Path(os.fsdecode(os.fsencode(host.source) + name)) for name in (b"/nam\xff\xe2\x82.txt", b"/dir\xff")
    )
    file.write_text("old")
    folder.mkdir()
    (folder / "x").write_text("old")
    host.do("run")
    file.write_text("newer")
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/x").write_text("newer")

    planned = plan(host)
    assert (planned.conflicting, planned.conflicts) == ([str(folder / "x"), str(file)], 2)
    assert planned.in_the_way == [str(folder)]
    assert restoring.objection(planned, overwrite=True).message
    assert json.dumps(planned.as_dict(), ensure_ascii=False).encode(), "also a stream of UTF-8 alone takes it"
    planned = plan(host, target=str(tmp_path / "to"))
    assert (planned.conflicts, planned.in_the_way, planned.unknown) == (0, [], [])


def test_a_name_that_is_not_utf_8_is_restored(tmp_path: Path, each: str) -> None:
    host = Host(tmp_path, each)
    host.init()
    for name in (b"/nam\xff.txt", b"/nam.txt"):
        Path(os.fsdecode(os.fsencode(host.source) + name)).write_text("content")
    host.do("run")
    planned = plan(host, os.fsdecode(b"nam\xff.txt"), target=str(tmp_path / "to"))
    assert (planned.files, planned.unknown) == (1, [])
    assert carry_out(host, planned) == ""
    assert os.listdir(os.fsencode(f"{tmp_path}/to{host.source}")) == [b"nam\xff.txt"]
    missing = plan(host, os.fsdecode(b"other\xff"))
    assert restoring.objection(missing, overwrite=False).message


def test_a_path_within_another_one_is_found_too(backed_up: Host) -> None:
    planned = plan(backed_up, "project", "project/job", target=str(backed_up.root / "to"))
    assert (planned.unknown, planned.files) == ([], 1)
    assert carry_out(backed_up, planned) == ""
    assert os.listdir(f"{backed_up.root}/to{backed_up.source}/project") == ["job"]


def test_the_plan_names_where_a_link_leads_to(backed_up: Host) -> None:
    (backed_up.root / "real").mkdir()
    (backed_up.root / "link").symlink_to("real")
    planned = plan(backed_up, "other", target=str(backed_up.root / "link/./new/../to"))
    assert (planned.target, planned.through) == (str(backed_up.root / "real/to"), "")
    (backed_up.root / "round").symlink_to("round")
    with pytest.raises(ConfigError, match="lead to no directory"):
        plan(backed_up, "other", target=str(backed_up.root / "round"))


@pytest.mark.parametrize(
    ("owner", "folders", "mode", "trusted"),
    [
        (0, 0, 0o755, True),
        (0, 0, 0o1777, True),
        (1234, 0, 0o1777, False),
        (1234, 0, 0o755, False),
        (0, 1234, 0o755, False),
        (0, 0, 0o775, False),
        (0, 0, 0o757, False),
    ],
)
def test_a_link_of_other_users_is_not_followed_to_the_target(
    tmp_path: Path, owner: int, folders: int, mode: int, trusted: bool
) -> None:
    folder, first = tmp_path / "home", tmp_path / "first"
    folder.mkdir()
    (folder / "dst").symlink_to("/etc")
    first.symlink_to(folder / "dst")
    os.chown(folder / "dst", owner, owner, follow_symlinks=False)
    os.chown(folder, folders, folders)
    folder.chmod(mode)
    place, through = restoring.resolve(str(first / "ssl"))
    assert (place, through) == (os.path.realpath("/etc/ssl"), "" if trusted else str(folder / "dst"))
    planned = restoring.Plan("aa11", "", "ws", place, ["/"], through)
    against = restoring.objection(planned, overwrite=True)
    assert against.about == ("" if trusted else "target")
    assert trusted or f"if it is {place}" in against.message


def test_nothing_below_a_missing_directory_is_looked_up(backed_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    status, target, places = restoring._status, backed_up.root / "to", []

    def record(place: str) -> os.stat_result | None:
        places.append(place)
        return status(place)

    monkeypatch.setattr(restoring, "_status", record)
    assert plan(backed_up, target=str(target)).files == 2
    assert [place for place in places if place.startswith(f"{target}/")] == []
    (target / str(backed_up.source)[1:]).mkdir(parents=True)
    (target / str(backed_up.source)[1:] / "other").write_text("newer")
    planned = plan(backed_up, target=str(target))
    assert planned.conflicting == [f"{target}{backed_up.source}/other"]
    assert not [place for place in places if place.endswith("project/job")]
