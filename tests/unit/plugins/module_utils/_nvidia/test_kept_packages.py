# SPDX-License-Identifier: GPL-3.0-or-later
"""The previous packages are kept as files, and made again where apt has no file of them."""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import KEPT, Failed, Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kept_packages import (
    control_of,
    file_name,
    listed_files,
)

from tests.unit.support.nvidia.machine import NEW, OLD, PARTS, Machine, change, host


@pytest.fixture
def uncached(with_old: Machine) -> Machine:
    """Return a machine where /usr is merged, with a package that is missing in apt's cache."""
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


def test_package_missing_in_the_cache_is_built_again(uncached: Machine) -> None:
    host(uncached).change(change())
    kinds = {path: uncached.built[path][0] for path in uncached.files if path.startswith("/lib")}
    assert kinds == {
        **dict.fromkeys(("/lib", "/lib/systemd", "/lib/systemd/system"), "d"),
        "/lib/systemd/system/nvidia-persistenced.service": "-",
    }
    # A link of the package's own stays one, wherever it leads.
    assert uncached.built["/usr/share/doc/libcuda1"] == "/etc"


def test_a_package_that_is_made_again_keeps_set_id_bits(uncached: Machine) -> None:
    host(uncached).change(change())
    assert uncached.built["/bin/nvidia-modprobe"] == "-rwsr-xr-x"


def test_removed_configuration_file_is_not_in_the_built_package(uncached: Machine) -> None:
    host(uncached).change(change())
    assert uncached.built["conffiles"] == "/etc/kept\n"


def test_half_built_package_of_a_killed_run_goes(uncached: Machine) -> None:
    unfinished = uncached.root / KEPT.lstrip("/") / "tmp1"
    unfinished.mkdir(parents=True)
    host(uncached).change(dataclasses.replace(change(), loads=False))
    assert not unfinished.exists()


def kept(machine: Machine, name: str) -> Path:
    return machine.root / KEPT.lstrip("/") / f"{name}_{OLD}-1_amd64.deb"


def cut_off(machine: Machine, path: Path) -> None:
    path.write_text("")


def exchange(machine: Machine, path: Path) -> None:
    path.write_text("bad")


def link(machine: Machine, path: Path) -> None:
    path.rename(machine.root / "elsewhere")
    path.symlink_to(machine.root / "elsewhere")


def test_only_root_reads_kept_packages(with_old: Machine) -> None:
    with_old.dies_after = 0
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    (file,) = {kept(with_old, name) for name in ("libcuda1",)}
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("damage", [cut_off, exchange, link])
def test_damaged_package_is_kept_again(with_old: Machine, damage: Callable[[Machine, Path], None]) -> None:
    at_work = host(with_old)
    at_work.kept.keep({"libcuda1": at_work.dpkg.packages()["libcuda1"]})
    damage(with_old, kept(with_old, "libcuda1"))
    at_work.kept.keep({"libcuda1": at_work.dpkg.packages()["libcuda1"]})
    assert kept(with_old, "libcuda1").read_text() == "deb"
    assert not kept(with_old, "libcuda1").is_symlink()


def test_a_download_that_was_cut_off_is_not_kept(uncached: Machine) -> None:
    uncached.write(f"/var/cache/apt/archives/libcuda1_{OLD}-1_amd64.deb", "")
    host(uncached).change(change())
    assert "conffiles" in uncached.built


def unlink(machine: Machine, path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [unlink, cut_off, exchange, link])
def test_missing_kept_package_does_not_block_the_others(
    with_old: Machine, damage: Callable[[Machine, Path], None]
) -> None:
    before = dict(with_old.packages)
    with_old.dies_after = len(PARTS) - 1
    with pytest.raises(KeyboardInterrupt):
        host(with_old).change(change())
    damage(with_old, kept(with_old, "libnvidia-ml1"))

    lost = f"libnvidia-ml1 could not be restored; .*, but for libnvidia-ml1 {OLD}-1: install that"
    with pytest.raises(Stuck, match=lost):
        host(with_old).settle()
    # What cannot be replaced is better than nothing.
    assert with_old.packages == before | {"libnvidia-ml1": f"{NEW}-1"}

    with_old.keep("libnvidia-ml1", f"{OLD}-1")
    with pytest.raises(Failed, match=f"cut short .*driver {OLD} is in place again"):
        host(with_old).settle()
    assert host(with_old).record.change is None


def test_files_of_a_package_with_diversions() -> None:
    text = "/.\n/usr/lib/libGL.so.1\ndiverted by glx-diversions to: /usr/lib/mesa/libGL.so.1\n/usr/bin/x\npackage diverts others to: /y\n"
    assert listed_files(text) == [
        ("/usr/lib/libGL.so.1", "/usr/lib/mesa/libGL.so.1"),
        ("/usr/bin/x", "/usr/bin/x"),
    ]


def test_the_control_file_of_a_package_that_is_made_again() -> None:
    status = "Package: x\nStatus: install ok installed\nConffiles:\n /etc/x 123\nVersion: 1\nDescription: a\n b\n"
    assert control_of(status) == "Package: x\nVersion: 1\nDescription: a\n b\n"


def test_the_file_of_a_package_with_an_epoch() -> None:
    entry: dict[str, Any] = {"version": "1:2.0-1", "architecture": "amd64"}
    assert file_name("libx:i386", entry) == "libx_1%3a2.0-1_amd64.deb"
