"""The channel's packages: the form that conda's tools take, and the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from harness.depot.conda_channel import PLACEHOLDER, Package, pack, read_table, write


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry))}


def test_table_is_unique_and_complete():
    table = read_table()
    assert len({package.file for package in table}) == len(table) >= 12
    names = {package.name for package in table}
    wanted = {entry.split()[0] for package in table for entry in package.depends}
    assert {name for name in wanted if not name.startswith("__")} <= names
    assert {package.form for package in table} == {".conda", ".tar.bz2"}
    assert {package.subdir for package in table} == {"linux-64", "noarch"}


@pytest.mark.parametrize("form", [".conda", ".tar.bz2"])
def test_both_forms_have_the_same_files_inside(form):
    package = Package("x", "1.0", form=form, files={"bin/x": "@version@ @prefix@"})
    if form == ".conda":
        with zipfile.ZipFile(io.BytesIO(pack(package))) as outer:
            assert json.loads(outer.read("metadata.json")) == {"conda_pkg_format_version": 2}
            assert {row.compress_type for row in outer.infolist()} == {zipfile.ZIP_STORED}
            parts = [outer.read(f"{part}-x-1.0-0.tar.zst") for part in ("info", "pkg")]
        files = {name: text for part in parts for name, text in members(zstandard.decompress(part)).items()}
    else:
        files = members(pack(package))
    assert files["bin/x"].decode() == f"1.0 {PLACEHOLDER}"
    (row,) = json.loads(files["info/paths.json"])["paths"]
    assert (row["prefix_placeholder"], row["file_mode"]) == (PLACEHOLDER, "text")
    assert json.loads(files["info/index.json"])["subdir"] == "linux-64"


def test_the_same_table_gives_the_same_bytes():
    assert [pack(package) for package in read_table()] == [pack(package) for package in read_table()]


def test_index_hashes_match_except_the_tampered_package(tmp_path: Path):
    write(tmp_path, read_table())
    wrong = []
    for subdir in ("linux-64", "noarch"):
        index = json.loads((tmp_path / subdir / "repodata.json").read_text())
        for name, entry in {**index["packages"], **index["packages.conda"]}.items():
            found = hashlib.sha256((tmp_path / subdir / name).read_bytes()).hexdigest()
            if found != entry["sha256"]:
                wrong.append(name)
    assert wrong == ["tampered-1.0-0.conda"]
