# SPDX-License-Identifier: GPL-3.0-or-later
"""The password reaches mokutil as a hash in a file that only root reads; fake scripts replace both programs and record their input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_key

PASSWORD = "correct horse"
OPENSSL = """#!/bin/sh
echo "$0 $*" >> {folder}/argv
printf '$6$%s\\n' "$(cat)"
"""
MOKUTIL = """#!/bin/sh
echo "$0 $*" >> {folder}/argv
stat --format %a "$4" > {folder}/mode
cat "$4" > {folder}/hash
test ! -e {folder}/broken || {{ echo "Failed to enroll new keys" >&2; exit 1; }}
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("openssl", OPENSSL), ("mokutil", MOKUTIL)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    wanted = {"certificate": "/var/lib/dkms/mok.pub", "password": PASSWORD, **options}
    with patch_module_args(wanted), pytest.raises(SystemExit):
        nvidia_driver_key.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_password_is_in_no_argument(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)["changed"] is True
    assert PASSWORD not in (programs / "argv").read_text()
    assert "mokutil --import /var/lib/dkms/mok.pub --hash-file" in (programs / "argv").read_text()
    assert (programs / "hash").read_text() == f"$6${PASSWORD}"
    assert (programs / "mode").read_text() == "600\n"


def test_error_of_mokutil_is_reported(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (programs / "broken").touch()
    result = run(capsys)
    assert result["failed"] is True
    assert "Failed to enroll new keys" in result["msg"]
    assert PASSWORD not in json.dumps(result)


def test_check_mode_asks_nobody(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, _ansible_check_mode=True)["changed"] is True
    assert not (programs / "argv").exists()
