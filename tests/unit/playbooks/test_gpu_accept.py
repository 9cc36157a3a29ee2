# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook gpu_accept on three hosts, which all are this machine, with a fake GPU and a fake measuring program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.fakes.nvml import fake
from tests.unit.support.gpu import measuring_program

CHECKOUT = Path(__file__).parents[3]
HOSTS = ("one", "two", "three")


@pytest.fixture
def play(run_plays, tmp_path, monkeypatch):
    collection = tmp_path / "collections/ansible_collections/rigwright/workstation"
    collection.mkdir(parents=True)
    # Without the roles, which refuse a host without systemd: the playbook has to run without them.
    for part in ("galaxy.yml", "meta", "playbooks", "plugins"):
        (collection / part).symlink_to(CHECKOUT / part)

    def run(before: str = "", **variables):
        python = measuring_program.write(tmp_path, before)
        given = {
            "ansible_become": False,
            "workstation_gpu": True,
            "gpu_accept_python": str(python),
            "gpu_accept_quick": True,
            "gpu_accept_user": "root",
            "gpu_accept_baseline": "ignore",
            "gpu_accept_file": str(tmp_path / "gpus.json"),
            **variables,
        }
        plays = [{"import_playbook": "rigwright.workstation.gpu_accept"}]
        (tmp_path / "groups.yml").write_text(json.dumps({"workstations": {"hosts": dict.fromkeys(HOSTS)}}))
        with fake(["H200"]) as machine:
            for name, value in machine.env.items():
                monkeypatch.setenv(name, value)
            machine.set(
                0, **{"clock.1.current": 1700, "power.usage": 690000, "temperature.gpu": 60, "events.current": 4}
            )
            return run_plays(plays, "-i", "groups.yml", "-e", json.dumps(given), hosts=HOSTS)

    return run


def test_healthy_cards_pass_and_are_written_to_a_file(play, tmp_path):
    run = play()

    assert run.rc == 0, run.output
    assert "one: 1 GPU to measure, which takes about" in run.output
    assert "one: GPU 0: alone (1 of 1), about" in run.output
    accounts = json.loads((tmp_path / "gpus.json").read_text())
    assert sorted(accounts) == sorted(HOSTS)
    assert {gpu["verdict"] for found in accounts.values() for gpu in found["gpus"]} == {"passed"}
    assert accounts["one"]["links"]["skipped"]
    findings = run.report["hosts"]["one"]["findings"]
    # One GPU has no other to talk to.
    assert [finding["status"] for finding in findings] == ["pass", "skip", "skip", "pass"]
    assert "gpu_fleet.alike" in [finding["id"] for finding in findings]


def test_only_the_host_with_a_slow_card_fails(play, tmp_path):
    # The first host has the slow card.
    run = play(f"try: os.mkdir({str(tmp_path / 'slow')!r}); slow = 0.5\nexcept FileExistsError: slow = 1")

    assert run.rc == 2, run.output
    failed = {
        host: [
            finding["id"].rpartition("_")[2]
            for finding in found["findings"]
            if finding["status"] == "fail" or finding["status"] == "warn"
        ]
        for host, found in run.report["hosts"].items()
    }
    assert sorted(len(ids) for ids in failed.values()) == [0, 0, 2], failed
    assert "hardware: copy: 2150 of 4814" in " ".join(run.output.split())


def test_a_host_without_a_gpu_has_nothing_to_measure(play):
    run = play(workstation_gpu=False)

    assert run.rc == 0, run.output
    assert run.report["hosts"]["one"]["findings"] == []
