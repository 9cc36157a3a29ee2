"""Backups as their users meet them: a server that only appends on the gateway, a disk on the machine, units that really run.

Debian 12 has its own restic 0.14, Debian 13 the pinned release. What restic can be made to suffer without a host stands in
tests/unit/plugins/module_utils/test__backup_job.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import lab, playbook
from harness.clients import Machine

Verified = Callable[..., dict[str, dict[str, str]]]
WORK = "/home/owner/work"
TEXTFILE = "/var/lib/prometheus/node-exporter/rigwright_backup.prom"
# A file of each kind that a bad backup spoils.
FILL = f"""
rm -rf {WORK} && mkdir -p {WORK} /srv/work && cd {WORK} && echo first > thesis && echo linked > one && ln one two && ln -s nowhere dangling
mkfifo fifo; truncate -s 20M sparse && echo end >> sparse; printf odd > $'odd\\nname [x] *'; printf x > ./-dash
cp /usr/bin/true capable && setcap cap_net_raw+ep capable
echo shared > shared && setfacl -m u:nobody:rw,m::rw shared && setfattr -n user.note -v kept shared
install -m 4755 /usr/bin/true setuid; chown 1234:4321 thesis; cp -a {WORK}/. /srv/work/
"""
# All that there is to say of the files, but for the times at which directories were read.
SHOW = (
    "cd {0}{1} && find . -printf '%P %y %m %U %G %n %s %T@ %l\\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum "
    "&& getcap -r . | sort && find . ! -type l -print0 | sort -z | xargs -0 getfacl --absolute-names "
    "&& find . -print0 | sort -z | xargs -0 getfattr --no-dereference --dump && stat -c '%i' one two | sort -u | wc -l"
)


def command(target: Machine, words: str, seconds: float = 120) -> str:
    return target.must(f"rigwright-backup {words}", seconds=seconds)


def read(target: Machine, words: str, user: str = "root") -> str:
    """What a command says. Docker loses the output of one now and then, on a machine that is busy."""
    said = (target.must(words, user=user) for _attempt in range(5))
    return next((text for text in said if text), "")


def state(target: Machine, verb: str, subject: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(target, f"cat /var/lib/rigwright_backup/{verb}-{subject}.json", "nobody"))
    return found


def metric(target: Machine, name: str, subject: str) -> float:
    text = read(target, f"cat {TEXTFILE}", "nobody")
    (row,) = (
        line for line in text.splitlines() if line.startswith(f"rigwright_backup_{name}{{") and f'"{subject}"' in line
    )
    return float(row.rpartition(" ")[2])


def restored(target: Machine, job: str, snapshot: str, place: str = WORK) -> str:
    """What there is to say of the files of a snapshot, restored anew."""
    target.must("rm -rf /var/restore")
    command(target, f"restore {job} --when {snapshot} --path {place} --target /var/restore")
    return read(target, SHOW.format("/var/restore", place))


@pytest.fixture(scope="session")
def backed_up(targets: list[Machine]) -> dict[str, tuple[str, str]]:
    """Each target backed up once, with files of every kind: the snapshot of `home`, and what there is to say of them."""
    found = {}
    for target in targets:
        target.must(FILL)
        command(target, "run home")
        found[target.host.name] = (state(target, "run", "home")["snapshot"], read(target, SHOW.format("", WORK)))
    return found


def test_files_of_every_kind_come_back_after_a_change_as_they_were(
    targets: list[Machine], backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        first, before = backed_up[target.host.name]
        target.must(f"cd {WORK} && echo second > thesis && rm one && setfacl -b shared")
        command(target, "run home")
        second = state(target, "run", "home")
        assert second["kind"] == "ok" and second["snapshots"] >= 2
        assert restored(target, "home", first) == before
        assert metric(target, "last_success_timestamp_seconds", "home") == pytest.approx(time.time(), abs=300)
        assert metric(target, "last_exit_code", "home") == 0


def test_the_disk_is_backed_up_forgotten_pruned_checked_and_drilled(
    targets: list[Machine], backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        command(target, "run etc")
        target.must("echo changed > /srv/work/thesis")
        command(target, "run etc")
        last = state(target, "run", "etc")
        assert last["dumps"]["packages"]["kind"] == "ok"
        for words in ("forget etc", "prune disk", "check disk", "drill etc"):
            command(target, words)
        assert state(target, "forget", "etc")["removed"] == 2, "one of the files, one of the dump"
        assert state(target, "drill", "etc")["files"] > 20
        assert restored(target, "etc", last["snapshot"], "/srv/work") == read(target, SHOW.format("", "/srv/work"))
        # Whoever restores as root leaves nothing of root's in the repository, which the units' user has to read.
        assert target.must("find /srv/backup-disk ! -user rigwright-backup").split() == []


def test_who_holds_the_machine_cannot_remove_what_it_has_backed_up(
    targets: list[Machine], gateway: Machine, backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        name = target.host.name
        kept = read(gateway, f"ls /srv/backup/{name}/snapshots").split()
        identity, before = backed_up[name]
        target.run(f"timeout 20 rigwright-backup restic gateway forget {identity[:8]}")
        target.run("timeout 20 rigwright-backup restic gateway forget --keep-last 1 --prune")
        target.run("rigwright-backup restic gateway unlock")
        address = read(target, "cat /etc/rigwright/backup/gateway.address").strip().removeprefix("rest:")
        script = (
            "import sys, urllib.request as r, base64, urllib.parse as p; u = p.urlsplit(sys.argv[1]); "
            "q = r.Request(f'http://{u.hostname}:{u.port}{sys.argv[2]}', method='DELETE', "
            "headers={'Authorization': 'Basic ' + base64.b64encode(f'{u.username}:{u.password}'.encode()).decode()}); r.urlopen(q)"
        )
        other = next(one.host.name for one in targets if one.host.name != name)
        for path, answer in (
            (f"/{name}/snapshots/{kept[0]}", "403"),
            (f"/{name}/config", "403"),
            (f"/{other}/config", "401"),
        ):
            said = read(target, f"python3 -c {json.dumps(script)} '{address}' {path} 2>&1 | tail -1")
            assert f"HTTP Error {answer}" in said, said
        assert read(gateway, f"ls /srv/backup/{name}/snapshots").split() == kept
        assert restored(target, "home", identity) == before


def test_units_have_few_rights_and_secrets_are_roots(
    targets: list[Machine], backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        modes = target.must(
            "stat -c '%a %U %n' /etc/rigwright/backup/*.password /etc/rigwright/backup/*.address"
        ).splitlines()
        assert len(modes) == 4 and all(line.startswith("600 root ") for line in modes)
        shown = target.must(
            "systemctl show -p User -p AmbientCapabilities -p Nice rigwright-backup-run-home.service"
        ).split()
        assert sorted(shown) == ["AmbientCapabilities=cap_dac_read_search", "Nice=19", "User=rigwright-backup"]
        journal = target.must("journalctl --no-pager; cat /etc/systemd/system/rigwright-* /etc/rigwright/backup.json")
        assert not any(secret in journal for secret in ("Sandbox-re", "Sandbox-repository"))


@pytest.fixture
def slow(targets: list[Machine]) -> Iterator[Callable[[Machine], None]]:
    """Have the next run of `home` take a while, and wait until it is at work."""

    def begin(target: Machine) -> None:
        target.must("cp /etc/rigwright/backup.json /root/backup.json; head -c 12M /dev/urandom > /home/owner/large")
        target.must('sed -i \'s/"limit_upload_kib": 0/"limit_upload_kib": 1500/\' /etc/rigwright/backup.json')
        target.must("rm -f /run/cleaned; systemctl start --no-block rigwright-backup-run-home.service")
        target.must("until pgrep -x restic > /dev/null; do sleep 0.2; done; sleep 2")

    yield begin
    for target in targets:
        target.run(
            "test -e /root/backup.json && mv /root/backup.json /etc/rigwright/backup.json; rm -f /home/owner/large"
        )


def test_a_server_that_restarts_in_the_middle_costs_nothing(
    targets: list[Machine], gateway: Machine, slow: Callable[[Machine], None], backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        slow(target)
    gateway.must("systemctl stop rest-server && sleep 2 && systemctl start rest-server")
    for target in targets:
        target.must(
            "while systemctl is-active rigwright-backup-run-home.service | grep -q activating; do sleep 0.5; done",
            seconds=120,
        )
        assert state(target, "run", "home")["kind"] == "ok"
        first, before = backed_up[target.host.name]
        assert restored(target, "home", first) == before


def test_a_run_that_is_killed_is_told_cleaned_up_after_and_made_up_for(
    targets: list[Machine], slow: Callable[[Machine], None], verified: Verified, backed_up: dict[str, tuple[str, str]]
) -> None:
    for target in targets:
        slow(target)
        target.must("systemctl kill --signal=SIGKILL rigwright-backup-run-home.service")
        target.must(
            "while systemctl is-active rigwright-backup-run-home.service | grep -q activating; do sleep 0.5; done"
        )
        assert target.run("test -e /run/cleaned").rc == 0, "the hook for the end"
        assert state(target, "run", "home")["exit_code"] == 1
        assert metric(target, "last_exit_code", "home") == 1
        assert "failed rigwright-backup-run-home.service" in target.must(
            "journalctl -u 'rigwright-backup-failed@*' --no-pager"
        )
    for found in verified().values():
        assert found["backup.run.home"] == "fail"
        assert (found["backup.repository.gateway"], found["backup.repository.disk"]) == ("pass", "pass")
    for target in targets:
        target.must("mv /root/backup.json /etc/rigwright/backup.json; rm -f /home/owner/large")
        command(target, "run home")
        first, before = backed_up[target.host.name]
        assert restored(target, "home", first) == before


def test_another_password_is_taken_by_the_repository_and_a_wrong_one_is_refused(
    apply: Callable[..., Any], verified: Verified, targets: list[Machine], backed_up: dict[str, tuple[str, str]]
) -> None:
    disk = {"name": "disk", "url": "/srv/backup-disk", "password": "Sandbox-another-1"}
    jobs = [{"name": "etc", "repository": "disk", "paths": ["/srv/work"], "retention": {"last": 1}}]
    changed = {"backup_repositories": [disk], "backup_jobs": jobs}
    result = apply(variables=changed)
    assert result.rc == 0, result.output
    for target in targets:
        assert (
            target.run(
                "printf Sandbox-repository-2 > /root/old; RESTIC_PASSWORD_FILE=/root/old restic -r /srv/backup-disk --no-cache cat config"
            ).rc
            != 0
        )
        command(target, "run etc")
        assert target.run("systemctl cat rigwright-backup-run-home.timer").rc != 0, (
            "what is no longer asked for is gone"
        )
    assert {found["backup.repository.disk"] for found in verified(changed).values()} == {"pass"}

    target = targets[0]
    target.must("echo never-a-password > /etc/rigwright/backup/disk.password")
    wrong = {**changed, "backup_repositories": [{**disk, "password": "Sandbox-not-this"}]}
    result = apply(hosts=target.host.name, variables=wrong)
    assert result.rc != 0
    assert "takes neither the new password nor the one in place" in result.text
    assert "Sandbox-not-this" not in result.output
    assert apply().rc == 0, "and back to what the scenario asks for"


def test_the_playbooks_show_a_plan_and_lose_nothing(
    targets: list[Machine], backed_up: dict[str, tuple[str, str]]
) -> None:
    target = targets[1]
    inventory = str(lab.read("molecule").inventory)

    def play(name: str, **variables: object) -> tuple[int, str]:
        asked = {
            "backup_now_hosts": "debian13",
            "restore_drill_hosts": "debian13",
            **lab.looked_up("molecule"),
            **variables,
        }
        rc, output = playbook.run(
            [f"playbooks/{name}.yml", "--inventory", inventory, "--extra-vars", json.dumps(asked)], lab.ROOT, os.environ
        )
        return rc, " ".join(output.split())

    rc, output = play("backup_now", backup_now_jobs="home,etc")
    assert rc == 0, output
    wanted = {"restore_host": "debian13", "restore_job": "home", "restore_paths": [f"{WORK}/thesis"]}
    rc, output = play("restore_files", **wanted, restore_target="/")
    assert rc != 0 and "1 files are there already" in output
    rc, output = play("restore_files", **wanted, restore_target="/var/elsewhere")
    assert rc == 0 and "what: 1 files" in output and target.run("test -e /var/elsewhere").rc != 0
    rc, output = play("restore_files", **wanted, restore_target="/var/elsewhere", restore_confirm=True)
    assert rc == 0 and target.must(f"cat /var/elsewhere{WORK}/thesis") == target.must(f"cat {WORK}/thesis")
    rc, output = play("restore_drill", restore_drill_jobs="home,etc")
    assert rc == 0 and "files restored and compared" in output


def test_what_is_well_passes(verified: Verified, targets: list[Machine], backed_up: dict[str, tuple[str, str]]) -> None:
    for target in targets:
        for words in (
            "run home",
            "run etc",
            "drill home",
            "drill etc",
            "check gateway",
            "check disk",
            "forget etc",
            "prune disk",
        ):
            command(target, words)
    for found in verified().values():
        assert set(found.values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"backup_schedule": "someday"}, "backup_schedule: is 'someday', which systemd does not understand"),
        (
            {"backup_repositories": [{"name": "disk", "url": "/srv/backup-disk"}]},
            "backup_repositories: has no password for disk",
        ),
    ],
)
def test_bad_input_is_refused_with_the_variable_and_changes_nothing(
    refused: Callable[..., None], variables: dict[str, Any], words: str
) -> None:
    refused(variables, words)
