# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import platform
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    State,
    Store,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import read_host, repository
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import Host

FILES = {
    "etc/os-release": 'ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\n',
    "etc/environment": "LANG=C\n",
    "var/lib/dpkg/status": "Package: cuda-toolkit-13-0\nStatus: install ok installed\nVersion: 13.0.2-1\n",
    "var/lib/apt/extended_states": "Package: cuda-nvcc-13-0\nAuto-Installed: 1\n",
    "var/lib/rigwright_cuda/packages.json": '["cuda-toolkit-13-0"]',
    "var/lib/rigwright_cudnn/packages.json": '["cudnn9-cuda-13"]',
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:01:00.0/device": "0x2330\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a host with an H100 and one toolkit."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "etc/alternatives").mkdir()
    (tmp_path / "etc/alternatives/cuda").symlink_to("/usr/local/cuda-13.0")
    (tmp_path / "usr/local/cuda-13.0").mkdir(parents=True)
    (tmp_path / "usr/local/cuda").symlink_to("/etc/alternatives/cuda")
    (tmp_path / "etc/alternatives/cc").symlink_to("/usr/bin/gcc")
    return tmp_path


def test_a_host_is_read_below_its_root(root):
    host = read_host(Tree(str(root)), "cuda")

    assert (host.distribution, host.version, host.machine) == ("Debian", "13", platform.machine())
    assert (host.driver, host.generations) == ("580.159.04", ("Hopper",))
    assert list(host.packages) == ["cuda-toolkit-13-0"]
    assert host.automatic == {"cuda-nvcc-13-0"}
    assert host.alternatives == {"cuda": "/usr/local/cuda-13.0"}
    assert host.roots == {"cuda": "/etc/alternatives/cuda", "cuda-13.0": ""}
    assert host.environment == "LANG=C\n"


@pytest.mark.parametrize(
    ("role", "installed"), [("cuda", {"cuda-toolkit-13-0"}), ("cudnn", {"cudnn9-cuda-13"}), ("another", set())]
)
def test_each_role_has_its_own_record_of_packages(root, role, installed):
    assert read_host(Tree(str(root)), role).installed == installed


@pytest.mark.parametrize("text", ["", "[", '{"a": 1}', "[1]"])
def test_a_damaged_record_is_named_with_the_way_out(root, text):
    (root / "var/lib/rigwright_cuda/packages.json").write_text(text)

    with pytest.raises(ValueError, match=r"/var/lib/rigwright_cuda/packages\.json is damaged \(.* write \[\] into it"):
        read_host(Tree(str(root)), "cuda")


@pytest.mark.parametrize(("names", "interrupted"), [([], False), (["tmp.i"], False), (["0000", "tmp.i"], True)])
def test_dpkg_journal_shows_an_interruption(root, names, interrupted):
    (root / "var/lib/dpkg/updates").mkdir()
    for name in names:
        (root / "var/lib/dpkg/updates" / name).touch()

    assert read_host(Tree(str(root)), "cuda").interrupted is interrupted


def test_original_environment_is_read_from_config_files(root):
    assert read_host(Tree(str(root)), "cuda").environment_before is None

    store, original = Store("cuda", f"{root}{STORE}"), State("file", b"LANG=C\n", 0o644)
    store.keep_original("/etc/environment", original)
    store.save({"/etc/environment": Record(original)}, "a transaction")

    assert read_host(Tree(str(root)), "cuda").environment_before == "LANG=C\n"


def test_a_library_that_a_toolkit_was_linked_with_is_no_driver(root):
    (root / "proc/driver/nvidia/version").unlink()
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libcuda.so.550.163.01").touch()
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.550.163.01")

    assert read_host(Tree(str(root)), "cuda").driver == "550.163.01"
    (root / "sys/bus/pci/devices/0000:01:00.0/vendor").write_text("0x8086\n")
    assert read_host(Tree(str(root)), "cuda").driver == ""


def test_the_repository_of_a_system():
    row = next(row for row in package_data.CUDA_REPOSITORIES if row.directory == "ubuntu2404")
    host = Host("Ubuntu", "24.04", "aarch64")

    assert repository(host, {}) == {
        "url": f"{package_data.CUDA_REPOSITORY_URL}/ubuntu2404/sbsa",
        "directory": "ubuntu2404",
        "architecture": "sbsa",
        "keyring": package_data.CUDA_KEYRING_PACKAGE,
        "keyring_sha256": row.keyring_sha256["sbsa"],
    }
    mirror = repository(host, {"url": "http://m.example/repos/", "keyring_sha256": {"ubuntu2404": "ab" * 32}})
    assert (mirror["url"], mirror["keyring_sha256"]) == ("http://m.example/repos/ubuntu2404/sbsa", "ab" * 32)
    assert repository(Host("Debian", "11", "x86_64"), {}) == {}


def test_checksum_of_another_machine_is_not_used():
    assert repository(Host("Debian", "13", "aarch64"), {})["keyring_sha256"] == ""
