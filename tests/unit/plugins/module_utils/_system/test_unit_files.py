# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit with its drop-ins, as systemd reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import unit_files

UNIT = "ssh.socket"
ETC, RUN, USR = "etc/systemd/system", "run/systemd/generator", "usr/lib/systemd/system"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({f"{USR}/{UNIT}": "ListenStream=22\n"}, ["22"]),
        ({f"{USR}/{UNIT}": "ListenStream=22\n", f"{ETC}/{UNIT}": "ListenStream = 2222\n"}, ["2222"]),
        ({f"{USR}/{UNIT}": "ListenStream=22\n", f"{ETC}/{UNIT}.d/a.conf": "ListenStream=2022\n"}, ["22", "2022"]),
        ({f"{USR}/{UNIT}": "ListenStream=22\n", f"{RUN}/{UNIT}.d/a.conf": "ListenStream=\nListenStream=23\n"}, ["23"]),
        ({f"{RUN}/{UNIT}.d/a.conf": "ListenStream=23\n", f"{ETC}/{UNIT}.d/a.conf": "ListenStream=24\n"}, ["24"]),
        ({f"{RUN}/{UNIT}.d/b.conf": "ListenStream=\n", f"{ETC}/{UNIT}.d/a.conf": "ListenStream=24\n"}, []),
        ({f"{ETC}/{UNIT}.d/a.txt": "ListenStream=24\n"}, []),
        ({f"{USR}/{UNIT}": "#ListenStream=22\nListenStream=\\\n23\n"}, ["23"]),
    ],
)
def test_values(tmp_path: Path, texts: dict[str, str], found: list[str]) -> None:
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    tree = Tree(str(tmp_path))
    assert unit_files.values(map(tree.text, unit_files.files(tree, UNIT)), "ListenStream") == found


def test_a_comment_does_not_go_on_in_the_next_line() -> None:
    text = "# of the office \\\nListenStream=2222\n; old: \\\nListenStream=2022 \\\n# between\n  \\\n\n"
    assert unit_files.values([text], "ListenStream") == ["2222", "2022"]


def test_drop_ins_of_instances_and_prefixes(tmp_path: Path) -> None:
    paths = [
        f"{ETC}/a-b@.service",
        f"{ETC}/a-b@.service.d/2.conf",
        f"{ETC}/a-b@x.service.d/1.conf",
        f"{ETC}/a-@.service.d/3.conf",
        f"{ETC}/service.d/4.conf",
        f"{USR}/a-b@x.service.d/4.conf",
    ]
    for path in [*paths, f"{USR}/a-@.service.d/2.conf", f"{ETC}/a-.service.d/9.conf", f"{ETC}/a-b@x.socket.d/9.conf"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    tree = Tree(str(tmp_path))
    # The one for all units of the type is the weakest, even in /etc.
    order = [paths[0], paths[2], paths[1], paths[3], paths[5]]
    assert unit_files.files(tree, "a-b@x.service") == [f"/{path}" for path in order]
    assert unit_files.instances(tree, "a-b@.service") == ["a-b@x.service"]


def test_masked_unit_has_no_files(tmp_path: Path) -> None:
    (tmp_path / USR).mkdir(parents=True)
    (tmp_path / ETC / f"{UNIT}.d").mkdir(parents=True)
    (tmp_path / USR / UNIT).write_text("ListenStream=22\n")
    (tmp_path / ETC / f"{UNIT}.d/a.conf").write_text("ListenStream=23\n")
    (tmp_path / ETC / UNIT).symlink_to("/dev/null")
    assert unit_files.files(Tree(str(tmp_path)), UNIT) == []


def test_enabled_unit_is_linked(tmp_path: Path) -> None:
    wants = tmp_path / ETC / "sockets.target.wants"
    wants.mkdir(parents=True)
    assert not unit_files.is_enabled(Tree(str(tmp_path)), UNIT)
    (wants / UNIT).symlink_to(f"/{USR}/{UNIT}")
    assert unit_files.is_enabled(Tree(str(tmp_path)), UNIT)
