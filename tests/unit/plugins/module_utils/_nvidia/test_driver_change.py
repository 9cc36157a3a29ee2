# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of driver ends in the new one or in the previous one. dpkg and apt are played by a few lines that know two branches."""

from __future__ import annotations

import dataclasses
import errno
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock as core_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import (
    LOG,
    MODPROBE,
    UPDATE_INITRAMFS,
    alone,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    HOME,
    INSTALLED,
    KEPT,
    RECORD,
    Change,
    Failed,
    Record,
    Stuck,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import is_driver

from tests.unit.support.nvidia.machine import KERNEL, LOCK, NEW, OLD, PARTS, Machine, change, host


def test_a_new_driver_on_an_empty_machine(machine: Machine) -> None:
    host(machine).change(change())

    assert host(machine).version() == NEW
    record = Record.load(host(machine).tree)
    assert (record.installed, record.baseline) == (sorted(PARTS), {})
    # It was loaded at once: nothing waits for a reboot.
    assert record.change is None


def test_change_of_branch_is_proven_after_the_reboot(with_old: Machine) -> None:
    old = dict(with_old.packages)
    with_old.fails = {"load"}
    host(with_old).change(change())
    waiting = host(with_old)
    assert waiting.record.change is not None
    assert waiting.record.change.stage == INSTALLED
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
    ("fails", "message"),
    [
        (
            "build",
            f"the module of driver {NEW} was not built for the kernel {KERNEL}: a.c:1: error: too few (log: {LOG})",
        ),
        ("download", "the packages could not be changed: E: Failed to fetch"),
        ("solve", "apt finds no solution: nvidia-driver-cuda : Depends: libcuda1"),
    ],
)
def test_failure_leaves_the_previous_driver(with_old: Machine, fails: str, message: str) -> None:
    before = dict(with_old.packages)
    with_old.fails = {fails}

    with pytest.raises(Failed) as error:
        host(with_old).change(change())

    assert message in str(error.value)
    assert with_old.packages == before
    assert with_old.broken == set()
    assert Record.load(host(with_old).tree).change is None


def test_failed_restore_names_the_first_cause(with_old: Machine) -> None:
    with_old.fails = {"build", "restore"}
    with pytest.raises(Stuck) as error:
        host(with_old).change(change())
    assert str(error.value).startswith(
        f"the module of driver {NEW} was not built for the kernel {KERNEL}: a.c:1: error: too few"
    )
    assert f"could not be restored; their packages are in {KEPT}" in str(error.value)


def test_the_log_of_the_build_is_kept(with_old: Machine) -> None:
    with_old.fails = {"build"}
    with pytest.raises(Failed):
        host(with_old).change(change())
    assert "error: too few" in (with_old.root / LOG.lstrip("/")).read_text()
    failure = Record.load(host(with_old).tree).failure
    assert failure is not None
    assert (failure.at, failure.kernel, failure.restored) == ("build", KERNEL, OLD)


def test_driver_that_does_not_load_is_taken_back(with_old: Machine) -> None:
    before = dict(with_old.packages)
    with_old.fails = {"load"}
    host(with_old).change(change())
    with_old.boot(loads=False)

    with pytest.raises(Failed, match="could not insert 'nvidia': No such device"):
        host(with_old).settle()

    assert with_old.packages == before
    record = Record.load(host(with_old).tree)
    assert record.failure is not None
    assert record.failure.at == "boot"
    assert record.failure.kernel == KERNEL


@pytest.fixture
def with_secure_boot(with_old: Machine) -> Machine:
    """Return a machine that checks signatures, with a key of DKMS that waits for the console."""
    with_old.write("/etc/os-release", "ID=debian\n")
    with_old.write("/var/lib/dkms/mok.pub", "certificate")
    efivars = "/sys/firmware/efi/efivars"
    with_old.write(f"{efivars}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\6\0\0\0\1")
    with_old.write(f"{efivars}/MokNew-605dab50-e046-4300-abb6-3dd810dd8b23", "\6\0\0\0certificate")
    return with_old


def boot_what_does_not_load(machine: Machine, wanted: Change) -> None:
    machine.fails = {"load"}
    host(machine).change(wanted)
    machine.boot(loads=False)
    host(machine).settle()


def test_an_unconfirmed_key_reverts_nothing(with_secure_boot: Machine) -> None:
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
    with pytest.raises(Failed, match="does not work"):
        boot_what_does_not_load(with_secure_boot, change())


def test_a_module_that_is_loaded_waits_for_no_key(with_secure_boot: Machine) -> None:
    with_secure_boot.fails = {"load"}
    host(with_secure_boot).change(change())
    with_secure_boot.boot(loads=False)
    with_secure_boot.write("/sys/module/nvidia/version", OLD)
    with pytest.raises(Failed, match=f"the module is {OLD}, the libraries are of {NEW}"):
        host(with_secure_boot).settle()


def test_modules_that_came_signed_wait_for_no_key(with_secure_boot: Machine) -> None:
    with_secure_boot.write(f"/lib/modules/{KERNEL}/modules.dep", "kernel/nvidia-590/nvidia.ko:\n")
    with pytest.raises(Failed, match="does not work"):
        boot_what_does_not_load(with_secure_boot, dataclasses.replace(change(), build="prebuilt"))


def test_a_driver_is_proven_under_the_kernel_that_it_is_for(with_old: Machine) -> None:
    newer = "6.12.200+deb13-amd64"
    with_old.kernel = newer
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    kept = with_old.root / KEPT.lstrip("/") / "libgcc-s1_12_amd64.deb"
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
    machine.write(MODPROBE, "blacklist nouveau\n")
    machine.write(UPDATE_INITRAMFS, "")
    machine.boot(loads=False)

    with pytest.raises(Failed, match="the host has no driver, as before"):
        host(machine).settle()

    assert not (machine.root / MODPROBE.lstrip("/")).exists()
    assert machine.commands[-2:] == [
        [UPDATE_INITRAMFS, "-u", "-k", KERNEL],
        ["modprobe", "--use-blacklist", "nouveau"],
    ]


def test_the_previous_driver_keeps_nouveau_away(with_old: Machine) -> None:
    with_old.fails = {"load"}
    host(with_old).change(change())
    with_old.write(MODPROBE, "blacklist nouveau\n")
    with_old.boot(loads=False)
    with pytest.raises(Failed):
        host(with_old).settle()
    assert (with_old.root / MODPROBE.lstrip("/")).exists()
    assert with_old.commands[-1] == ["modprobe", "nvidia"]


@pytest.mark.parametrize("after", range(len(PARTS)))
def test_a_run_that_was_killed_is_taken_back_by_the_next(with_old: Machine, after: int) -> None:
    before = dict(with_old.packages)
    with_old.dies_after = after
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    assert host(with_old).record.is_unsettled("first")

    with pytest.raises(Failed, match="cut short"):
        host(with_old).settle()

    assert with_old.packages == before
    assert with_old.broken == set()


def test_a_run_that_was_killed_after_apt_is_completed(with_old: Machine) -> None:
    with_old.dies_after = len(PARTS)
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    with_old.commands.clear()
    host(with_old).settle()

    completed = host(with_old).record
    assert completed.failure is None
    assert completed.change is not None
    assert (completed.change.stage, completed.change.version) == (INSTALLED, NEW)
    assert with_old.broken == set()
    # What follows the transaction is not forgotten.
    assert ["env", "DPKG_FRONTEND_LOCKED=1", "apt-mark", "auto", "libcuda1"] in with_old.commands


@pytest.mark.parametrize("after", range(1, len(PARTS)))
def test_half_a_change_within_a_branch_is_taken_back(machine: Machine, after: int) -> None:
    machine.install("590.44.01")
    before = dict(machine.packages)
    machine.dies_after = after
    with pytest.raises(KeyboardInterrupt):
        host(machine).change(change())

    with pytest.raises(Failed, match="cut short"):
        host(machine).settle()

    assert machine.packages == before


def test_a_transaction_that_takes_more_is_not_begun(with_old: Machine) -> None:
    with_old.removes_also = ["gnome-shell"]
    before = dict(with_old.packages)
    with pytest.raises(Failed, match="would also remove gnome-shell"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_without_a_gpu_there_is_nothing_to_wait_for(machine: Machine) -> None:
    machine.fails = {"load"}
    host(machine).change(dataclasses.replace(change(), loads=False))
    assert host(machine).record.change is None


def test_absent_restores_earlier_packages_and_removes_holds(with_old: Machine) -> None:
    before = dict(with_old.packages)
    host(with_old).change(change())
    host(with_old).hold([*PARTS])
    assert with_old.held == set(PARTS)

    host(with_old).give_back([])

    assert with_old.packages == before
    assert with_old.held == set()
    assert not (with_old.root / HOME.lstrip("/")).exists()


def test_absent_keeps_packages_that_the_driver_upgraded(with_old: Machine) -> None:
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    host(with_old).change(change())
    assert set(host(with_old).record.baseline) == {"libgcc-s1", *PARTS}
    assert not [path for path in (with_old.root / KEPT.lstrip("/")).iterdir() if "libgcc" in path.name]
    with_old.packages["libgcc-s1"] = "14+security"

    host(with_old).give_back([])

    assert with_old.packages["libgcc-s1"] == "14+security"
    assert with_old.packages["libcuda1"] == f"{OLD}-1"


def test_failed_change_reverts_packages_that_it_upgraded(with_old: Machine) -> None:
    with_old.keep("libgcc-s1", "12")
    with_old.comes_along = {"libgcc-s1": "14"}
    before = dict(with_old.packages)
    with_old.fails = {"build"}
    with pytest.raises(Failed):
        host(with_old).change(change())
    assert with_old.packages == before


def test_absent_reports_missing_dependencies(with_old: Machine) -> None:
    host(with_old).change(change())
    with_old.fails = {"check"}
    with pytest.raises(Stuck, match="Unmet dependencies"):
        host(with_old).give_back([])
    assert (with_old.root / RECORD.lstrip("/")).exists()


def test_restore_holds_dpkgs_lock(with_old: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(Failed):
        host(with_old).change(change())
    assert got == {"update": True, "--remove": False, "--install": False, "--configure": False, "hold": False}


def test_failed_restore_reports_the_output_of_dpkg(with_old: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    dpkg = with_old.dpkg

    def failing(message: list[str]) -> tuple[int, str, str]:
        return (1, "", "dpkg: error processing archive\n") if "--install" in message else dpkg(message)

    monkeypatch.setattr(with_old, "dpkg", failing)
    with_old.fails = {"build"}
    with pytest.raises(Stuck, match="dpkg: error processing archive"):
        host(with_old).change(change())


def test_library_of_a_second_architecture_is_restored(with_old: Machine) -> None:
    with_old.keep("libcuda1:i386", f"{OLD}-1")
    with_old.comes_along = {"libcuda1:i386": f"{NEW}-1"}
    before = dict(with_old.packages)
    with_old.fails = {"build"}
    with pytest.raises(Failed, match="was not built"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_hold_of_others_is_not_lifted(with_old: Machine) -> None:
    with_old.held = {"libcuda1"}
    host(with_old).hold([*PARTS])
    host(with_old).hold([])
    assert with_old.held == {"libcuda1"}


def test_without_room_for_the_previous_packages_none_is_changed(
    with_old: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = dict(with_old.packages)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(Failed, match="could not be kept: .*No space left on device"):
        host(with_old).change(change())
    assert with_old.packages == before


def test_a_change_begins_only_where_others_packages_are_whole(with_old: Machine) -> None:
    before = dict(with_old.packages)
    with_old.broken = {"bash"}
    with pytest.raises(Failed, match="no package was changed, since dpkg has not finished bash"):
        host(with_old).change(change())
    assert with_old.packages == before
    assert not (with_old.root / HOME.lstrip("/")).exists()


def test_a_driver_that_cannot_be_finished_is_replaced(with_old: Machine) -> None:
    with_old.broken = {"nvidia-kernel-open-dkms"}
    host(with_old).change(change())
    assert host(with_old).version() == NEW
    assert with_old.broken == set()


def test_unfinished_driver_is_not_restored(with_old: Machine) -> None:
    with_old.broken = {"nvidia-kernel-open-dkms"}
    with_old.fails = {"build"}
    with pytest.raises(Failed, match="the host has no driver"):
        host(with_old).change(change())
    assert not {name for name in with_old.packages if is_driver(name)}
    assert with_old.broken == set()


def test_dpkg_finishes_interrupted_packages(with_old: Machine) -> None:
    with_old.broken = {"libnvidia-ml1"}
    host(with_old).complete(["libnvidia-ml1"], replaced=False)
    assert with_old.broken == set()
    host(with_old).change(change())
    assert host(with_old).version() == NEW


def test_package_that_dpkg_cannot_finish_is_named(with_old: Machine) -> None:
    with_old.fails = {"configure"}
    with_old.broken = {"libnvidia-ml1", "bash"}
    with pytest.raises(Stuck, match="dpkg cannot finish libnvidia-ml1, and"):
        host(with_old).complete(["libnvidia-ml1"], replaced=False)
    host(with_old).complete(["libnvidia-ml1"], replaced=True)
    with pytest.raises(Stuck, match="dpkg cannot finish bash, and"):
        host(with_old).complete(["libnvidia-ml1", "bash"], replaced=True)


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
    monkeypatch.setattr(driver_change, "LOCK_WAIT", 0)
    with alone(), pytest.raises(Stuck, match="another run"), alone():
        pass
    with alone():
        pass
