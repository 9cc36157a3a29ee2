# SPDX-License-Identifier: GPL-3.0-or-later
"""A module on this machine, as Ansible runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    """How Ansible ended, all that it said, and what the module returned."""

    rc: int
    output: str
    result: dict[str, Any]


def ask(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *options: str,
    env: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> Answer:
    """Run a module of the collection in this Python, which has what modules need, in this environment, for so long at most."""
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
    print(done.stdout, done.stderr)
    told = done.stdout.partition(" => ")[2].splitlines()
    return Answer(done.returncode, done.stdout + done.stderr, json.loads(told[0]) if told else {})


def told(name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the module returns, which has to succeed."""
    answer = ask(name, arguments)
    assert answer.rc == 0, answer.output
    return answer.result
