# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of driver ends in the new one or in the previous one. dpkg and apt are played by a few lines that know two branches."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock as core_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_change as nvidia

KERNEL = "6.12.117+deb13-amd64"
OLD, NEW = "580.159.04", "590.48.01"
PARTS = ("libcuda1", "libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms")


class Machine:
    """A root directory, and programs that change it as dpkg, apt, DKMS and modprobe would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages: dict[str, str] = {"bash": "5.2"}
        self.held: set[str] = set()
        self.broken: set[str] = set()
        self.removes_also: list[str] = []
        self.comes_along: dict[str, str] = {}
        self.fails: set[str] = set()
        self.dies_after: int | None = None
        self.files: list[str] = []
        self.made: dict[str, str] = {}
        self.owned = False
        self.kernel = KERNEL
        self.said: list[list[str]] = []
        for path, text in {
            "/proc/sys/kernel/osrelease": KERNEL,
            "/proc/sys/kernel/random/boot_id": "first",
            f"/boot/vmlinuz-{KERNEL}": "",
            "/var/lib/dpkg/lock": "",
            "/etc/apt/preferences.d/mine": "Package: vim\nPin: version 1\nPin-Priority: 1\n",
        }.items():
            self.write(path, text)
        self.save()

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def keep(self, name: str, version: str) -> None:
        """Have a package, and its file as apt's cache has it."""
        self.packages[name] = version
        bare, _colon, architecture = name.partition(":")
        self.write(f"/var/cache/apt/archives/{bare}_{version}_{architecture or 'amd64'}.deb", "deb")
        self.save()

    def save(self) -> None:
        blocks = [
            f"Package: {name.partition(':')[0]}\nStatus: {'hold' if name in self.held else 'install'} ok "
            f"{'half-configured' if name in self.broken else 'installed'}\nVersion: {version}\n"
            f"Architecture: {name.partition(':')[2] or 'amd64'}\n"
            for name, version in self.packages.items()
        ]
        self.write("/var/lib/dpkg/status", "\n".join(blocks))

    def install(self, branch: str) -> None:
        """Have the packages of a branch as apt's cache and dpkg have them, and its module."""
        for name in PARTS:
            self.keep(name, f"{branch}-1")
        self.build(branch)
        self.save()

    def build(self, version: str) -> None:
        self.clear("/var/lib/dkms/nvidia")
        top = f"/var/lib/dkms/nvidia/{version}"
        if "build" in self.fails and version == NEW:
            self.write(
                f"{top}/build/make.log",
                f"DKMS make.log for nvidia-{NEW} for kernel {self.kernel} (x86_64)\na.c:1: error: too few\n",
            )
            self.broken.add("nvidia-kernel-open-dkms")
            return
        self.write(f"{top}/{self.kernel}/x86_64/module/nvidia.ko", "")
        (self.root / f"var/lib/dkms/nvidia/kernel-{self.kernel}-x86_64").symlink_to(f"{version}/{self.kernel}/x86_64")

    def clear(self, path: str) -> None:
        shutil.rmtree(self.root / path.lstrip("/"), ignore_errors=True)

    def boot(self, loads: bool = True) -> None:
        self.write("/proc/sys/kernel/random/boot_id", f"{id(object())}-again")
        self.clear("/sys/module/nvidia")
        if loads:
            self.load()

    def load(self) -> None:
        version = self.packages.get("libnvidia-ml1", "-1").removesuffix("-1")
        self.clear("/usr/lib/x86_64-linux-gnu")
        if version and not (version == NEW and "load" in self.fails):
            self.write("/sys/module/nvidia/version", version)
        if version:
            self.write(f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", "")
            (self.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{version}")

    # --- programs ---

    def run(self, command: Sequence[str]) -> tuple[int, str, str]:
        self.said.append(list(command))
        self.owned = command[:2] == ["env", "DPKG_FRONTEND_LOCKED=1"]
        command = command[2:] if self.owned else command
        name = Path(command[0]).name.replace("-", "_")
        result: tuple[int, str, str] = getattr(self, name)(list(command[1:]))
        self.save()
        return result

    def apt_get(self, words: list[str]) -> tuple[int, str, str]:
        assert not self.owned
        if words[0] == "update":
            return 0, "", ""
        if words[0] == "check":
            return (100, "", "E: Unmet dependencies.\n") if "check" in self.fails else (0, "", "")
        names = [word for word in words if word in PARTS]
        going = [word[:-1] for word in words if word.endswith("-")]
        if "--simulate" in words:
            if "solve" in self.fails:
                return (
                    100,
                    " nvidia-driver-cuda : Depends: libcuda1 but it is not going to be installed\n",
                    "E: broken\n",
                )
            versions = dict.fromkeys(names, f"{NEW}-1") | self.comes_along
            lines = [f"Inst {part} ({version} NVIDIA CUDA [amd64])\n" for part, version in versions.items()]
            return 0, "".join([*lines, *(f"Remv {part} [1]\n" for part in [*going, *self.removes_also])]), ""
        if "download" in self.fails:
            return 100, "", "E: Failed to fetch http://depot/x.deb  404  Not Found\n"
        for part in names[: self.dies_after]:
            self.packages[part] = f"{NEW}-1"
            self.broken.add(part)
            self.save()
        if self.dies_after is not None:
            raise KeyboardInterrupt
        self.packages |= self.comes_along
        self.broken.clear()
        self.build(NEW)
        self.load()
        return (100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)\n") if self.broken else (0, "", "")

    def dpkg(self, words: list[str]) -> tuple[int, str, str]:
        if "--print-architecture" in words:
            return 0, "amd64\n", ""
        if "--audit" in words:
            return 0, "".join(f"{name}\n" for name in self.broken), ""
        assert self.owned
        if {"--remove", "--purge"} & set(words):
            names = [word for word in words if not word.startswith("--")]
            if not all(":" in name for name in names):
                return 2, "", "dpkg: error: ambiguous package name\n"
            for name in (name.removesuffix(":amd64") for name in names):
                self.packages.pop(name, None)
                self.broken.discard(name)
        if "--install" in words and "restore" not in self.fails:
            for path in (word for word in words if word.endswith(".deb")):
                assert Path(path).exists()
                name, version, architecture = Path(path).name.removesuffix(".deb").split("_")
                name += "" if architecture == "amd64" else f":{architecture}"
                self.packages[name] = version
                self.broken.discard(name)
                if name == "nvidia-kernel-open-dkms":
                    self.build(version.removesuffix("-1"))
        if "--configure" in words and "configure" not in self.fails:
            unbuilt = "nvidia-kernel-open-dkms" in self.broken
            self.broken.clear()
            if unbuilt:
                self.build(self.packages["nvidia-kernel-open-dkms"].removesuffix("-1"))
        return 0, "", ""

    def dpkg_query(self, words: list[str]) -> tuple[int, str, str]:
        if "--show" not in words and ":" not in words[1]:
            return 2, "", "dpkg-query: error: ambiguous package name\n"
        if "--control-path" in words:
            return 0, f"{self.root}/var/lib/dpkg/info/{words[-1]}\n", ""
        if "--show" not in words:
            told = {
                "--listfiles": ["/.", *self.files],
                "--status": [f"Package: {words[1]}", "Description: x"],
                "--control-list": ["conffiles", "md5sums"],
            }
            return 0, "".join(f"{line}\n" for line in told[words[0]]), ""
        lines = [
            f"{name.partition(':')[0]}\t{name.partition(':')[2] or 'amd64'}\t{version}\t{'hold' if name in self.held else 'install'}\t"
            f"{'half-configured' if name in self.broken else 'installed'}\n"
            for name, version in self.packages.items()
        ]
        return 0, "".join(lines), ""

    def dpkg_deb(self, words: list[str]) -> tuple[int, str, str]:
        """Look at the package's tree, which is gone afterwards."""
        if words[0] == "--info":
            return (0, "", "") if Path(words[1]).read_text() == "deb" else (2, "", "dpkg-deb: error: no archive")
        root = Path(words[-2])
        self.made = {
            f"/{path.relative_to(root)}": str(path.readlink())
            if path.is_symlink()
            else stat.filemode(path.lstat().st_mode)
            for path in root.rglob("*")
        }
        self.made["conffiles"] = (root / "DEBIAN/conffiles").read_text()
        Path(words[-1]).write_text("deb")
        return 0, "", ""

    def apt_mark(self, words: list[str]) -> tuple[int, str, str]:
        verb, names = words[0], set(words[1:])
        if verb == "showauto":
            return 0, "libcuda1\n", ""
        assert self.owned
        if verb == "hold":
            self.held |= names
        if verb == "unhold":
            self.held -= names
        return 0, "", ""

    def update_initramfs(self, _words: list[str]) -> tuple[int, str, str]:
        assert not (self.root / nvidia.MODPROBE.lstrip("/")).exists()
        return 0, "", ""

    def modprobe(self, _words: list[str]) -> tuple[int, str, str]:
        self.load()
        return (
            (1, "", "modprobe: ERROR: could not insert 'nvidia': No such device\n")
            if "load" in self.fails
            else (0, "", "")
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(nvidia, "LOAD_TIMEOUT", 0)
    return Machine(tmp_path)


@pytest.fixture
def with_old(machine: Machine) -> Machine:
    """A machine that runs the previous driver."""
    machine.install(OLD)
    machine.load()
    return machine


def change() -> nvidia.Change:
    return nvidia.Change(branch=590, install=list(PARTS))


def host(machine: Machine) -> nvidia.Host:
    return nvidia.Host(machine.run, str(machine.root))


def test_a_new_driver_on_an_empty_machine(machine: Machine) -> None:
    host(machine).change(change())

    assert host(machine).version() == NEW
    record = nvidia.Record.load(host(machine).tree)
    assert (record.brought, record.baseline) == (sorted(PARTS), {})
    # It was loaded at once: nothing waits for a reboot.
    assert record.change is None


def test_a_change_of_branch_waits_for_the_reboot_and_is_then_proven(with_old: Machine) -> None:
    old = dict(with_old.packages)
    with_old.fails = {"load"}
    host(with_old).change(change())
    waiting = host(with_old)
    assert waiting.record.change is not None
    assert waiting.record.change.stage == nvidia.INSTALLED
    assert waiting.version() == NEW

    with_old.fails = set()
    with_old.boot()
    host(with_old).settle()

    settled = host(with_old).record
    assert settled.change is None
    assert settled.failure is None
    # What the role replaced first comes back with `absent`.
    assert {name: entry["version"] for name, entry in settled.baseline.items()} == {part: old[part] for part in PARTS}


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (
            "build",
            f"the module of driver {NEW} was not built for the kernel {KERNEL}: a.c:1: error: too few (log: {nvidia.LOG})",
        ),
        ("download", "the packages could not be changed: E: Failed to fetch"),
        ("solve", "apt finds no way: nvidia-driver-cuda : Depends: libcuda1"),
    ],
)
def test_what_fails_leaves_the_previous_driver(with_old: Machine, fails: str, words: str) -> None:
    before = dict(with_old.packages)
    with_old.fails = {fails}

    with pytest.raises(nvidia.Failed) as told:
        host(with_old).change(change())

    assert words in str(told.value)
    assert with_old.packages == before
    assert with_old.broken == set()
    assert nvidia.Record.load(host(with_old).tree).change is None


def test_what_cannot_be_taken_back_is_told_with_the_first_cause(with_old: Machine) -> None:
    with_old.fails = {"build", "restore"}
    with pytest.raises(nvidia.Stuck) as told:
        host(with_old).change(change())
    assert str(told.value).startswith(
        f"the module of driver {NEW} was not built for the kernel {KERNEL}: a.c:1: error: too few"
    )
    assert f"could not be put back; their packages lie in {nvidia.KEPT}" in str(told.value)


def test_the_log_of_the_build_is_kept(with_old: Machine) -> None:
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Failed):
        host(with_old).change(change())
    assert "error: too few" in (with_old.root / nvidia.LOG.lstrip("/")).read_text()
    failure = nvidia.Record.load(host(with_old).tree).failure
    assert failure is not None
    assert (failure.at, failure.kernel, failure.restored) == ("build", KERNEL, OLD)


def test_a_driver_that_does_not_load_after_the_reboot_is_taken_back(with_old: Machine) -> None:
    before = dict(with_old.packages)
    with_old.fails = {"load"}
    host(with_old).change(change())
    with_old.boot(loads=False)

    with pytest.raises(nvidia.Failed, match="could not insert 'nvidia': No such device"):
        host(with_old).settle()

    assert with_old.packages == before
    record = nvidia.Record.load(host(with_old).tree)
    assert record.failure is not None
    assert record.failure.at == "boot"
    assert record.failure.kernel == KERNEL


@pytest.fixture
def with_secure_boot(with_old: Machine) -> Machine:
    """A machine that checks signatures, with a key of DKMS's that waits for the console."""
    with_old.write("/etc/os-release", "ID=debian\n")
    with_old.write("/var/lib/dkms/mok.pub", "certificate")
    efivars = "/sys/firmware/efi/efivars"
    with_old.write(f"{efivars}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\6\0\0\0\1")
    with_old.write(f"{efivars}/MokNew-605dab50-e046-4300-abb6-3dd810dd8b23", "\6\0\0\0certificate")
    return with_old


def boot_what_does_not_load(machine: Machine, wanted: nvidia.Change) -> None:
    machine.fails = {"load"}
    host(machine).change(wanted)
    machine.boot(loads=False)
    host(machine).settle()


def test_a_key_that_nobody_has_confirmed_takes_nothing_back(with_secure_boot: Machine) -> None:
    boot_what_does_not_load(with_secure_boot, change())

    assert host(with_secure_boot).version() == NEW
    waiting = host(with_secure_boot).record.change
    assert waiting is not None

    with_secure_boot.fails = set()
    with_secure_boot.boot()
    host(with_secure_boot).settle()
    assert host(with_secure_boot).record.change is None


def test_a_trusted_key_is_no_excuse(with_secure_boot: Machine) -> None:
    efivars = "/sys/firmware/efi/efivars"
    with_secure_boot.write(f"{efivars}/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23", "\6\0\0\0certificate")
    with pytest.raises(nvidia.Failed, match="does not work"):
        boot_what_does_not_load(with_secure_boot, change())


def test_a_module_that_is_loaded_waits_for_no_key(with_secure_boot: Machine) -> None:
    with_secure_boot.fails = {"load"}
    host(with_secure_boot).change(change())
    with_secure_boot.boot(loads=False)
    with_secure_boot.write("/sys/module/nvidia/version", OLD)
    with pytest.raises(nvidia.Failed, match=f"the module is {OLD}, the libraries are of {NEW}"):
        host(with_secure_boot).settle()


def test_modules_that_came_signed_wait_for_no_key(with_secure_boot: Machine) -> None:
    with_secure_boot.write(f"/lib/modules/{KERNEL}/modules.dep", "kernel/nvidia-590/nvidia.ko:\n")
    with pytest.raises(nvidia.Failed, match="does not work"):
        boot_what_does_not_load(with_secure_boot, dataclasses.replace(change(), build="prebuilt"))


def test_a_driver_is_proven_under_the_kernel_that_it_is_for(with_old: Machine) -> None:
    newer = "6.12.200+deb13-amd64"
    with_old.kernel = newer
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    kept = with_old.root / nvidia.KEPT.lstrip("/") / "libgcc-s1_12_amd64.deb"
    with_old.write(f"/boot/vmlinuz-{newer}", "")
    host(with_old).change(change())
    waiting = host(with_old).record.change
    # It was loaded at once, by the kernel that is to be replaced.
    assert waiting is not None
    assert waiting.kernel == newer

    with_old.boot()
    host(with_old).settle()
    assert host(with_old).record.change == waiting
    assert kept.exists()

    with_old.write("/proc/sys/kernel/osrelease", newer)
    with_old.boot()
    host(with_old).settle()
    assert host(with_old).record.change is None
    assert not kept.exists()


def test_a_host_without_a_driver_has_nouveau_again(machine: Machine) -> None:
    machine.fails = {"load"}
    host(machine).change(change())
    machine.write(nvidia.MODPROBE, "blacklist nouveau\n")
    machine.write(nvidia.UPDATE_INITRAMFS, "")
    machine.boot(loads=False)

    with pytest.raises(nvidia.Failed, match="the host has no driver, as before"):
        host(machine).settle()

    assert not (machine.root / nvidia.MODPROBE.lstrip("/")).exists()
    assert machine.said[-2:] == [
        [nvidia.UPDATE_INITRAMFS, "-u", "-k", KERNEL],
        ["modprobe", "--use-blacklist", "nouveau"],
    ]


def test_the_previous_driver_keeps_nouveau_away(with_old: Machine) -> None:
    with_old.fails = {"load"}
    host(with_old).change(change())
    with_old.write(nvidia.MODPROBE, "blacklist nouveau\n")
    with_old.boot(loads=False)
    with pytest.raises(nvidia.Failed):
        host(with_old).settle()
    assert (with_old.root / nvidia.MODPROBE.lstrip("/")).exists()
    assert with_old.said[-1] == ["modprobe", "nvidia"]


@pytest.mark.parametrize("after", range(len(PARTS)))
def test_a_run_that_was_killed_is_taken_back_by_the_next(with_old: Machine, after: int) -> None:
    before = dict(with_old.packages)
    with_old.dies_after = after
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    assert host(with_old).record.is_unsettled("first")

    with pytest.raises(nvidia.Failed, match="cut short"):
        host(with_old).settle()

    assert with_old.packages == before
    assert with_old.broken == set()


def test_a_run_that_was_killed_after_apt_is_completed(with_old: Machine) -> None:
    with_old.dies_after = len(PARTS)
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    with_old.said.clear()
    host(with_old).settle()

    completed = host(with_old).record
    assert completed.failure is None
    assert completed.change is not None
    assert (completed.change.stage, completed.change.version) == (nvidia.INSTALLED, NEW)
    assert with_old.broken == set()
    # What follows the transaction is not forgotten.
    assert ["env", "DPKG_FRONTEND_LOCKED=1", "apt-mark", "auto", "libcuda1"] in with_old.said


@pytest.mark.parametrize("after", range(1, len(PARTS)))
def test_half_a_change_within_a_branch_is_none(machine: Machine, after: int) -> None:
    machine.install("590.44.01")
    before = dict(machine.packages)
    machine.dies_after = after
    with pytest.raises(KeyboardInterrupt):
        host(machine).change(change())

    with pytest.raises(nvidia.Failed, match="cut short"):
        host(machine).settle()

    assert machine.packages == before


def test_a_transaction_that_takes_more_is_not_begun(with_old: Machine) -> None:
    with_old.removes_also = ["gnome-shell"]
    before = dict(with_old.packages)
    with pytest.raises(nvidia.Failed, match="would also remove gnome-shell"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_without_a_gpu_there_is_nothing_to_wait_for(machine: Machine) -> None:
    machine.fails = {"load"}
    host(machine).change(dataclasses.replace(change(), loads=False))
    assert host(machine).record.change is None


def test_absent_restores_what_was_there_and_lifts_the_holds(with_old: Machine) -> None:
    before = dict(with_old.packages)
    host(with_old).change(change())
    host(with_old).hold([*PARTS])
    assert with_old.held == set(PARTS)

    host(with_old).give_back([])

    assert with_old.packages == before
    assert with_old.held == set()
    assert not (with_old.root / nvidia.HOME.lstrip("/")).exists()


def test_absent_leaves_what_came_newer_with_the_driver(with_old: Machine) -> None:
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    host(with_old).change(change())
    assert set(host(with_old).record.baseline) == {"libgcc-s1", *PARTS}
    assert not [path for path in (with_old.root / nvidia.KEPT.lstrip("/")).iterdir() if "libgcc" in path.name]
    with_old.packages["libgcc-s1"] = "14+security"

    host(with_old).give_back([])

    assert with_old.packages["libgcc-s1"] == "14+security"
    assert with_old.packages["libcuda1"] == f"{OLD}-1"


def test_a_change_that_fails_takes_back_what_came_newer_with_it(with_old: Machine) -> None:
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    before = dict(with_old.packages)
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Failed):
        host(with_old).change(change())
    assert with_old.packages == before


def test_absent_tells_what_lacks_its_dependencies_and_forgets_nothing(with_old: Machine) -> None:
    host(with_old).change(change())
    with_old.fails = {"check"}
    with pytest.raises(nvidia.Stuck, match="Unmet dependencies"):
        host(with_old).give_back([])
    assert (with_old.root / nvidia.RECORD.lstrip("/")).exists()


LOCK = (
    "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB);"
    "print('mine', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("name", ["lock-frontend", "lock"])
def test_dpkg_of_somebody_else_is_waited_for(with_old: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(nvidia, "LOCK_TIMEOUT", 0)
    command = [sys.executable, "-c", LOCK, str(with_old.root / "var/lib/dpkg" / name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(nvidia.Stuck, match="another dpkg is at work"):
            host(with_old).restore({}, ["libcuda1"])
        other.communicate()
    assert with_old.said == []
    host(with_old).restore({}, ["libcuda1"])
    assert "libcuda1" not in with_old.packages


def test_nobody_else_gets_to_dpkg_while_the_previous_packages_come_back(
    with_old: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: dict[str, bool] = {}
    play = with_old.run

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        lock = [sys.executable, "-c", LOCK, str(with_old.root / "var/lib/dpkg/lock-frontend")]
        for word in {"--remove", "--install", "--configure", "hold", "update"}.intersection(command):
            got[word] = subprocess.run(lock, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
        return play(command)

    monkeypatch.setattr(with_old, "run", run)
    with_old.held = {"libcuda1"}
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Failed):
        host(with_old).change(change())
    assert got == {"update": True, "--remove": False, "--install": False, "--configure": False, "hold": False}


def test_what_dpkg_said_is_told_when_it_could_not_put_something_back(
    with_old: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpkg = with_old.dpkg

    def failing(words: list[str]) -> tuple[int, str, str]:
        return (1, "", "dpkg: error processing archive\n") if "--install" in words else dpkg(words)

    monkeypatch.setattr(with_old, "dpkg", failing)
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Stuck, match="dpkg: error processing archive"):
        host(with_old).change(change())


def test_a_library_of_a_second_architecture_goes_along_and_comes_back(with_old: Machine) -> None:
    with_old.keep("libcuda1:i386", f"{OLD}-1")
    with_old.comes_along = {"libcuda1:i386": f"{NEW}-1"}
    before = dict(with_old.packages)
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Failed, match="was not built"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_a_hold_of_somebody_else_is_not_lifted(with_old: Machine) -> None:
    with_old.held = {"libcuda1"}
    host(with_old).hold([*PARTS])
    host(with_old).hold([])
    assert with_old.held == {"libcuda1"}


@pytest.fixture
def uncached(with_old: Machine) -> Machine:
    """The previous driver's files where /usr is merged, and a package of it that apt's cache has no more."""
    for name in ("bin", "lib"):
        (with_old.root / "usr" / name).mkdir(exist_ok=True)
        (with_old.root / name).symlink_to(f"usr/{name}")
    for path in ("/bin/nvidia-modprobe", "/lib/systemd/system/nvidia-persistenced.service", "/etc/kept"):
        with_old.write(path, "text")
    (with_old.root / "bin/nvidia-modprobe").chmod(0o4755)
    (with_old.root / "usr/share/doc").mkdir(parents=True)
    (with_old.root / "usr/share/doc/libcuda1").symlink_to("/etc")
    with_old.files = [
        *("/bin", "/bin/nvidia-modprobe", "/etc", "/etc/kept", "/etc/removed"),
        *("/lib", "/lib/systemd", "/lib/systemd/system", "/lib/systemd/system/nvidia-persistenced.service"),
        *("/usr", "/usr/share", "/usr/share/doc", "/usr/share/doc/libcuda1"),
    ]
    with_old.write("/var/lib/dpkg/info/conffiles", "/etc/kept\n/etc/removed\n")
    (with_old.root / f"var/cache/apt/archives/libcuda1_{OLD}-1_amd64.deb").unlink()
    return with_old


def test_a_package_that_apt_has_no_more_is_made_of_what_is_installed(uncached: Machine) -> None:
    host(uncached).change(change())
    kinds = {path: uncached.made[path][0] for path in uncached.files if path.startswith("/lib")}
    assert kinds == {
        **dict.fromkeys(("/lib", "/lib/systemd", "/lib/systemd/system"), "d"),
        "/lib/systemd/system/nvidia-persistenced.service": "-",
    }
    # A link of the package's own stays one, wherever it leads.
    assert uncached.made["/usr/share/doc/libcuda1"] == "/etc"


def test_a_package_that_is_made_again_keeps_set_id_bits(uncached: Machine) -> None:
    host(uncached).change(change())
    assert uncached.made["/bin/nvidia-modprobe"] == "-rwsr-xr-x"


def test_a_configuration_file_that_was_removed_is_none_of_a_package_that_is_made_again(uncached: Machine) -> None:
    host(uncached).change(change())
    assert uncached.made["conffiles"] == "/etc/kept\n"


def test_what_a_killed_run_left_half_made_goes(uncached: Machine) -> None:
    left = uncached.root / nvidia.KEPT.lstrip("/") / "tmp1"
    left.mkdir(parents=True)
    host(uncached).change(dataclasses.replace(change(), loads=False))
    assert not left.exists()


def test_without_room_for_the_previous_packages_none_is_changed(
    with_old: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = dict(with_old.packages)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(nvidia.Failed, match="could not be kept: .*No space left on device"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_a_change_begins_only_where_others_packages_are_whole(with_old: Machine) -> None:
    before = dict(with_old.packages)
    with_old.broken = {"bash"}
    with pytest.raises(nvidia.Failed, match="no package was changed, since dpkg has not finished bash"):
        host(with_old).change(change())
    assert with_old.packages == before
    assert not (with_old.root / nvidia.HOME.lstrip("/")).exists()


def test_a_driver_that_cannot_be_finished_is_replaced(with_old: Machine) -> None:
    with_old.broken = {"nvidia-kernel-open-dkms"}
    host(with_old).change(change())
    assert host(with_old).version() == NEW
    assert with_old.broken == set()


def test_a_driver_that_cannot_be_finished_is_none_to_go_back_to(with_old: Machine) -> None:
    with_old.broken = {"nvidia-kernel-open-dkms"}
    with_old.fails = {"build"}
    with pytest.raises(nvidia.Failed, match="the host has no driver"):
        host(with_old).change(change())
    assert not {name for name in with_old.packages if nvidia.is_driver(name)}
    assert with_old.broken == set()


def test_dpkg_is_made_to_finish_what_somebody_left(with_old: Machine) -> None:
    with_old.broken = {"libnvidia-ml1"}
    host(with_old).complete(["libnvidia-ml1"], replaced=False)
    assert with_old.broken == set()
    host(with_old).change(change())
    assert host(with_old).version() == NEW


def test_what_dpkg_cannot_finish_is_named(with_old: Machine) -> None:
    with_old.fails = {"configure"}
    with_old.broken = {"libnvidia-ml1", "bash"}
    with pytest.raises(nvidia.Stuck, match="dpkg cannot finish libnvidia-ml1, and"):
        host(with_old).complete(["libnvidia-ml1"], replaced=False)
    host(with_old).complete(["libnvidia-ml1"], replaced=True)
    with pytest.raises(nvidia.Stuck, match="dpkg cannot finish bash, and"):
        host(with_old).complete(["libnvidia-ml1", "bash"], replaced=True)


def kept(machine: Machine, name: str) -> Path:
    return machine.root / nvidia.KEPT.lstrip("/") / f"{name}_{OLD}-1_amd64.deb"


def cut_off(machine: Machine, path: Path) -> None:
    path.write_text("")


def exchange(machine: Machine, path: Path) -> None:
    path.write_text("bad")


def link(machine: Machine, path: Path) -> None:
    path.rename(machine.root / "elsewhere")
    path.symlink_to(machine.root / "elsewhere")


def test_kept_packages_are_for_root_alone(with_old: Machine) -> None:
    with_old.dies_after = 0
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    (file,) = {kept(with_old, name) for name in ("libcuda1",)}
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("damage", [cut_off, exchange, link])
def test_a_damaged_package_is_kept_anew(with_old: Machine, damage: Callable[[Machine, Path], None]) -> None:
    at_work = host(with_old)
    at_work._keep({"libcuda1": at_work.packages()["libcuda1"]})
    damage(with_old, kept(with_old, "libcuda1"))
    at_work._keep({"libcuda1": at_work.packages()["libcuda1"]})
    assert kept(with_old, "libcuda1").read_text() == "deb"
    assert not kept(with_old, "libcuda1").is_symlink()


def test_a_download_that_was_cut_off_is_not_kept(uncached: Machine) -> None:
    uncached.write(f"/var/cache/apt/archives/libcuda1_{OLD}-1_amd64.deb", "")
    host(uncached).change(change())
    assert "conffiles" in uncached.made


def unlink(machine: Machine, path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [unlink, cut_off, exchange, link])
def test_a_package_that_was_not_kept_keeps_no_other_from_coming_back(
    with_old: Machine, damage: Callable[[Machine, Path], None]
) -> None:
    before = dict(with_old.packages)
    with_old.dies_after = len(PARTS) - 1
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    damage(with_old, kept(with_old, "libnvidia-ml1"))

    lost = f"libnvidia-ml1 could not be put back; .*, but for libnvidia-ml1 {OLD}-1: install that"
    with pytest.raises(nvidia.Stuck, match=lost):
        host(with_old).settle()
    # What cannot be replaced is better than nothing.
    assert with_old.packages == before | {"libnvidia-ml1": f"{NEW}-1"}

    with_old.keep("libnvidia-ml1", f"{OLD}-1")
    with pytest.raises(nvidia.Failed, match=f"cut short .*driver {OLD} is in place again"):
        host(with_old).settle()
    assert host(with_old).record.change is None


# --- words ---

SIMULATED = """\
NOTE: This is only a simulation!
Remv nvidia-kernel-dkms [580.159.04-1]
Inst libcuda1 [580.159.04-1] (590.48.01-1 NVIDIA CUDA:NVIDIA [amd64]) []
Inst dkms (3.0.10-8+deb12u1 Debian:12.9/oldstable [all])
Conf libcuda1 (590.48.01-1 NVIDIA CUDA:NVIDIA [amd64])
"""


def test_what_apt_would_do() -> None:
    found = nvidia.parse_simulation(0, SIMULATED, "")
    assert found.install == {"libcuda1": "590.48.01-1", "dkms": "3.0.10-8+deb12u1"}
    assert found.remove == ["nvidia-kernel-dkms"]


def test_a_tool_of_the_archive_may_have_a_version_of_its_own() -> None:
    simulation = nvidia.Simulation({"libcuda1": "550.163.01-2", "nvidia-modprobe": "570.133.07-1"}, [])
    assert nvidia.simulation_problem(simulation, nvidia.Change(branch=550)) == ""


def test_only_the_branch_and_the_drivers_own_packages() -> None:
    sound = nvidia.Simulation(
        {"libcuda1": "590.48.01-1", "dkms": "3.0"}, ["nvidia-kernel-dkms", "nvidia-driver-pinning-580"]
    )
    assert nvidia.simulation_problem(sound, change()) == ""
    other = nvidia.Simulation({"libcuda1": "580.1.1-1", "libnvidia-ml1": "595.71.05-1"}, [])
    assert nvidia.simulation_problem(other, change()) == "apt would install libnvidia-ml1 595.71.05-1"


def test_libraries_of_a_second_architecture_are_the_drivers_own() -> None:
    goes = nvidia.Simulation({"libcuda1": "590.48.01-1"}, ["libcuda1:i386"])
    assert nvidia.simulation_problem(goes, change()) == ""
    other = nvidia.Simulation({"libcuda1:i386": "595.71.05-1"}, [])
    assert nvidia.simulation_problem(other, change()) == "apt would install libcuda1:i386 595.71.05-1"


def test_the_pin_of_the_new_branch_takes_the_place_of_the_old(machine: Machine) -> None:
    machine.write("/etc/apt/preferences.d/nvidia-driver-pinning", "Pin: version 580.*\n")
    machine.write(
        "/var/lib/dpkg/info/nvidia-driver-pinning-580.list", "/.\n/etc/apt/preferences.d/nvidia-driver-pinning\n"
    )
    wanted = dataclasses.replace(change(), preferences="Pin: version 590.*\n")
    with nvidia.preferences_parts(host(machine).tree, wanted) as parts:
        assert sorted(path.name for path in Path(parts).iterdir()) == ["mine", nvidia.OWN_PREFERENCES]
        assert (Path(parts) / nvidia.OWN_PREFERENCES).read_text() == "Pin: version 590.*\n"


def test_files_of_a_package_with_diversions() -> None:
    text = "/.\n/usr/lib/libGL.so.1\ndiverted by glx-diversions to: /usr/lib/mesa/libGL.so.1\n/usr/bin/x\npackage diverts others to: /y\n"
    assert nvidia.listed_files(text) == [
        ("/usr/lib/libGL.so.1", "/usr/lib/mesa/libGL.so.1"),
        ("/usr/bin/x", "/usr/bin/x"),
    ]


def test_the_control_file_of_a_package_that_is_made_again() -> None:
    status = "Package: x\nStatus: install ok installed\nConffiles:\n /etc/x 123\nVersion: 1\nDescription: a\n b\n"
    assert nvidia.control_of(status) == "Package: x\nVersion: 1\nDescription: a\n b\n"


def test_the_file_of_a_package_with_an_epoch() -> None:
    entry: dict[str, Any] = {"version": "1:2.0-1", "architecture": "amd64"}
    assert nvidia.file_name("libx:i386", entry) == "libx_1%3a2.0-1_amd64.deb"


def test_the_record_is_read_as_it_was_written(machine: Machine) -> None:
    made = host(machine)
    made.record = nvidia.Record(
        brought=["libcuda1"], change=dataclasses.replace(change(), boot="first", stage=nvidia.INSTALLED)
    )
    made.save()
    again = host(machine).record
    assert json.dumps(dataclasses.asdict(again)) == json.dumps(dataclasses.asdict(made.record))
    assert [again.is_unsettled(boot) for boot in ("first", "second")] == [False, True]


@pytest.mark.parametrize("text", ["{} {}", "[]", "null", '{"change": 3}', '{"nonsense": 1}'])
def test_a_damaged_record_is_named(machine: Machine, text: str) -> None:
    machine.write(nvidia.RECORD, text)
    with pytest.raises(nvidia.Stuck, match=f"^{nvidia.RECORD}, .* is damaged"):
        host(machine)


def test_a_log_without_an_error_is_a_log(with_old: Machine) -> None:
    with_old.clear("/var/lib/dkms/nvidia")
    with_old.write(
        f"/var/lib/dkms/nvidia/{OLD}/build/make.log", f"DKMS make.log for nvidia for kernel {KERNEL} (x86_64)\n"
    )
    found = host(with_old).problem(dataclasses.replace(change(), branch=580))
    assert found is not None
    assert (found.at, found.evidence) == ("build", "its log names no error")


def test_only_one_changes_the_driver_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_lock, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(nvidia, "LOCK_WAIT", 0)
    with nvidia.alone(), pytest.raises(nvidia.Stuck, match="another run"), nvidia.alone():
        pass
    with nvidia.alone():
        pass
