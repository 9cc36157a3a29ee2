"""Run `ansible-playbook` in a fork of a process that has loaded Ansible, and apply roles to hosts of the lab `molecule`.

Tests of roles run it hundreds of times. A run without changes takes 9.8 s of processor time for two hosts, of which loading Ansible
and packing the same modules again take 3 (measured, ansible-core 2.21). A fork inherits the loaded code, and shares the folder
of packed modules (`ansiballz_cache` in Ansible's `local_tmp`).
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.sandbox import lab

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["ansible.cli.playbook"])

REQUEST, REFUSED = "Apply the role with the next request", "Continue after the refusal"


def run(
    arguments: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    own_settings: bool = False,
    limit_s: float | None = None,
) -> tuple[int, str]:
    """Run `ansible-playbook` in a folder with this environment alone; return its exit status and its output.

    :param own_settings: read ansible.cfg of the folder. Otherwise settings are those of the first run, and the output is Ansible's own.
    """
    # Only this user can read the file: the output may have secrets of a test.
    with tempfile.NamedTemporaryFile() as output:
        process = FORKS.Process(target=_play, args=(list(arguments), folder, dict(env), own_settings, output.name))
        process.start()
        process.join(limit_s)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"ansible-playbook did not end in {limit_s} s: {output.read().decode()}")
        return process.exitcode, output.read().decode()


def _play(arguments: list[str], folder: Path, env: dict[str, str], own_settings: bool, output: str) -> None:
    with open(output, "wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    # Already loaded by the fork server; importing this file alone does not need them.
    from ansible import constants
    from ansible.cli.playbook import PlaybookCLI

    if own_settings:
        importlib.reload(constants)
    else:
        # `refusals` and tests read Ansible's own output. Ansible has read its variable for this before the fork.
        constants.DEFAULT_STDOUT_CALLBACK = "ansible.builtin.default"
    # The default, 1 ms, takes 5 % of a processor for as long as a host works (measured).
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = 0.02
    PlaybookCLI.cli_executor(["ansible-playbook", *arguments])


class Applied(NamedTuple):
    """The exit status of `ansible-playbook`, its output, and the report of each host (docs/report.md)."""

    rc: int
    output: str
    hosts: Mapping[str, Any]


def apply_role(role: str, hosts: str, variables: Mapping[str, Any], *options: str) -> Applied:
    """Apply a role with variables in addition to molecule/<role>/vars.yml; *options* are those of `ansible-playbook`.

    The variables are passed in a file, because secrets may be among them.
    """
    extra = {"apply_role": role, "apply_hosts": hosts, **lab.looked_up("molecule"), **variables}
    # A temporary folder, which only this user can read.
    with tempfile.TemporaryDirectory() as folder:
        return _apply("molecule/shared/apply.yml", Path(folder), extra, *options)


def refusals(role: str, host: str, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Apply a role to a host with one request after the other, in one run; return the output of each, empty if it was not refused.

    The variables of a request are those of its play, so extra variables of other hosts do not apply.
    """
    scenario = lab.ROOT / "molecule" / role / "vars.yml"
    defaults = yaml.safe_load(scenario.read_text()) if scenario.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "play.json")
        file.write_text(json.dumps([_refusal(role, host, {**defaults, **request}) for request in requests]))
        output = _apply(str(file), Path(folder), lab.looked_up("molecule")).output
    _before, *outputs = output.partition("PLAY RECAP")[0].split(f"PLAY [{REQUEST}]")
    if len(outputs) != len(requests):
        raise RuntimeError(output)
    return [text if REFUSED in text else "" for text in outputs]


def _refusal(role: str, host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    apply = {"name": "Apply the role", "ansible.builtin.include_role": {"name": f"rigwright.workstation.{role}"}}
    go_on = {"name": REFUSED, "ansible.builtin.debug": {"msg": "It was refused."}}
    return {
        "name": REQUEST,
        "hosts": host,
        "become": True,
        "gather_facts": False,
        # Not `vars_files`, which Ansible reads again for each task.
        "vars": variables,
        "tasks": [{"name": "Apply the role and expect a refusal", "block": [apply], "rescue": [go_on]}],
    }


def _apply(file: str, folder: Path, variables: Mapping[str, Any], *options: str) -> Applied:
    extra, report = folder / "variables.json", folder / "report.json"
    extra.write_text(json.dumps(variables))
    rc, output = run(
        [file, "--inventory", str(lab.LABS / "molecule.yml"), "--extra-vars", f"@{extra}", *options],
        lab.ROOT,
        os.environ | {"RIGWRIGHT_REPORT_PATH": str(report)},
    )
    # A playbook that cannot be read ends before a report is written.
    return Applied(rc, output, json.loads(report.read_text())["hosts"] if report.exists() else {})
