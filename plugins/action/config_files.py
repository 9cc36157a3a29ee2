# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of config_files: renders a role's files, then hands the whole set to one module run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets as random
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import bundle, collect
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_request import FILE, SET
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configure import ConfiguredResult
from ansible_collections.rigwright.workstation.plugins.plugin_utils._check_mode import changes
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse, recorded
from ansible_collections.rigwright.workstation.plugins.plugin_utils._formats import WRITERS, format_of
from ansible_collections.rigwright.workstation.plugins.plugin_utils._planned import findings_of, with_plan
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import own_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables
from ansible_collections.rigwright.workstation.plugins.plugin_utils._unchanged import is_as_planned, note_change

SOURCES = {
    "template": {"type": "str"},
    "content": {"type": "str"},
    "data": {"type": "raw"},
    "program": {"type": "str"},
}
FILES = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {**FILE, **SOURCES, "format": {"type": "str", "choices": sorted(WRITERS)}},
    "mutually_exclusive": [tuple(SOURCES)],
}

SALT_BYTES = 16
# Shorter parts of a secret file (numbers, switches) stay readable in the error of a check.
SECRET_FROM = 8


# The result of the module where nothing is due.
UNCHANGED: ConfiguredResult = {
    "changed": False,
    "changed_paths": [],
    "removed_paths": [],
    "recovered": False,
    "diff": [],
    "actions": {},
    "pending": [],
}


def _configured_sets(plan: t.Any) -> dict[str, str] | None:
    """Return the digest of each set that a plan has found as it was left; None of what is no plan."""
    return plan.get("configured_sets") if isinstance(plan, dict) else None


def _digest(request: JsonObject, *contents: dict[str, str]) -> str:
    """Return the digest of a request that was read and rendered: what the module makes of it depends on the host alone."""
    wanted = {name: value for name, value in request.items() if name != "changed_paths"}
    text = json.dumps([wanted, *contents], sort_keys=True)
    return hashlib.sha256(text.encode() + _sources()).hexdigest()


def _note(digest: str, noted: str) -> str:
    """Return the note of a digest, with the salt of another note: the digest of a request with a secret has one."""
    salt, has_salt, _hash = noted.rpartition("$")
    if not has_salt:
        return digest
    return f"{salt}${hashlib.scrypt(digest.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()}"


def _sources() -> bytes:
    """Return the code that carries a request out: a checkout changes without a new version."""
    return "".join(text for _name, text in sorted(collect("_system.configure").items())).encode()


def _version() -> str:
    """Return the version of this collection, installed or in a checkout."""
    root = Path(__file__).parents[2]
    if (root / "MANIFEST.json").is_file():
        return str(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
    return str(yaml_load((root / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def _program(path: str, entry: str) -> str:
    """Return the program for a path, as base64."""
    try:
        content = bundle(entry)
    except ImportError as error:
        raise AnsibleActionFail(
            f"{path}: program: {entry} is no private module ({error}): name one below plugins/module_utils, as _backup.cli"
        ) from error
    return base64.b64encode(content).decode()


def _secret_parts(item: FileRow, text: str) -> list[str]:
    """Return the parts of a secret file that errors must not show: the values of data, or the lines of a text and their words."""
    if item.get("data") is not None:
        parts = [form for leaf in _leaves(item["data"]) for form in _written(leaf)]
    else:
        lines = [line.strip() for line in text.splitlines()]
        parts = lines + [word for line in lines for word in re.split(r"[\s\"',;:=]+", line)]
    return [word for word in parts if len(word) >= SECRET_FROM]


def _written(leaf: str) -> list[str]:
    """Return the forms in which a program may print a value: whole, by lines, and as JSON and TOML escape it."""
    lines = [leaf, *(line.strip() for line in leaf.splitlines())]
    return [
        form for line in lines for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])
    ]


def _leaves(data: t.Any) -> t.Iterator[str]:
    if isinstance(data, (dict, list)):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _leaves(value)
    else:
        yield str(data)


class ActionModule(ActionBase):
    """config_files"""

    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        plan = self._task.args.get("plan")
        self._task.args = with_plan(self._task.args, own_role(self._task))
        _result, request = self.validate_argument_spec(argument_spec={**SET, "files": FILES})
        result = self._configure(request, plan, task_vars)
        findings = findings_of(plan, result) if request["state"] == "present" and not result.get("failed") else []
        if not findings:
            return result
        try:
            parsed = [parse(finding) for finding in findings]
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, **recorded(parsed, self._task, task_vars or {}, changed=result["changed"])}

    def _configure(
        self, request: dict[str, t.Any], plan: t.Any, task_vars: dict[str, t.Any] | None
    ) -> dict[str, t.Any]:
        contents: dict[str, str] = {}
        programs: dict[str, str] = {}
        if request["state"] == "present":
            programs = {
                item["path"]: _program(item["path"], item["program"])
                for item in request["files"]
                if item["program"] is not None and item["state"] != "absent"
            }
            contents = {
                item["path"]: self._render(item, task_vars or {})
                for item in request["files"]
                if item["state"] != "absent" and item["program"] is None
            }
        secrets = [
            word
            for item in request["files"]
            if item["secret"]
            for word in _secret_parts(item, contents.get(item["path"], ""))
        ]
        for item in request["files"]:
            for source in (*SOURCES, "format"):
                item.pop(source, None)
        role = own_role(self._task) or ""
        host = (task_vars or {}).get("inventory_hostname", "")
        configured = _configured_sets((task_vars or {}).get(f"__{role}_plan") if plan is None else plan)
        is_secret = any(item["secret"] for item in request["files"])
        # Only the plan of a role reads what is noted of a set.
        is_noted = configured is not None and request["state"] == "present"
        digest = _digest(request, contents, programs) if is_noted else ""
        noted = configured.get(request["name"], "") if configured else ""
        if noted and not request["changed_paths"] and is_as_planned(host, role) and noted == _note(digest, noted):
            return dict(UNCHANGED)
        payload = {
            "digest": _note(digest, f"{random.token_hex(SALT_BYTES)}$") if digest and is_secret else digest,
            "files": contents,
            "programs": programs,
            "secrets": sorted(set(secrets)),
            # In check mode: True if an earlier task would change something, and may create directories.
            "changes_before": self._task.check_mode and changes(task_vars or {}),
            "version": _version() if self._task.diff else "",
        }
        # The items of a loop run in one worker, which hears of no change.
        note_change(host)
        result: dict[str, t.Any] = self._execute_module(
            module_name="rigwright.workstation.config_files_apply",
            module_args={**request, "contents": json.dumps(payload)},
            task_vars=task_vars,
        )
        return result

    def _render(self, item: FileRow, task_vars: Variables) -> str:
        if item.get("content") is not None:
            return str(item["content"])
        if item.get("data") is not None:
            return self._serialise(item)
        return self._template(item.get("template") or f"{item['path'].lstrip('/')}.j2", task_vars)

    def _serialise(self, item: FileRow) -> str:
        name = item.get("format") or format_of(item["path"])
        if name is None:
            raise AnsibleActionFail(
                f"{item['path']}: its ending names no format: set format to one of {', '.join(sorted(WRITERS))}"
            )
        try:
            return WRITERS[name](item["data"])
        except ValueError as error:
            raise AnsibleActionFail(f"{item['path']}: {error}") from error

    def _template(self, name: str, task_vars: Variables) -> str:
        lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        (text,) = lookup.run(
            [self._find_needle("templates", name)],
            variables={"ansible_search_path": self._task.get_search_path()},
            # Those of `variables` would be copied for each file, to the depth.
            template_vars=task_vars,
        )
        return str(text)
