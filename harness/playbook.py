"""`ansible-playbook` again and again, each run in a fork of one process that has loaded Ansible already.

Tests of roles run it hundreds of times. A run without changes takes 9.8 s of processor time for two hosts, of which loading Ansible
and packing the same modules again take 3 (measured, ansible-core 2.21). A fork inherits what is loaded, and shares the folder
of packed modules (`ansiballz_cache` in Ansible's `local_tmp`).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["ansible.cli.playbook"])


def run(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run `ansible-playbook` in a folder with this environment alone; return its exit status and all that it said.

    ansible.cfg and the variables that Ansible reads while it is loaded, are those of the first run.
    """
    # Only this user can read it: Ansible may say what a test keeps secret.
    with tempfile.NamedTemporaryFile() as output:
        process = FORKS.Process(target=_play, args=(list(arguments), folder, dict(env), output.name))
        process.start()
        process.join()
        return process.exitcode or 0, output.read().decode()


def _play(arguments: list[str], folder: Path, env: dict[str, str], output: str) -> None:
    with open(output, "wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    from ansible.cli.playbook import PlaybookCLI  # loaded already, and not by who only imports this file

    PlaybookCLI.cli_executor(["ansible-playbook", *arguments])
