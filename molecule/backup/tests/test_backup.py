"""Backups on real hosts: an append-only server on the gateway, its sshd, a disk on the machine, and units that really run.

Debian 12 has its own restic 0.14, Debian 13 the pinned release. Failures that need no server are tested in
tests/unit/plugins/module_utils/_backup/test_job.py.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness import playbook
from harness.sandbox import lab
from harness.sandbox.clients import Machine

pytestmark = pytest.mark.both_releases

Verified = Callable[..., dict[str, dict[str, str]]]
# By host: the first snapshot of `home`, and the description of its files.
BackedUp = dict[str, tuple[str, str]]
WORK = "/home/owner/work"
TEXTFILE = "/var/lib/prometheus/node-exporter/rigwright_backup.prom"
# A file of each kind that a bad backup spoils.
FILL = f"""
rm -rf {WORK} && mkdir -p {WORK} /srv/work /srv/notes && cd {WORK} && echo first > thesis && echo linked > one && ln one two
ln -s nowhere dangling; mkfifo fifo; truncate -s 20M sparse && echo end >> sparse; printf odd > $'odd\\nname [x] *'; printf x > ./-dash
cp /usr/bin/true capable && setcap cap_net_raw+ep capable
echo shared > shared && setfacl -m u:nobody:rw,m::rw shared && setfattr -n user.note -v kept shared
install -m 4755 /usr/bin/true setuid; chown 1234:4321 thesis; cp -a {WORK}/. /srv/work/; echo note > /srv/notes/note
"""
# The complete description of the files, without the access times of directories.
SHOW = (
    "cd {} && find . -printf '%P %y %m %U %G %n %s %T@ %l\\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum "
    "&& getcap -r . | sort && find . ! -type l -print0 | sort -z | xargs -0 getfacl --absolute-names "
    "&& find . -print0 | sort -z | xargs -0 getfattr --no-dereference --dump && stat -c '%i' one two | sort -u | wc -l"
)
# Deletes what an address of REST has at a path; the last line says how the server answered.
DELETE = (
    "import base64, sys, urllib.request as r, urllib.parse as p; u = p.urlsplit(sys.argv[1]); "
    "q = r.Request(f'http://{u.hostname}:{u.port}{sys.argv[2]}', method='DELETE', "
    "headers={'Authorization': 'Basic ' + base64.b64encode(f'{u.username}:{u.password}'.encode()).decode()}); r.urlopen(q)"
)

# Undoes what `slow` does.
QUICK = "cp -p /root/backup.json /etc/rigwright/; rm -f /home/owner/large"


def side_by_side(targets: list[Machine], work: Callable[[Machine], Any]) -> None:
    """Do the same on all hosts at once: much of it is waiting."""
    with ThreadPoolExecutor(len(targets)) as pool:
        list(pool.map(work, targets))


def program(target: Machine, command: str) -> str:
    return target.must(f"rigwright-backup {command}", seconds=120)


def state(target: Machine, verb: str, subject: str) -> dict[str, Any]:
    """Return the state of the last run, as any user can read it; empty before the first."""
    path = f"/var/lib/rigwright_backup/{verb}-{subject}.json"
    found: dict[str, Any] = json.loads(target.must(f"cat {path} 2>&- || echo {{}}", user="nobody"))
    return found


def metric(target: Machine, name: str, subject: str) -> float:
    rows = target.must(f"cat {TEXTFILE}", user="nobody").splitlines()
    (row,) = (line for line in rows if line.startswith(f"rigwright_backup_{name}{{") and f'"{subject}"' in line)
    return float(row.rpartition(" ")[2])


def restored(target: Machine, job: str, snapshot: str, place: str = WORK) -> str:
    """Restore a snapshot again, and return the description of its files."""
    target.must("rm -rf /var/restore")
    program(target, f"restore {job} --when {snapshot} --path {place} --target /var/restore")
    return target.must(SHOW.format(f"/var/restore{place}"))


def still_whole(target: Machine, backed_up: BackedUp) -> None:
    """Check that restic alone restores the first backup bit for bit."""
    snapshot, before = backed_up[target.host.name]
    target.must("rm -rf /var/restore")
    program(target, f"restic gateway restore {snapshot} --target /var/restore --include {WORK}")
    assert target.must(SHOW.format(f"/var/restore{WORK}")) == before


def fails(target: Machine, verb: str, subject: str, kind: str, text: str) -> None:
    """Check that a unit fails, that user, state and metrics have the reason, and that the last success is kept."""
    success = state(target, verb, subject).get("last_success")
    done = target.run(f"rigwright-backup {verb} {subject}", seconds=120)
    assert done.rc == 1 and f"{verb} {subject}: {kind}, " in done.stdout and "To do: " in done.stdout, done
    assert text in done.stdout
    result = state(target, verb, subject)
    assert (result["kind"], result["exit_code"], result.get("last_success")) == (kind, 1, success)
    name = "last_exit_code" if verb == "run" else f"{verb}_exit_code"
    assert metric(target, name, subject) == 1


@pytest.fixture(scope="module")
def backed_up(all_targets: list[Machine]) -> Iterator[BackedUp]:
    """Back each target up once, with files of every kind."""
    found = {}

    def begin(target: Machine) -> None:
        target.must(FILL)
        program(target, "run home")
        found[target.host.name] = (state(target, "run", "home")["snapshot"], target.must(SHOW.format(WORK)))

    side_by_side(all_targets, begin)
    yield found
    side_by_side(all_targets, lambda target: target.must(f"rm -rf {WORK} /home/owner/added /root/backup.json"))


def test_files_of_every_kind_are_restored_after_a_change(targets: list[Machine], backed_up: BackedUp) -> None:
    def prove(target: Machine) -> None:
        first, before = backed_up[target.host.name]
        target.must(f"cd {WORK} && echo second > thesis && rm one && setfacl -b shared")
        program(target, "run home")
        second = state(target, "run", "home")
        assert second["kind"] == "ok" and second["snapshots"] >= 2
        assert restored(target, "home", first) == before
        assert metric(target, "last_success_timestamp_seconds", "home") == pytest.approx(time.time(), abs=300)
        assert metric(target, "last_exit_code", "home") == 0

    side_by_side(targets, prove)


def test_a_disk_runs_backup_forget_prune_check_and_drill(targets: list[Machine], backed_up: BackedUp) -> None:
    def prove(target: Machine) -> None:
        program(target, "run etc")
        target.must("echo changed > /srv/work/thesis")
        program(target, "run etc")
        last = state(target, "run", "etc")
        assert last["dumps"]["packages"]["kind"] == "ok"
        for command in ("forget etc", "prune disk", "check disk", "drill etc"):
            program(target, command)
        assert state(target, "forget", "etc")["removed"] >= 2
        assert len(json.loads(program(target, "restic disk snapshots --json"))) == 2, (
            "one of the files, one of the dump"
        )
        assert state(target, "drill", "etc")["files"] > 20
        assert restored(target, "etc", last["snapshot"], "/srv/work") == target.must(SHOW.format("/srv/work"))
        # A restore by root leaves no files of root in the repository, which the units' user has to read.
        assert target.must("find /srv/backup-disk ! -user rigwright-backup").split() == []

    side_by_side(targets, prove)


def test_a_server_of_sftp_runs_the_same(targets: list[Machine], gateway: Machine, backed_up: BackedUp) -> None:
    def prove(target: Machine) -> None:
        for command in ("run notes", "forget notes", "prune sftp", "check sftp", "drill notes"):
            program(target, command)
        assert state(target, "drill", "notes")["files"] >= 2
        assert gateway.must(f"ls /home/owner/backup/{target.host.name}/snapshots").split()

    side_by_side(targets, prove)


def test_root_of_the_machine_cannot_remove_its_backups(
    targets: list[Machine], gateway: Machine, backed_up: BackedUp
) -> None:
    names = [target.host.name for target in targets]

    def prove(target: Machine) -> None:
        name = target.host.name
        (other,) = {*names} - {name}
        kept = gateway.must(f"ls /srv/backup/{name}/snapshots").split()
        # With all rights and secrets of the machine. restic from 0.17 on tries again for a quarter of an hour, and 0.18 ends with 0.
        target.run(f"timeout 5 rigwright-backup restic gateway forget {backed_up[name][0]}")
        target.run("timeout 5 rigwright-backup restic gateway forget --keep-last 1 --prune")
        address = target.must("cat /etc/rigwright/backup/gateway.address").strip().removeprefix("rest:")
        for path, answer in (
            (f"/{name}/snapshots/{kept[0]}", "403"),
            (f"/{name}/config", "403"),
            (f"/{other}/config", "401"),
        ):
            command = shlex.join(["python3", "-c", DELETE, address, path])
            assert f"HTTP Error {answer}" in target.run(command).stderr
        assert gateway.must(f"ls /srv/backup/{name}/snapshots").split() == kept
        program(target, "restic gateway unlock")
        still_whole(target, backed_up)

    side_by_side(targets, prove)


def test_units_have_few_rights_and_secrets_are_roots(targets: list[Machine], backed_up: BackedUp) -> None:
    for target in targets:
        modes = target.must("cd /etc/rigwright/backup; stat -c '%a %U %n' *.password *.address *.ssh_key").splitlines()
        assert len(modes) == 7 and all(line.startswith("600 root ") for line in modes)
        shown = target.must(
            "systemctl show -p User -p AmbientCapabilities -p Nice rigwright-backup-run-home.service"
        ).split()
        assert sorted(shown) == ["AmbientCapabilities=cap_dac_read_search", "Nice=19", "User=rigwright-backup"]
        output = target.must("journalctl --no-pager; cat /etc/systemd/system/rigwright-* /etc/rigwright/backup.json")
        assert not any(secret in output for secret in ("Sandbox-re", "OPENSSH"))


# --- Failures: what was lost (nothing), and how it is reported ---


@pytest.mark.parametrize(
    ("harm", "fix", "job", "kind", "text"),
    [
        ("touch /run/hook-fails", "rm /run/hook-fails", "home", "hook", "the hook pre[0] ended with 1"),
        ("mv /srv/notes /srv/away", "mv /srv/away /srv/notes", "notes", "source_missing", "missing: /srv/notes"),
        (
            "cp -p /etc/rigwright/backup/gateway.password /root/; echo wrong > /etc/rigwright/backup/gateway.password",
            "mv /root/gateway.password /etc/rigwright/backup/",
            "home",
            "wrong_password",
            "wrong password or no key found",
        ),
    ],
)
def test_a_run_that_cannot_begin_reports_the_reason(
    targets: list[Machine], backed_up: BackedUp, harm: str, fix: str, job: str, kind: str, text: str
) -> None:
    def prove(target: Machine) -> None:
        target.must(harm)
        try:
            fails(target, "run", job, kind, text)
        finally:
            target.must(fix)
        still_whole(target, backed_up)

    side_by_side(targets, prove)


def test_a_clock_that_was_wrong_lets_no_snapshot_go(targets: list[Machine], backed_up: BackedUp) -> None:
    def prove(target: Machine) -> None:
        name = target.host.name
        tags = "--host $(hostname) --tag job:notes --tag part:files --time '2099-01-01 00:00:00'"
        program(target, f"restic sftp backup {tags} /srv/notes")
        program(target, "run notes")
        fails(target, "forget", "notes", "clock", "snapshots from the future: ")
        listed = json.loads(program(target, "restic sftp snapshots --json"))
        (ahead,) = (row["id"] for row in listed if row["time"].startswith("2099"))
        assert len(listed) > 2, name
        program(target, f"restic sftp forget {ahead}")
        program(target, "forget notes")

    side_by_side(targets, prove)


@pytest.fixture
def slow(targets: list[Machine], gateway: Machine) -> Iterator[Callable[[int], None]]:
    """Have the runs of `home` take a while, and wait until they have their locks; each ends itself after so many seconds."""

    def locks(target: Machine) -> set[str]:
        # While the server writes one, its name, a SHA-256, has something behind it.
        names = gateway.must(f"ls /srv/backup/{target.host.name}/locks").split()
        return {name for name in names if len(name) == 64}

    def begin(limit_s: int) -> None:
        def start(target: Machine) -> None:
            before = locks(target)
            target.must("cp -p /etc/rigwright/backup.json /root/; head -c 16M /dev/urandom > /home/owner/large")
            target.must(
                f'sed -i \'s/"limit_upload_kib": 0/"limit_upload_kib": 1500/; s/"timeout_s": 0/"timeout_s": {limit_s}/\' '
                "/etc/rigwright/backup.json; touch -r /root/backup.json /etc/rigwright/backup.json; rm -f /run/cleaned; "
                "systemctl start --no-block rigwright-backup-run-home.service"
            )
            patience = time.monotonic() + 60
            while not locks(target) - before:
                assert time.monotonic() < patience, target.must("systemctl status rigwright-backup-run-home || true")
                time.sleep(0.1)

        side_by_side(targets, start)

    yield begin
    side_by_side(targets, lambda target: target.must(QUICK))


def wait_for_the_end(target: Machine) -> None:
    target.must(
        "while systemctl is-active rigwright-backup-run-home.service | grep -q activating; do sleep 0.2; done",
        seconds=120,
    )


def test_a_restarted_server_does_not_fail_the_run(
    targets: list[Machine], gateway: Machine, slow: Callable[[int], None], backed_up: BackedUp
) -> None:
    slow(0)
    gateway.must("systemctl kill --signal=SIGKILL rest-server")

    def prove(target: Machine) -> None:
        wait_for_the_end(target)
        assert state(target, "run", "home")["kind"] == "ok"
        still_whole(target, backed_up)

    side_by_side(targets, prove)


def test_a_cut_network_fails_the_run_and_the_next_passes(
    targets: list[Machine], gateway: Machine, slow: Callable[[int], None], backed_up: BackedUp
) -> None:
    slow(20)
    try:
        gateway.must("ip link set eth0 down")
        side_by_side(targets, wait_for_the_end)
    finally:
        gateway.must("ip link set eth0 up")

    def prove(target: Machine) -> None:
        # The kind depends on whether a connection was just being opened.
        assert state(target, "run", "home")["kind"] in ("unreachable", "timeout")
        assert metric(target, "last_exit_code", "home") == 1
        assert gateway.must(f"ls /srv/backup/{target.host.name}/locks").split(), "nobody could take the lock away"
        still_whole(target, backed_up)
        target.must(QUICK)
        program(target, "run home")

    side_by_side(targets, prove)


def test_a_full_server_is_reported(
    targets: list[Machine], gateway: Machine, slow: Callable[[int], None], backed_up: BackedUp
) -> None:
    gateway.must(
        "mkdir -p /root/full; mount -t tmpfs -o size=$(($(du -sm /srv/backup | cut -f1) + 4))M none /root/full; "
        # Without what the server takes away by itself as soon as it knows that a connection is dead.
        "cd /root/full; cp -a /srv/backup/. .; find -name '*.rest-server-temp*' -delete; "
        "head -c 2M /dev/zero > room; cat /dev/zero > rest; rm room; "
        "mount --bind /root/full /srv/backup"
    )
    try:
        slow(20)
        side_by_side(targets, wait_for_the_end)
        for target in targets:
            assert state(target, "run", "home")["kind"] == "full"
            output = target.run("rigwright-backup status").stdout
            assert "507 Insufficient Storage" in output and "make room where the repository lies" in output
            still_whole(target, backed_up)
    finally:
        gateway.must("umount /srv/backup /root/full")


def test_a_killed_run_and_a_flipped_byte_are_reported(
    targets: list[Machine],
    gateway: Machine,
    slow: Callable[[int], None],
    verified: Verified,
    backed_up: BackedUp,
) -> None:
    def spoil(target: Machine) -> None:
        """Flip a byte in the middle of a pack that the last run has added."""
        target.must("head -c 2M /dev/urandom > /home/owner/added")
        program(target, "run home")
        place = f"/srv/backup/{target.host.name}/data"
        pack = gateway.must(f"find {place} -type f -printf '%T@ %s %p\\n' | sort -n | awk '$2 > 1000000' | tail -1")
        flip(pack.split()[-1])
        packs[target.host.name] = pack.split()[-1]
        fails(target, "check", "gateway", "damaged", pack.rpartition("/")[2][:8])
        done = target.run("rigwright-backup drill home")
        assert done.rc == 1 and "/home/owner/added" in done.stdout
        assert metric(target, "drill_exit_code", "home") == 1
        still_whole(target, backed_up)

    def flip(pack: str) -> None:
        script = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(9999); b = f.read(1)[0]; f.seek(9999); f.write(bytes([b ^ 1]))"
        gateway.must(shlex.join(["python3", "-c", script, pack]))

    packs: dict[str, str] = {}
    side_by_side(targets, spoil)
    slow(0)

    def kill(target: Machine) -> None:
        target.must("systemctl kill --signal=SIGKILL rigwright-backup-run-home.service")
        wait_for_the_end(target)
        assert target.run("test -e /run/cleaned").rc == 0, "the hook for the end"
        assert state(target, "run", "home")["exit_code"] == 1
        assert metric(target, "last_exit_code", "home") == 1
        # A separate unit writes it, which begins as this one ends.
        search = "journalctl --unit='rigwright-backup-failed@*' | grep -q 'failed rigwright-backup-run-home.service'"
        target.must(f"for i in $(seq 150); do {search} && exit; sleep 0.2; done; exit 1")

    side_by_side(targets, kill)
    for found in verified().values():
        failed = {name for name, status in found.items() if status == "fail"}
        assert failed == {"backup.run.home", "backup.check.gateway", "backup.drill.home"}

    def make_up(target: Machine) -> None:
        flip(packs[target.host.name])
        target.must(f"{QUICK}; rm -f /home/owner/added")
        # The lock of the killed run still exists.
        assert gateway.must(f"ls /srv/backup/{target.host.name}/locks").split()
        for command in ("run home", "check gateway", "drill home"):
            program(target, command)
        assert gateway.must(f"ls /srv/backup/{target.host.name}/locks").split() == []
        still_whole(target, backed_up)

    side_by_side(targets, make_up)
    for found in verified().values():
        assert {*found.values()} == {"pass"}, found


# --- By playbook, and with other requests ---


def test_the_playbooks_show_a_plan_and_lose_nothing(targets: list[Machine], backed_up: BackedUp) -> None:
    target = targets[1]
    inventory = str(lab.read("molecule").inventory)

    def play(name: str, **variables: object) -> tuple[int, str]:
        options = {
            "backup_now_hosts": "debian13",
            "restore_drill_hosts": "debian13",
            **lab.looked_up("molecule"),
            **variables,
        }
        rc, output = playbook.run(
            [f"playbooks/{name}.yml", "--inventory", inventory, "--extra-vars", json.dumps(options)],
            lab.ROOT,
            os.environ,
        )
        return rc, " ".join(output.split())

    rc, output = play("backup_now", backup_now_jobs="home,notes")
    assert rc == 0, output
    wanted = {"restore_host": "debian13", "restore_job": "home", "restore_paths": [f"{WORK}/thesis"]}
    rc, output = play("restore_files", **wanted, restore_target="/", restore_confirm=True)
    assert rc != 0 and "1 files are there already" in output
    target.must("rm -rf /var/elsewhere")
    rc, output = play("restore_files", **wanted, restore_target="/var/elsewhere")
    assert rc == 0 and "what: 1 files" in output and target.run("test -e /var/elsewhere").rc != 0
    rc, output = play("restore_files", **wanted, restore_target="/var/elsewhere", restore_confirm=True)
    assert rc == 0 and target.must(f"cat /var/elsewhere{WORK}/thesis") == target.must(f"cat {WORK}/thesis")
    rc, output = play("restore_drill", restore_drill_jobs="home,notes")
    assert rc == 0 and "files restored and compared" in output


def test_bad_input_is_refused_before_any_change(refused: Callable[..., None]) -> None:
    jobs = [
        {"name": name, "paths": [path], "repository": "disk"} for name, path in (("one", "/srv"), ("two", "/srv/work"))
    ]
    disk = {"name": "disk", "url": "/srv/backup-disk"}
    text = "backup_repositories: has no password for disk"
    refused({"backup_repositories": [disk], "backup_jobs": jobs, "backup_schedule": "someday"}, text)


def test_a_new_password_is_added_and_a_wrong_one_refused(
    apply: Callable[..., Any], applied: Callable[..., Any], targets: list[Machine], backed_up: BackedUp
) -> None:
    disk = {"name": "disk", "url": "/srv/backup-disk", "password": "Sandbox-another-1"}
    jobs = [{"name": "etc", "repository": "disk", "paths": ["/srv/work"], "retention": {"last": 1}}]
    changed = {"backup_repositories": [disk], "backup_jobs": jobs}

    # The password in place was lost, and the requested one never opened the repository.
    lost = targets[0]
    lost.must(
        "cp -p /etc/rigwright/backup/disk.password /root/; echo never-a-password > /etc/rigwright/backup/disk.password"
    )
    result = apply(hosts=lost.host.name, variables=changed)
    lost.must("mv /root/disk.password /etc/rigwright/backup/")
    assert result.rc != 0 and "takes neither the new password nor the one in place" in result.text
    assert "Sandbox-another-1" not in result.output

    applied(changed)

    def prove(target: Machine) -> None:
        old = "RESTIC_PASSWORD=Sandbox-repository-2 restic -r /srv/backup-disk --no-cache cat config"
        assert "wrong password" in target.run(old).stderr
        program(target, "run etc")
        assert target.run("systemctl cat rigwright-backup-run-home.timer").rc != 0, "what is not asked for is gone"

    # The first run of the contract restores the configuration of the scenario.
    side_by_side(targets, prove)
