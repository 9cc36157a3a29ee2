# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a job with the real restic in a temporary directory: what is kept, and what is reported after each failure."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import identity
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.job import finish
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import probe
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import machine as machines
from ansible_collections.rigwright.workstation.plugins.module_utils._system import servers

from tests.unit.support import dead_server
from tests.unit.support.backup.hosts import (
    EACH_RESTIC,
    MOUNTS,
    PASSWORD,
    Host,
    empty_repository,
    fill,
    flip_a_byte,
    restic,
    run,
    same,
)


@pytest.fixture(params=EACH_RESTIC)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Return a host with a repository and files, not backed up yet."""
    prepared = Host(tmp_path, request.param())
    prepared.init()
    fill(prepared.source)
    return prepared


def test_two_runs_restore_all_attributes_bit_for_bit(host: Host) -> None:
    first = host.do("run")
    assert (first["kind"], first["exit_code"], first["snapshots"]) == ("ok", 0, 1)
    (host.root / "copy").mkdir()
    before = host.restored(first["snapshot"], "first")
    assert same(host.source, Path(f"{before}{host.source}")) == []
    assert os.path.samefile(f"{before}{host.source}/linked", f"{before}{host.source}/the same")

    (host.source / "plain").write_text("changed")
    second = host.do("run")

    again = host.restored(first["snapshot"], "again")
    assert same(before, again) == []
    assert same(host.source, Path(f"{host.restored(second['snapshot'])}{host.source}")) == []
    assert host.metric("snapshots") == 2
    assert host.metric("last_success_timestamp_seconds") == pytest.approx(time.time(), abs=60)
    assert (host.root / "textfile/rigwright_backup.prom").stat().st_mode & 0o777 == 0o644


def test_a_drill_passes_and_leaves_no_files(host: Host) -> None:
    host.do("run")
    finding = host.do("drill")
    assert (finding["kind"], finding["words"]) == ("ok", "")
    sample = json.loads((host.root / "state/sample-home.json").read_text())
    names = {name.rpartition("/")[2] for name in sample["files"]}
    assert {"capable", "shared", "program", "sparse", "dangling", "fifo", "odd\nname [x] *?\\ é"} <= names
    assert sample["files"][str(host.source / "linked")]["links"] == [str(host.source / "the same")]
    assert (host.root / "state/sample-home.json").stat().st_mode & 0o777 == 0o600
    assert not (host.root / "cache/drill-home").exists()
    assert host.metric("drill_exit_code") == 0


# --- Failures: what was lost (nothing), and how it is reported ---


@pytest.fixture
def alone(tmp_path: Path) -> Host:
    """Return such a host with one version of restic only, for what does not depend on restic."""
    prepared = Host(tmp_path, restic())
    prepared.init()
    (prepared.source / "file").write_text("first")
    return prepared


def finding(host: Host, verb: str = "run") -> Finding:
    rows = states.findings(host.config, states.read_states(host.config, host.place), time.time())
    return next(row for row in rows if row["id"].startswith(f"backup.{verb}."))


def whole(host: Host, snapshot: str, to: str = "later") -> Path:
    """Return the files of the job as a snapshot has them."""
    return Path(f"{host.restored(snapshot, to)}{host.source}")


def test_a_missing_source_makes_no_snapshot_and_is_reported(alone: Host) -> None:
    first = alone.do("run")
    alone.configure(job={"paths": [str(alone.source), str(alone.root / "gone")]})
    state = alone.do("run")
    assert (state["kind"], state["exit_code"]) == ("source_missing", 1)
    assert len(alone.snapshots()) == 1
    assert state["last_success"] == first["last_success"]
    assert alone.metric("last_exit_code") == 1
    found = finding(alone)
    assert found["status"] == "fail"
    assert str(alone.root / "gone") in found["evidence"] and "last backed up 0 h ago" in found["evidence"]
    assert same(alone.source, whole(alone, first["snapshot"])) == []


def test_server_that_is_gone_fails_the_run_in_bounded_time(alone: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "WAIT_S", 0.5)
    (alone.source / "file").write_text("x")
    with dead_server.mounted(alone.source) as line:
        alone.write("mountinfo", MOUNTS + line)
        started = time.monotonic()
        state = alone.do("run")
        assert time.monotonic() - started < 20
    assert (state["kind"], state["words"]) == ("source_missing", f"the server of {alone.source} does not answer")
    alone.write("mountinfo", MOUNTS)
    assert alone.do("run")["kind"] == "ok"


def test_an_unmounted_disk_of_fstab_makes_no_snapshot(alone: Host) -> None:
    (alone.source / "data").mkdir()
    alone.write("fstab", f"/dev/sdb1 {alone.source}/data ext4 defaults 0 2\n")
    assert alone.do("run")["kind"] == "not_mounted"
    assert alone.snapshots() == []
    alone.configure(job={"excludes": [f"{alone.source}/data"]})
    assert alone.do("run")["kind"] == "ok"


def mounted(host: Host, *names: str) -> None:
    """Let these directories of the source be mounted by hand: no fstab knows of them."""
    rows = [
        f"{at} 1 8:{at} / {host.source}/{name} rw - zfs tank/{name} rw\n" for at, name in enumerate(names, start=17)
    ]
    host.write("mountinfo", MOUNTS + "".join(rows))


def test_a_missing_mount_of_the_last_good_run_is_reported(alone: Host) -> None:
    (alone.source / "data").mkdir()
    alone.configure(job={"paths": [str(alone.source), f"{alone.source}/data"]})
    mounted(alone, "data")
    first = alone.do("run")
    assert first["mounts"] == ["/", f"{alone.source}/data"]

    mounted(alone)
    for state in (alone.do("run"), alone.do("run")):
        assert (state["kind"], state["exit_code"], state["mounts"]) == ("not_mounted", 1, first["mounts"])
        assert (
            state["words"] == f"not mounted: {alone.source}/data (mounted in the last good run); no snapshot was made"
        )
        assert state["last_success"] == first["last_success"]
    assert len(alone.snapshots()) == 1
    assert "take it out of the paths" in finding(alone)["remedy"] and "run-home.json" in finding(alone)["remedy"]

    mounted(alone, "data")
    assert alone.do("run")["kind"] == "ok"


def test_damaged_list_of_mounts_makes_no_snapshot(alone: Host) -> None:
    (alone.source / "data").mkdir()
    alone.configure(job={"paths": [str(alone.source), f"{alone.source}/data"]})
    mounted(alone, "data")
    assert alone.do("run")["kind"] == "ok"
    state = alone.root / "state/run-home.json"
    state.write_bytes(state.read_bytes()[:-10])
    mounted(alone)
    for _again in range(2):
        assert alone.do("run")["kind"] == "record"
    assert len(alone.snapshots()) == 1
    state.unlink()
    assert alone.do("run")["kind"] == "ok"


@pytest.mark.parametrize("way", ["excluded", "out of the paths", "forgotten"])
def test_an_excluded_mount_is_no_longer_expected(alone: Host, way: str) -> None:
    (alone.source / "data").mkdir()
    paths = [str(alone.source), f"{alone.source}/data"]
    alone.configure(job={"paths": paths})
    mounted(alone, "data")
    alone.do("run")
    mounted(alone)
    if way == "excluded":
        alone.configure(job={"paths": paths[:1], "one_file_system": False})
        assert alone.do("run")["kind"] == "not_mounted"
        alone.configure(job={"excludes": paths[1:]})
    elif way == "out of the paths":
        alone.configure(job={"paths": paths[:1]})
    else:
        (alone.root / "state/run-home.json").unlink()
    assert (alone.do("run")["kind"], alone.state("run")["mounts"]) == ("ok", ["/"])


def test_a_state_of_an_older_version_remembers_no_mounts(alone: Host) -> None:
    alone.do("run")
    state = {name: value for name, value in alone.state("run").items() if name != "mounts"}
    alone.write("state/run-home.json", json.dumps(state))
    assert (alone.do("run")["kind"], alone.state("run")["mounts"]) == ("ok", ["/"])


def test_a_mount_lost_during_the_run_makes_it_fail(alone: Host) -> None:
    (alone.source / "data").mkdir()
    alone.configure(job={"paths": [str(alone.source), f"{alone.source}/data"]})
    mounted(alone, "data")
    first = alone.do("run")
    unmount = f"case \" $* \" in *' backup '*) printf '{MOUNTS}' > {alone.place.mountinfo};; esac"
    wrapper = alone.write("restic", f'#!/bin/sh\n{unmount}\nexec {restic()} "$@"\n')
    wrapper.chmod(0o755)
    alone.configure(program=str(wrapper))
    state = alone.do("run")
    assert state["words"] == f"unmounted during the run, and not whole in its snapshot: {alone.source}/data"
    assert (state["kind"], state["exit_code"], state["snapshots"]) == ("not_mounted", 1, 2)
    assert (state["last_success"], state["mounts"]) == (first["last_success"], first["mounts"])
    assert alone.do("run")["words"].endswith("no snapshot was made")


def test_an_uncovered_file_system_fails_the_run(alone: Host) -> None:
    alone.write("mountinfo", MOUNTS + f"2 1 8:17 / {alone.source}/data rw - ext4 /dev/sdb1 rw\n")
    state = alone.do("run")
    assert (state["kind"], state["snapshots"]) == ("uncovered", 1)
    assert f"{alone.source}/data" in finding(alone)["evidence"]
    alone.configure(job={"excludes": [f"{alone.source}/data"]})
    assert alone.do("run")["kind"] == "ok"


def test_a_path_that_systemd_hides_is_reported(alone: Host) -> None:
    """Hide /usr/lib/modules as ProtectKernelModules= does; virtual files such as /proc/kcore are no loss."""
    empty = "rw - tmpfs tmpfs rw"
    rows = [
        f"2 1 0:21 /systemd/inaccessible/dir {alone.source}/modules {empty}",
        f"3 1 0:22 / {alone.source}/proc rw - proc proc rw",
        f"4 3 0:21 /systemd/inaccessible/reg {alone.source}/proc/kcore {empty}",
    ]
    alone.write("mountinfo", MOUNTS + "\n".join(rows))
    state = alone.do("run")
    assert (state["kind"], state["snapshots"]) == ("hidden", 1)
    assert state["words"].endswith(f": {alone.source}/modules")


def test_only_files_deleted_meanwhile_may_be_missing(tmp_path: Path) -> None:
    wrapped = Host(tmp_path / "host", str(tmp_path / "restic"))
    shutil.copytree(empty_repository(restic()), wrapped.root / "repository")

    def run_with(stderr: str) -> dict[str, object]:
        wrapper = tmp_path / "restic"
        wrapper.write_text(
            f'#!/bin/sh\n{restic()} "$@"; rc=$?\n'
            f"case \" $* \" in *' backup '*) cat >&2 <<'END'\n{stderr}\nWarning: some files\nEND\nexit 3;; esac\n"
            "exit $rc\n"
        )
        wrapper.chmod(0o755)
        return wrapped.do("run")

    def error(number: int, item: str) -> str:
        return json.dumps({"message_type": "error", "error": {"Op": "open", "Path": item, "Err": number}, "item": item})

    assert run_with(error(2, "/tmp/deleted"))["kind"] == "ok"
    assert run_with("")["kind"] == "partial"
    assert run_with("error: out of order\n" + error(2, "/tmp/deleted"))["kind"] == "partial"
    assert (
        run_with(json.dumps({"message_type": "error", "error": {"message": "out of order"}}))["words"]
        == "1 could not be read: out of order"
    )
    assert "/etc/shadow" in str(run_with(error(2, "/tmp/deleted") + "\n" + error(13, "/etc/shadow"))["words"])
    assert run_with(error(2, str(wrapped.source)))["kind"] == "partial", "a source is gone, not a file in it"
    many = "\n".join([error(2, "/tmp/deleted")] * 2600)
    state = run_with(f"{many}\n{error(13, '/etc/shadow')}\n{many}")
    assert state["kind"] == "partial", "nobody knows what those said that were not kept"
    assert "too many to be kept" in str(state["words"])


def test_files_that_vanish_are_counted_and_the_run_is_good(host: Host) -> None:
    """Restic has a directory open while it lists /proc/self/fd, and no longer when it looks at what it has found there.

    A file that another of its threads writes just then may vanish as well.
    """
    host.configure(job={"paths": [str(host.source), "/proc/self/fd"]})
    state = host.do("run")
    assert state["kind"] == "ok" and state["vanished"] >= 1, state
    assert state["words"] == f"{state['vanished']} files vanished while they were read"
    assert finding(host)["evidence"].endswith(f", 1 snapshots, {state['words']}")


def test_an_unlisted_snapshot_is_reported_and_not_drilled(alone: Host) -> None:
    alone.do("run")
    wrapper = alone.write(
        "restic", f'#!/bin/sh\ncase " $* " in *\' ls \'*) echo no luck >&2; exit 1;; esac\nexec {restic()} "$@"\n'
    )
    wrapper.chmod(0o755)
    alone.configure(program=str(wrapper))
    state = alone.do("run")
    assert (state["kind"], state["exit_code"], state["last_success"]) == ("ok", 0, state["ended"])
    assert "could not be listed" in state["words"] and state["words"].endswith(": no luck")
    rows = {
        row["id"]: row
        for row in states.findings(alone.config, states.read_states(alone.config, alone.place), time.time())
    }
    assert (rows["backup.run.home"]["status"], rows["backup.sample.home"]["status"]) == ("pass", "warn")
    assert rows["backup.sample.home"]["evidence"] == state["words"]
    drill = alone.do("drill")
    assert (drill["kind"], drill["words"]) == ("nothing", state["words"])

    alone.configure(program=restic())
    assert "sample" not in alone.do("run")
    assert alone.do("drill")["snapshot"] == alone.state("run")["snapshot"]


def test_a_job_that_is_removed_while_it_runs_fails(alone: Host) -> None:
    alone.configure(job={"name": "another"})
    state = finish(alone.config, alone.place, "run", "home", {})
    assert state["kind"] == "failed" and "its hooks of the end" in state["words"]


def whole_locks(locks: Path) -> list[Path]:
    """Return the complete locks: until then the name of a lock, its SHA-256, has a suffix."""
    return [path for path in locks.iterdir() if len(path.name) == 64]


def until_locked(locks: Path, restic_at_work: subprocess.Popen[bytes]) -> None:
    while not whole_locks(locks):
        assert restic_at_work.poll() is None, "it ended, and was not seen at work"
        time.sleep(0.01)


def test_a_dump_waits_for_a_repository_that_is_locked(alone: Host) -> None:
    alone.do("run")
    for number in range(30):
        (alone.source / f"large {number}").write_bytes(os.urandom(1 << 20))
    alone.do("run")
    locks = alone.root / "repository/locks"
    check = subprocess.Popen([*alone.open().command("check", "--read-data")], env=alone.open().environment())
    until_locked(locks, check)
    check.send_signal(signal.SIGSTOP)
    assert whole_locks(locks), "it is to be waited for"
    wake = threading.Timer(3, check.send_signal, [signal.SIGCONT])
    wake.start()
    alone.configure(retry_lock_s=60, job={"paths": [], "dumps": [{"name": "wiki", "command": ["echo", "one"]}]})
    state = alone.do("run")
    check.wait()
    assert state["kind"] == "ok", state


def hook(host: Host, script: str, **more: object) -> dict[str, object]:
    return {"command": ["sh", "-c", f"cd {host.root}; {script}"], **more}


def test_hooks_run_in_their_places_and_know_the_result(alone: Host) -> None:
    say = 'echo "$RIGWRIGHT_BACKUP_JOB $RIGWRIGHT_BACKUP_RESULT" >> '
    alone.configure(job={name: [hook(alone, f"{say} {name}")] for name in ("pre", "post", "post_failure", "always")})
    assert alone.do("run")["kind"] == "ok"
    assert [(alone.root / name).read_text() for name in ("pre", "post", "always")] == [
        "home \n",
        "home ok\n",
        "home ok\n",
    ]
    assert not (alone.root / "post_failure").exists()


def test_a_failed_hook_stops_the_run_and_cleanup_runs(alone: Host) -> None:
    alone.configure(
        job={
            "pre": [hook(alone, "exit 3"), hook(alone, "touch second")],
            "post_failure": [hook(alone, 'echo "$RIGWRIGHT_BACKUP_WORDS" > failure')],
            "always": [hook(alone, "touch always")],
        }
    )
    state = alone.do("run")
    assert (state["kind"], alone.snapshots()) == ("hook", [])
    assert "ended with 3" in (alone.root / "failure").read_text()
    assert (alone.root / "always").exists() and not (alone.root / "second").exists()
    assert alone.metric("last_success_timestamp_seconds") == 0


def test_a_password_in_a_command_is_in_no_output(alone: Host, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the configuration and states, nor in what goes to the journal, nor in arguments of its child processes."""
    program = alone.write("restic", f'#!/bin/sh\necho "$*" >> {alone.root}/arguments\nexec {restic()} "$@"\n')
    program.chmod(0o755)
    fails = {"command": ["sh", "-c", "exit 3", "hunter2"]}
    alone.configure(program=str(program), job={"post": [fails], "dumps": [{**fails, "name": "wiki"}]})
    assert "hunter2" in (alone.root / "secrets/commands.json").read_text()
    state = alone.do("run")
    assert state["kind"] == "dump"
    alone.configure(job={"dumps": []})
    assert alone.do("run")["words"] == "the hook post[0] ended with 3"
    finding = "".join(capfd.readouterr())
    for path in (alone.root / "config", alone.root / "arguments", *(alone.root / "state").iterdir()):
        finding += path.read_text()
    assert "run home: hook the hook post[0] ended with 3" in finding and "hunter2" not in finding


def test_an_exposed_password_file_is_not_used(alone: Host) -> None:
    password = alone.write("password", PASSWORD)
    alone.configure(repositories=[{"name": "disk", "password_file": str(password)}])
    for mode, kinds in ((0o640, ["exposed"] * 3), (0o600, ["ok"] * 3)):
        password.chmod(mode)
        assert [alone.do(verb)["kind"] for verb in ("run", "forget", "check")] == kinds
    assert "chmod 600" in states.remedy("exposed")


def test_a_hook_that_hangs_is_ended_with_its_children(alone: Host) -> None:
    alone.configure(job={"post": [hook(alone, "sleep 977 & sleep 977", timeout_s=1)]})
    started = time.monotonic()
    state = alone.do("run")
    assert state["kind"] == "hook" and "did not end within 1 s" in state["words"]
    assert time.monotonic() - started < 60
    assert [line for line in run("ps", "-eo", "args").splitlines() if line == "sleep 977"] == []


def test_a_killed_run_is_reported_and_cleaned_up(alone: Host) -> None:
    """Run the last step as systemd does after an OOM kill: there is no result, only systemd's own."""
    alone.configure(job={"always": [hook(alone, "touch always")]})
    state = finish(alone.config, alone.place, "run", "home", {"SERVICE_RESULT": "oom-kill", "EXIT_STATUS": "KILL"})
    assert (state["kind"], state["exit_code"]) == ("failed", 1)
    assert "oom-kill" in finding(alone)["evidence"]
    assert (alone.root / "always").exists()


def test_only_a_good_dump_becomes_a_snapshot(alone: Host) -> None:
    good = {"name": "good", "command": ["sh", "-c", "echo all of it"], "filename": "good.sql"}
    alone.configure(job={"dumps": [good, {"name": "bad", "command": ["sh", "-c", "echo half of it; exit 7"]}]})
    state = alone.do("run")
    assert (state["kind"], state["exit_code"]) == ("dump", 1)
    assert "the dump bad ended with 7" in state["words"]
    machine = identity.tag(alone.place)
    assert sorted(tuple(sorted(row.tags)) for row in alone.snapshots()) == [
        ("job:home", machine, "part:dump:good"),
        ("job:home", machine, "part:files"),
    ]
    assert alone.ask("dump", state["dumps"]["good"]["snapshot"], "/good.sql") == "all of it"
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode), "root has not put a file in its place"
    alone.configure(job={"dumps": [good]})
    assert alone.do("run")["kind"] == "ok"


def test_failed_silent_and_hanging_dumps_are_reported(alone: Host) -> None:
    commands = {
        "none": ["/no/such"],
        "silent": ["true"],
        "slow": ["sh", "-c", "while :; do echo 1; sleep 0.1; done"],
        "mute": ["sh", "-c", "sleep 977 & sleep 977"],
    }
    alone.configure(
        job={
            "paths": [],
            "dumps": [{"name": name, "command": message, "timeout_s": 1} for name, message in commands.items()],
        }
    )
    message = alone.do("run")["words"]
    assert (
        "cannot be run" in message
        and "ended well without output" in message
        and message.count("did not end within 1 s") == 2
    )
    assert alone.snapshots() == []


def test_a_wrong_password_never_makes_a_repository(host: Host) -> None:
    first = host.do("run")
    host.write("secrets/disk.password", "not the password\n")
    state = host.do("run")
    assert state["kind"] == "wrong_password"
    assert probe(host.open())[0].kind == "wrong_password"
    assert "backup_repositories" in finding(host)["remedy"]
    host.write("secrets/disk.password", PASSWORD)
    assert same(host.source, whole(host, first["snapshot"])) == []
    assert len(list((host.root / "repository/keys").iterdir())) == 1


def test_a_missing_repository_is_reported(host: Host) -> None:
    (host.root / "repository").rename(host.root / "elsewhere")
    assert host.do("run")["kind"] == "missing"
    assert probe(host.open())[0].kind == "missing"
    assert not (host.root / "repository").exists()


def test_a_lock_that_a_killed_run_left_does_not_stop_the_next(host: Host) -> None:
    first = host.do("run")
    (host.source / "large").write_bytes(os.urandom(20 << 20))
    killed = subprocess.Popen(
        [*host.open().command("backup", "--limit-upload", "100", str(host.source))], env=host.open().environment()
    )
    locks = host.root / "repository/locks"
    until_locked(locks, killed)
    killed.kill()
    killed.wait()
    assert list(locks.iterdir())

    assert host.do("run")["kind"] == "ok"
    assert host.do("forget")["kind"] == "ok"
    assert host.do("prune")["kind"] == "ok"
    assert list(locks.iterdir()) == []
    (host.source / "large").unlink()
    assert same(host.source, whole(host, first["snapshot"])) == []


def test_a_live_lock_is_waited_for_and_reported(host: Host) -> None:
    host.do("run")
    (host.source / "large").write_bytes(os.urandom(20 << 20))
    living = subprocess.Popen(
        [*host.open().command("backup", "--limit-upload", "100", str(host.source))], env=host.open().environment()
    )
    until_locked(host.root / "repository/locks", living)
    state = host.do("prune")
    living.kill()
    living.wait()
    assert state["kind"] == "locked"
    assert host.do("prune")["kind"] == "ok"


def test_a_full_repository_keeps_older_backups_whole(host: Host) -> None:
    first = host.do("run")
    (host.source / "large").write_bytes(os.urandom(20 << 20))
    full = host.root / "full"
    full.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4m", "none", str(full))
    try:
        shutil.copytree(host.root / "repository", full / "repository")
        host.write("secrets/disk.address", str(full / "repository"))
        # Enough for the slowest machine; restic 0.14 hangs here in one of a hundred runs.
        host.configure(job={"timeout_s": 40})
        state = host.do("run")
        assert state["kind"] == "full", state
        assert "rigwright-backup prune" in finding(host)["remedy"]
        (host.source / "large").unlink()
        assert same(host.source, whole(host, first["snapshot"])) == []
    finally:
        run("umount", str(full))


def test_one_flipped_byte_is_found_by_the_check_and_by_the_drill(host: Host) -> None:
    host.do("run")
    assert host.do("check")["kind"] == "ok"
    assert host.state("check")["next_part"] == 1
    largest = max(
        (path for path in (host.root / "repository/data").rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_size,
    )
    flip_a_byte(largest)

    state = host.do("check")
    assert state["kind"] == "damaged", state
    assert finding(host, "check")["status"] == "fail"
    assert host.metric("check_exit_code") == 1
    drill = host.do("drill")
    assert drill["exit_code"] == 1, drill
    assert finding(host, "drill")["status"] == "fail"


def test_snapshots_expire_after_paths_and_tags_have_changed(host: Host) -> None:
    host.do("run")
    (host.root / "more").mkdir()
    host.configure(job={"paths": [str(host.source), str(host.root / "more")], "tags": ["new"]})
    for _run in range(2):
        host.do("run")
    host.ask("backup", "--host", "another", "--tag", "job:home", "--tag", "part:files", str(host.source))
    state = host.do("forget")
    assert (state["kind"], state["removed"]) == ("ok", 1)
    assert sorted(row.host for row in host.snapshots()) == ["another", "ws", "ws"]


def test_a_server_forgets_all_parts_of_another_host(alone: Host) -> None:
    alone.configure(job={"dumps": [{"name": "words", "command": ["echo", "one"]}]})
    for _day in range(3):
        alone.do("run")
    alone.configure(job={"paths": [], "dumps": [], "retention": {"last": 1}})
    state = alone.do("forget")
    assert (state["kind"], state["removed"], len(alone.snapshots())) == ("ok", 4, 2)


def test_a_snapshot_from_the_future_blocks_forget(host: Host) -> None:
    for moment in ("2026-01-01 00:00:00", "2026-01-02 00:00:00", "2099-01-01 00:00:00"):
        host.ask(
            "backup", "--host", "ws", "--tag", "job:home", "--tag", "part:files", "--time", moment, str(host.source)
        )
    host.configure(job={"retention": {"within": "30d"}})
    state = host.do("forget")
    assert state["kind"] == "clock"
    assert len(host.snapshots()) == 3
    host.ask("forget", host.snapshots()[-1].id)
    assert (host.do("forget")["removed"], len(host.snapshots())) == (0, 2)


def test_all_data_is_read_in_so_many_checks(alone: Host) -> None:
    alone.do("run")
    alone.configure(check_parts=3)
    assert [(alone.do("check")["part"], alone.state("check")["next_part"]) for _check in range(4)] == [
        (1, 2),
        (2, 3),
        (3, 1),
        (1, 2),
    ]


def test_the_manifest_of_the_machine_goes_along_with_any_job(alone: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    path = alone.root / "manifest.json"
    alone.configure(manifest=str(path))
    monkeypatch.setattr(machines.Machine, "manifest", lambda _self: {"schema": 1, "host": {"name": "ws"}})
    assert alone.do("run")["kind"] == "ok"
    assert alone.ask("dump", alone.snapshots()[-1].id, str(path)) == path.read_text().rstrip("\n")

    def mute(_self: object) -> None:
        raise machines.ProbeError("lsblk shows no disks")

    monkeypatch.setattr(machines.Machine, "manifest", mute)
    assert alone.do("run")["kind"] == "ok"
    rows = states.findings(alone.config, states.read_states(alone.config, alone.place), time.time())
    assert [row["status"] for row in rows if row["id"] == "backup.manifest.home"] == ["warn"]
