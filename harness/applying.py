"""Apply a role to hosts of the lab `molecule`, as its tests and benchmarks do."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness import playbook
from harness.sandbox import lab


class Applied(NamedTuple):
    """What `ansible-playbook` left: its exit status, all its words, and the report of each host (docs/report.md)."""

    rc: int
    output: str
    hosts: Mapping[str, Any]


def apply_role(role: str, hosts: str, variables: Mapping[str, Any], *options: str) -> Applied:
    """Apply a role; the variables come on top of molecule/<role>/vars.yml, and *options* are those of `ansible-playbook`.

    The variables travel in a file, because secrets may be among them.
    """
    asked = {"apply_role": role, "apply_hosts": hosts, **lab.looked_up("molecule"), **variables}
    # A folder of its own: only this user can look into it, and it goes at once.
    with tempfile.TemporaryDirectory() as folder:
        return _play("molecule/shared/apply.yml", Path(folder), asked, *options)


def refusals(role: str, host: str, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Apply a role to a host with one request after the other, in one run; return the output of each, empty where it was not refused.

    The variables of a request are those of its play: an extra variable of another host is not seen here.
    """
    with tempfile.TemporaryDirectory() as folder:
        plays = []
        for number, variables in enumerate(requests):
            file = Path(folder, f"{number}.json")
            file.write_text(json.dumps(variables))
            plays.append(_refusal(role, host, str(file)))
        playbook_file = Path(folder, "play.json")
        playbook_file.write_text(json.dumps(plays))
        output = _play(str(playbook_file), Path(folder), lab.looked_up("molecule")).output
    _before, *outputs = output.partition("PLAY RECAP")[0].split(f"PLAY [{REQUEST}]")
    if len(outputs) != len(requests):
        raise RuntimeError(output)
    return [text if REFUSED in text else "" for text in outputs]


REQUEST, REFUSED = "Apply the role with the next request", "Go on after the refusal"


def _refusal(role: str, host: str, variables: str) -> dict[str, Any]:
    scenario = lab.ROOT / "molecule" / role / "vars.yml"
    apply = {"name": "Apply the role", "ansible.builtin.include_role": {"name": f"rigwright.workstation.{role}"}}
    go_on = {"name": REFUSED, "ansible.builtin.debug": {"msg": "It was refused."}}
    return {
        "name": REQUEST,
        "hosts": host,
        "become": True,
        "gather_facts": False,
        "vars_files": [*([str(scenario)] if scenario.exists() else []), variables],
        "tasks": [{"name": "Have the request refused", "block": [apply], "rescue": [go_on]}],
    }


def _play(file: str, folder: Path, variables: Mapping[str, Any], *options: str) -> Applied:
    extra, report = folder / "variables.json", folder / "report.json"
    extra.write_text(json.dumps(variables))
    rc, output = playbook.run(
        [file, "--inventory", str(lab.LABS / "molecule.yml"), "--extra-vars", f"@{extra}", *options],
        lab.ROOT,
        os.environ | {"RIGWRIGHT_REPORT_PATH": str(report)},
    )
    # A playbook that cannot be read ends before there is anything to report.
    return Applied(rc, output, json.loads(report.read_text())["hosts"] if report.exists() else {})
