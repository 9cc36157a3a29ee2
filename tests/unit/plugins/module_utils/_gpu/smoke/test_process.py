# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs with a time limit."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import process
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.facts import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import Place
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.run import Trainer


def test_only_the_end_of_a_long_output_is_kept():
    outcome = process.execute(["sh", "-c", "yes | head --bytes 5000000"], 30)

    assert (outcome.status, len(outcome.stdout)) == (0, process.KEPT_BYTES)


def test_text_goes_to_standard_input():
    assert process.execute(["cat"], 30, "a program").stdout == "a program"


def test_program_is_killed_at_its_limit():
    begun = time.monotonic()
    outcome = process.execute(["sh", "-c", "echo started; exec sleep 60"], 0.5)

    assert (outcome.status, outcome.stdout) == (None, "started\n")
    assert time.monotonic() - begun < 20


def test_child_in_a_session_of_its_own_ends_with_the_program(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    before = process.children()
    child = f"exec >/dev/null 2>&1 </dev/null; echo $$ > {kept}; sleep 300 & exec sleep 300"
    line = f"setsid sh -c '{child}' & until [ -s {kept} ]; do sleep 0.02; done; echo done"
    outcome = process.execute(["sh", "-c", line], 30)
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    assert process.children() == before
    with pytest.raises(ProcessLookupError):
        os.kill(int(kept.read_text()), 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the user")
def test_program_of_another_user_gets_no_secret_of_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "SSH_AUTH_SOCK", "SUDO_COMMAND", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec env\n")
    python.chmod(0o755)
    for folder in tmp_path.relative_to("/").parents:
        if str(folder) not in (".", "tmp"):
            (Path("/") / folder).chmod(0o755)
    tmp_path.chmod(0o755)
    params: Any = {"epochs": 1, "accuracy": 0.5, "timeout_s": 5, "program": "", "gpu_options": []}
    trainer = Trainer(params, pwd.getpwnam("nobody"), Host(0))
    report = trainer.train_in_environment(Place("environment", "e", str(python)), [])
    assert "secret" not in report["words"]
    assert "CUDA_VISIBLE_DEVICES=1" in report["words"] and "PATH=" in report["words"]
