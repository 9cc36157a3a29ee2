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
VERIFY = """\
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import SPEC


def main():
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    host, status = module.params["context"]["host"], module.params["request"].get("is", "pass")
    proof = {"id": "ROLE.proof", "status": status, "evidence": f"proof of ROLE for {host}", "remedy": "repair ROLE"}
    module.exit_json(changed=False, findings=[proof])


if __name__ == "__main__":
    main()
"""


def make_collection(parent: Path, roles: Iterable[str]) -> Path:
    """Make the copy where the plays of a test look for it, and return it. Of the real modules, it has `role_modules` only."""
    collection = parent / "collections/ansible_collections/rigwright/workstation"
    modules = collection / "plugins/modules"
    modules.mkdir(parents=True)
    plugins = [f"plugins/{each.name}" for each in (ROOT / "plugins").iterdir() if each.name != modules.name]
    for linked in ("galaxy.yml", "meta", "playbooks", "plugins/modules/role_modules.py", *plugins):
        (collection / linked).symlink_to(ROOT / linked)
    for role in roles:
        (modules / f"{role}_verify.py").write_text(VERIFY.replace("ROLE", role))
        for name, text in ROLE.items():
            write(collection / "roles" / role / name, text.replace("ROLE", role))
    return collection


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
