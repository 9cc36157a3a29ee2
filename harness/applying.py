"""Apply a role to hosts of the lab `molecule`, as its tests and benchmarks do."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness import lab, playbook


class Applied(NamedTuple):
    """What `ansible-playbook` left: its exit status, all its words, and the report of each host (docs/report.md)."""

    rc: int
    output: str
    hosts: Mapping[str, Any]


def apply_role(role: str, hosts: str, variables: Mapping[str, Any], *options: str) -> Applied:
    """Apply a role; the variables come on top of molecule/<role>/vars.yml, and *options* are those of `ansible-playbook`.

    The variables travel in a file, because secrets may be among them.
    """
    # A folder of its own: only this user can look into it, and it goes at once.
    with tempfile.TemporaryDirectory() as folder:
        extra, report = Path(folder, "variables.json"), Path(folder, "report.json")
        asked = {"apply_role": role, "apply_hosts": hosts, **lab.looked_up("molecule"), **variables}
        extra.write_text(json.dumps(asked))
        inventory = str(lab.LABS / "molecule.yml")
        rc, output = playbook.run(
            ["molecule/shared/apply.yml", "--inventory", inventory, "--extra-vars", f"@{extra}", *options],
            lab.ROOT,
            os.environ | {"RIGWRIGHT_REPORT_PATH": str(report)},
        )
        # A playbook that cannot be read ends before there is anything to report.
        accounts = json.loads(report.read_text())["hosts"] if report.exists() else {}
    return Applied(rc, output, accounts)
