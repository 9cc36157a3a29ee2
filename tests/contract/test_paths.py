# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that reach files by path, in all plugins and programs: each states why no other user can lead it elsewhere (docs/security.md).

A file is listed with the number of such calls: a new one needs a reason too. What code does by path at run time,
tests/unit/support/unsafe_paths.py notices in every unit test.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from harness.architecture import in_packages
from tests.contract.sources import PYTHON, calls, commands, flaws, literal, literal_specs

ROOTS = "below /etc, /opt, /run, /usr/local or /var/lib/rigwright*, where only root writes"
CHECKED = "refuses directories in which others may write (_core/writable.py)"
PRIVATE = "a private temporary directory"
KERNEL = "below /proc, /sys or /dev: what is there is the kernel's"
NAMED = "root or the operator names it, and the run ends with their request"
RIGHTS = "owner, mode or kind alone, to refuse what others can change"
CONTROLLER = "runs on the controller, as its user"
# Why no other user can change the paths of calls that make, give away or remove -> files, each with the number of its calls.
WRITERS = {
    ROOTS: """
        _backup/cli.py:2 _backup/identity.py:1 _backup/job.py:1 _backup/record.py:1 _backup/repository.py:3 _backup/state.py:2
        _conda/run.py:1 _conda/venv.py:6
        _core/certificate_run.py:13 _core/config_files_boot.py:3 _core/forked.py:2 _core/lock.py:2 _core/release.py:10
        _core/release_run.py:10 _core/root_directories.py:2 _core/rootfs.py:3
        _firewall/apply.py:4 _gpu/boot.py:3 _gpu/mps/apply.py:2 _manifest/machine.py:1
        _nvidia/apt_transaction.py:1 _nvidia/cuda_repository.py:9 _nvidia/cudnn_apply.py:12 _nvidia/dpkg.py:2
        _nvidia/driver_change.py:5 _nvidia/kept_packages.py:17 _storage/apply.py:4 _system/configured.py:3
        _system/systemd_run.py:2 backup_repository.py:1 docker_rootless.py:2
    """,
    PRIVATE: """
        _backup/drill.py:2 _docker/facts.py:3 _firewall/facts.py:1 _gpu/accept/workers.py:2 _nvidia/cudnn_wheels.py:7
        _nvidia/trial.py:1 _ssh/trial.py:3
    """,
    CHECKED: """
        _conda/prefix.py:5 _conda/rattler.py:1 _conda/store.py:15 _core/config_files.py:20 _gpu/accept/baseline.py:1
    """,
    "methods of the cache's folders, which work by descriptors": """
        _dataset_cache/cache.py:2 _dataset_cache/commands.py:2 _dataset_cache/copies.py:4 _dataset_cache/eviction.py:1
        _dataset_cache/folder.py:1
    """,
    "a live system, where only root logs in": "_bare_metal/apply.py:16 _bare_metal/backup.py:1",
    "descriptors, not paths": "_core/acl.py:2 _storage/directories.py:1",
    "descriptors as root; otherwise the user's own directories": "_dataset_cache/making.py:4 _dataset_cache/transfer.py:5",
    "descriptors of a directory that only root writes": "_backup/placement.py:4",
    "for its callers; the name of what is unfinished is new and its own": "_core/atomic.py:9",
    "no calls: the name of a subcommand, and /dev/null": "_dataset_cache/cli.py:2 _gpu/usage/who.py:1",
    CONTROLLER: "_report_files.py:1",
    NAMED: "_gpu/accept/progress.py:1 _gpu/fit/program.py:2",
}
# The same of calls that read, or why what is read is not trusted.
READERS = {
    ROOTS: """
        _apt/mirror_plan.py:3 _backup/config.py:2 _backup/identity.py:1 _backup/record.py:1 _backup/repository.py:2 _backup/restic.py:4
        _backup/state.py:2 _backup/status.py:1 _conda/store.py:4 _conda/venv.py:3 _core/certificate_run.py:4 _core/forked.py:1
        _core/release.py:4 _core/release_run.py:3 _core/root_directories.py:1 _core/rootfs.py:1
        _firewall/apply.py:1 _firewall/ssh_ports.py:1 _frp/plan.py:1
        _gpu/inventory.py:1 _gpu/nvml.py:1 _nvidia/cuda_repository.py:5 _nvidia/cudnn_apply.py:5 _nvidia/driver_change.py:1
        _nvidia/kept_packages.py:6 _samba/facts.py:1 _ssh/facts.py:2 _ssh/trial.py:1
        _storage/apply.py:4 _system/configured.py:2 _system/systemd.py:4 _system/systemd_run.py:1 host_facts.py:1
    """,
    KERNEL: """
        _dataset_cache/host.py:2 _docker/gpu_toolkit_facts.py:1 _gpu/locked_clocks.py:1 _gpu/mps/apply.py:1 _gpu/mps/facts.py:5
        _gpu/usage/terminals.py:1 _storage/facts.py:3 _system/listeners.py:3 _system/mounts.py:2
        _system/port_owner.py:2 train_digits.py:1
    """,
    RIGHTS: """
        _backup/hooks.py:1 _backup/location.py:1 _core/writable.py:2 _dataset_cache/copies.py:1 _dataset_cache/sources.py:2
    """,
    CHECKED: """
        _conda/prefix.py:4 _conda/rattler.py:1 _core/atomic.py:4 _core/config_files.py:4 _core/config_files_record.py:1
        _core/config_files_state.py:1 _gpu/accept/baseline.py:1
    """,
    NAMED: "_backup/cli.py:1 _dataset_cache/making.py:1 _dataset_cache/settings.py:1 _xrdp/facts.py:3",
    PRIVATE: "_backup/import_tar.py:3 _nvidia/cudnn_wheels.py:2",
    "descriptors, not paths": "_backup/placement.py:1 _dataset_cache/verify.py:1",
    CONTROLLER: "_check_mode.py:2 _plan_action.py:1 _plan_request.py:1 _role.py:1 _role_variables.py:2",
    "names alone, for a plan; what writes works by descriptors": "_backup/restore.py:1",
    "names alone, to leave caches out and to see that a path is not empty": "_backup/caches.py:1 _backup/coverage.py:1",
    "a live system, where only root logs in": "_bare_metal/apply.py:6",
    "the size of a file system; no file is read": "_system/servers.py:1",
    "the address of a server, not a file": "_frp/verify.py:1",
    "a directory of frpc's own user, the content is checked and goes to frpc alone": "_frp/frpc.py:1",
}


def listed(reasons: dict[str, str]) -> dict[str, int]:
    """Return the number of calls of each file in a table."""
    files = [entry.split(":") for entries in reasons.values() for entry in entries.split()]
    return {name: int(number) for name, number in files}


def functions(names: dict[str, str]) -> frozenset[str]:
    return frozenset(f"{module}.{name}" for module, listed in names.items() for name in listed.split())


MAKING = functions(
    {
        "os": "chown lchown chmod lchmod mkdir makedirs rename renames replace symlink link truncate mkfifo mknod setxattr removexattr"
        " unlink remove rmdir removedirs utime",
        "shutil": "rmtree copy copy2 copyfile copytree copymode copystat move chown unpack_archive",
    }
)
MAKING_METHODS = (
    *(".write_text", ".write_bytes", ".unlink", ".mkdir", ".rmdir", ".chmod", ".touch", ".symlink_to", ".hardlink_to"),
    *(".atomic_move", ".set_mode_if_different", ".set_owner_if_different", ".set_fs_attributes_if_different"),
    *(".extract", ".extractall"),
)
MAKING_PROGRAMS = {
    "chgrp",
    "chmod",
    "chown",
    "cp",
    "dd",
    "install",
    "ln",
    "mkdir",
    "mkfifo",
    "mv",
    "rm",
    "rmdir",
    "setfacl",
    "tee",
    "touch",
    "truncate",
}
SHELLS = {"bash", "dash", "sh"}
WRITE_FLAGS = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
READING = {"open"} | functions(
    {
        "os": "open listdir scandir walk stat path.getsize path.getmtime",
        "shutil": "copy copy2 copyfile copytree",
        "glob": "glob iglob",
        "io": "open",
        "codecs": "open",
        "bz2": "open",
        "gzip": "open",
        "lzma": "open",
        "tarfile": "open",
        "zipfile": "ZipFile",
        "sqlite3": "connect",
        "runpy": "run_path",
        "linecache": "getline getlines",
        "fileinput": "input",
    }
)
READING_METHODS = (".read_text", ".read_bytes", ".iterdir", ".glob", ".rglob")
# Programs that would read a path of another user for root, through its links.
READING_PROGRAMS = {
    "awk",
    "cat",
    "cmp",
    "cp",
    "cut",
    "diff",
    "du",
    "find",
    "getfacl",
    "grep",
    "head",
    "ls",
    "openssl",
    "rsync",
    "sed",
    "sha256sum",
    "sort",
    "stat",
    "tail",
    "tar",
    "wc",
}
# Where only root makes names.
OF_THE_SYSTEM = ("/dev", "/etc/", "/proc", "/sys")
# Where services and users have directories of their own: the code has the whole path.
OF_SERVICES = ("/run/", "/var/lib/")
# Flags that follow no link and wait for no FIFO: those of _core/directories.py and of the dataset cache, and both written out.
SAFE_FLAGS = re.compile(r"\b(DIRECTORY_FLAGS|FILE_FLAGS|FOLDER|READ)\b|O_NOFOLLOW.*O_NONBLOCK|O_EXCL.*O_NOFOLLOW")
DESCRIPTOR = re.compile(r"([\w.]*\b(fd|handle|descriptor|below)|((directories\.)?open_file|os\.open)\(.*\))")


def is_relative(call: ast.Call, name: str) -> bool:
    """Return whether a call names its files below open directories alone."""
    needed = {"src_dir_fd", "dst_dir_fd"} if name in ("os.rename", "os.replace", "os.link") else {"dir_fd"}
    given = {
        word.arg for word in call.keywords if not (isinstance(word.value, ast.Constant) and word.value.value is None)
    }
    return needed <= given


def opens_to_write(call: ast.Call, name: str) -> bool:
    """Return whether a call opens a file by its path to write it."""
    mode = next((word.value for word in call.keywords if word.arg in ("mode", "flags")), None)
    mode = call.args[1] if len(call.args) > 1 else mode
    if name == "os.open":
        return mode is not None and bool(WRITE_FLAGS.search(ast.unparse(mode))) and not is_relative(call, name)
    of_files = name in ("open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open")
    return (
        of_files
        and mode is not None
        and (not isinstance(mode, ast.Constant) or bool(set("wax+") & set(str(mode.value))))
    )


def runs(text: str, programs: set[str]) -> Iterator[str]:
    """Yield commands that run one of these programs, with words that the code does not have as they are, or a shell with such a script."""
    for node, arguments in commands(text):
        program = literal(arguments[0]).rpartition("/")[2]
        fixed = all(isinstance(each, ast.Constant) for each in arguments)
        script = arguments[2] if program in SHELLS and len(arguments) > 2 else None
        built = isinstance(script, ast.BinOp | ast.Call | ast.JoinedStr)
        if (program in programs and len(arguments) > 1 and not fixed) or built:
            yield f"line {node.lineno}: {program}"


def writes_by_path(text: str) -> Iterator[str]:
    """Yield calls that change the file system by a path: below a directory of another user this is never safe."""
    yield from runs(text, MAKING_PROGRAMS)
    for call, name in calls(text):
        makes = (
            name in MAKING or name.endswith(".make_directories") or name.endswith(MAKING_METHODS)
        ) and not is_relative(call, name)
        temporary = name.startswith("tempfile.") and any(word.arg == "dir" for word in call.keywords)
        if makes or temporary or opens_to_write(call, name):
            yield f"line {call.lineno}: {name}"


def is_of_the_system(path: ast.expr | None) -> bool:
    """Return whether a path is one where only root makes names, as the code says."""
    start = path.values[0] if isinstance(path, ast.JoinedStr) and path.values else path
    listed = OF_THE_SYSTEM if isinstance(path, ast.JoinedStr) else OF_THE_SYSTEM + OF_SERVICES
    return literal(start).startswith(listed) and not literal(start).startswith("/run/user/")


def reads_by_path(text: str) -> Iterator[str]:
    """Yield calls that read by a path: another user may have put a link, a FIFO or a huge file there (`read_file`, `Tree`)."""
    yield from runs(text, READING_PROGRAMS)
    for call, name in calls(text):
        path = call.args[0] if call.args else None
        if not (
            (name not in READING and not name.endswith(READING_METHODS))
            or is_relative(call, name)
            or (name == "os.stat" and "follow_symlinks" in {word.arg for word in call.keywords})
            or is_of_the_system(path)
            or (path and DESCRIPTOR.fullmatch(ast.unparse(path)))
            or opens_to_write(call, name)
            or (name == "zipfile.ZipFile" and len(call.args) > 1 and literal(call.args[1]) != "r")
            or (name == "os.open" and SAFE_FLAGS.search(ast.unparse(call)))
        ):
            yield f"line {call.lineno}: {name}"


def counted(rule: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """Return how many calls a rule finds, by file."""
    found = Counter({in_packages(path): len(list(rule(path.read_text()))) for path in PYTHON})
    return +found


def test_every_writer_by_path_states_why_it_is_safe() -> None:
    assert counted(writes_by_path) == listed(WRITERS)


def test_every_reader_by_path_states_why_it_is_safe() -> None:
    assert counted(reads_by_path) == listed(READERS)


# Modules with an option that names a place -> why root writes there safely.
PLACES = {
    name: reason
    for reason, names in {
        CHECKED: "backup_repository.py certificate_run.py conda_environment.py gpu_accept.py gpu_mps.py machine_manifest.py "
        "python_environment.py release_run.py",
        "descriptors, not paths": "gpu_health.py samba_directories.py",
        "reads alone": "config_files_request.py gpu_fit.py docker_rootless.py gnome_remote_desktop.py gpu_host_info.py host_facts.py "
        "nvidia_driver_key.py",
        CONTROLLER: "write_report.py",
    }.items()
    for name in names.split()
}


def options_of_places(text: str) -> list[str]:
    return [
        name for name, option in literal_specs(text).items() if "path" in (option.get("type"), option.get("elements"))
    ]


def test_every_module_states_why_a_named_place_is_safe() -> None:
    assert {Path(name).name for name in flaws(options_of_places, PYTHON)} == set(PLACES)


GOOD_WRITERS = """
open(x); open(x, "rb"); os.mkdir(x, dir_fd=y); os.fchown(x, 0, 0); os.rename(a, b, src_dir_fd=x, dst_dir_fd=y)
os.open(x, os.O_RDONLY); os.open(x, os.O_CREAT | os.O_EXCL, 0o600, dir_fd=y); run(["chown", "root", "/etc/x"]); run(["sh", "-c", "true"])
"""
BAD_WRITERS = """
os.mkdir(x); open(x, "xb"); open(x, mode="w"); open(x, mode); os.chown(x, 0, 0); os.unlink(x); os.rmdir(x); os.utime(x)
os.mkdir(x, dir_fd=None); os.rename(a, b, src_dir_fd=x); Path(x).write_text(y); Path(x).unlink(); Path(x).chmod(0o600)
module.atomic_move(a, b); module.set_mode_if_different(x, "0600", False); tempfile.mkdtemp(dir=x); tarfile.open(x).extractall(y)
os.open(x, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK); run(["chown", "-R", user, x]); run(["sudo", "rm", "-rf", x])
run(["sh", "-c", "rm " + x])
"""
GOOD_READERS = """
open(open_file(x), "rb"); open("/proc/mounts"); open(f"/proc/{pid}/status"); read_file(x, {0}); os.open(x, os.O_RDONLY | FILE_FLAGS)
os.listdir(handle); os.stat(x, follow_symlinks=False); run(["cat", "/etc/fstab"]); open("/var/lib/dpkg/status")
"""
BAD_READERS = """
open(x); open(f"/home/{user}/.conda/environments.txt"); Path(x).read_text(); os.open(x, os.O_RDONLY | os.O_NOFOLLOW); os.stat(x)
os.listdir(os.path.join(home, ".ssh")); run(["/bin/cat", x]); run(["sudo", "sed", "-n", "1p", x]); open(f"/run/user/{uid}/x")
open("/run/user/1000/x"); open(f"/var/lib/{user}/x"); lzma.open(x); sqlite3.connect(x); Path(x).glob("*")
run(["openssl", "x509", "-in", x])
"""


def each(lines: str) -> list[str]:
    return [call for line in lines.strip().splitlines() for call in line.split("; ")]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [(writes_by_path, GOOD_WRITERS, BAD_WRITERS), (reads_by_path, GOOD_READERS, BAD_READERS)],
)
def test_rule_finds_its_flaw(rule: Callable[[str], Iterable[str]], good: str, bad: str) -> None:
    assert [line for line in each(good) if list(rule(line))] == []
    assert [line for line in each(bad) if not list(rule(line))] == []


def test_imported_names_are_followed() -> None:
    assert list(writes_by_path("from os import chown as give\ngive(x, 0, 0)"))
    assert list(writes_by_path("import os as o\no.rename(a, b)"))


def test_options_of_places_are_found() -> None:
    assert options_of_places('x = {"directory": {"type": "path"}}')
    assert not options_of_places('x = {"name": {"type": "str"}}')
