"""Select the tests that a change, or a role, can reach.

What a file depends on is read from it. Python: its imports, and the plugins, roles and paths that its strings name. YAML and templates of
a role: the modules, filters and roles that they name. A test depends on all that it reaches so. What is not understood selects everything.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from harness.sandbox.lab import ROOT, Refusal

NAMESPACE = "rigwright.workstation."
IMPORTS = "ansible_collections." + NAMESPACE
DOCUMENTS = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
PLUGIN_KINDS = ("modules", "action", "filter", "callback", "lookup")
# Changes that concern the tests which reach them, and nothing else. `roles/common` and `molecule/shared` are in every role.
UNDERSTOOD = re.compile(
    r"^(plugins/|roles/(?!common/)|tests/(unit|contract|world|site|upgrade|new_role|machine|hardware)/|molecule/(?!shared/)\w+/|playbooks/|docs/|changelogs/"
    r"|\.github/|[A-Z]+\.md$|LICENSE$|galaxy\.yml$|\.git\w+|\.git-blame-ignore-revs$|\.editorconfig$|meta/)"
)
# Whose strings name files that they read. The harness names most of the checkout, and a change of the harness concerns everything.
READERS = ("tests", "plugins")
# What tests read without naming it, by the beginning of their path. The unit stage notices what is missing here (`misses`).
READS_MORE = {
    "tests/unit/harness/testing/": ("docs", "molecule", "playbooks", "plugins", "roles", "tests/unit"),
    "tests/unit/harness/vm/": ("playbooks",),
    "tests/unit/plugins/module_utils/_core/test_bundle": ("plugins/module_utils",),
    "tests/unit/plugins/module_utils/_gpu/fit/test_run": ("plugins/module_utils/_gpu/fit",),
    "tests/unit/plugins/module_utils/_gpu/test_boot": ("plugins/module_utils/_gpu",),
    "tests/unit/plugins/module_utils/_gpu/usage/test_program": ("plugins/module_utils/_gpu/usage",),
    "tests/unit/plugins/plugin_utils/test__role_variables": ("playbooks",),
    "tests/unit/roles/test_units": ("plugins/module_utils", "roles"),
}
LONGEST_PATH = 200
# Files that people read, and tests that nothing else uses.
TEXT = re.compile(r"^(docs/.+\.md|changelogs/.+|[A-Z]+\.md|\.github/.+|tests/unit/(.+/)?test_\w+\.py)$")
EVERY_TEST = re.compile(r"^tests/unit/(.+/)?(conftest\.py|support/unsafe_paths\.py)$")


class Selection(NamedTuple):
    """The unit tests and the roles that a change reaches. *reason* says why it is everything."""

    tests: list[Path]
    roles: list[str]
    reason: str = ""


def select(changed: Iterable[str], root: Path = ROOT) -> Selection:
    """Return what a change of these files, relative to *root*, can reach."""
    names = sorted(changed)
    unknown = next((name for name in names if not UNDERSTOOD.match(name) or EVERY_TEST.match(name)), "")
    # What used a file that is gone can no longer be read from it.
    gone = next((name for name in names if not (root / name).exists() and not TEXT.match(name)), "")
    broken = next((name for name in names if name.endswith(".py") and not is_python(root / name)), "")
    if unknown or gone or broken:
        return Selection(all_unit_tests(root), all_roles(root), f"{unknown or gone or broken} concerns everything")
    paths = {root / name for name in names}
    tests = [path for path in all_unit_tests(root) if path in paths or not closure(path, root).isdisjoint(paths)]
    roles = [
        role
        for role in all_roles(root)
        if not closure_of_role(role, root).isdisjoint(paths)
        or any(name.startswith((f"roles/{role}/", f"molecule/{role}/")) for name in names)
    ]
    return Selection(tests, roles)


def is_python(path: Path) -> bool:
    """Return whether Python can read a file; a missing one counts."""
    try:
        ast.parse(path.read_bytes() if path.is_file() else "")
    except (SyntaxError, ValueError):
        return False
    return True


def changed_files(base: str, root: Path = ROOT) -> list[str]:
    """Return the files that differ from the commit at which *base* and this branch part, and those that git does not know yet.

    Raise Refusal when there is no such commit.
    """

    def git(*options: str) -> list[str]:
        return subprocess.check_output(["git", *options], cwd=root, text=True, stderr=subprocess.DEVNULL).split("\0")

    try:
        start = git("merge-base", "--end-of-options", base, "HEAD")[0].strip()
    except subprocess.CalledProcessError:
        raise Refusal(f"--changed: git knows no commit {base!r}: name a branch or a commit") from None
    differing = git("diff", "-z", "--name-only", "--no-renames", start)
    return sorted({*differing, *git("ls-files", "-z", "--others", "--exclude-standard")} - {""})


def all_unit_tests(root: Path = ROOT) -> list[Path]:
    return sorted((root / "tests/unit").rglob("test_*.py"))


def all_roles(root: Path = ROOT) -> list[str]:
    return sorted(
        path.name for path in (root / "roles").iterdir() if (path / "tasks").is_dir() and path.name != "common"
    )


def misses(reads: dict[str, list[str]], root: Path = ROOT) -> list[str]:
    """Return the files that a test has read, by name of the test, and that would not select it."""
    return [
        f"{test} reads {name}: selection.py does not know it"
        for test, names in sorted(reads.items())
        for name in sorted(names)
        if UNDERSTOOD.match(name) and not EVERY_TEST.match(name) and root / name not in closure(root / test, root)
    ]


# ---- What a role reaches -------------------------------------------------------------------------------------------------


def unit_tests_of(role: str, root: Path = ROOT) -> list[Path]:
    """Return the unit tests of all code that a role reaches, relative to *root*."""
    reached = files_reached_by(role, root)
    named = re.compile(rf"(?<![a-z_.]){role}(?![a-z_])")

    def concerns(path: Path) -> bool:
        subject = subject_of(path, root)
        if subject:
            return subject in reached
        imports = imports_of_test(path, root)
        helpers = {each for each in imports if each.is_relative_to(root / "tests")}
        return not reached.isdisjoint(imports) or any(named.search(each.read_text()) for each in {path, *helpers})

    return [path.relative_to(root) for path in all_unit_tests(root) if concerns(path)]


def subject_of(test: Path, root: Path) -> Path | None:
    """Return the plugin that a test is named after: `_samba/test_config_users.py` tests `_samba/config.py`."""
    folder = root / test.parent.relative_to(root / "tests/unit")
    parts = test.stem.removeprefix("test_").split("_")
    for count in range(len(parts), 0, -1):
        path = folder / ("_".join(parts[:count]) + ".py")
        if path.is_file():
            return path
    return None


def files_reached_by(role: str, root: Path = ROOT) -> set[Path]:
    """Return the plugins and shared Python files that a role reaches; `common` belongs to every role."""
    start = {path for name in roles_with(role, root) for path in files_named_in_role(name, root)}
    return follow(start, lambda path: files_named_in_python(path, root))


def closure_of_role(role: str, root: Path = ROOT) -> set[Path]:
    """Return all files that the scenario of a role depends on: those of its roles, its plugins, and the scenario."""
    folders = [root / "roles" / name for name in roles_with(role, root)] + [root / "molecule" / role]
    own = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    tests = [each for path in (root / "molecule" / role).rglob("*.py") for each in files_named_in_python(path, root)]
    used = follow(
        (path for path in tests if path.is_relative_to(root / "plugins")),
        lambda path: files_named_in_python(path, root),
    )
    texts = [path.read_text() for path in (root / "molecule" / role).rglob("*") if path.suffix in (".py", ".yml")]
    if any("playbooks/" in text for text in texts):
        used |= files_below(root / "playbooks")
    for name in {name for text in texts for name in re.findall(rf"{re.escape(NAMESPACE)}(\w+)", text)} - {role}:
        used |= files_of_role(name, root) if (root / "roles" / name).is_dir() else set()
    return own | used | files_reached_by(role, root)


@functools.cache
def roles_with(role: str, root: Path) -> frozenset[str]:
    """Return the role and those that it includes."""
    found: set[str] = set()
    new = {role}
    while new:
        found |= new
        text = "".join(path.read_text() for name in new for path in yaml_of_role(name, root))
        new = set(re.findall(rf"name: {re.escape(NAMESPACE)}(\w+)", text)) - found
    return frozenset(name for name in found if (root / "roles" / name).is_dir())


def yaml_of_role(role: str, root: Path) -> list[Path]:
    # What its README and its documentation name, it does not run.
    return [path for path in sorted((root / "roles" / role).rglob("*.yml")) if path.parent.name != "meta"]


def files_named_in_role(role: str, root: Path) -> Iterator[Path]:
    folder = root / "roles" / role
    yield from folder.rglob("*.py")
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file() and path.suffix in (".yml", ".j2"))
    for name in set(re.findall(rf"{re.escape(NAMESPACE)}(\w+)", text)):
        yield from plugins_called(name, root)
    # The actions plan and verify run the code of the role that calls them.
    if re.search(rf"{re.escape(NAMESPACE)}(plan|verify):", text):
        for name in (f"_roles/{role}", "_system/role_run"):
            yield from existing(root / f"plugins/module_utils/{name}.py")
    yield from programs_in(text, root)


def programs_in(text: str, root: Path) -> Iterator[Path]:
    """Find the entries of programs, as `program` of config_files names them in YAML and in Python."""
    for name in set(re.findall(r"\bprogram\"?: \"?(_[\w.]+)", text)):
        yield from existing(root / f"plugins/module_utils/{name.replace('.', '/')}.py")


def plugins_called(name: str, root: Path) -> Iterator[Path]:
    """Find a module, an action or a filter by its short name; a file of filters has several."""
    for kind in PLUGIN_KINDS:
        yield from existing(root / "plugins" / kind / f"{name}.py")
    yield from filters(root).get(name, ())


@functools.cache
def filters(root: Path) -> dict[str, list[Path]]:
    """Return the files that name each filter in quotes."""
    found: dict[str, list[Path]] = {}
    for path in (root / "plugins/filter").glob("*.py"):
        for name in re.findall(r'"(\w+)"', path.read_text()):
            found.setdefault(name, []).append(path)
    return found


def existing(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path


# ---- What a Python file reaches ------------------------------------------------------------------------------------------


def closure(path: Path, root: Path = ROOT) -> set[Path]:
    """Return all files that a test depends on: imported, named, mirrored, or above it (conftest.py)."""
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    above = {each for folder in folders for each in existing(folder / "conftest.py")}
    return follow(
        {path, *above, *mirrored(path, root), *read_besides(path, root)}, lambda each: dependencies(each, root)
    )


def read_besides(test: Path, root: Path) -> set[Path]:
    name = str(test.relative_to(root))
    folders = [folder for prefix, names in READS_MORE.items() if name.startswith(prefix) for folder in names]
    return {path for folder in folders for path in files_below(root / folder)}


@functools.cache
def files_below(folder: Path) -> frozenset[Path]:
    return frozenset(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def mirrored(test: Path, root: Path) -> set[Path]:
    """Return what a test of roles or playbooks mirrors: its role, or all playbooks and what they start with."""
    parts = test.relative_to(root).parts
    if parts[:3] == ("tests", "unit", "playbooks"):
        return {*(root / "playbooks").rglob("*.yml"), *existing(root / "site.yml")}
    named = (
        [role for role in all_roles(root) if test.stem.startswith(f"test_{role}")] if parts[2:3] == ("roles",) else []
    )
    return {path for role in named for path in files_of_role(role, root)}


def follow(start: Iterable[Path], step: Callable[[Path], Iterable[Path]]) -> set[Path]:
    """Return the files that can be reached from *start*, which belong to them."""
    found: set[Path] = set()
    new = set(start)
    while new:
        found |= new
        new = {each for path in new for each in step(path)} - found
    return found


@functools.cache
def dependencies(path: Path, root: Path) -> frozenset[Path]:
    """Return what a Python file depends on itself. Other files are read, and lead nowhere."""
    if path.suffix != ".py":
        return frozenset()
    named = paths_named_in_python(path, root) if path.relative_to(root).parts[0] in READERS else frozenset()
    return files_named_in_python(path, root) | named


@functools.cache
def files_of_role(role: str, root: Path) -> frozenset[Path]:
    own = {each for name in roles_with(role, root) for each in (root / "roles" / name).rglob("*") if each.is_file()}
    return frozenset(own | {each for name in roles_with(role, root) for each in files_named_in_role(name, root)})


class Names(NamedTuple):
    """What a Python file imports, by full name, and its other texts. Each is there once."""

    imported: set[str]
    strings: set[str]


@functools.cache
def names_in(path: Path) -> Names:
    """Read a Python file without its documentation, which names plugins that it does not use."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Assign) and is_document(node))]
    names = Names(set(), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.imported.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.strings.add(node.value)
    return names


@functools.cache
def files_named_in_python(path: Path, root: Path) -> frozenset[Path]:
    """Return the files of the checkout that a Python file imports or names as a plugin."""
    found: set[Path] = set()
    for name in names_in(path).imported:
        found.update(files_of_import(name, root))
    for text in names_in(path).strings:
        for short in re.findall(rf"(?<!\w){re.escape(NAMESPACE)}(\w+)", text):
            found.update(plugins_called(short, root))
    if path.is_relative_to(root / "plugins"):
        found.update(programs_in(path.read_text(), root))
    return frozenset(found - {path})


@functools.cache
def paths_named_in_python(path: Path, root: Path) -> frozenset[Path]:
    """Return the files that strings of a Python file name: by a path, by a folder above them, by the full name of a role."""
    found: set[Path] = set()
    for text in names_in(path).strings:
        for short in re.findall(rf"(?<!\w){re.escape(NAMESPACE)}(\w+)", text):
            if (root / "roles" / short).is_dir():
                found |= files_of_role(short, root)
        if re.fullmatch(r"\w[\w.-]*(/[\w.-]+)*/?", text, re.ASCII) and len(text) < LONGEST_PATH:
            # Fixtures are named from the folder of the unit tests.
            place = root / text if (root / text).exists() else root / "tests/unit" / text
            # A word alone is a folder of the checkout only where the file joins it to a path.
            if place.is_file() and ("/" in text or "." in text):
                found.add(place)
            elif place.is_dir() and ("/" in text or is_joined(path, text)):
                found |= files_below(place)
    return frozenset(found - {path})


def is_joined(path: Path, name: str) -> bool:
    return re.search(rf'/ f?"{re.escape(name)}"', path.read_text()) is not None


def is_document(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id in DOCUMENTS for target in node.targets)


def files_of_import(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module's full name; a name inside a module has none."""
    yield from existing(root / (name.removeprefix(IMPORTS).replace(".", "/") + ".py"))


def imports_of_test(path: Path, root: Path) -> set[Path]:
    """Return what a test imports, helpers of the tests followed; the test belongs to it."""
    return follow([path], lambda each: files_named_in_python(each, root) if each.is_relative_to(root / "tests") else ())
