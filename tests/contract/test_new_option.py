# SPDX-License-Identifier: GPL-3.0-or-later
"""What one more option costs: files that a person changes, counted in a copy of the tree whose contract then holds."""

from __future__ import annotations

import filecmp
import sys
from pathlib import Path

import pytest

from .copies import copy_tree, run
from .sources import CHECKOUT

GPU = "plugins/module_utils/_gpu"
PACKAGE = "ansible_collections.rigwright.workstation.plugins.module_utils"

Edit = tuple[str, str, str]  # a file, a text in it, and what is written before that text


def spec(role: str, before: str, name: str, kind: str, default: str = "") -> Edit:
    """Return the declaration of an option in the argument spec of a role."""
    path = f"roles/{role}/meta/argument_specs.yml"
    text = (CHECKOUT / path).read_text()
    indent = next(line for line in text.splitlines() if line.strip() == f"{before}:").partition(before)[0]
    lines = [f"{name}:", "  description: An option of a test.", f"  type: {kind}"]
    lines += [f"  default: {default}"] if default else []
    return path, f"{indent}{before}:\n", "".join(f"{indent}{line}\n" for line in lines)


# Role to the edits for one more option, and a script that prints what the code makes of it.
OPTIONS: dict[str, tuple[list[Edit], str]] = {
    # The spec, and the code that writes smb.conf.
    "samba": (
        [
            spec("samba", "samba_global_options", "samba_deadtime", "int", "15"),
            ("plugins/module_utils/_samba/config.py", '        "disable netbios"', '        "deadtime": str(params["deadtime"]),\n'),
        ],
        f"from {PACKAGE}._samba.config import global_section\n"
        "print(global_section(request('samba', samba_deadtime=20), [])['deadtime'])",
    ),
    # The spec, and the sampler.
    "gpu_usage": (
        [
            spec("gpu_usage", "gpu_usage_idle_memory", "gpu_usage_save_s", "int", "60"),
            (f"{GPU}/usage/sampler.py", '    notify_socket: str = ""\n', "    save_s: int = 60\n"),
        ],
        f"from {PACKAGE}._gpu.usage import plan, program\n"
        "settings = {**plan.settings(request('gpu_usage', gpu_usage_save_s=20)), 'notify_socket': ''}\n"
        "print(program.settings_of(json.dumps(settings)).save_s)",
    ),
    # The spec of the module, its page, the spec of the role, and the task that calls the module.
    "gpu_sharing": (
        [
            (f"{GPU}/mig/options.py", '    "persist"', '    "repack": {"type": "int", "default": 0},\n'),
            ("plugins/modules/gpu_mig.py", "  persist:\n", "  repack: {description: An option of a test, type: int, default: 0}\n"),
            spec("gpu_sharing", "stop_services", "repack", "int"),
            ("roles/gpu_sharing/tasks/change_gpus.yml", '    persist: "', '    repack: "{{ item.repack }}"\n'),
        ],
        f"from {PACKAGE}._gpu.mig.options import with_defaults\n"
        f"from {PACKAGE}._gpu.mig.request import Request, parameters\n"
        f"from {PACKAGE}._gpu.sharing.request import read\n"
        f"from {PACKAGE}._gpu.nvml import Card\n"
        "rows = request('gpu_sharing', gpu_sharing_gpus=[{'device': 'all', 'mig': {'repack': 20}}])['gpus']\n"
        "(row,) = read(rows, [Card(0, 'GPU-1', '', '', None)]).mig\n"
        "print(parameters('GPU-1', Request(), with_defaults(row))['repack'])",
    ),
}  # fmt: skip
SCRIPT = """\
import json
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

def request(role, **values):
    found, secrets = request_of(role, options_of(f"roles/{role}"), values)
    return {**found, **secrets}

"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree with one more option of each role, and the pages that are made of them."""
    copy = copy_tree(tmp_path_factory.mktemp("tree"), "molecule")
    for edits, _script in OPTIONS.values():
        for path, old, new in edits:
            text = (copy / path).read_text()
            assert old in text
            (copy / path).write_text(text.replace(old, new + old, 1))
    run(copy, sys.executable, "-m", "harness", "pages")
    return copy


def changed(copy: Path) -> set[str]:
    files = (path.relative_to(copy) for path in copy.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path) for path in files if not filecmp.cmp(copy / path, CHECKOUT / path, shallow=False)}


@pytest.mark.parametrize(("role", "files"), [("samba", 2), ("gpu_usage", 2), ("gpu_sharing", 4)])
def test_one_more_option_changes_few_files(tree: Path, role: str, files: int) -> None:
    assert run(tree, sys.executable, "-c", SCRIPT + OPTIONS[role][1]) == "20"
    assert len({path for path, _old, _new in OPTIONS[role][0]}) == files


def test_other_files_are_made_and_the_contract_holds(tree: Path) -> None:
    edited = {path for edits, _script in OPTIONS.values() for path, _old, _new in edits}
    generated = {"docs/variables.md", *(f"roles/{role}/defaults/main.yml" for role in ("samba", "gpu_usage"))}
    assert changed(tree) == edited | generated
    tests = [f"tests/contract/test_{name}.py" for name in ("shared_options", "roles", "architecture")]
    which = "shared_options or variables or secrets or page_is_as_the_code_makes_it"
    run(tree, sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", which, *tests)
