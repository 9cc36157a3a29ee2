# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments that are really solved and installed, from channels in a directory and behind a web server."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import HostCuda, highest_cuda
from ansible_collections.rigwright.workstation.plugins.modules import conda_environment

from harness.depot.conda_channel import Package, from_row, read_table, write

CHECKOUT = Path(__file__).parents[4]
# The channel's Python leads to the system's, whose version it has to have.
SYSTEM = subprocess.run(
    ("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"),
    capture_output=True,
    text=True,
    check=True,
).stdout.strip()
PYTHON = f"python {SYSTEM}.*"
SITE_PACKAGES = f"lib/python{SYSTEM}/site-packages"

# Runs the module as Ansible does, in a process of its own. `step`: it is killed before its nth change of a directory.
DRIVER = """\
import itertools, json, os, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.modules import conda_environment
def run(params, step):
    steps = itertools.count(1)
    def dying(change):
        def wrapped(*arguments, **options):
            if next(steps) == step:
                os._exit(9)
            return change(*arguments, **options)
        return wrapped
    for name in ("mkdir", "rename", "replace", "rmdir", "symlink", "unlink"):
        setattr(os, name, dying(getattr(os, name)))
    with patch_module_args(params):
        conda_environment.main()
"""
ONCE = "run(*json.loads(sys.argv[1]))\n"
# Loads the module once, and runs it in a fork for each line: this process has threads, which a fork would lose.
FORKS = """\
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(2, 1)
        run(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def start(program: str, *arguments: str, stdin: int | None = None, stderr: int | None = None) -> subprocess.Popen[str]:
    paths = (str(CHECKOUT), str(CHECKOUT / "collections"), *sys.path)
    return subprocess.Popen(
        (sys.executable, "-c", DRIVER + program, *arguments),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def process(params: dict[str, Any]) -> subprocess.Popen[str]:
    return start(ONCE, json.dumps([params, 0]), stderr=subprocess.PIPE)


class Host:
    """A root of environments, and a channel that is the default of requests."""

    def __init__(self, folder: Path, run: Callable[..., dict[str, Any]]) -> None:
        self.root, self.channel, self._run = folder / "conda", folder / "channel", run
        others = [package for package in read_table() if package.name != "python"]
        self.packages = [*others, from_row({"name": "python", "version": f"{SYSTEM}.2", "carries": "python"})]
        write(self.channel, self.packages)

    @property
    def address(self) -> str:
        return self.channel.as_uri()

    def params(self, *environments: dict[str, Any], **params: Any) -> dict[str, Any]:
        return {"environments": list(environments), "root": str(self.root), "channels": [self.address], **params}

    def run(self, *environments: dict[str, Any], check: bool = False, **params: Any) -> dict[str, Any]:
        return self._run(conda_environment, check=check, **self.params(*environments, **params))

    def ask(self, *packages: str, check: bool = False, **rest: Any) -> dict[str, Any]:
        """Request one environment, `research`, and return its outcome or the error."""
        options = {name: rest.pop(name) for name in ("keep", "channels", "channel_alias", "timeout") if name in rest}
        result = self.run({"name": "research", "packages": list(packages), **rest}, check=check, **options)
        return {**result, **result.get("environments", {}).get("research", {})}

    def add(self, *packages: Package) -> None:
        self.packages += packages
        write(self.channel, self.packages)

    def prefix(self, name: str = "research") -> Path:
        return self.root / "envs" / name

    def generation(self, number: int, name: str = "research") -> Path:
        return self.root / "generations" / name / str(number)

    def read(self, path: str) -> str:
        return (self.prefix() / path).read_text()


@pytest.fixture
def host(tmp_path: Path, run_module: Callable[..., dict[str, Any]]) -> Host:
    return Host(tmp_path, run_module)


def refused(result: dict[str, Any]) -> str:
    assert result.get("failed"), result
    return result["msg"]


# ---- A new environment ---------------------------------------------------------------------------------------------------


def test_new_environment_has_packages_and_dependencies(host):
    result = host.ask("plotter", PYTHON)
    assert result["changed"]
    assert result["generation"] == 1 and result["previous"] == []
    assert result["added"] == ["libnumbers 1.1 0", "mathkit 1.0 0", "plotter 1.0 0", f"python {SYSTEM}.2 0"]
    assert host.prefix().readlink() == Path("../generations/research/1")


def test_programs_and_libraries_know_where_they_are(host):
    host.ask("plotter", PYTHON)
    real = host.prefix().resolve()
    assert host.read("etc/numbers.conf") == f"home = {real}/share/numbers\n"
    ran = subprocess.run((host.prefix() / "bin/mathkit",), capture_output=True, text=True, check=True)
    assert ran.stdout == "mathkit 1.0\n"


def test_the_second_run_changes_nothing(host, snapshot):
    host.ask("plotter", PYTHON)
    before = snapshot(host.root)
    result = host.ask("plotter", PYTHON)
    assert not result["changed"] and not result["added"]
    assert result["diff"]["before"] == result["diff"]["after"]
    assert snapshot(host.root) == before


def test_nothing_to_do_needs_neither_the_channel_nor_py_rattler(host, monkeypatch):
    host.ask("plotter", PYTHON)
    host.channel.rename(host.channel.with_name("gone"))
    monkeypatch.setattr(rattler, "rattler", None)
    assert not host.ask("plotter", PYTHON)["changed"]


def test_ten_unchanged_environments_take_less_than_a_second(host):
    many = [Package(f"part{number}", "1.0", noarch="generic", files={f"share/{number}": ""}) for number in range(100)]
    host.add(*many)
    environments = [{"name": f"e{n}", "packages": [package.name for package in many]} for n in range(10)]
    assert host.run(*environments)["changed"]
    begin = time.process_time()
    assert not host.run(*environments)["changed"]
    assert time.process_time() - begin < 1


def test_check_mode_reports_packages_and_writes_nothing(host):
    result = host.ask("plotter", PYTHON, check=True)
    assert result["changed"]
    assert "plotter 1.0 0" in result["added"]
    assert result["diff"]["before"] == {"research": {}}
    assert "plotter 1.0 0" in result["diff"]["after"]["research"]["packages"]
    assert not host.root.exists()


def test_check_mode_without_py_rattler_warns(host, monkeypatch):
    monkeypatch.setattr(rattler, "rattler", None)
    result = host.run({"name": "research", "packages": ["mathkit"]}, check=True, python="/nowhere/python3")
    assert result["changed"] and "/nowhere/python3 has no py-rattler yet" in result["warnings"][0]


def test_missing_py_rattler_names_the_role_conda(host, monkeypatch):
    monkeypatch.setattr(rattler, "rattler", None)
    assert "the role conda installs it" in refused(host.ask("mathkit"))
    assert not host.root.exists()


def test_build_follows_the_cuda_version(host):
    assert host.ask("trainer")["added"] == ["trainer 1.0 cpu_0"]
    assert host.ask("trainer", cuda="12.8")["changed"]
    assert host.read("share/trainer") == "cuda\n"
    assert host.ask("trainer", cuda="12.6")["changed"]
    assert host.read("share/trainer") == "cpu\n"


# ---- Another request -----------------------------------------------------------------------------------------------------


def test_dropped_package_goes_with_its_dependencies(host):
    host.ask("plotter", "handwritten", PYTHON)
    result = host.ask("handwritten")
    assert result["removed"] == ["libnumbers 1.1 0", "mathkit 1.0 0", "plotter 1.0 0", f"python {SYSTEM}.2 0"]
    assert result["added"] == result["replaced"] == []
    assert not (host.prefix() / "bin/mathkit").exists()
    assert host.read("share/handwritten") == "1.0\n"


def test_added_package_keeps_existing_versions(host):
    host.ask("libnumbers")
    host.add(Package("libnumbers", "2.1"))
    result = host.ask("libnumbers", "handwritten")
    assert result["added"] == ["handwritten 1.0 0"]
    assert host.read("share/numbers/version") == "2.0\n"


def test_newer_packages_need_update(host):
    host.ask("libnumbers")
    host.add(Package("libnumbers", "2.1", files={"share/numbers/version": "2.1\n"}))
    assert not host.ask("libnumbers")["changed"]
    assert host.ask("libnumbers", update=True)["changed"]
    assert host.read("share/numbers/version") == "2.1\n"
    assert not host.ask("libnumbers", update=True)["changed"]


def test_equivalent_specs_install_nothing(host):
    host.ask("libnumbers")
    result = host.ask("libnumbers >=2")
    assert result["changed"] and result["generation"] == 1
    assert not host.ask("libnumbers  >=2")["changed"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set the version of the host's driver."""

    def install(version: str) -> None:
        found = HostCuda(highest_cuda(version))
        monkeypatch.setattr(conda_environment, "host_cuda", lambda _tree: found)

    return install


def test_new_solve_for_a_first_or_older_driver_only(host, driver):
    for version, build, generation in (
        ("", "cpu", 1),
        ("570.86.10", "cuda", 2),  # CUDA 12.8
        ("580.95.05", "cuda", 2),
        ("560.35.03", "cpu", 1),  # CUDA 12.6, and the build wants 12.8
    ):
        driver(version)
        result = host.ask("trainer")
        assert (host.read("share/trainer"), result["generation"]) == (f"{build}\n", generation)
        assert not host.ask("trainer")["changed"]


def test_another_mirror_leaves_environments_as_they_are(host):
    alias = host.channel.parent.as_uri()
    assert host.ask("libnumbers <2", channels=["channel"], channel_alias=alias)["changed"]
    host.add(Package("libnumbers", "1.2"))
    assert not host.ask("libnumbers <2", channels=["channel"], channel_alias="https://mirror.example/cloud")["changed"]


def test_environments_that_are_not_named_go_only_when_asked(host):
    host.run({"name": "one", "packages": ["libnumbers"]}, {"name": "two", "packages": ["libnumbers"]})
    theirs = host.root / "envs/theirs/conda-meta"
    theirs.mkdir(parents=True)
    assert not host.run({"name": "one", "packages": ["libnumbers"]})["changed"]
    result = host.run({"name": "one", "packages": ["libnumbers"]}, exclusive=True)
    assert result["environments"]["two"]["removed"] == ["libnumbers 2.0 0"]
    assert host.run(exclusive=True)["changed"]
    assert not (host.root / "generations").exists() and theirs.exists()
    assert not host.run(exclusive=True)["changed"]


def test_records_are_readable_and_the_prefix_is_frozen(host):
    host.ask("plotter", PYTHON)
    modes = {path.stat().st_mode & 0o777 for path in (host.prefix() / "conda-meta").iterdir()}
    assert modes == {0o644}
    assert "conda_environments" in json.loads(host.read("conda-meta/frozen"))["message"]


def test_no_user_can_write_in_the_lock_directory_of_uv(host, index):
    ask_index(host, index, "einops")
    assert (host.root / "cache").stat().st_mode & 0o777 == 0o700
    assert [
        path for path in host.generation(1).rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022
    ] == []


def test_libraries_are_compiled_since_users_cannot(host):
    host.ask("plotter", PYTHON)
    assert list((host.prefix() / SITE_PACKAGES / "mathkit/__pycache__").glob("*.pyc"))


def test_foreign_conda_is_left_alone(host):
    (host.root / "conda-meta").mkdir(parents=True)
    assert "is a conda of its own: it was not made by this module" in refused(host.ask("libnumbers"))
    assert os.listdir(host.root) == ["conda-meta"]
    assert not host.ask(state="absent")["changed"]


@pytest.mark.parametrize("directory", ["", "conda", "conda/envs", "conda/generations/research"])
@pytest.mark.parametrize("check", [False, True], ids=["applied", "check mode"])
@pytest.mark.unsafe_paths(reason="`absent` leaves a place that the administrator has opened to others")
def test_writable_root_is_refused_except_for_absent(host, snapshot, directory, check):
    if directory:
        host.ask("libnumbers ==1.0")
    place = host.root.parent / directory
    place.chmod(0o777)
    before = snapshot(host.root.parent)
    message = refused(host.ask("libnumbers", check=check))
    assert message.startswith(f"Users other than root may write in {place}, and could exchange what everybody runs.")
    assert snapshot(host.root.parent) == before
    assert not host.ask(state="absent").get("failed")
    assert not host.root.exists()


def test_several_environments_in_one_run(host):
    result = host.run(
        {"name": "one", "packages": ["libnumbers <2"]},
        {"name": "two", "packages": ["libnumbers"]},
        {"name": "three", "state": "absent"},
    )
    assert result["environments"]["one"]["added"] == ["libnumbers 1.1 0"]
    assert result["environments"]["two"]["added"] == ["libnumbers 2.0 0"]
    assert result["environments"]["three"]["prefix"] == ""
    assert sorted(os.listdir(host.root / "envs")) == ["one", "two"]


def test_a_lock_is_installed_as_it_is(host):
    host.ask("libnumbers <2")
    lock = Path(f"{host.generation(1)}.lock").read_text()
    host.add(Package("libnumbers", "1.2"))
    result = host.run({"name": "copy", "lock": lock})
    assert result["environments"]["copy"]["added"] == ["libnumbers 1.1 0"]
    assert not host.run({"name": "copy", "lock": lock})["changed"]


def test_lock_without_a_requested_package_is_refused(host):
    host.ask("libnumbers <2")
    lock = Path(f"{host.generation(1)}.lock").read_text()
    assert "has no libnumbers >=2, which `packages` asks for" in refused(host.ask("libnumbers >=2", lock=lock))


@pytest.mark.parametrize("text", ["no lock", "version: 99\n", "version: 6\nenvironments: {}\npackages: []\n"])
def test_invalid_lock_is_refused(host, text):
    assert "The lock of the environment research" in refused(host.ask(lock=text))
    assert not host.prefix().exists()


# ---- Going back ----------------------------------------------------------------------------------------------------------


def test_an_earlier_request_is_restored_without_a_channel(host):
    host.ask("libnumbers <2")
    host.ask("libnumbers >=2")
    host.channel.rename(host.channel.with_name("gone"))
    result = host.ask("libnumbers <2")
    assert result["generation"] == 1 and result["replaced"] == ["libnumbers 2.0 0 -> 1.1 0"]
    assert host.read("share/numbers/version") == "1.1\n"
    assert result["previous"] == [2]


def test_named_generation_overrides_the_request(host):
    host.ask("libnumbers <2")
    host.ask("libnumbers >=2")
    assert host.ask("libnumbers >=2", generation=1)["changed"]
    assert host.read("share/numbers/version") == "1.1\n"
    assert not host.ask("handwritten", generation=1)["changed"]


def test_a_generation_that_is_not_there_is_refused(host):
    host.ask("libnumbers")
    assert "has no generation 7: choose among 1" in refused(host.ask("libnumbers", generation=7))


def test_old_generations_and_their_cache_are_removed(host):
    for version in ("1.0", "1.1", "2.0"):
        host.ask(f"libnumbers =={version}")
    assert not host.generation(1).exists() and not Path(f"{host.generation(1)}.json").exists()
    assert sorted(path.name for path in (host.root / "cache/packages").iterdir() if path.is_dir()) == [
        "libnumbers-1.1-0",
        "libnumbers-2.0-0",
    ]


def test_a_generation_that_a_process_runs_from_is_kept(host):
    host.ask("libnumbers ==1.0", keep=0)
    program = host.generation(1) / "program"
    program.symlink_to("/bin/sleep")
    running = subprocess.Popen((program, "60"))
    try:
        result = host.ask("libnumbers ==1.1", keep=0)
        assert f"processes {running.pid} run from it" in result["warnings"][0]
        assert host.generation(1).exists()
        assert not host.ask("libnumbers ==1.1", keep=0)["changed"]
    finally:
        running.kill()
        running.wait()
    assert host.ask("libnumbers ==1.1", keep=0)["changed"]
    assert not host.generation(1).exists()


def test_absent_takes_everything_away(host):
    host.ask("plotter", PYTHON)
    result = host.ask(state="absent")
    assert result["removed"][0] == "libnumbers 1.1 0"
    assert not host.root.exists()
    assert not host.ask(state="absent")["changed"]
    assert not host.root.exists()


# ---- What others did -----------------------------------------------------------------------------------------------------


def add_by_hand(host: Host, name: str) -> None:
    """Add files and a record, as conda and mamba do."""
    host.run({"name": "other", "packages": [name]})
    record = next((host.prefix("other") / "conda-meta").glob("*.json"))
    (host.prefix() / "conda-meta" / record.name).write_bytes(record.read_bytes())
    (host.prefix() / "share" / name).write_text("by hand\n")


def test_a_package_added_by_hand_is_found_and_taken_away(host):
    host.ask("libnumbers")
    add_by_hand(host, "handwritten")
    for check in (True, False):
        result = host.ask("libnumbers", check=check)
        assert result["changed"]
        assert result["drift"] == ["handwritten 1.0 0 was added"]
        assert result["removed"] == ["handwritten 1.0 0"]
    assert not (host.prefix() / "share/handwritten").exists()
    assert (host.generation(1) / "share/handwritten").read_text() == "by hand\n"
    assert not host.ask("libnumbers")["changed"]


def test_a_package_added_with_pip_is_found(host):
    host.ask("mathkit", PYTHON)
    (host.prefix() / f"{SITE_PACKAGES}/requests-2.32.5.dist-info").mkdir()
    result = host.ask("mathkit", PYTHON)
    assert result["drift"] == ["requests (pip) 2.32.5 was added"]
    assert not list(host.prefix().glob(f"{SITE_PACKAGES}/requests*"))


def test_a_package_removed_by_hand_is_restored_from_the_lock(host):
    host.ask("plotter", PYTHON)
    host.add(Package("libnumbers", "1.2"))
    next((host.prefix() / "conda-meta").glob("libnumbers-*.json")).unlink()
    result = host.ask("plotter", PYTHON)
    assert result["drift"] == ["libnumbers 1.1 0 was removed"]
    assert result["added"] == ["libnumbers 1.1 0"]


def test_an_equivalent_record_is_no_drift(host):
    host.ask("libnumbers")
    record = next((host.prefix() / "conda-meta").glob("*.json"))
    text = json.dumps(json.loads(record.read_text()))
    record.unlink()  # a hard link to nothing else, but a tool would replace it as well
    record.write_text(text)
    assert not host.ask("libnumbers")["changed"]


@pytest.mark.parametrize(
    ("change", "fate"), [(lambda path: path.write_text("edited\n"), "changed"), (lambda path: path.unlink(), "removed")]
)
def test_edited_and_removed_files_are_reported(host, change, fate):
    host.ask("plotter", PYTHON)
    change(host.prefix() / "share/numbers/version")
    for check in (True, False):
        result = host.ask("plotter", PYTHON, check=check)
        assert result["changed"] and result["drift"] == [f"share/numbers/version of libnumbers was {fate}"]
    assert host.read("share/numbers/version") == "1.1\n"
    assert not host.ask("plotter", PYTHON)["changed"]


def test_writable_files_are_fixed_in_the_next_generation(host):
    host.ask("plotter", PYTHON)
    (host.prefix() / "share/numbers/version").chmod(0o777)
    (host.prefix() / "bin").chmod(0o777)
    for check in (True, False):
        result = host.ask("plotter", PYTHON, check=check)
        assert result["changed"]
        assert result["drift"] == [
            "bin may be written by others",
            "share/numbers/version of libnumbers may be written by others",
        ]
    assert (host.prefix() / "share/numbers/version").stat().st_mode & 0o777 == 0o644
    assert (host.prefix() / "bin").stat().st_mode & 0o777 == 0o755
    assert not host.ask("plotter", PYTHON)["changed"]
    # One that nobody looked at has spoiled the cache again.
    (host.prefix() / "share/numbers/version").chmod(0o777)
    host.run({"name": "other", "packages": ["libnumbers <2"]})
    assert (host.prefix("other") / "share/numbers/version").stat().st_mode & 0o777 == 0o755


def test_removed_frozen_mark_is_restored(host):
    host.ask("libnumbers")
    (host.prefix() / "conda-meta/frozen").unlink()
    assert host.ask("libnumbers")["drift"] == ["conda-meta/frozen was removed"]
    assert (host.prefix() / "conda-meta/frozen").exists()
    (host.prefix() / "conda-meta/frozen").touch()
    assert not host.ask("libnumbers")["changed"]


def test_unmanaged_files_are_no_drift(host):
    host.ask("plotter", PYTHON)
    subprocess.run((host.prefix() / "bin/mathkit",), stdout=subprocess.DEVNULL, check=True)  # may compile
    (host.prefix() / "share/notes").write_text("mine\n")
    assert not host.ask("plotter", PYTHON)["changed"]


@pytest.mark.parametrize("ending", ["files.json", "lock"])
@pytest.mark.parametrize("is_gone", [False, True], ids=["truncated", "removed"])
def test_a_generation_whose_records_are_damaged_is_made_again(host, ending, is_gone):
    host.ask("plotter", PYTHON)
    (host.prefix() / "share/numbers/version").write_text("edited\n")
    record = Path(f"{host.generation(1)}.{ending}")
    record.unlink() if is_gone else os.truncate(record, 20)
    for check in (True, False):
        result = host.ask("plotter", PYTHON, check=check)
        assert result["changed"] and result["generation"] == 2
        assert result["drift"][0] == f"1.{ending} was {'removed' if is_gone else 'changed'}"
    assert host.read("share/numbers/version") == "1.1\n"
    assert not host.ask("plotter", PYTHON)["changed"]


def test_damaged_lock_is_solved_again(host):
    host.ask("libnumbers <2")
    os.truncate(f"{host.generation(1)}.lock", 20)
    assert host.ask("libnumbers <2", "handwritten")["added"] == ["handwritten 1.0 0"]


def test_going_back_to_an_edited_generation_fixes_it(host):
    host.ask("libnumbers <2")
    host.ask("libnumbers >=2")
    (host.generation(1) / "share/numbers/version").unlink()
    assert host.ask("libnumbers <2")["generation"] == 3
    assert host.read("share/numbers/version") == "1.1\n"


def test_a_prefix_removed_by_hand_is_restored(host):
    host.ask("libnumbers")
    subprocess.run(("rm", "-r", host.generation(1)), check=True)
    assert host.ask("libnumbers")["changed"]
    assert host.read("share/numbers/version") == "2.0\n"


def test_edited_file_does_not_spread_by_the_cache(host):
    """Edit a file of an environment, which is the same file as in the cache."""
    host.ask("libnumbers")
    with (host.prefix() / "share/numbers/version").open("w") as file:
        file.write("edited\n")
    host.run({"name": "other", "packages": ["libnumbers"]})
    assert (host.prefix("other") / "share/numbers/version").read_text() == "2.0\n"


def lose(host: Host, pattern: str) -> None:
    subprocess.run(("rm", "-r", *host.generation(1).parent.glob(pattern)), check=True)


@pytest.mark.parametrize("lost", ["1.json", "1", "1*"])
def test_linked_generation_is_ours_when_parts_are_missing(host, lost):
    host.ask("libnumbers")
    lose(host, lost)
    checked = host.ask("libnumbers", check=True)
    assert (checked["generation"], checked["previous"]) == (2, [1] if lost == "1" else [])
    result = host.ask("libnumbers", keep=0)
    assert result["generation"] == 2 and host.read("share/numbers/version") == "2.0\n"
    assert result["drift"] == checked["drift"] != []
    assert sorted(path.name for path in host.generation(1).parent.iterdir()) == [
        "2",
        "2.files.json",
        "2.json",
        "2.lock",
    ]
    assert not host.ask("libnumbers")["changed"]


@pytest.mark.parametrize("lost", ["1.json", "1", "1*"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_absent_removes_incomplete_linked_generation(host, lost, exclusive):
    host.ask("libnumbers")
    lose(host, lost)
    named = [] if exclusive else [{"name": "research", "state": "absent"}]
    assert host.run(*named, exclusive=exclusive)["changed"]
    assert not host.root.exists()


def test_generation_without_receipt_is_replaced(host):
    host.ask("libnumbers ==1.0")
    Path(f"{host.generation(1)}.json").unlink()
    refused(host.ask("nosuch"))
    refused(host.ask("tampered"))
    assert host.read("share/numbers/version") == "1.0\n"
    assert host.ask("libnumbers ==1.1")["generation"] == 2
    assert not host.generation(1).exists() and not Path(f"{host.generation(1)}.json").exists()


def test_generation_without_receipt_waits_for_its_process(host):
    host.ask("libnumbers ==1.0")
    program = host.generation(1) / "program"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen((program, "60")) as running:
        Path(f"{host.generation(1)}.json").unlink()
        assert host.ask("libnumbers ==1.1")["changed"]
        assert not host.ask("libnumbers ==1.1")["changed"]
        assert host.generation(1).exists()
        running.kill()
    assert host.ask("libnumbers ==1.1")["changed"]
    assert not host.generation(1).exists()


@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_foreign_path_is_refused_and_kept(host, kind, snapshot, tmp_path):
    path = host.prefix()
    path.parent.mkdir(parents=True)
    if kind == "directory":
        (path / "conda-meta").mkdir(parents=True)
    elif kind == "link":
        path.symlink_to(tmp_path)
    else:
        path.write_text("")
    before = snapshot(host.root)
    assert f"{path} is in the way: it was not made by this module" in refused(host.ask("libnumbers"))
    assert not host.ask(state="absent")["changed"]
    assert snapshot(host.root) == before


def test_foreign_directory_among_generations_is_kept(host):
    host.generation(1).mkdir(parents=True)
    (host.generation(1) / "theirs").touch()
    assert host.ask("libnumbers")["generation"] == 2
    assert host.ask(state="absent")["changed"]
    assert (host.generation(1) / "theirs").exists()


# ---- What cannot be had --------------------------------------------------------------------------------------------------


def test_unsolvable_environment_stops_the_whole_run(host):
    message = refused(
        host.run(
            {"name": "fine", "packages": ["handwritten"]}, {"name": "clash", "packages": ["mathkit 2.*", "plotter"]}
        )
    )
    assert "mathkit 2.*" in message and "plotter 1.0 would require" in message and "mathkit <2" in message
    assert "The environment clash" in message
    assert not host.prefix("fine").exists()


def test_a_constraint_that_no_dependency_states_is_named(host):
    message = refused(host.ask("legacy", "libnumbers 2.*"))
    assert "legacy 0.9 would constrain" in message and "libnumbers <2" in message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"packages": ["python >=3.9,<"]}, "asks for the package 'python >=3.9,<'"),
        ({"packages": ["no such package !"]}, "asks for the package"),
        ({"packages": ["libnumbers 1.0"]}, "Did you mean '==1.0' or '1.0.*'?"),
        ({"packages": []}, "neither `packages` nor a `lock`"),
        ({"name": "../evil", "packages": ["libnumbers"]}, "is not a name for an environment"),
        ({"name": "", "packages": ["libnumbers"]}, "is not a name for an environment"),
        ({"packages": ["nosuch"]}, "No candidates were found for nosuch"),
        ({"packages": ["libnumbers"], "cuda": "twelve!"}, "cuda"),
    ],
)
def test_bad_requests_are_refused_before_anything_changes(host, request_, message):
    assert message in refused(host.run({"name": "research", **request_}))
    assert not (host.root / "envs").exists()


def test_a_name_that_is_there_twice_is_refused(host):
    twice = {"name": "research", "packages": ["libnumbers"]}
    assert "research is named twice" in refused(host.run(twice, twice))


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/channel", "file:///nowhere/channel"])
def test_a_channel_that_is_down_leaves_the_environment_in_use(host, address):
    host.ask("libnumbers ==1.0")
    message = refused(host.ask("libnumbers", channels=[address]))
    assert address in message and "Name channels that this host reaches" in message
    assert host.read("share/numbers/version") == "1.0\n"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def web(host) -> Iterator[str]:
    """Return the address of the channel behind a web server."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *arguments: Silent(*arguments, directory=str(host.channel))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_channel_behind_a_web_server(host, web):
    assert host.ask("plotter", PYTHON, channels=[web])["changed"]
    assert not host.ask("plotter", PYTHON, channels=[web])["changed"]


@pytest.mark.parametrize("behind_a_server", [True, False])
def test_an_archive_that_differs_from_the_index_is_refused(host, web, behind_a_server):
    host.ask("libnumbers ==1.0")
    channel = web if behind_a_server else host.address
    message = refused(host.ask("needs-tampered", "libnumbers", channels=[channel]))
    assert "hash mismatch" in message and "tampered-1.0-0.conda" in message
    assert host.read("share/numbers/version") == "1.0\n"
    assert os.listdir(host.root / "generations/research") and not host.generation(2).exists()
    assert not host.ask("libnumbers ==1.0")["changed"]


def test_nothing_is_linked_any_more_once_an_install_has_failed(host, web):
    names = [f"part{number}" for number in range(40)]
    parts = [Package(name, "1.0", files={f"share/{name}/{number}": "" for number in range(100)}) for name in names]
    host.add(*parts, Package("damaged", "1.0", wrong_hash=True))
    host.ask(*names)  # they are in the cache now: they are linked while the other one is fetched
    for _attempt in range(3):
        assert "hash mismatch" in refused(host.ask(*names, "damaged", channels=[web]))
        assert not host.generation(2).exists()


@pytest.mark.parametrize("behind_a_server", [True, False])
def test_an_archive_that_is_missing_is_named(host, web, behind_a_server):
    (host.channel / "noarch/handwritten-1.0-0.conda").unlink()
    message = refused(host.ask("handwritten", channels=[web if behind_a_server else host.address]))
    assert "handwritten-1.0-0.conda" in message
    assert not host.prefix().exists()


def test_failed_environment_leaves_all_links(host):
    host.run({"name": "research", "packages": ["libnumbers ==1.0"]})
    refused(host.run({"name": "research", "packages": ["libnumbers 2.*"]}, {"name": "bad", "packages": ["tampered"]}))
    assert host.read("share/numbers/version") == "1.0\n"
    # What was complete is not made again.
    assert host.ask("libnumbers 2.*")["generation"] == 2


# ---- From a Python package index ------------------------------------------------------------------------------------------


class Index:
    """Wheels behind a web server, laid out as an index is."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, f"{address}/simple"

    def add(self, project: str, version: str, requires: str = "") -> Path:
        place = self.folder / "simple" / project
        place.mkdir(parents=True, exist_ok=True)
        wheel = place / f"{project}-{version}-py3-none-any.whl"
        info = f"{project}-{version}.dist-info"
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{project}.py", f"version = '{version}'\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{needs}")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in sorted(place.glob("*.whl")))
        (place / "index.html").write_text(links)
        return wheel


@pytest.fixture
def index(host, web) -> Index:
    index = Index(host.channel, web)
    index.add("einops", "0.8")
    index.add("layers", "1.0", requires="einops >=0.7")
    return index


def ask_index(
    host: Host, index: Index, *lines: str, packages: tuple[str, ...] = (PYTHON,), **rest: Any
) -> dict[str, Any]:
    options = {"check": rest.pop("check", False), "index_url": index.address, "python": sys.executable}
    result = host.run({"name": "research", "packages": list(packages), "pip": list(lines), **rest}, **options)
    return {**result, **result.get("environments", {}).get("research", {})}


def test_pip_packages_are_locked_with_hashes(host, index):
    result = ask_index(host, index, "layers >=1")
    assert result["added"] == ["einops (pip) 0.8", "layers (pip) 1.0", f"python {SYSTEM}.2 0"]
    python = host.prefix() / "bin/python"
    ran = subprocess.run(
        (python, "-c", "import layers, einops; print(einops.version)"), capture_output=True, text=True, check=True
    )
    assert ran.stdout == "0.8\n"
    assert Path(f"{host.generation(1)}.pip.txt").read_text().count("--hash=sha256:") == 2
    assert not ask_index(host, index, "layers >=1")["changed"]


def test_check_mode_reports_pip_requirements(host, index):
    assert "layers (pip) >=1" in ask_index(host, index, "layers >=1", check=True)["added"]
    assert not host.root.exists()


def test_packages_of_an_index_stay_until_an_update(host, index):
    ask_index(host, index, "layers")
    index.add("einops", "0.9")
    assert not ask_index(host, index, "layers")["changed"]
    assert ask_index(host, index, "layers", update=True, check=True)["replaced"] == ["einops (pip) 0.8 -> 0.9"]
    assert ask_index(host, index, "layers", update=True)["replaced"] == ["einops (pip) 0.8 -> 0.9"]
    assert not ask_index(host, index, "layers", update=True)["changed"]


def test_package_removed_with_pip_is_restored(host, index):
    ask_index(host, index, "layers")
    index.add("einops", "0.9")
    subprocess.run(("rm", "-r", host.prefix() / SITE_PACKAGES / "einops-0.8.dist-info"), check=True)
    result = ask_index(host, index, "layers")
    assert result["drift"] == ["einops (pip) 0.8 was removed"] and result["added"] == ["einops (pip) 0.8"]


def test_edited_pip_package_is_restored(host, index):
    ask_index(host, index, "layers")
    with (host.prefix() / SITE_PACKAGES / "einops.py").open("a") as file:
        file.write("edited = True\n")
    assert ask_index(host, index, "layers")["drift"] == [f"{SITE_PACKAGES}/einops.py was changed"]
    assert host.read(f"{SITE_PACKAGES}/einops.py") == "version = '0.8'\n"
    assert not ask_index(host, index, "layers")["changed"]


def test_pip_does_not_replace_conda_packages(host, index):
    info = "site-packages/einops-0.7.dist-info/METADATA"
    meta = {info: "Metadata-Version: 2.1\nName: einops\nVersion: 0.7\n", "site-packages/einops.py": "version = '0.7'\n"}
    host.add(Package("einops", "0.7", noarch="python", depends=("python",), files=meta))
    index.add("einops", "0.7")
    result = ask_index(host, index, "layers", packages=(PYTHON, "einops"))
    assert result["added"] == ["einops 0.7 0", "layers (pip) 1.0", f"python {SYSTEM}.2 0"]
    assert host.read(f"{SITE_PACKAGES}/einops.py") == "version = '0.7'\n"


def test_a_wheel_with_another_hash_is_refused(host, index):
    message = refused(ask_index(host, index, f"einops==0.8 --hash=sha256:{'0' * 64}"))
    assert "ash mismatch" in message and "of the environment research" in message
    assert not host.prefix().exists() and not host.generation(1).exists()


def test_requirements_with_hashes_are_taken_as_they_are(host, index):
    digest = hashlib.sha256((index.folder / "simple/einops/einops-0.8-py3-none-any.whl").read_bytes()).hexdigest()
    index.add("einops", "0.9")
    assert "einops (pip) 0.8" in ask_index(host, index, f"einops==0.8 --hash=sha256:{digest}")["added"]


@pytest.mark.parametrize(
    ("lines", "packages", "message"),
    [
        (["einops >=9"], (PYTHON,), "einops"),
        (["nosuch"], (PYTHON,), "nosuch"),
        (["einops"], ("handwritten",), "has `pip` and no Python: add python to its `packages`"),
        (["--index-url http://evil"], (PYTHON,), "where only requirements belong"),
        (["not a requirement !"], (PYTHON,), "requirements in `pip` of the environment"),
    ],
)
def test_package_missing_in_the_index_is_refused(host, index, lines, packages, message):
    assert message in refused(ask_index(host, index, *lines, packages=packages))
    assert not host.prefix().exists()


# ---- Cut short -----------------------------------------------------------------------------------------------------------


def test_run_killed_while_linking_keeps_the_old_environment(host):
    host.ask("libnumbers ==1.0")
    host.add(Package("large", "1.0", noarch="generic", files={f"share/large/{number}": "" for number in range(20000)}))
    run = process(host.params({"name": "research", "packages": ["large", "libnumbers 2.*"]}))
    linked = host.generation(2) / "share/large"
    while run.poll() is None and not (linked.is_dir() and any(linked.iterdir())):
        time.sleep(0.001)
    run.kill()
    run.wait()
    assert run.returncode == -9, "the run was done before it could be killed"
    assert len(list(linked.iterdir())) < 20000
    assert host.read("share/numbers/version") == "1.0\n"
    # The half of a generation is a leftover and none to go to.
    assert host.ask("large", "libnumbers 2.*", check=True)["generation"] == 3
    result = host.ask("large", "libnumbers 2.*")
    assert result["generation"] == 3 and not host.generation(2).exists()
    assert len(list((host.prefix() / "share/large").iterdir())) == 20000


def test_killed_run_keeps_an_environment_at_every_step(host, tmp_path):
    host.ask("libnumbers ==1.0", keep=0)
    before = host.root.rename(tmp_path / "before")
    params = host.params({"name": "research", "packages": ["libnumbers ==1.1"]}, keep=0)
    with start(FORKS, stdin=subprocess.PIPE) as runs:
        assert runs.stdin and runs.stdout
        for step in range(1, 100):
            subprocess.run(("rm", "-rf", host.root), check=True)
            subprocess.run(("cp", "-a", before, host.root), check=True)
            print(json.dumps([params, step]), file=runs.stdin, flush=True)
            status = int(runs.stdout.readline())
            assert host.read("share/numbers/version") in ("1.0\n", "1.1\n"), f"killed before change {step}"
            if status == 0:
                break
            assert status == 9
            host.ask("libnumbers ==1.1", keep=0)
            assert host.read("share/numbers/version") == "1.1\n"
            (leftovers,) = (path for path in (host.root / "generations/research").iterdir() if path.is_dir())
            assert host.prefix().resolve() == leftovers
            names = {path.name for path in leftovers.parent.iterdir()}
            assert names == {
                leftovers.name,
                f"{leftovers.name}.json",
                f"{leftovers.name}.lock",
                f"{leftovers.name}.files.json",
            }
            assert not host.ask("libnumbers ==1.1", keep=0)["changed"]
        runs.stdin.close()
    assert step > 5


def test_two_runs_at_once_wait_for_each_other(host):
    runs = [process(host.params({"name": "research", "packages": ["plotter", PYTHON]})) for _run in range(3)]
    outcomes = [json.loads(run.communicate()[0]) for run in runs]
    assert sorted(outcome["changed"] for outcome in outcomes) == [False, False, True]
    assert [outcome["environments"]["research"]["generation"] for outcome in outcomes] == [1, 1, 1]


# ---- Another Python ------------------------------------------------------------------------------------------------------


def test_module_respawns_only_where_py_rattler_is_needed(host, run_tasks):
    """Run as on a target: with the system's own Python, and the environment of the role for modules."""
    bare = "/usr/bin/python3"
    if subprocess.run((bare, "-c", "import rattler"), capture_output=True, check=False).returncode == 0:
        pytest.skip(f"{bare} has py-rattler itself")
    python = {**host.params({"name": "research", "packages": ["libnumbers"]}), "python": sys.executable}
    tasks = [
        {"rigwright.workstation.conda_environment": python, "register": "made"},
        {"rigwright.workstation.conda_environment": {**python, "python": "/nowhere"}, "register": "again"},
        {"ansible.builtin.assert": {"that": ["made is changed", "again is not changed"]}},
    ]
    run = run_tasks([{"block": tasks, "vars": {"ansible_python_interpreter": bare}}])
    assert run.rc == 0, run.output
    assert host.read("share/numbers/version") == "2.0\n"
