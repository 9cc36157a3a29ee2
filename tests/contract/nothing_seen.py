"""Prove each role on a machine on which nothing is to be seen, and print the findings: `{role: {id: status}}`.

Every program ends at once, with the status that is given and without output. test_findings.py starts this file in namespaces of its own:
/etc, /var and /run are empty, and there is no network.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ansible.plugins.loader import init_plugin_loader

CHECKOUT = Path(__file__).parents[2]
# Before anything of the collection is imported.
init_plugin_loader([str(CHECKOUT / "collections")])

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.testing import patch_module_args  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.template import Templar  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._system import role_run  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import context_of  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (  # noqa: E402
    options_of,
    request_of,
    values_of,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import ROLES, variables_in  # noqa: E402

RUN, START = programs.run, programs.start
FACTS = {
    "architecture": "x86_64",
    "distribution": "Debian",
    "distribution_major_version": "13",
    "distribution_release": "trixie",
    "distribution_version": "13.2",
    "nodename": "ws",
    "os_family": "Debian",
    "rigwright": {
        "free_bytes": {"/": 1 << 40},
        "listeners": [],
        "managed": [],
        "systemd": {"running": True, "version": 257},
    },
}
HOST = {"ansible_facts": FACTS, "groups": {"all": ["ws"]}, "inventory_hostname": "ws", "omit": "omitted"}


def say_nothing(status: int) -> None:
    """Put a program that says nothing in the place of every program."""
    silent = ["true"] if status == 0 else ["false"]

    def run_command(_module: AnsibleModule, _command: Any, **options: Any) -> tuple[int, Any, Any]:
        nothing: Any = b"" if options.get("encoding", "") is None else ""
        return status, nothing, nothing

    AnsibleModule.run_command = run_command
    programs.run = lambda _command, *_arguments, **options: RUN(silent, **options)
    programs.start = lambda _command, *_arguments, **options: START(silent, **options)


def verify(role: str) -> list[dict[str, str]]:
    """Return the findings of a role with its defaults; none where the module fails or is interrupted by what is missing."""
    loader = DataLoader()
    variables = variables_in(ROLES / role, loader, {**HOST, "hostvars": {}})
    templar = Templar(loader=loader, variables=variables)
    options = options_of(str(ROLES / role))
    request, secrets = request_of(role, options, values_of(options, variables, templar))
    whole = {**request, **secrets, **templar.template(context_of(role, "verify", variables))}
    with patch_module_args({}):
        module = HostModule(argument_spec={}, supports_check_mode=True)
    findings: list[dict[str, str]] = role_run.load({"role": role, "kind": "verify", "request": whole}, module)().get(
        "findings", []
    )
    return findings


def statuses(role: str) -> dict[str, str]:
    try:
        return {finding["id"]: finding["status"] for finding in verify(role)}
    except Exception as error:  # noqa: BLE001 - a module that breaks lets nothing pass; the action reports it
        return {f"{role}.verification": f"fail: {type(error).__name__} {error}"}


def main(status: int) -> None:
    say_nothing(status)
    roles = sorted(path.stem for path in (CHECKOUT / "plugins/module_utils/_roles").glob("*.py"))
    # Most of the time they wait for answers.
    with ProcessPoolExecutor(len(roles), multiprocessing.get_context("fork")) as pool:
        print(json.dumps(dict(zip(roles, pool.map(statuses, roles), strict=True))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
