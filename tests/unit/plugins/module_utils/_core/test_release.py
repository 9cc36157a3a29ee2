# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a release, and what is accepted of an archive."""

from __future__ import annotations

import bz2
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.release import (
    NOTHING,
    Record,
    ReleaseError,
    State,
    check_request,
    is_program,
    plan_absent,
    plan_present,
    select_members,
    unpack_program,
    wanted_links,
)

LINKS = {"/usr/local/bin/frps": "/opt/frp/2.0/frps"}
REQUEST: Any = {
    "name": "frp",
    "user": "frp_server",
    "version": "2.0",
    "url": "https://mirror.example.org/frp.tar.gz",
    "checksum": "sha256:" + "a" * 64,
    "programs": {"/usr/local/bin/frps": "frps"},
    "strip_components": 1,
    "keep": 1,
    "retries": 3,
    "deadline": 60,
    "max_mib": 1,
}


def state(archives: str, versions: str = "", links: dict[str, str] | None = None) -> State:
    """Return a state whose archives are named after their versions."""
    record = Record(versions.split(), sorted(links or {}))
    return State({version: f"archive {version}" for version in archives.split()}, record, links or {}, leftovers=False)


@pytest.mark.parametrize(
    ("current", "others", "keep", "archives", "versions"),
    [
        pytest.param(state(""), [], 1, "2.0", "2.0", id="first"),
        pytest.param(state("2.0", "2.0"), [], 1, "2.0", "2.0", id="nothing to do"),
        pytest.param(state("1.0", "1.0"), [], 1, "1.0 2.0", "2.0 1.0", id="the previous one stays"),
        pytest.param(state("1.0", "1.0"), [], 0, "2.0", "2.0", id="or not, if none is to be kept"),
        pytest.param(state("0.9 1.0", "1.0 0.9"), [], 1, "1.0 2.0", "2.0 1.0", id="the one before goes"),
        pytest.param(state("0.9 1.0", "1.0 0.9"), [], 2, "0.9 1.0 2.0", "2.0 1.0 0.9", id="or stays, if two are kept"),
        pytest.param(state("2.0 3.0", "3.0 2.0"), [], 1, "2.0 3.0", "2.0 3.0", id="going back keeps the newer one"),
        pytest.param(state("1.0", "1.0 0.9"), [], 2, "1.0 2.0", "2.0 1.0", id="a version that is gone is not kept"),
        pytest.param(
            state("0.9 1.0", "1.0"), [Record(["0.9"], [])], 0, "0.9 2.0", "2.0", id="another user's version stays"
        ),
        pytest.param(state("0.5 1.0", "1.0"), [], 1, "1.0 2.0", "2.0 1.0", id="an orphan goes"),
    ],
)
def test_releases_that_are_kept(current: State, others: list[Record], keep: int, archives: str, versions: str) -> None:
    wanted = plan_present(current, others, version="2.0", checksum="archive 2.0", links=LINKS, keep=keep)
    assert wanted == state(archives, versions, LINKS)


def test_version_is_replaced_when_its_archive_changes() -> None:
    wanted = plan_present(state("2.0", "2.0", LINKS), [], version="2.0", checksum="other", links=LINKS, keep=1)
    assert wanted.archives == {"2.0": "other"}


def test_leftovers_are_something_to_do() -> None:
    current = state("2.0", "2.0", LINKS)._replace(leftovers=True)
    assert plan_present(current, [], version="2.0", checksum="archive 2.0", links=LINKS, keep=1) != current


@pytest.mark.parametrize(("others", "archives"), [([], ""), ([Record(["1.0"], ["/usr/local/bin/frpc"])], "1.0")])
def test_absent_keeps_releases_that_others_use(others: list[Record], archives: str) -> None:
    wanted = plan_absent(state("1.0 2.0", "2.0 1.0", LINKS), others)
    assert wanted == state(archives)
    assert wanted.record == NOTHING


def test_links_lead_straight_to_the_version() -> None:
    assert wanted_links("/opt/frp", "2.0", {"/usr/local/bin/frps": "frps"}) == LINKS


def test_a_good_request_is_accepted() -> None:
    check_request(REQUEST)
    check_request(REQUEST | {"user": None, "version": None, "checksum": None, "programs": None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "../frp"),
        ("name", ".rigwright"),
        ("user", "a/b"),
        ("version", ""),
        ("version", ".."),
        ("version", "1.0\n"),
        ("checksum", "a" * 64),
        ("checksum", "sha256:" + "a" * 63),
        ("checksum", "sha256:" + "g" * 64),
        ("checksum", "sha256:https://mirror.example.org/sha256sums.txt"),
        ("checksum", "md5:" + "a" * 32),
        ("programs", {"frps": "frps"}),
        ("programs", {"/usr/local/../bin/frps": "frps"}),
        ("programs", {"/usr/local/bin/frps": "/frps"}),
        ("programs", {"/usr/local/bin/frps": "../frps"}),
        ("programs", {"/usr/local/bin/frps": 7}),
        ("keep", -1),
        ("deadline", 0),
        ("max_mib", 0),
        ("retries", -1),
        ("strip_components", -1),
    ],
)
def test_a_bad_request_is_refused_by_the_name_of_its_parameter(key: str, value: Any) -> None:
    with pytest.raises(ReleaseError, match=rf"^{key} .*Set (`{key}`|its)"):
        check_request(REQUEST | {key: value})


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("members", "strip", "paths"),
    [
        ([member("frp_2.0", tarfile.DIRTYPE), member("frp_2.0/frps")], 1, ["frps"]),
        ([member("./frp_2.0/bin/frps"), member("./frp_2.0/LICENSE")], 1, ["bin/frps", "LICENSE"]),
        ([member("frps"), member("a/frpc")], 1, ["frpc"]),
        ([member("frps")], 0, ["frps"]),
        ([member("a/b", tarfile.DIRTYPE), member("a/b", tarfile.DIRTYPE)], 1, ["b"]),
        ([member("a/lib/x.1"), member("a/lib/x", tarfile.SYMTYPE, "x.1")], 1, ["lib/x.1", "lib/x"]),
        ([member("a/lib/x", tarfile.SYMTYPE, "../y")], 1, ["lib/x"]),
        ([member("a/x..y")], 1, ["x..y"]),
    ],
)
def test_members_by_their_path(members: list[tarfile.TarInfo], strip: int, paths: list[str]) -> None:
    assert list(select_members(members, strip)) == paths


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        pytest.param([member("/etc/passwd")], "leads out", id="absolute"),
        pytest.param([member("a/../../etc/passwd")], "leads out", id="parent"),
        pytest.param([member("..", tarfile.DIRTYPE)], "leads out", id="parent itself"),
        pytest.param([member("a/x", tarfile.SYMTYPE, "/etc/passwd")], "out of the archive", id="absolute link"),
        pytest.param([member("a/x", tarfile.SYMTYPE, "../../y")], "out of the archive", id="link to a parent"),
        pytest.param([member("a/x", tarfile.SYMTYPE, "..")], "out of the archive", id="out once stripped"),
        pytest.param([member("a/d", tarfile.SYMTYPE, "e"), member("a/d/x")], "is below", id="through a link"),
        pytest.param([member("a/d"), member("a/d/x")], "is below", id="below a file"),
        pytest.param([member("a/x"), member("a/x")], "twice", id="twice"),
        pytest.param([member("a/x", tarfile.SYMTYPE, "y"), member("a/x")], "twice", id="over a link"),
        pytest.param([member("a/null", tarfile.CHRTYPE)], "neither", id="character device"),
        pytest.param([member("a/sda", tarfile.BLKTYPE)], "neither", id="block device"),
        pytest.param([member("a/pipe", tarfile.FIFOTYPE)], "neither", id="pipe"),
    ],
)
def test_an_archive_that_could_write_elsewhere_is_refused(members: list[tarfile.TarInfo], complaint: str) -> None:
    with pytest.raises(ReleaseError, match=complaint):
        select_members(members, strip=1)


# A program by itself


def test_address_of_a_single_program_is_no_archive() -> None:
    assert is_program("https://x/v1/restic_0.19.1_linux_amd64.bz2") == "restic_0.19.1_linux_amd64"
    assert [is_program(f"https://x/a{ending}") for ending in (".tar.bz2", ".tar.gz", "")] == ["", "", ""]


def test_single_program_is_unpacked_executable_or_refused(tmp_path: Path) -> None:
    found = unpack_program(io.BytesIO(bz2.compress(b"#!/bin/sh\n")), str(tmp_path / "x"), "x")
    assert found == {"x": hashlib.sha256(b"#!/bin/sh\n").hexdigest()}
    assert (tmp_path / "x/x").stat().st_mode & 0o777 == 0o755
    for content in (b"no bzip2", bz2.compress(b"cut off" * 1000)[:-8]):
        with pytest.raises(ReleaseError, match="no complete bzip2"):
            unpack_program(io.BytesIO(content), str(tmp_path / f"y{len(content)}"), "y")
