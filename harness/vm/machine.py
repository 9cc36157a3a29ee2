"""Ansible on machines of qemu: playbooks, and power cuts while they run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.sandbox.lab import ROOT, Refusal
from harness.vm.qemu import Machine

# A run of the whole site on an emulated machine takes minutes, and on busy processors many times that.
PLAY_S = 3600


@dataclass(frozen=True)
class Played:
    """The result of `ansible-playbook`: its exit status, its output, and the report of the host (docs/report.md)."""

    rc: int
    output: str
    report: Mapping[str, Any]

    @property
    def changed(self) -> list[str]:
        """Return the tasks that changed something."""
        task, tasks = "", []
        for line in self.output.splitlines():
            if found := re.match(r"(?:TASK|RUNNING HANDLER) \[(.+)\]", line):
                task = found[1]
            elif line.startswith("changed: "):
                tasks.append(task)
        return tasks

    @property
    def failed(self) -> dict[str, Mapping[str, str]]:
        """Return the findings that failed, by id."""
        return {row["id"]: row for row in self.report.get("findings", ()) if row["status"] == "fail"}


def start(machine: Machine, *arguments: str, variables: Mapping[str, Any] | None = None) -> subprocess.Popen[str]:
    """Start `ansible-playbook` against a machine, as a person would from here. Its output goes to a file of its own."""
    place = machine.place
    (place / "variables.json").write_text(json.dumps(variables or {}))
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": machine.port,
        "ansible_user": machine.user,
        "ansible_ssh_common_args": shlex.join(machine.ssh_options()),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = {group: {"hosts": {machine.name: host}} for group in ("bare_metal", "workstations")}
    (place / "inventory.json").write_text(json.dumps(inventory))
    with (place / f"ansible-{len(logs(machine)) + 1:02}.log").open("w") as output:
        return subprocess.Popen(
            ["ansible-playbook", "-i", place / "inventory.json", "-e", f"@{place / 'variables.json'}", *arguments],
            cwd=ROOT,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))},
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "ANSIBLE_TIMEOUT": "120",
                "ANSIBLE_PIPELINING": "true",
                "ANSIBLE_SSH_ARGS": "",
                "ANSIBLE_NOCOLOR": "true",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",  # `Played.changed` reads it
                "RIGWRIGHT_REPORT_PATH": str(place / "report.json"),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )


def logs(machine: Machine) -> list[Path]:
    """Return the output files of `ansible-playbook`, the latest last."""
    return sorted(machine.place.glob("ansible-*.log"))


def play(
    machine: Machine, *arguments: str, variables: Mapping[str, Any] | None = None, must_work: bool = True
) -> Played:
    """Run a playbook to its end. Raises Refusal when it fails and `must_work`, or takes longer than PLAY_S."""
    report = machine.place / "report.json"
    report.unlink(missing_ok=True)
    process = start(machine, *arguments, variables=variables)
    try:
        rc = process.wait(PLAY_S)
    except subprocess.TimeoutExpired:
        raise Refusal(
            f"ansible-playbook {' '.join(arguments)} did not end within {PLAY_S} s:\n{tail(machine)}"
        ) from None
    finally:
        end(process)
    if must_work and rc != 0:
        raise Refusal(f"ansible-playbook {' '.join(arguments)} failed:\n{tail(machine)}")
    hosts = json.loads(report.read_text())["hosts"] if report.exists() else {}
    return Played(rc, logs(machine)[-1].read_text(), hosts.get(machine.name, {}))


def cut_power(machine: Machine, condition: str, *arguments: str, variables: Mapping[str, Any] | None = None) -> None:
    """Run a playbook, and stop the machine as soon as a shell command succeeds there.

    Raises Refusal when the playbook ends first.
    """
    watch = ["ssh", *machine.ssh_options(), "-p", str(machine.port), f"{machine.user}@127.0.0.1"]
    process = start(machine, *arguments, variables=variables)
    watcher = subprocess.Popen(
        [*watch, f"sudo sh -c {shlex.quote(f'until {condition}; do sleep 0.3; done')}"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PLAY_S
    try:
        while watcher.poll() is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Refusal(f"`{condition}` never held while ansible-playbook ran:\n{tail(machine)}")
            time.sleep(0.05)
        machine.stop()
        if watcher.returncode != 0:
            raise Refusal(f"`{condition}` could not be asked of {machine.name}: ssh ended with {watcher.returncode}")
    finally:
        end(watcher)
        end(process)


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def tail(machine: Machine) -> str:
    return logs(machine)[-1].read_text(errors="replace")[-4000:]
