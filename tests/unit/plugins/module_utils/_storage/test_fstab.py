# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import fstab
from hypothesis import given
from hypothesis import strategies as st

HANDMADE = '# <file system> <mount point>\nUUID=1 / ext4 errors=remount-ro 0 1\n\n\tLABEL="swap" none swap sw\n'
LINES = ["UUID=2 /data xfs noatime,nofail 0 0"]


@given(st.text(alphabet="#U=1 /\n\t\\", max_size=60), st.booleans())
def test_other_lines_stay_byte_for_byte(text: str, twice: bool) -> None:
    written = fstab.with_lines(text, LINES)
    assert fstab.with_lines(written, LINES) == written
    if twice:
        written = fstab.with_lines(written, [*LINES, "UUID=3 /scratch ext4 noatime 0 2"])
    assert LINES[0] in written.splitlines()
    assert fstab.with_lines(written, []) == text


def test_lines_stay_where_they_are() -> None:
    written = fstab.with_lines(HANDMADE, LINES) + "UUID=9 /later ext4 defaults 0 2\n"
    changed = fstab.with_lines(written, ["UUID=3 /data xfs noatime 0 0"])
    assert changed == written.replace(LINES[0], "UUID=3 /data xfs noatime 0 0")
    assert fstab.with_lines(changed, []) == HANDMADE + "UUID=9 /later ext4 defaults 0 2\n"


@pytest.mark.parametrize("text", [f"{fstab.BEGIN}\nx y z\n", f"{fstab.END}\n", f"{fstab.END}\n{fstab.BEGIN}\n"])
def test_a_marker_without_the_other_is_damage(text: str) -> None:
    with pytest.raises(fstab.Damaged):
        fstab.with_lines(text, LINES)


def test_lines_are_read_as_the_system_reads_them() -> None:
    found = fstab.parse(HANDMADE + "/dev/sda1 /my\\040data/ ntfs\n")
    assert [(line.source, line.target, line.fs) for line in found] == [
        ("UUID=1", "/", "ext4"),
        ("LABEL=swap", "none", "swap"),
        ("/dev/sda1", "/my data", "ntfs"),
    ]


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
def test_a_mount_point_is_restored_unchanged(name: str) -> None:
    (found,) = fstab.parse(fstab.line("UUID=1", f"/{name}", "ext4", ["noatime"], 2))
    assert found.target == (f"/{name}".rstrip("/") or "/")


def test_blanks_of_other_alphabets_are_letters_of_a_name() -> None:
    """Split lines at spaces and tabs alone, as the system does; escapes are bytes."""
    assert fstab.escape("/a\u3000b\u00a0c d") == "/a\u3000b\u00a0c\\040d"
    text = "UUID=1 /a\u3000b ext4 noatime\x0c 0 2\n# x\u2028UUID=2 /c ext4\n/dev/sda1 /\\303\\244 ext4\n"
    assert [line.target for line in fstab.parse(text)] == ["/a\u3000b", "/\u00e4"]
    marked = f"# a\x0c{fstab.BEGIN}\n"
    assert fstab.split(marked) == (marked, "", "")
