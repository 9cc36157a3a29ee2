"""Run ansible-lint, with its syntax checks in forks of one process that has loaded Ansible.

It checks each playbook and each role with an `ansible-playbook` of its own, which takes most of its processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness import playbook

start = subprocess.run


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as `subprocess.run` does. The output of a syntax check is all in `stderr`, where ansible-lint reads errors."""
    if command[:2] != ["ansible-playbook", "--syntax-check"]:
        return start(command, **options)
    folder = Path(options.get("cwd") or Path.cwd())
    rc, output = playbook.run(command[1:], folder, options.get("env") or os.environ, own_settings=True)
    return subprocess.CompletedProcess(command, rc, "", output)


def main() -> None:
    # Not at the top: each fork imports this file.
    from ansiblelint.__main__ import _run_cli_entrypoint

    subprocess.run = run  # type: ignore[assignment]
    _run_cli_entrypoint()


if __name__ == "__main__":
    sys.argv[0] = "ansible-lint"
    main()
