# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of users: their dockers, and the record of what the role did for them."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless, rootless_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.rootless import User
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.rootless_facts import (
    RECORD,
    read_record,
    read_user,
)

NAME = pwd.getpwuid(os.geteuid()).pw_name
UNIT = "/etc/systemd/user/docker.service"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rootless_facts, "ROOT", str(tmp_path))
    return tmp_path


def write(root: Path, path: str, text: str = "") -> None:
    (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (root / path.lstrip("/")).write_text(text)


@pytest.mark.parametrize("text", ["{", "[1"])
def test_damaged_record_raises(root: Path, text: str) -> None:
    write(root, RECORD, text)
    with pytest.raises(ValueError, match="."):
        read_record(Tree(str(root)))


def test_missing_record_is_empty(root: Path) -> None:
    assert read_record(Tree(str(root))) == {}


def test_unknown_user_has_no_facts(root: Path) -> None:
    assert read_user(lambda *_arguments, **_options: (0, "", ""), "nobody-of-that-name", [UNIT]) is None


def test_user_without_a_manager_has_no_docker(root: Path) -> None:
    write(root, f"/var/lib/systemd/linger/{NAME}")
    assert read_user(lambda *_arguments, **_options: (0, "", ""), NAME, [UNIT]) == User(os.geteuid(), lingers=True)


@pytest.mark.parametrize(
    "out",
    [
        "",
        "nonsense",
        "Id=other.service\n",
        "Id=docker.service\nActiveEnterTimestamp=Sat 99999-99-99 99:99:99 UTC\n",
        f"Id=docker.service\nActiveEnterTimestamp=Sat {'9' * 400}-01-01 00:00:00 UTC\n",
    ],
)
def test_manager_that_says_nonsense_is_silent(root: Path, out: str) -> None:
    write(root, f"/run/user/{os.geteuid()}/systemd/private")
    assert read_user(lambda *_arguments, **_options: (0, out, ""), NAME, [UNIT]) == User(os.geteuid(), silent=True)


def test_user_of_a_domain_lingers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless_facts.accounts, "uid_of", lambda _name: 70001)
    write(root, r"/var/lib/systemd/linger/CORP\\j\303\266rg")
    found = read_user(lambda *_arguments, **_options: (0, "", ""), "CORP\\jörg", [UNIT])
    assert found == User(70001, lingers=True)


def test_containers_of_a_docker_that_does_not_answer_are_unknown(root: Path) -> None:
    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        return (
            (0, "Id=docker.service\nNames=docker.service\nActiveState=active\n", "")
            if "show" in command
            else (124, "", "")
        )

    write(root, f"/run/user/{os.geteuid()}/systemd/private")
    found = read_user(run, NAME, [UNIT])
    assert found is not None
    assert found.containers == ("(docker does not answer)",)


def test_reading_as_a_user_is_limited_in_time_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootless, "READ_S", 60)
    endless = rootless.read_as_user(NAME, os.geteuid(), "yes")
    monkeypatch.setattr(rootless, "READ_S", 1)
    silent = rootless.read_as_user(NAME, os.geteuid(), "sleep", "60")
    assert len(subprocess.run(endless, capture_output=True, check=False).stdout) == 65536
    assert subprocess.run(silent, check=False).returncode == 124


@pytest.mark.parametrize(("seconds", "older"), [(-10, False), (10, True)])
def test_docker_is_older_than_its_files(root: Path, seconds: int, older: bool) -> None:
    stamp = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() - seconds))

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        if "show" in command:
            return 0, f"Id=docker.service\nNames=docker.service\nActiveState=active\nActiveEnterTimestamp={stamp}\n", ""
        return 0, "web\ntrain\n", ""

    write(root, f"/run/user/{os.geteuid()}/systemd/private")
    write(root, UNIT)
    expected = User(os.geteuid(), active=True, older=older, containers=("train", "web"))
    assert read_user(run, NAME, [UNIT]) == expected
