# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of modules by Ansible on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Answer:
    """Exit status and output of Ansible, and the result of the module."""

    rc: int
    output: str
    result: dict[str, Any]


def ask(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *options: str,
    env: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    shown: bool = True,
) -> Answer:
    """Run a module of the collection with this Python and an environment, within a time limit; show its output."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "adhoc", "localhost", "--one-line", *options),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
            *("-m", f"rigwright.workstation.{name}", *(["-a", json.dumps(arguments)] if arguments else [])),
        ],
        cwd=ROOT,
        env={
            **(os.environ if env is None else env),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    if shown:
        print(done.stdout, done.stderr)
    lines = done.stdout.partition(" => ")[2].splitlines()
    return Answer(done.returncode, done.stdout + done.stderr, json.loads(lines[0]) if lines else {})


def result_of(name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Run a module, which has to succeed, and return its result."""
    answer = ask(name, arguments)
    if answer.rc != 0:
        raise RuntimeError(answer.output)
    return answer.result
