# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the collection by links, with made-up roles. What verifies them finds what the variable <role>_is says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.sandbox.lab import ROOT

# By the file; a name in capitals is the role.
ROLE = {
    "meta/argument_specs.yml": "argument_specs: {main: {options: {ROLE_is: {}, ROLE_state: {}}}}\n",
    "defaults/main.yml": "{ROLE_is: pass, ROLE_state: present}\n",
    "vars/main.yml": "__ROLE_context: {host: '{{ inventory_hostname }}'}\n",
}
CODE = """\


def verify(request, host):
    status, evidence = request.get("is", "pass"), f"proof of ROLE for {request['host']}"
    return [{"id": "ROLE.proof", "status": status, "evidence": evidence, "remedy": "repair ROLE"}]
"""


def make_collection(parent: Path, roles: Iterable[str]) -> Path:
    """Make the copy where the plays of a test look for it, and return it. Of the real modules, it has `role` only."""
    collection = parent / "collections/ansible_collections/rigwright/workstation"
    modules, utils = collection / "plugins/modules", collection / "plugins/module_utils"
    plugins = [
        f"plugins/{each.name}" for each in (ROOT / "plugins").iterdir() if each.name not in ("modules", utils.name)
    ]
    packages = [f"plugins/module_utils/{each.name}" for each in (ROOT / "plugins/module_utils").iterdir()]
    modules.mkdir(parents=True)
    (utils / "_roles").mkdir(parents=True)
    for linked in ("galaxy.yml", "meta", "playbooks", "plugins/modules/role.py", *plugins, *packages):
        if not linked.endswith("/_roles"):
            (collection / linked).symlink_to(ROOT / linked)
    for role in roles:
        write(utils / "_roles" / f"{role}.py", CODE.replace("ROLE", role))
        for name, text in ROLE.items():
            write(collection / "roles" / role / name, text.replace("ROLE", role))
    return collection


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
