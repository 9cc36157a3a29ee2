# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import units
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import Host

from tests.unit.support.backup.hosts import CHECKOUT, PASSWORD, request

HARDENING = yaml.safe_load((CHECKOUT / "roles/common/vars/main/hardening.yml").read_text())["__common_hardening"]


def files(**changes: Any) -> dict[str, str]:
    """Return the units by their names."""
    found = planning.plan_present(request(hardening=HARDENING, **changes), Host())
    assert found.requirements == []
    return {row["path"].rpartition("/")[2]: row["content"] for row in found.files if "content" in row}


def settings(text: str, name: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


def test_units_have_only_the_capabilities_they_need() -> None:
    found = files()
    assert settings(found["rigwright-backup-run-home.service"], "AmbientCapabilities") == ["CAP_DAC_READ_SEARCH"]
    assert settings(found["rigwright-backup-run-home.service"], "CapabilityBoundingSet")[-1] == "CAP_DAC_READ_SEARCH"
    for verb in ("forget-home", "prune-disk", "check-disk"):
        text = found[f"rigwright-backup-{verb}.service"]
        assert settings(text, "AmbientCapabilities") == [] and settings(text, "CapabilityBoundingSet") == [""]
    for name, text in found.items():
        if name.endswith(".service"):
            assert settings(text, "User") == ["rigwright-backup"]
            assert settings(text, "NoNewPrivileges") == ["yes"]


def test_passwords_are_credentials_only() -> None:
    rest = {"name": "nas", "url": "rest:https://nas/", "user": "me", "user_password": "secret-of-rest"}
    text = files(repositories=[rest])["rigwright-backup-run-home.service"]
    assert "backup.json:/etc/rigwright/backup.json" in settings(text, "LoadCredential")
    assert "nas.password:/etc/rigwright/backup/nas.password" in settings(text, "LoadCredential")
    assert PASSWORD not in text and "secret-of-rest" not in text and settings(text, "Environment") == []


def test_a_password_file_is_written_for_systemd_unquoted() -> None:
    text = files(repositories=[{"password": "", "password_file": '/root/my "secrets"/100%'}])[
        "rigwright-backup-run-home.service"
    ]
    assert 'disk.password:/root/my "secrets"/100%%' in settings(text, "LoadCredential")
    assert not any("/etc/rigwright/backup/disk.password" in line for line in settings(text, "LoadCredential"))


def test_a_file_of_a_password_is_looked_at_before_each_run() -> None:
    for name, text in files(repositories=[{"password": "", "password_file": "/root/x"}]).items():
        verb, subject = name.removesuffix(".service").split("-")[-2:]
        if name.endswith(".service"):
            assert settings(text, "ExecStartPre") == [f"+/usr/local/sbin/rigwright-backup step pre {verb} {subject}"]


def test_hooks_and_dumps_run_as_root_and_the_end_always_runs() -> None:
    job = {"name": "home", "paths": ["/home"], "pre": [{"command": ["x"]}], "dumps": [{"name": "d", "command": ["y"]}]}
    text = files(jobs=[job])["rigwright-backup-run-home.service"]
    assert settings(text, "ExecStartPre") == ["+/usr/local/sbin/rigwright-backup step pre run home"]
    assert settings(text, "ExecStart") == [
        f"{plus}/usr/local/sbin/rigwright-backup step {part} run home" for plus, part in (("+", "dumps"), ("", "main"))
    ]
    assert settings(text, "ExecStopPost") == ["+/usr/local/sbin/rigwright-backup step end run home"]


def test_a_backup_yields_but_does_not_wait_for_idle() -> None:
    text = files()["rigwright-backup-run-home.service"]
    assert settings(text, "Nice") == ["19"] and settings(text, "IOSchedulingClass") == ["idle"]
    assert settings(text, "CPUSchedulingPolicy") == []


def test_a_failure_runs_the_notify_command() -> None:
    assert "OnFailure" not in str(files())
    found = files(notify_command=["/usr/local/bin/tell", "100 % of $it", ""])
    assert settings(found["rigwright-backup-run-home.service"], "OnFailure") == ["rigwright-backup-failed@%n.service"]
    assert settings(found["rigwright-backup-failed@.service"], "ExecStart") == [
        '/usr/local/bin/tell "100 %% of $$it" "" %i'
    ]


def test_a_failure_is_sent_whatever_the_command_does() -> None:
    found = files(notify=True, notify_command=["/bin/false"])
    assert settings(found["rigwright-backup-drill-home.service"], "OnFailure") == ["rigwright-backup-failed@%n.service"]
    assert settings(found["rigwright-backup-failed@.service"], "ExecStart") == [
        "-+/usr/local/sbin/rigwright-backup report %i",
        "/bin/false %i",
    ]


def test_a_job_has_its_own_time_and_one_without_has_no_timer() -> None:
    found = files(
        jobs=[{"name": "a", "paths": ["/a"], "schedule": "hourly"}, {"name": "b", "paths": ["/b"], "schedule": ""}]
    )
    assert settings(found["rigwright-backup-run-a.timer"], "OnCalendar") == ["hourly"]
    assert settings(found["rigwright-backup-run-a.timer"], "Persistent") == ["true"]
    assert "rigwright-backup-run-b.service" in found and "rigwright-backup-run-b.timer" not in found


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_takes_all_of_them(tmp_path: Path) -> None:
    job = {"name": "home", "paths": ["/home"], "pre": [{"command": ["x"]}], "dumps": [{"name": "d", "command": ["y"]}]}
    found = files(jobs=[job], repositories=[{"url": "/backup/with a space/100%"}], notify_command=["/bin/true", "a b"])
    for name, text in found.items():
        (tmp_path / name).write_text(text.replace(units.PROGRAM, "/bin/true"))
    done = subprocess.run(
        [
            "systemd-analyze",
            "verify",
            "--man=no",
            *sorted(str(path) for path in tmp_path.iterdir() if "@" not in path.name),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or "rigwright" in line] == []


def test_no_source_is_hidden_from_the_unit_that_reads() -> None:
    """Check the settings that hide paths; of settings that occur twice the last one counts."""
    text = files()["rigwright-backup-run-home.service"]
    last = {name: settings(text, name)[-1] for name in ("ProtectKernelModules", "ProtectHome", "PrivateTmp")}
    assert last == {"ProtectKernelModules": "no", "ProtectHome": "read-only", "PrivateTmp": "no"}
    for name in ("InaccessiblePaths", "TemporaryFileSystem", "RootDirectory", "RootImage", "PrivateUsers"):
        assert settings(text, name) == [], name
