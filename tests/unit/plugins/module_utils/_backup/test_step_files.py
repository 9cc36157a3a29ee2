# SPDX-License-Identifier: GPL-3.0-or-later
"""What root's last step takes of the files that the unit's user has left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import job as backup_job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import step_files as leaving
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.job import finish

from tests.unit.support.backup.hosts import Host

GOOD = {"kind": "ok", "words": "", "exit_code": 0, "files": 3, "duration_s": 0.5}
SYSTEMD = {"SERVICE_RESULT": "success", "EXIT_CODE": "exited", "EXIT_STATUS": "0"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, "/bin/false", settings={"user": "daemon"})


def result(host: Host) -> Path:
    return Path(leaving.folder(host.place, "run", "home")) / "result.json"


def link(path: Path) -> None:
    (path.parents[2] / "shadow").write_text(json.dumps(GOOD))
    path.symlink_to(path.parents[2] / "shadow")


def hard_link(path: Path) -> None:
    (path.parents[2] / "shadow").write_text(json.dumps(GOOD))
    path.hardlink_to(path.parents[2] / "shadow")


def foreign(path: Path) -> None:
    path.write_text(json.dumps(GOOD))
    os.chown(path, 4321, 4321)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def row(**changes: object) -> Callable[[Path], object]:
    return text(json.dumps({**GOOD, **changes}))


@pytest.mark.parametrize(
    ("lay", "why"),
    [
        (link, "is a link"),
        (hard_link, "several hard links"),
        (os.mkfifo, "is no regular file"),
        (Path.mkdir, "is no regular file"),
        (foreign, "belongs to uid 4321"),
        (text(json.dumps({**GOOD, "words": "x" * (5 << 20)})), "is larger than"),
        (text("[" * 100_000), "is no JSON"),
        (text("[1]"), "keys or types"),
        (text('{"kind": "ok", "bytes": NaN}'), "keys or types"),
        (row(kind=["ok"]), "keys or types"),
        (row(kind="splendid"), "keys or types"),
        (row(last_success=5), "keys or types"),
        (row(files=True), "keys or types"),
        (row(files=-1), "keys or types"),
        (row(mounts=["/data/../etc"]), "keys or types"),
        (row(words={"a": 1}), "keys or types"),
        (row(words="x\0y"), "keys or types"),
        (row(words="\ud800"), "keys or types"),
        (row(words="\U0001f600" * 4097), "keys or types"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_unexpected_content_of_the_unit_is_refused(host: Host, lay: Callable[[Path], object], why: str) -> None:
    lay(result(host))
    host.configure(job={"always": [{"command": ["touch", str(host.root / "cleaned")]}]})
    state = finish(host.config, host.place, "run", "home", SYSTEMD)
    assert (host.root / "cleaned").exists() and host.state("run") == state
    assert (state["kind"], state["exit_code"]) == ("failed", 1)
    assert state["words"].startswith("what the unit has left is not taken: result.json: ") and why in state["words"]
    assert "files" not in host.state("run")


def test_the_result_of_the_units_user_is_taken(host: Host) -> None:
    result(host).write_text(json.dumps(GOOD))
    os.chown(result(host), 1, 1)
    assert finish(host.config, host.place, "run", "home", SYSTEMD)["files"] == 3


def test_messages_of_any_length_and_bytes_are_accepted(host: Host) -> None:
    message = "\udcff\0" + "\U0001f600" * 9999
    leaving.write_step_file(host.place, "run", "home", "result.json", {**GOOD, "words": message, "lost": [message]})
    state = finish(host.config, host.place, "run", "home", SYSTEMD)
    assert state["kind"] == "ok" and state["words"].startswith("??\U0001f600") and state["lost"] == [state["words"]]


def test_the_state_is_saved_when_the_last_step_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(backup_job, "run_hooks", fail)
    result(host).write_text(json.dumps(GOOD))
    with pytest.raises(MemoryError):
        finish(host.config, host.place, "run", "home", SYSTEMD)
    assert (host.state("run")["kind"], host.state("run")["exit_code"]) == ("failed", 1)


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"SERVICE_RESULT": "exit-code", "EXIT_STATUS": "1"}, "failed"),
        ({"SERVICE_RESULT": "oom-kill", "EXIT_STATUS": "KILL"}, "failed"),
        ({"SERVICE_RESULT": "timeout"}, "timeout"),
        ({}, "failed"),
    ],
)
def test_a_success_is_one_only_where_systemd_says_so(host: Host, environment: dict[str, str], kind: str) -> None:
    result(host).write_text(json.dumps(GOOD))
    state = finish(host.config, host.place, "run", "home", environment)
    assert (state["kind"], state["exit_code"], "last_success" in state) == (kind, 1, False)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("sample.json", {"files": {"/../../etc/shadow": {"type": 1, "attributes": {}}}}),
        ("sample.json", {"files": {"/etc/passwd": {"type": "x", "attributes": {}}}}),
        ("dumps.json", {"wiki": "ok"}),
        ("manifest.json", {"problem": 1}),
    ],
)
def test_lists_are_held_to_their_types_too(host: Host, name: str, data: object) -> None:
    result(host).write_text(json.dumps(GOOD))
    result(host).with_name(name).write_text(json.dumps(data))
    state = finish(host.config, host.place, "run", "home", SYSTEMD)
    assert state["kind"] == "failed" and name in state["words"]
    assert not Path(host.place.state, "sample-home.json").exists()


def test_a_file_of_root_is_refused_from_another_owner(host: Host) -> None:
    result(host).write_text(json.dumps(GOOD))
    dumps = result(host).with_name("dumps.json")
    dumps.write_text("{}")
    os.chown(dumps, 1, 1)
    assert "belongs to uid 1" in finish(host.config, host.place, "run", "home", SYSTEMD)["words"]
