# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps root safe in all plugins and programs (docs/security.md); each rule is shown to find its flaw.

What code does by path at run time, tests/unit/support/unsafe_paths.py notices in every unit test.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.architecture import in_packages

CHECKOUT = Path(__file__).parents[2]
PYTHON = sorted([*(CHECKOUT / "plugins").rglob("*.py"), *(CHECKOUT / "roles").glob("*/files/*.py")])
YAML = sorted([*(CHECKOUT / "roles").rglob("*.yml"), *(CHECKOUT / "playbooks").rglob("*.yml")])
SPECS = sorted((CHECKOUT / "roles").glob("*/meta/argument_specs.yml"))

SECRET = re.compile(r"(password|passphrase|secret|token|nt_hash|private_key)$")
# Files that download -> what their content is checked against before it is installed.
DOWNLOADS = {
    "cuda_repository.py": "the SHA-256 of NVIDIA's keyring package",
    "gpu_toolkit_facts.py": "an index of versions: read, never installed",
    "mirror_verify.py": "the heads of pages: whether they come, nothing else",
    "release_run.py": "the SHA-256 of the archive",
    "repository_key.py": "the full fingerprints of the key",
}
ROOTS = "below /etc, /opt, /run, /usr/local or /var/lib/rigwright*, where only root writes"
CHECKED = "refuses directories in which others may write (_core/writable.py)"
PRIVATE = "a private temporary directory"
# Files that make, give away or remove by path, and why no other user can change these paths.
WRITERS = {
    **dict.fromkeys(
        (
            "_core/config_files.py",
            "_conda/prefix.py",
            "_conda/store.py",
            "_conda/rattler.py",
            "_gpu/accept/baseline.py",
        ),
        CHECKED,
    ),
    **dict.fromkeys(
        (
            "_backup/drill.py",
            "_gpu/accept/workers.py",
            "_firewall/facts.py",
            "_ssh/trial.py",
            "_nvidia/cudnn_wheels.py",
            "_nvidia/trial.py",
            "_docker/facts.py",
        ),
        PRIVATE,
    ),
    **dict.fromkeys(("_bare_metal/backup.py", "_bare_metal/apply.py"), "a live system, where only root logs in"),
    **dict.fromkeys(("_core/acl.py", "_storage/directories.py"), "descriptors, not paths"),
    "_core/atomic.py": "for its callers; the name of what is unfinished is new and its own",
    "_backup/placement.py": "descriptors of a directory that only root writes",
    **dict.fromkeys(
        ("_dataset_cache/making.py", "_dataset_cache/transfer.py"),
        "descriptors as root; otherwise the user's own directories",
    ),
    **dict.fromkeys(
        (
            *("_backup/job.py", "_backup/repository.py", "_backup/cli.py", "_backup/state.py", "backup_repository.py"),
            *(
                "_core/config_files_boot.py",
                "_firewall/apply.py",
                "_gpu/boot.py",
                "_core/lock.py",
                "_manifest/machine.py",
                "_core/rootfs.py",
            ),
            *(
                "_nvidia/apt_transaction.py",
                "_nvidia/dpkg.py",
                "_nvidia/driver_change.py",
                "_nvidia/kept_packages.py",
                "_core/release.py",
                "_core/release_run.py",
                "_storage/apply.py",
                "_system/systemd_run.py",
            ),
            *("_nvidia/cuda_repository.py", "_nvidia/cudnn_apply.py", "docker_rootless.py", "_conda/venv.py"),
            "_core/certificate_run.py",
        ),
        ROOTS,
    ),
}


def flaws(rule: Callable[[str], Iterable[str]], files: Iterable[Path]) -> dict[str, list[str]]:
    """Return what a rule finds, by file."""
    found = {str(path.relative_to(CHECKOUT)): list(rule(path.read_text())) for path in files}
    return {name: lines for name, lines in found.items() if lines}


# ---- Secrets -------------------------------------------------------------------------------------------------------------


def undeclared_secrets(options: Any, where: str = "") -> Iterator[str]:
    """Yield options, suboptions too, whose name says that they hold a secret and that do not say `no_log`."""
    for name, option in options.items() if isinstance(options, dict) else ():
        if not isinstance(option, dict):
            continue
        is_text = option.get("type", "str") in ("str", "raw") or option.get("elements") in ("str", "raw")
        if SECRET.search(name) and is_text and "choices" not in option and "no_log" not in option:
            yield f"{where}{name}"
        yield from undeclared_secrets(option.get("options"), f"{where}{name}.")


def literal_specs(text: str) -> dict[str, dict[str, Any]]:
    """Return option name -> its literal words, of every dictionary that looks like an argument spec."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Dict):
                    arguments = {
                        ast.unparse(k): ast.unparse(v) for k, v in zip(value.keys, value.values, strict=True) if k
                    }
                    if "'type'" in arguments:
                        found[key.value] = {name.strip("'"): word.strip("'") for name, word in arguments.items()}
    return found


def role_specs(text: str) -> Iterator[str]:
    for entry in yaml.safe_load(text)["argument_specs"].values():
        yield from undeclared_secrets(entry.get("options"))


def module_specs(text: str) -> Iterator[str]:
    return undeclared_secrets(literal_specs(text))


def test_secret_options_are_no_log() -> None:
    assert flaws(role_specs, SPECS) == {}
    assert flaws(module_specs, PYTHON) == {}


# ---- Programs ------------------------------------------------------------------------------------------------------------

PYTHON_COMMAND = re.compile(r"(^|/)python(3(\.\d+)?)?$|^sys\.executable$|^python$|\Wpython3?'\)$")


def python_without_isolation(text: str) -> Iterator[str]:
    """Yield commands that start Python with -c or -m and not with -I: it would import from the working directory."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        arguments = [
            element.value
            if isinstance(element, ast.Constant) and isinstance(element.value, str)
            else ast.unparse(element)
            for element in node.elts
        ]
        for number, word in enumerate(arguments):
            options = list(itertools.takewhile(lambda each: each.startswith("-"), arguments[number + 1 :]))
            starts = PYTHON_COMMAND.search(word) and any(each[-1] in "cm" for each in options)
            if starts and not any("I" in each for each in options):
                yield f"line {node.lineno}: {' '.join(arguments[number:])[:80]}"


def python_in_yaml(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(r"\bpython3?\s+-[cm]\b", line):
            yield f"line {number}: {line.strip()}"


def test_python_is_started_isolated() -> None:
    assert flaws(python_without_isolation, PYTHON) == {}
    assert flaws(python_in_yaml, YAML) == {}


# ---- Downloads -----------------------------------------------------------------------------------------------------------


def downloads(text: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("open_url", "urlopen", "fetch_url", "urlretrieve")
        for node in ast.walk(ast.parse(text))
    )


def test_every_download_is_checked() -> None:
    plugins = [path for path in PYTHON if "plugins" in path.parts and downloads(path.read_text())]
    assert {path.name for path in plugins} == set(DOWNLOADS)


def task_downloads(text: str) -> list[str]:
    return re.findall(r"\bget_url\b|\bcurl .*-o\b|\bwget\b", text)


def test_no_task_downloads() -> None:
    assert flaws(task_downloads, YAML) == {}


# ---- Paths ---------------------------------------------------------------------------------------------------------------

BY_PATH = {
    f"{module}.{name}"
    for module, names in {
        "os": "chown lchown chmod mkdir makedirs rename replace symlink link truncate mkfifo mknod setxattr",
        "shutil": "rmtree copy copy2 copyfile copytree move chown",
    }.items()
    for name in names.split()
}


def writes_by_path(text: str) -> Iterator[str]:
    """Yield calls that change the file system by a path: below a directory of another user this is never safe."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            below = {"dir_fd", "src_dir_fd"} & {word.arg for word in node.keywords}
            mode = node.args[1] if len(node.args) > 1 else None
            opens = name == "open" and isinstance(mode, ast.Constant) and set("wax+") & set(str(mode.value))
            if opens or (name in BY_PATH and not below):
                yield f"line {node.lineno}: {name}"


def test_every_writer_by_path_states_why_it_is_safe() -> None:
    found = {in_packages(path) for path in PYTHON if list(writes_by_path(path.read_text()))}
    assert found == set(WRITERS)


# ---- The rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (undeclared_secrets, {"x_token": {"type": "str", "no_log": True}}, {"x_token": {"type": "str"}}),
        (undeclared_secrets, {"x_password": {"type": "bool"}}, {"x_password": {}}),
        (undeclared_secrets, {}, {"users": {"type": "list", "options": {"password": {"type": "str"}}}}),
        (
            module_specs,
            'x = {"token": {"type": "str", "no_log": True}}',
            'x = {"token": {"type": "str"}}',
        ),
        (python_without_isolation, 'run(["python3", "-I", "-c", x])', 'run(["python3", "-c", x])'),
        (python_without_isolation, 'run([sys.executable, "-IS", "-m", "venv"])', 'run([sys.executable, "-m", "venv"])'),
        (python_without_isolation, 'run(["python3", path, "-m"])', 'run(["/usr/bin/python3", "-Sc", x])'),
        (python_without_isolation, 'run([join(x, "python3"), "-I", "-m", "pip"])', 'run([join(x, "python3"), "-m", "pip"])'),
        (python_in_yaml, "command: python3 -I -m pip", "command: python3 -m pip"),
        (task_downloads, "x.repository_key:", "ansible.builtin.get_url:"),
        (writes_by_path, 'open(x)\nos.mkdir(x, dir_fd=y)', "os.mkdir(x)"),
        (writes_by_path, 'open(x, "rb")', 'open(x, "xb")'),
        (writes_by_path, "os.fchown(x, 0, 0)", "os.chown(x, 0, 0)"),
    ],
)  # fmt: skip
def test_rule_finds_its_flaw(rule: Any, good: Any, bad: Any) -> None:
    assert list(rule(good)) == []
    assert list(rule(bad)) != []


def test_a_download_is_found() -> None:
    assert downloads("with open_url(x) as y: ...")
    assert not downloads("open(x)")
