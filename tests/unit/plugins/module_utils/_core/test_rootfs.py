# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import rootfs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("mounted\n")
    return Tree(f"{tmp_path}/")


def test_files_are_read_below_the_root(tree: Tree) -> None:
    assert tree.text("/etc/hostname") == "mounted\n"
    assert tree.names("/etc") == ["hostname"]
    assert tree.exists("/etc/hostname")


def test_missing_file_is_empty(tree: Tree) -> None:
    assert (tree.text("/etc/none"), tree.names("/none"), tree.link("/etc/hostname")) == ("", [], "")
    assert not tree.exists("/etc/none")


@pytest.mark.parametrize("target", ["/etc/hostname", "hostname", "../etc/./hostname"])
def test_a_link_stays_below_the_root(tree: Tree, target: str) -> None:
    # This machine has /etc/hostname as well.
    Path(tree.at("/etc/name")).symlink_to(target)
    assert tree.text("/etc/name") == "mounted\n"


def test_a_chain_of_links_is_followed_and_a_circle_is_empty(tree: Tree) -> None:
    Path(tree.at("/etc/one")).symlink_to("two")
    Path(tree.at("/etc/two")).symlink_to("/etc/hostname")
    Path(tree.at("/etc/circle")).symlink_to("circle")
    assert tree.text("/etc/one") == "mounted\n"
    assert tree.text("/etc/circle") == ""


@pytest.mark.parametrize("target", ["/etc", "etc", "../../../../../../../etc", "/loop/../etc"])
def test_a_link_on_the_way_stays_below_the_root(tree: Tree, tmp_path: Path, target: str) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "cfg").symlink_to(target)
    (tmp_path / "etc/link").symlink_to("hostname")
    assert (tree.text("/cfg/hostname"), tree.link("/cfg/link"), tree.exists("/cfg/hostname")) == (
        *("mounted\n", "hostname", True),
    )
    assert tree.names("/cfg") == tree.names("/etc") == ["hostname", "link"]
    assert (tree.resolve("/cfg/hostname"), tree.resolve("/cfg/..")) == ("/etc/hostname", "/")
    assert not tree.exists("/cfg/passwd"), "this machine has one"
    tree.replace("/cfg/new", b"x")
    assert (tmp_path / "etc/new").read_bytes() == b"x"


def test_links_without_end_lead_nowhere(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "etc/0").symlink_to("/etc")
    for number in range(1, 60):
        (tmp_path / f"etc/{number}").symlink_to(f"/etc/{number - 1}")
    (tmp_path / "circle").symlink_to("/circle")
    assert tree.text("/etc/30/hostname") == "mounted\n"
    for path in ("/etc/59/hostname", "/circle/etc/hostname"):
        assert (tree.text(path), tree.names(path), tree.exists(path), tree.link(path)) == ("", [], False, "")


def test_a_file_that_is_too_large_is_empty(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "READ_LIMIT", 2 << 20)
    place = Path(tree.at("/etc/large"))
    place.write_bytes(b"x" * (2 << 20))
    assert len(tree.bytes("/etc/large")) == 2 << 20
    place.write_bytes(b"x" * ((2 << 20) + 1))
    assert tree.bytes("/etc/large") == b""


def test_bytes_that_are_no_text_do_not_stop_a_reading(tree: Tree) -> None:
    Path(tree.at("/etc/odd")).write_bytes(b"\xff\n")
    assert tree.text("/etc/odd") == "\N{REPLACEMENT CHARACTER}\n"


def test_a_file_is_written_as_a_whole_or_not_at_all(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.replace("/etc/kept", b"old")

    def killed(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        tree.replace("/etc/kept", b"new")
    assert tree.text("/etc/kept") == "old"


@pytest.mark.parametrize(
    ("path", "other_file", "stays"),
    [
        ("/usr/local/lib/rigwright/gpu_test.pyz", "", False),
        ("/usr/local/lib/rigwright/gpu_test.pyz", "of_another_module", True),
        ("/var/lib/rigwright_gpu_test/kept.json", "", False),
        ("/etc/systemd/system/rigwright-gpu-test.service", "", True),
    ],
)
def test_own_directory_is_removed_with_its_last_file(tree: Tree, path: str, other_file: str, stays: bool) -> None:
    tree.replace(path, b"content")
    folder = Path(tree.at(path)).parent
    if other_file:
        (folder / other_file).touch()
    tree.replace(path, None)
    assert (folder.exists(), tree.exists(path)) == (stays, False)
    # Also where it is gone already.
    tree.replace(path, None)
