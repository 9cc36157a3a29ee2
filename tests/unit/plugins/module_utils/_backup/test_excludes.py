# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import excluded

from tests.unit.support.backup.hosts import Host, restic

ALL = excludes.patterns(excludes.SETS)


def test_the_sets_exclude_caches_and_keep_work() -> None:
    for path in (
        "/home/a/.cache/huggingface/hub/models--x",
        "/home/a/miniforge3/pkgs/numpy",
        "/opt/miniforge3/pkgs",
        "/var/lib/docker/overlay2/abc",
        "/home/a/project/__pycache__",
        "/data/huggingface/hub/models--x",
        "/proc/1",
    ):
        assert excluded(path, ALL), path
    for path in (
        "/proc",
        "/home/a/project/train.py",
        "/var/lib/docker/volumes/db",
        "/home/a/miniforge3/envs/x",
        "/etc/fstab",
    ):
        assert not excluded(path, ALL), path


def test_a_named_path_is_spared_from_a_general_pattern() -> None:
    named = ["/home", "/home/a/.cache/precious", "/data/imagenet/labels", "/mnt/data"]
    spared = excludes.sparing([*ALL, "/data/imagenet", ".cache"], named)
    for path in ("/home/a/.cache/precious/x", "/data/imagenet/labels/1", "/mnt/data"):
        assert not excluded(path, spared, named), path
    for path in (
        "/home/a/.cache/pip",
        "/home/b/.cache",
        "/home/a/.cache/precious/__pycache__",
        "/data/imagenet/train",
        "/mnt/usb",
    ):
        assert excluded(path, spared, named), path


def test_negated_pattern_is_of_no_use_below_what_is_excluded() -> None:
    assert excluded("/video/series/bean", ["/video/**", "!/video/series/bean"])
    assert not excluded("/data/root/volumes", ["/data/root/*", "!/data/root/volumes"])
    assert not excluded("/video/series/bean", ["/video/**", "!/video/series/bean"], ["/video/series/bean"])


def test_restic_spares_only_the_named_path(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    for name in ("a/.cache/pre [c] ious/kept", "a/.cache/pip/gone", "b/.cache/gone", "b/kept"):
        (host.source / name).parent.mkdir(parents=True, exist_ok=True)
        (host.source / name).touch()
    paths = [str(host.source), str(host.source / "a/.cache/pre [c] ious")]
    host.configure(job={"paths": paths, "excludes": excludes.sparing([".cache"], paths)})
    assert host.do("run")["kind"] == "ok"
    assert sorted(path.parent.name for path in host.restored("latest").rglob("*") if path.is_file()) == [
        "b",
        "pre [c] ious",
    ]


def test_only_a_set_excludes_an_unnamed_directory() -> None:
    assert excludes.by_sets_alone("/mnt/data", ALL)
    assert not excludes.by_sets_alone("/mnt/data", [*ALL, "/mnt/data"])
    assert not excludes.by_sets_alone("/srv", ALL)


def test_a_path_as_a_pattern_is_for_nothing_but_it() -> None:
    assert excludes.literal("/a [b] *?\\c\n") == "/a \\[b] \\*\\?\\\\c\n"
    assert excluded("/a [b]*", [excludes.literal("/a [b]*")]) and not excluded("/a bc", [excludes.literal("/a [b]*")])


def test_every_pattern_has_its_reason() -> None:
    assert all(reason for rows in excludes.SETS.values() for reason in rows.values())


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("/mnt/usb", "/mnt/*", True),
        ("/mnt", "/mnt/*", False),
        ("/mnt/usb/deep", "/mnt/*", True),
        ("/home/a/.cache/pip", ".cache", True),
        ("/home/a/conda/pkgs", "conda/pkgs", True),
        ("/home/a/x/y/sets", "/home/**/sets", True),
        ("/home/a", "/home/ab", False),
        ("/home/a", "!/home/a", False),
    ],
)
def test_patterns_fit_as_restics_do(path: str, pattern: str, fits: bool) -> None:
    assert excluded(path, [pattern]) is fits


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("d", "[^a-c]", True),
        ("b", "[^a-c]", False),
        ("!", "[!a]", True),
        ("b", "[!a]", False),
        ("A", "*[a-z]", False),
        ("α", "[a-ζ]*", True),  # noqa: RUF001 - letters of Greek
        ("]", "[\\]a]", True),
        ("-", "[\\-x]", True),
        ("b", "[z-a]", False),
        ("b", "[^z-a]", True),
        ("*", "\\*", True),
        ("ab", "a]b", False),
        ("a]b", "a]b", True),
    ],
)
def test_a_part_of_a_pattern_is_read_as_go_reads_it(name: str, pattern: str, fits: bool) -> None:
    assert excluded(f"/srv/{name}", [f"/srv/{pattern}"]) is fits


@pytest.mark.parametrize(
    "pattern", ["[", "[^", "a[", "[]a]", "[-]", "[-x]", "[x-]", "[a-b-c]", "a\\", "/x/[/y]", "!/[a"]
)
def test_a_pattern_that_go_does_not_read_is_named(pattern: str) -> None:
    assert excludes.unreadable(pattern)
    assert not excludes.unreadable(f"/srv/{excludes.literal(pattern.strip('!/'))}/**/[!a-c]*")
