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
KERNEL = "below /proc, /sys or /dev: what is there is the kernel's"
NAMED = "root or the operator names it, and the run ends with their request"
RIGHTS = "owner, mode or kind alone, to refuse what others can change"
CONTROLLER = "runs on the controller, as its user"
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
# Files that read by path, and why no other user can change these paths, or what is read there is not trusted.
READERS = {
    name: reason
    for reason, names in {
        ROOTS: """
            _apt/mirror_plan.py _backup/config.py _backup/record.py _backup/repository.py _backup/restic.py _backup/state.py
            _backup/status.py _conda/store.py _conda/venv.py _core/certificate_run.py _core/lock.py _core/release.py
            _core/release_run.py _core/rootfs.py _firewall/apply.py _firewall/ssh_ports.py _frp/plan.py _gpu/inventory.py
            _gpu/nvml.py _nvidia/cuda_repository.py _nvidia/cudnn_apply.py _nvidia/dpkg.py _nvidia/driver_change.py
            _nvidia/kept_packages.py _samba/facts.py _samba/user_database.py _ssh/facts.py _ssh/trial.py _storage/apply.py
            _system/systemd.py _system/systemd_run.py host_facts.py samba_directories.py
        """,
        CHECKED: "_conda/prefix.py _conda/rattler.py _core/atomic.py _core/config_files.py _gpu/accept/baseline.py",
        PRIVATE: "_backup/import_tar.py _nvidia/cudnn_wheels.py",
        KERNEL: """
            _gpu/usage/terminals.py _gpu/usage/who.py _dataset_cache/cli.py _dataset_cache/host.py _docker/gpu_toolkit_facts.py
            _gpu/locked_clocks.py _gpu/mps/apply.py train_digits.py _gpu/mps/facts.py _storage/facts.py _system/listeners.py
            _system/mounts.py
        """,
        NAMED: "_backup/cli.py _dataset_cache/making.py _dataset_cache/settings.py _xrdp/facts.py",
        RIGHTS: "_backup/hooks.py _backup/location.py _core/writable.py _dataset_cache/copies.py _dataset_cache/sources.py",
        "names alone, for a plan; what writes works by descriptors": "_backup/restore.py",
        "descriptors, not paths": "_backup/placement.py _dataset_cache/verify.py",
        "a live system, where only root logs in": "_bare_metal/apply.py",
        CONTROLLER: "config_files.py write_report.py _plan_request.py _role_variables.py",
    }.items()
    for name in names.split()
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


READING = {"open"} | {
    f"{module}.{name}"
    for module, names in {
        "os": "open listdir scandir walk stat path.getsize path.getmtime",
        "shutil": "copy copy2 copyfile",
        "glob": "glob iglob",
        "io": "open",
        "gzip": "open",
        "tarfile": "open",
        "zipfile": "ZipFile",
    }.items()
    for name in names.split()
}
# Programs that would read a path of another user for root, through its links.
READING_PROGRAMS = {"cat", "cp", "diff", "du", "find", "grep", "head", "rsync", "sha256sum", "tail", "tar"}
OF_THE_SYSTEM = ("/dev", "/etc/", "/proc", "/run/", "/sys", "/var/lib/")
# Flags that follow no link and wait for no FIFO: those of _core/directories.py and of the dataset cache, and both written out.
SAFE_FLAGS = re.compile(r"\b(DIRECTORY_FLAGS|FILE_FLAGS|FOLDER|READ)\b|O_NOFOLLOW.*O_NONBLOCK|O_EXCL.*O_NOFOLLOW")
DESCRIPTOR = re.compile(r"([\w.]*\b(fd|handle|descriptor|below)|((directories\.)?open_file|os\.open)\(.*\))")


def reads_by_path(text: str) -> Iterator[str]:
    """Yield calls that read by a path: another user may have put a link, a FIFO or a huge file there (`read_file`, `Tree`)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1 and isinstance(node.elts[0], ast.Constant):
            program = str(node.elts[0].value).rpartition("/")[2]
            if program in READING_PROGRAMS and not all(isinstance(each, ast.Constant) for each in node.elts):
                yield f"line {node.lineno}: {program}"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        path = node.args[0] if node.args else None
        start = path.values[0] if isinstance(path, ast.JoinedStr) and path.values else path
        other = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
        if (
            (name not in READING and not name.endswith((".read_text", ".read_bytes", ".iterdir")))
            or {"dir_fd", "follow_symlinks"} & {word.arg for word in node.keywords}
            or (isinstance(start, ast.Constant) and str(start.value).startswith(OF_THE_SYSTEM))
            or (path and DESCRIPTOR.fullmatch(ast.unparse(path)))
            or (name in ("open", "zipfile.ZipFile") and set("wax") & set(other.strip("'")))
            or (name == "os.open" and SAFE_FLAGS.search(other))
        ):
            continue
        yield f"line {node.lineno}: {name}"


def test_every_reader_by_path_states_why_it_is_safe() -> None:
    found = {in_packages(path) for path in PYTHON if list(reads_by_path(path.read_text()))}
    assert found == set(READERS)


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
        (reads_by_path, 'open(open_file(x), "rb")', "open(x)"),
        (reads_by_path, 'open("/proc/mounts")', 'open(f"/home/{user}/.conda/environments.txt")'),
        (reads_by_path, "read_file(x, {0})", "Path(x).read_text()"),
        (reads_by_path, "os.open(x, os.O_RDONLY | FILE_FLAGS)", "os.open(x, os.O_RDONLY | os.O_NOFOLLOW)"),
        (reads_by_path, "os.listdir(handle)", 'os.listdir(os.path.join(home, ".ssh"))'),
        (reads_by_path, "os.stat(x, follow_symlinks=False)", "os.stat(x)"),
        (reads_by_path, 'run(["cat", "/etc/fstab"])', 'run(["/bin/cat", x])'),
    ],
)  # fmt: skip
def test_rule_finds_its_flaw(rule: Any, good: Any, bad: Any) -> None:
    assert list(rule(good)) == []
    assert list(rule(bad)) != []


def test_a_download_is_found() -> None:
    assert downloads("with open_url(x) as y: ...")
    assert not downloads("open(x)")
