# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module, and everything that modules import, obeys; each rule is shown to find its flaw."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.architecture import in_packages
from tests.contract.sources import calls as called
from tests.contract.sources import nodes

CHECKOUT = Path(__file__).parents[2]
MODULES = sorted((CHECKOUT / "plugins/modules").glob("*.py"))
PYTHON = sorted((CHECKOUT / "plugins").rglob("*.py"))
PACKAGES = CHECKOUT / "plugins/module_utils"
UTILS = sorted(PACKAGES.rglob("*.py"))
# What has to be installed for a part of a module's work, and the one file that uses it.
LIBRARIES = {"_gpu/nvml.py": "pynvml", "_conda/rattler.py": "rattler"}
# How a module holds a lock of the host: _core/lock.py, and what uses it.
LOCKS = ("module_lock", "host_lock", "alone", "locked")
# What changes a host without a lock, and why two runs at once do no harm.
WITHOUT_LOCK = {
    "gpu_accept": "writes the measurement of one card in one step, from nothing that it has read before",
    "machine_manifest": "writes one file in one step, of what the host is",
    "nvidia_driver_key": "hands one key to mokutil, which keeps the record",
}
OURS = "ansible_collections.rigwright.workstation.plugins.module_utils."


@functools.cache
def imported(text: str) -> tuple[tuple[int, str], ...]:
    """Return line and full name of everything that *text* imports."""
    return tuple(
        (node.lineno, f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name)
        for node in nodes(text)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


def dotted(path: Path) -> str:
    """Return the name of a file of module_utils as imports have it."""
    return ".".join(path.relative_to(PACKAGES).with_suffix("").parts)


def on_target() -> list[Path]:
    """Return modules, and those module_utils that reach the target with them."""
    reached, new = set(), set(MODULES)
    while new:
        reached |= new
        parts = [name.split(".") for path in new for _line, name in imported(path.read_text())]
        names = {".".join(each[:end]) for each in parts for end in range(1, len(each) + 1)}
        new = {path for path in UTILS if OURS + dotted(path) in names} - reached
    return sorted(reached)


def header(text: str) -> Iterator[str]:
    """Yield a missing licence, and missing deferred annotations, which Python 3.9 needs."""
    top = "\n".join(text.splitlines()[:8])
    if "SPDX-License-Identifier: GPL-3.0-or-later" not in top or "GNU General Public License v3.0+" not in top:
        yield "no licence in its first lines"
    if "\nfrom __future__ import annotations\n" not in text:
        yield "no `from __future__ import annotations`"


def errors(text: str) -> Iterator[str]:
    """Yield handlers that catch every exception and do not raise it again."""
    for node in nodes(text):
        if isinstance(node, ast.ExceptHandler) and ast.unparse(node.body[-1]) != "raise":
            caught = ast.unparse(node.type) if node.type else "everything"
            if re.search(r"\b(everything|Exception|BaseException)\b", caught):
                yield f"line {node.lineno} catches {caught}"


# What the library of Python 3.9 does not have, and is easily written: whole functions, arguments, and arguments that may be left out.
NEWER = {
    *("aiter", "anext", "contextlib.aclosing", "contextlib.chdir", "hashlib.file_digest", "inspect.get_annotations"),
    *("datetime.UTC", "enum.StrEnum", "itertools.batched", "itertools.pairwise", "tomllib", "typing.Self"),
}
NEWER_METHODS = {"add_note", "bit_count", "hardlink_to"}
NEWER_WORDS = {
    "dataclasses.dataclass": {"kw_only", "match_args", "slots", "weakref_slot"},
    "dataclasses.field": {"kw_only"},
    "glob.glob": {"dir_fd", "root_dir"},
    "glob.iglob": {"dir_fd", "root_dir"},
    "shutil.rmtree": {"dir_fd", "onexc"},
    "tempfile.TemporaryDirectory": {"delete", "ignore_cleanup_errors"},
    "zip": {"strict"},
}
ARGUMENTS = {"traceback.format_exception": 3, "traceback.format_exception_only": 2, "traceback.print_exception": 3}


def python_3_9(text: str, library: str = "") -> Iterator[str]:
    """Yield what is not the grammar of Python 3.9, and imports that have to be installed except *library*."""
    try:
        ast.parse(text, feature_version=(3, 9))
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    for line, name in imported(text):
        is_there = name.split(".")[0] in (*sys.stdlib_module_names, library) and name not in NEWER
        if not is_there and not name.startswith(("ansible.module_utils.", OURS)):
            yield f"line {line} imports {name}"
    for call, name in called(text):
        method, keywords = name.rpartition(".")[2], {word.arg for word in call.keywords}
        too_few = len(call.args) + len(call.keywords) < ARGUMENTS.get(name, 0) and not starred(call)
        if too_few or name in NEWER or method in NEWER_METHODS or keywords & NEWER_WORDS.get(name, set()):
            yield f"line {call.lineno} calls {name} as no Python 3.9 can"


def starred(call: ast.Call) -> bool:
    """Return whether a call has arguments that the source does not count."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(not word.arg for word in call.keywords)


# The fragment of internal modules of roles says for all of them what they support.
INTERNAL = "rigwright.workstation.plan"


def documentation(text: str, name: str) -> Iterator[str]:
    """Yield what is missing in DOCUMENTATION, EXAMPLES and RETURN, such as the support of check and diff mode."""
    constants = {
        target.id: node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    missing = [key for key in ("DOCUMENTATION", "EXAMPLES", "RETURN") if key not in constants]
    if missing:
        yield f"no {', '.join(missing)}"
        return
    try:
        documented, examples, _returned = (
            yaml.safe_load(constants[key]) for key in ("DOCUMENTATION", "EXAMPLES", "RETURN")
        )
    except yaml.YAMLError as error:
        yield f"its documentation is no YAML: {error}"
        return
    if documented.get("module") != name:
        yield "DOCUMENTATION names another module"
    internal = INTERNAL in documented.get("extends_documentation_fragment", [])
    if internal and documented.get("options"):
        yield "is internal to its role and documents options: the argument spec of the role is their only declaration"
    for mode in () if internal else ("check_mode", "diff_mode"):
        if documented.get("attributes", {}).get(mode, {}).get("support") not in ("full", "partial", "none", "N/A"):
            yield f"DOCUMENTATION does not say whether it supports {mode}"
    for task in examples or []:
        if not any(key.count(".") >= 2 for key in task):
            yield f"the example {task.get('name')} has no full name of a module"


def check_mode(text: str) -> Iterator[str]:
    """Yield whether a module that runs on a target lacks check mode."""
    tree = ast.parse(text)
    makes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("AnsibleModule", "HostModule"))
    ]
    for call in makes:
        if not any(word.arg == "supports_check_mode" and ast.unparse(word.value) == "True" for word in call.keywords):
            yield "supports_check_mode is not True"


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    """Return the calls of functions and methods of these names."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names
    ]


def lock(text: str) -> Iterator[str]:
    """Yield whether a module that changes a host holds no lock on its records."""
    tree = ast.parse(text)
    reason = [
        {word.arg: ast.unparse(word.value) for word in call.keywords}.get("changed")
        for call in calls(tree, "exit_json")
    ]
    is_reader = all(value == "False" for value in reason) and not calls(tree, "replace_file", "replace_link")
    if not is_reader and not calls(tree, *LOCKS):
        yield "changes a host, and takes no lock"


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(CHECKOUT / "plugins")))
def test_plugin(path):
    text = path.read_text()
    assert [*header(text), *errors(text)] == []


@pytest.mark.parametrize("path", on_target(), ids=in_packages)
def test_runs_on_the_oldest_target(path):
    assert list(python_3_9(path.read_text(), LIBRARIES.get(in_packages(path), ""))) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module(path):
    text = path.read_text()
    assert [*documentation(text, path.stem), *check_mode(text)] == []
    assert list(lock(text)) == [] or path.stem in WITHOUT_LOCK
    # A file without main() is the documentation of an action plugin.
    assert "def main(" in text or (CHECKOUT / "plugins/action" / path.name).exists()


@pytest.mark.parametrize("path", [path for path in UTILS if path.parent.name != "_roles"], ids=in_packages)
def test_pure_logic_has_unit_tests(path):
    if "def " not in path.read_text():
        return  # types, which mypy compares, or a spec, which test_shared_options.py compares
    folder = CHECKOUT / "tests/unit/plugins/module_utils" / path.relative_to(PACKAGES).parent
    assert list(folder.glob(f"test_{path.stem}*.py"))


@pytest.mark.parametrize("path", [path for path in UTILS if path.parent.name == "_roles"], ids=in_packages)
def test_each_plan_of_a_role_has_unit_tests(path):
    """Proofs have theirs beside the clients; nothing_seen.py runs all of them."""
    tests = "".join(test.read_text() for test in (CHECKOUT / "tests/unit/plugins/module_utils").rglob("test_*.py"))
    named = re.search(rf"_roles import \(?\s*(\w+ as \w+, )?{path.stem}\b", tests)
    assert "\ndef plan(" not in path.read_text() or named


DOCUMENTED = '''
DOCUMENTATION = """
module: x
attributes: {check_mode: {support: full}, diff_mode: {support: none}}
"""
EXAMPLES = """
- {name: Do, rigwright.workstation.x: {}}
"""
RETURN = ""
'''


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            header,
            "# GNU General Public License v3.0+\n# SPDX-License-Identifier: GPL-3.0-or-later\n\nfrom __future__ import annotations\n",
            "",
        ),
        (errors, "try: ...\nexcept OSError: ...", "try: ...\nexcept Exception: ..."),
        (errors, "try: ...\nexcept (OSError, ValueError): ...", "try: ...\nexcept (OSError, Exception): ..."),
        (errors, "try: ...\nexcept BaseException:\n  undo()\n  raise", "try: ...\nexcept BaseException:\n  undo()"),
        (errors, "try: ...\nfinally: ...", "try: ...\nexcept: ..."),
        (python_3_9, "import json", "import yaml"),
        (python_3_9, "import json", "import tomllib"),
        (python_3_9, f"from {OURS}_finding import parse", "from ansible.errors import AnsibleError"),
        (python_3_9, f"from {OURS[:-1]} import _finding", "from . import _finding"),
        (python_3_9, "if x: ...", "match x:\n  case 1: ..."),
        (
            python_3_9,
            "import traceback\ntraceback.format_exception(type(e), e, e.__traceback__)\ntraceback.format_exception(*info)",
            "import traceback\ntraceback.format_exception(e)",
        ),
        (python_3_9, "zip(a, b)", "zip(a, b, strict=True)"),
        (python_3_9, "from itertools import chain\nchain(a)", "from itertools import pairwise\npairwise(a)"),
        (python_3_9, "a.bit_length()", "a.bit_count()"),
        (check_mode, "AnsibleModule({}, supports_check_mode=True)", "AnsibleModule({})"),
        (check_mode, "AnsibleModule({}, supports_check_mode=True)", "AnsibleModule({}, supports_check_mode=False)"),
        (lock, "with module_lock(m, 'x'): m.exit_json(changed=a)", "m.exit_json(changed=a)"),
        (lock, "m.exit_json(changed=False)", "m.exit_json(**result)"),
        (lock, "m.exit_json(changed=False)", "replace_file(a, b)\nm.exit_json(changed=False)"),
        (lock, "with held.locked(): m.exit_json(changed=a)", "m.exit_json(changed=False)\nm.exit_json(changed=True)"),
        (lambda text: documentation(text, "x"), DOCUMENTED, ""),
        (lambda text: documentation(text, "x"), DOCUMENTED, DOCUMENTED.replace("module: x", "module: y")),
        (lambda text: documentation(text, "x"), DOCUMENTED, DOCUMENTED.replace("diff_mode", "diff")),
        (lambda text: documentation(text, "x"), DOCUMENTED, DOCUMENTED.replace("rigwright.workstation.x", "x")),
    ],
)
def test_rule_finds_its_flaw(check, good, bad):
    assert list(check(good)) == []
    assert list(check(bad)) != []
