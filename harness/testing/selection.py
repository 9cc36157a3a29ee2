"""Select the unit tests that concern a role: the tests of every file that its code reaches.

A role names modules, filters and shared files in its YAML; these import others. The tests of a plugin have its name; any other test
belongs to what it imports, directly or through a helper of the tests, and to the roles that it names.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.testing.stage import ROOT

NAMESPACE = "rigwright.workstation."
IMPORTS = "ansible_collections." + NAMESPACE
DOCUMENTS = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
PLUGIN_KINDS = ("modules", "action", "filter", "callback", "lookup")


def unit_tests_of(role: str, root: Path = ROOT) -> list[Path]:
    """Return the unit tests that concern a role, relative to *root*."""
    reached = files_reached_by(role, root)
    named = re.compile(rf"(?<![a-z_.]){role}(?![a-z_])")

    def concerns(path: Path) -> bool:
        subject = subject_of(path, root)
        if subject:
            return subject in reached
        imports = imports_of_test(path, root)
        helpers = {each for each in imports if each.is_relative_to(root / "tests")}
        return not reached.isdisjoint(imports) or any(named.search(each.read_text()) for each in {path, *helpers})

    return [path.relative_to(root) for path in sorted((root / "tests/unit").rglob("test_*.py")) if concerns(path)]


def subject_of(test: Path, root: Path) -> Path | None:
    """Return the plugin that a test is named after: `_samba/test_config_users.py` tests `_samba/config.py`."""
    folder = root / test.parent.relative_to(root / "tests/unit")
    words = test.stem.removeprefix("test_").split("_")
    for count in range(len(words), 0, -1):
        path = folder / ("_".join(words[:count]) + ".py")
        if path.is_file():
            return path
    return None


def files_reached_by(role: str, root: Path = ROOT) -> set[Path]:
    """Return the plugins and shared Python files that a role reaches; `common` belongs to every role."""
    found: set[Path] = set()
    new = {path for name in roles_with(role, root) for path in files_named_in_role(name, root)}
    while new:
        found |= new
        new = {each for path in new for each in files_named_in_python(path, root)} - found
    return found


def roles_with(role: str, root: Path) -> set[str]:
    """Return the role and those that it includes."""
    found: set[str] = set()
    new = {role}
    while new:
        found |= new
        text = "".join(path.read_text() for name in new for path in yaml_of_role(name, root))
        new = set(re.findall(rf"name: {re.escape(NAMESPACE)}(\w+)", text)) - found
    return {name for name in found if (root / "roles" / name).is_dir()}


def yaml_of_role(role: str, root: Path) -> list[Path]:
    # What its README and its documentation name, it does not run.
    return [path for path in sorted((root / "roles" / role).rglob("*.yml")) if path.parent.name != "meta"]


def files_named_in_role(role: str, root: Path) -> Iterator[Path]:
    folder = root / "roles" / role
    yield from folder.rglob("*.py")
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file() and path.suffix in (".yml", ".j2"))
    for name in set(re.findall(rf"{re.escape(NAMESPACE)}(\w+)", text)):
        yield from plugins_called(name, root)
    for name in set(re.findall(r"\bprogram: (_[\w.]+)", text)):
        yield from existing(root / f"plugins/module_utils/{name.replace('.', '/')}.py")


def plugins_called(name: str, root: Path) -> Iterator[Path]:
    """Find a module, an action or a filter by its short name; a file of filters has several."""
    for kind in PLUGIN_KINDS:
        yield from existing(root / "plugins" / kind / f"{name}.py")
    for path in (root / "plugins/filter").glob("*.py"):
        if f'"{name}"' in path.read_text():
            yield path


def existing(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path


@functools.cache
def files_named_in_python(path: Path, root: Path) -> frozenset[Path]:
    """Return the files of the checkout that a Python file imports or names as a plugin, but for its documentation."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Assign) and is_document(node))]
    found: set[Path] = set()
    for name in imported(tree):
        found.update(files_of_import(name, root))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for short in re.findall(rf"(?<!\w){re.escape(NAMESPACE)}(\w+)", node.value):
                found.update(plugins_called(short, root))
    return frozenset(found - {path})


def is_document(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id in DOCUMENTS for target in node.targets)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_of_import(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module's full name; a name inside a module has none."""
    yield from existing(root / (name.removeprefix(IMPORTS).replace(".", "/") + ".py"))


def imports_of_test(path: Path, root: Path) -> set[Path]:
    """Return what a test imports, helpers of the tests followed."""
    found: set[Path] = set()
    new: Iterable[Path] = [path]
    while new:
        reached = {each for one in new for each in files_named_in_python(one, root)} - found
        found |= reached
        new = [each for each in reached if each.is_relative_to(root / "tests")]
    return found
