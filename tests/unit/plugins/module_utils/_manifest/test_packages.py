# SPDX-License-Identifier: GPL-3.0-or-later
"""What is installed and where it came from, and that no secret comes along."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import packages

STATUS = """\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.22

Package: restic
Status: hold ok installed
Architecture: amd64
Version: 0.18.0-1

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.41-1

Package: tzdata
Status: install ok half-configured
Architecture: all
Version: 2026a

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


def write(root: Path, path: str, text: str = "") -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def test_packages_have_the_states_of_apt() -> None:
    found = packages.installed(STATUS, {"libc6"})
    assert found["versions"] == {"dpkg": "1.22", "libc6": "2.41-1", "restic": "0.18.0-1"}
    assert found["manual"] == ["dpkg", "restic"]
    assert found["holds"] == ["restic"]
    assert found["unfinished"] == ["tzdata"]
    assert found["foreign"] == ["libc6:i386"]


def test_sources_of_both_forms_and_their_keys(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/etc/apt/sources.list",
        "deb https://u:p@mirror.example/debian trixie main\n# deb http://no.example x y\n",
    )
    write(
        tmp_path,
        "/etc/apt/sources.list.d/lab.sources",
        "Types: deb\nURIs: https://lab.example\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/lab.asc\n",
    )
    write(tmp_path, "/etc/apt/keyrings/lab.asc", "no key at all")
    tree = Tree(str(tmp_path))
    found = packages.read_sources(tree)
    assert [(source["file"], source["uris"]) for source in found] == [
        ("/etc/apt/sources.list", ["https://***@mirror.example/debian"]),
        ("/etc/apt/sources.list.d/lab.sources", ["https://lab.example"]),
    ]
    assert packages.read_keys(tree, found) == {"/etc/apt/keyrings/lab.asc": []}


def test_a_kernel_without_its_modules_is_marked(tmp_path: Path) -> None:
    write(tmp_path, "/boot/vmlinuz-6.12.1")
    write(tmp_path, "/boot/vmlinuz-6.12.2")
    write(tmp_path, "/lib/modules/6.12.1/modules.dep")
    assert packages.read_kernels(Tree(str(tmp_path)), "6.12.1") == {
        "running": "6.12.1",
        "installed": {"6.12.1": True, "6.12.2": False},
    }


def test_driver_and_toolkits(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
    )
    write(tmp_path, "/usr/local/cuda-12.9/version.json")
    assert packages.read_nvidia(Tree(str(tmp_path))) == {"driver": "580.95.05", "cuda": ["cuda-12.9"]}
    assert packages.read_nvidia(Tree(str(tmp_path / "none"))) == {"driver": "", "cuda": []}
