# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_wheels import (
    Wheel,
    WheelError,
    is_whole,
    unpack,
    wanted_links,
)

THIRTEEN, TWELVE = Wheel(13, "9.12.0.46", ("ab" * 32, "cd" * 32)), Wheel(12, "9.12.0.46", ("ef" * 32,))


def wheel_of(folder: Path, *names: str) -> str:
    with zipfile.ZipFile(folder / "x.whl", "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return str(folder / "x.whl")


def test_pip_is_given_the_checksum_of_each_machine():
    assert THIRTEEN.requirement == (
        f"nvidia-cudnn-cu13==9.12.0.46 --hash=sha256:{'ab' * 32} --hash=sha256:{'cd' * 32}\n"
    )


def test_only_headers_libraries_and_licence_are_unpacked(tmp_path):
    names = ("nvidia/cudnn/include/cudnn.h", "nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cudnn/__init__.py", "../evil")
    wheel = wheel_of(tmp_path, *names, "nvidia_cudnn_cu13-9.12.0.46.dist-info/licenses/License.txt")

    unpack(wheel, str(tmp_path / "tree"), 13, "9.12.0.46")

    found = sorted(
        str(path.relative_to(tmp_path / "tree")) for path in (tmp_path / "tree").rglob("*") if not path.is_dir()
    )
    assert found == [
        ".rigwright.json",
        "License.txt",
        "include/cudnn.h",
        "lib/libcudnn.so",
        "lib/libcudnn.so.9",
        "pkgconfig/cudnn.pc",
    ]
    assert (tmp_path / "tree/lib/libcudnn.so").readlink() == Path("libcudnn.so.9")
    assert is_whole(str(tmp_path / "tree"))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", ["include/cudnn.h", "lib/libcudnn.so.9", ".rigwright.json"])
def test_a_tree_that_lost_a_file_is_not_whole(tmp_path, name):
    wheel = wheel_of(tmp_path, "nvidia/cudnn/include/cudnn.h", "nvidia/cudnn/lib/libcudnn.so.9")
    unpack(wheel, str(tmp_path / "tree"), 13, "9.12.0.46")

    (tmp_path / "tree" / name).unlink()

    assert not is_whole(str(tmp_path / "tree"))


@pytest.mark.parametrize("names", [("nvidia/cudnn/include/cudnn.h",), ("nvidia/cudnn/lib/libcudnn.so.9",), ()])
def test_half_a_wheel_is_refused(tmp_path, names):
    with pytest.raises(WheelError, match="no cudnn.h or no libcudnn.so"):
        unpack(wheel_of(tmp_path, *names), str(tmp_path / "tree"), 13, "9.12.0.46")


def test_invalid_archive_is_refused(tmp_path):
    (tmp_path / "x.whl").write_bytes(b"no archive")
    with pytest.raises(WheelError, match="no complete wheel"):
        unpack(str(tmp_path / "x.whl"), str(tmp_path / "tree"), 13, "9.12.0.46")


def test_the_first_wheel_is_the_default():
    assert wanted_links([TWELVE, THIRTEEN], {"include": ["cudnn.h"], "lib": ["libcudnn.so"]}) == {
        "/opt/cudnn/cuda12": "cuda12-9.12.0.46",
        "/opt/cudnn/cuda13": "cuda13-9.12.0.46",
        "/opt/cudnn/default": "cuda12",
        "/usr/local/include/cudnn.h": "/opt/cudnn/default/include/cudnn.h",
        "/usr/local/lib/libcudnn.so": "/opt/cudnn/default/lib/libcudnn.so",
    }
    assert wanted_links([], {}) == {}
