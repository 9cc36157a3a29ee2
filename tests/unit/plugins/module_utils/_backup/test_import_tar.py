# SPDX-License-Identifier: GPL-3.0-or-later
"""An archive as the old recipe made it (`tar -cpzf`), and what it had lost."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import import_tar as archives

from tests.unit.support.backup.hosts import Host, fill, restic, same


def entry(tar: tarfile.TarFile, name: str, mode: int = 0o644, content: bytes = b"x", **headers: str) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.size, info.pax_headers = mode, len(content), headers
    tar.addfile(info, io.BytesIO(content))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a root file system of the old recipe: without /boot, with docker's layers and virtual files."""
    path = tmp_path / "old.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in (
            "./etc/hosts",
            "./lib/modules/6.1.0-13-amd64/x.ko",
            "./var/lib/docker/overlay2/a/b",
            "./proc/cpuinfo",
            "./home/a/thesis",
        ):
            entry(tar, name)
        entry(tar, "./usr/bin/ping", 0o755)
        entry(tar, "./etc/shared.conf", 0o664)
    return path


def test_the_report_has_the_losses_of_the_archive(old: Path) -> None:
    report = archives.survey(str(old))
    lost = "\n".join(report["lost"])
    assert report["files"] == 7
    for phrase in (
        "capabilities: the archive has none, such as /usr/bin/ping",
        "may be a mask: /etc/shared.conf",
        "extended attributes",
        "sparse files",
        "modules of 6.1.0-13-amd64 and no kernel",
        "must not be restored: /proc",
        "1 files of docker's layers",
    ):
        assert phrase in lost


def test_an_archive_made_well_has_lost_little(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    fill(tmp_path / "source")
    phrase = [
        "tar",
        "-C",
        str(tmp_path),
        "--acls",
        "--xattrs",
        "--xattrs-include=*",
        "--sparse",
        "-cf",
        str(tmp_path / "new.tar"),
        "source",
    ]
    subprocess.run(phrase, check=True)
    report = archives.survey(str(tmp_path / "new.tar"))
    assert (report["capabilities"], report["acls"], report["lost"]) == (1, 1, [])


def test_a_broken_archive_is_refused(tmp_path: Path, old: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(tarfile.TarError):
        archives.survey(str(tmp_path / "text"))
    (tmp_path / "half").write_bytes(old.read_bytes()[:150])
    with pytest.raises((tarfile.TarError, EOFError)):
        archives.survey(str(tmp_path / "half"))


def test_an_archive_becomes_a_snapshot_with_its_paths(tmp_path: Path, old: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert archives.unpack(str(old), str(scratch)) == ""
    snapshot, problem = archives.back_up(host.open(), str(scratch), str(old), "oldhost", "tar", "2020-05-04 12:00:00")
    assert problem == ""
    (found,) = host.snapshots()
    assert (found.id.startswith(snapshot[:8]), found.host, {*found.tags}) == (True, "oldhost", {"tar", "imported"})
    back = host.restored(snapshot)
    assert (back / "home/a/thesis").read_text() == "x"
    assert not (back / "proc/cpuinfo").exists() and not (back / "var/lib/docker/overlay2/a").exists()
    assert same(scratch, back) == []
