# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases really packed, served, unpacked, linked, damaged and interrupted."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock, release_run
from ansible_collections.rigwright.workstation.plugins.modules import release_archive

Run = Callable[..., dict[str, Any]]
Snapshot = Callable[[Path], dict[str, Any]]


def pack(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def entry(name: str, content: str = "", mode: int = 0o644, **attributes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode = mode
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, content.encode()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class Host:
    """A directory with the paths of a host, and a publisher's archives next to it."""

    def __init__(self, root: Path, run_module: Run) -> None:
        self.published = root / "published"
        self.root = root / "host"
        self.opt = self.root / "opt"
        self.bin = self.root / "usr/local/bin"
        for directory in (self.published, self.opt, self.bin):
            directory.mkdir(parents=True)
        self._run_module = run_module

    def publish(self, version: str, *extra: tuple[tarfile.TarInfo, bytes]) -> Path:
        top = f"frp_{version}"
        programs = [entry(f"{top}/{name}", f"#!/bin/sh\necho {name} {version}\n", 0o755) for name in ("frps", "frpc")]
        archive = self.published / f"{top}.tar.gz"
        pack(archive, [*programs, entry(f"{top}/LICENSE", "Apache-2.0\n", 0o600), *extra])
        return archive

    def params(self, version: str, **others: Any) -> dict[str, Any]:
        archive = self.published / f"frp_{version}.tar.gz"
        return {
            "name": "frp",
            "user": "frp_server",
            "version": version,
            "url": archive.as_uri(),
            "checksum": f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}" if archive.exists() else None,
            "programs": {str(self.bin / "frps"): "frps"},
            "install_root": str(self.opt),
            "retries": 0,
            **others,
        }

    def install(self, version: str, check: bool = False, **others: Any) -> dict[str, Any]:
        return self._run_module(release_archive, check=check, **self.params(version, **others))

    def remove(self, user: str = "frp_server", check: bool = False) -> dict[str, Any]:
        return self._run_module(
            release_archive, check=check, name="frp", user=user, state="absent", install_root=str(self.opt)
        )

    def says(self, program: str = "frps") -> str:
        return subprocess.run([self.bin / program], capture_output=True, text=True, check=True).stdout.strip()

    def versions(self) -> list[str]:
        return sorted(path.name for path in (self.opt / "frp").glob("[0-9]*"))


@pytest.fixture
def host(tmp_path: Path, run_module: Run) -> Host:
    host = Host(tmp_path, run_module)
    for version in ("0.69.0", "0.70.1", "0.71.0"):
        host.publish(version)
    return host


# Installing


def test_the_checked_archive_is_unpacked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    work = host.opt / "frp/.rigwright/work"
    digest_of = release_run.sha256_of

    def exchanged(file: Any) -> str:
        found = digest_of(file)
        assert work.stat().st_mode & 0o777 == 0o700
        shutil.copy(host.published / "frp_0.71.0.tar.gz", work / "other")
        (work / "other").replace(work / "archive")
        return found

    monkeypatch.setattr(release_run, "sha256_of", exchanged)
    host.install("0.70.1")
    assert host.says() == "frps 0.70.1"


def test_plan_knows_whether_the_release_is_due(host: Host, snapshot: Snapshot) -> None:
    params = host.params("0.70.1")
    assert release_run.is_due(**params)
    host.install("0.70.1")
    before = snapshot(host.root)
    assert not release_run.is_due(**params)
    assert release_run.is_due(**host.params("0.71.0"))
    assert release_run.is_due(**{**params, "checksum": ""}), "the module refuses it"
    assert release_run.is_due(name="frp", user="frp_server", state="absent", install_root=str(host.opt))
    assert not release_run.is_due(name="frp", user="frp_client", state="absent", install_root=str(host.opt))
    assert snapshot(host.root) == before


def test_files_of_a_record_are_on_the_disk(host: Host, synced: Callable[[Path], bool]) -> None:
    host.install("0.70.1")
    release = host.opt / "frp"
    assert [path for path in (release, release / "0.70.1", *release.rglob("*")) if not synced(path)] == []


def test_a_second_run_waits_for_the_first(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0)
    with lock.host_lock("release_archive.frp"):
        assert "another run" in host.install("0.70.1")["msg"]
        assert host.install("0.70.1", check=True)["changed"]
    assert names(host.opt) == []
    assert host.install("0.70.1")["changed"]


def test_an_archive_is_installed_and_linked(host: Host) -> None:
    result = host.install("0.70.1")
    assert (result["changed"], result["version"], result["previous"]) == (True, "0.70.1", None)
    assert result["directory"] == str(host.opt / "frp/0.70.1")
    assert host.says() == "frps 0.70.1"
    modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in (host.opt / "frp/0.70.1").iterdir()}
    assert modes == {"frps": "0o755", "frpc": "0o755", "LICENSE": "0o644", ".rigwright.json": "0o644"}


def test_the_second_run_does_nothing_and_needs_no_network(host: Host, snapshot: Snapshot) -> None:
    host.install("0.70.1")
    params, before = host.params("0.70.1"), snapshot(host.root)
    shutil.rmtree(host.published)
    result = host.install("0.70.1", checksum=params["checksum"])
    assert (result["changed"], result["changed_paths"]) == (False, [])
    assert snapshot(host.root) == before


def test_upgrade_keeps_only_the_previous_version(host: Host) -> None:
    for version in ("0.69.0", "0.70.1", "0.71.0"):
        result = host.install(version)
    assert (result["version"], result["previous"]) == ("0.71.0", "0.70.1")
    assert host.versions() == ["0.70.1", "0.71.0"]
    assert host.says() == "frps 0.71.0"
    assert result["diff"]["before"]["version"] == "0.70.1"
    assert result["changed_paths"] == [str(host.bin / "frps")]


def test_going_back_to_the_kept_version_needs_no_network(host: Host) -> None:
    checksum = host.params("0.69.0")["checksum"]
    host.install("0.69.0")
    host.install("0.70.1")
    shutil.rmtree(host.published)
    result = host.install("0.69.0", checksum=checksum)
    assert (result["changed"], result["version"], result["previous"]) == (True, "0.69.0", "0.70.1")
    assert host.says() == "frps 0.69.0"


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.chmod(0o644), lambda path: path.write_text("evil")])
def test_a_damaged_program_is_installed_again(host: Host, damage: Callable[[Path], Any]) -> None:
    host.install("0.70.1")
    damage(host.opt / "frp/0.70.1/frps")
    result = host.install("0.70.1")
    assert (result["changed"], result["changed_paths"]) == (True, [str(host.bin / "frps")])
    assert host.says() == "frps 0.70.1"


def test_another_archive_of_the_same_version_replaces_it(host: Host) -> None:
    host.install("0.70.1")
    host.publish("0.70.1", entry("frp_0.70.1/NOTICE"))
    assert host.install("0.70.1")["changed"] is True
    assert (host.opt / "frp/0.70.1/NOTICE").exists()


def test_a_link_that_is_no_longer_listed_goes(host: Host) -> None:
    host.install("0.70.1")
    result = host.install("0.70.1", programs={str(host.bin / "frpc"): "frpc"})
    assert result["changed_paths"] == [str(host.bin / "frpc"), str(host.bin / "frps")]
    assert names(host.bin) == ["frpc"]


def test_links_and_hard_links_in_an_archive_are_kept_inside(host: Host) -> None:
    host.publish(
        "0.72.0",
        entry("frp_0.72.0/frps.old", type=tarfile.SYMTYPE, linkname="frps"),
        entry("frp_0.72.0/frps.copy", mode=0o4755, type=tarfile.LNKTYPE, linkname="frp_0.72.0/frps"),
    )
    assert host.install("0.72.0")["changed"] is True
    directory = host.opt / "frp/0.72.0"
    assert (directory / "frps.old").readlink() == Path("frps")
    assert (directory / "frps.copy").read_bytes() == (directory / "frps").read_bytes()
    assert (directory / "frps.copy").stat().st_mode & 0o7777 == 0o755, "no set-user-id bit comes out of an archive"


def test_check_mode_predicts_and_changes_nothing(host: Host, snapshot: Snapshot) -> None:
    host.install("0.69.0")
    before = snapshot(host.root)
    params = host.params("0.70.1")
    shutil.move(host.published, f"{host.published}-away")
    predicted = host.install("0.70.1", check=True, checksum=params["checksum"])
    assert snapshot(host.root) == before
    shutil.move(f"{host.published}-away", host.published)
    assert predicted == host.install("0.70.1")


# Two users of one release


def test_two_users_have_their_own_versions(host: Host) -> None:
    client: dict[str, Any] = {"user": "frp_client", "programs": {str(host.bin / "frpc"): "frpc"}}
    host.install("0.69.0")
    host.install("0.69.0", **client)
    host.install("0.70.1")
    host.install("0.71.0")
    assert (host.says("frps"), host.says("frpc")) == ("frps 0.71.0", "frpc 0.69.0")
    assert host.versions() == ["0.69.0", "0.70.1", "0.71.0"]
    assert host.install("0.69.0", **client)["changed"] is False

    assert host.remove()["changed"] is True
    assert host.says("frpc") == "frpc 0.69.0"
    assert (host.versions(), names(host.bin)) == (["0.69.0"], ["frpc"])


def test_a_shared_link_goes_with_its_last_user(host: Host, snapshot: Snapshot) -> None:
    host.install("0.70.1")
    host.install("0.70.1", user="other")
    host.remove("frp_server")
    assert host.says() == "frps 0.70.1"
    assert host.install("0.70.1", user="other")["changed"] is False
    host.remove("other")
    assert snapshot(host.root).keys() == {"opt", "usr", "usr/local", "usr/local/bin"}


def test_a_user_who_takes_a_link_over_relies_on_it(host: Host) -> None:
    both = {str(host.bin / name): name for name in ("frps", "frpc")}
    host.install("0.70.1")
    host.install("0.70.1", user="other", programs={str(host.bin / "frpc"): "frpc"})
    assert host.install("0.70.1", user="other", programs=both)["changed"] is True
    host.remove("frp_server")
    assert host.says() == "frps 0.70.1"


# Removing


def test_absent_restores_the_host(host: Host, snapshot: Snapshot) -> None:
    before = snapshot(host.root)
    host.install("0.69.0")
    host.install("0.70.1")
    installed = snapshot(host.root)
    assert host.remove(check=True)["changed"] is True
    assert snapshot(host.root) == installed
    result = host.remove()
    assert (result["changed"], result["version"], result["directory"]) == (True, None, None)
    assert snapshot(host.root) == before
    assert host.remove()["changed"] is False


def test_absent_keeps_unmanaged_files(host: Host) -> None:
    host.install("0.70.1")
    (host.bin / "frps").unlink()
    (host.bin / "frps").symlink_to("/bin/true")
    (host.opt / "frp/notes.txt").write_text("mine")
    host.remove()
    assert (host.bin / "frps").readlink() == Path("/bin/true")
    assert names(host.opt / "frp") == ["notes.txt"]


# Refusing


def refused(host: Host, snapshot: Snapshot, version: str, **others: Any) -> str:
    """Prove that an installed 0.69.0 is untouched by a refusal, and return its message."""
    before = snapshot(host.root)
    result = host.install(version, **others)
    assert result["failed"] is True
    assert snapshot(host.root) == before
    return result["msg"]


@pytest.mark.parametrize("installed", [[], ["0.69.0"]])
def test_a_tampered_archive_is_refused(host: Host, snapshot: Snapshot, installed: list[str]) -> None:
    for version in installed:
        host.install(version)
    checksum = host.params("0.70.1")["checksum"]
    host.publish("0.70.1", entry("frp_0.70.1/backdoor"))
    message = refused(host, snapshot, "0.70.1", checksum=checksum)
    assert checksum in message
    assert host.params("0.70.1")["checksum"] in message
    assert "set `checksum` or `url`" in message


@pytest.mark.parametrize(
    ("evil", "complaint"),
    [
        (entry("frp_0.72.0/../../../../etc/cron.d/evil", "x"), "leads out of the archive"),
        (entry("/etc/cron.d/evil", "x"), "leads out of the archive"),
        (entry("frp_0.72.0/x", type=tarfile.SYMTYPE, linkname="/etc"), "out of the archive"),
        (entry("frp_0.72.0/x", type=tarfile.CHRTYPE), "neither a file, a directory nor a link"),
        (entry("frp_0.72.0/x", type=tarfile.LNKTYPE, linkname="../../etc/shadow"), "no complete tar archive"),
        (entry("frp_0.72.0/frps", "twice"), "there twice"),
    ],
)
def test_an_archive_that_could_write_elsewhere_is_refused(
    host: Host, snapshot: Snapshot, evil: tuple[tarfile.TarInfo, bytes], complaint: str
) -> None:
    host.install("0.69.0")
    host.publish("0.72.0", evil)
    message = refused(host, snapshot, "0.72.0")
    assert complaint in message
    assert "Set `url` and `checksum`" in message


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x1f\x8b\x08broken"])
def test_invalid_archive_is_refused(host: Host, snapshot: Snapshot, content: bytes) -> None:
    host.install("0.69.0")
    (host.published / "frp_0.72.0.tar.gz").write_bytes(content)
    assert "no complete tar archive" in refused(host, snapshot, "0.72.0")


def test_half_an_archive_is_refused(host: Host, snapshot: Snapshot) -> None:
    whole = host.publish("0.72.0", entry("frp_0.72.0/data", os.urandom(9999).hex()))
    whole.write_bytes(whole.read_bytes()[:2000])
    assert "no complete tar archive" in refused(host, snapshot, "0.72.0")


@pytest.mark.parametrize("program", ["frpx", "LICENSE"])
def test_a_program_that_is_missing_or_none_is_refused(host: Host, snapshot: Snapshot, program: str) -> None:
    message = refused(host, snapshot, "0.70.1", programs={str(host.bin / "frps"): program})
    assert f"has no program {program}. Set `programs`" in message
    assert "LICENSE, frpc, frps" in message


@pytest.mark.parametrize(
    "occupy", [lambda path: path.write_text("mine"), lambda path: path.symlink_to("/bin/true"), Path.mkdir]
)
def test_an_occupied_link_is_refused_before_the_download(
    host: Host, snapshot: Snapshot, occupy: Callable[[Path], Any]
) -> None:
    occupy(host.bin / "frps")
    checksum = host.params("0.70.1")["checksum"]
    shutil.rmtree(host.published)
    message = refused(host, snapshot, "0.70.1", checksum=checksum)
    assert f"{host.bin / 'frps'} is in the way" in message
    assert "Move it away, or set `programs`" in message


def test_an_occupied_directory_is_refused(host: Host, snapshot: Snapshot) -> None:
    (host.opt / "frp/0.70.1").mkdir(parents=True)
    assert "this module did not create it" in refused(host, snapshot, "0.70.1")


def test_a_link_into_nowhere_is_refused(host: Host, snapshot: Snapshot) -> None:
    message = refused(host, snapshot, "0.70.1", programs={str(host.root / "none/frps"): "frps"})
    assert "none is no directory. Create it" in message


def test_a_bad_checksum_is_refused_by_the_module_too(host: Host, snapshot: Snapshot) -> None:
    assert "Set `checksum` to sha256:" in refused(host, snapshot, "0.70.1", checksum="sha256:latest")


@pytest.mark.parametrize("installed", [[], ["0.69.0"]])
def test_a_full_disk_leaves_nothing_behind(
    host: Host, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, installed: list[str]
) -> None:
    for version in installed:
        host.install(version)

    def copy(source: Any, target: Any, limit: int) -> None:
        target.write(source.read(100))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(release_run, "copy", copy)
        message = refused(host, snapshot, "0.70.1", retries=3)
    assert f"No space left on device. Free space on the disk of {host.opt}" in message
    assert host.install("0.70.1")["changed"] is True


# Interrupted


@pytest.mark.parametrize("state", ["first", "upgrade", "repair", "removal"])
def test_next_run_completes_one_killed_at_any_step(
    host: Host, snapshot: Snapshot, run_killed: Callable[..., bool], state: str
) -> None:
    """Check that the next run ends as an uninterrupted one, and that a link always leads to a whole program, old or new."""
    params = host.params("0.71.0") if state != "removal" else {**host.params("0.71.0"), "state": "absent"}
    if state != "first":
        host.install("0.69.0")
        host.install("0.70.1")
    if state == "repair":
        host.install("0.71.0")
        (host.opt / "frp/0.71.0/frps").chmod(0o644)
    before = Path(shutil.copytree(host.root, host.root.with_name("before"), symlinks=True))

    def finish() -> dict[str, Any]:
        host.remove() if state == "removal" else host.install("0.71.0")
        return snapshot(host.root)

    expected = finish()
    for step in range(1, 100):
        shutil.rmtree(host.root)
        shutil.copytree(before, host.root, symlinks=True)
        if not run_killed(release_archive, step, **params):
            break
        if state != "repair" and (host.bin / "frps").is_symlink():
            assert host.says() in ("frps 0.70.1", "frps 0.71.0")
        assert finish() == expected, f"killed at step {step}"
    assert step > 4, "the module has at least as many steps"


@pytest.mark.parametrize("content", ["[]", "3", '{"a": 1}', '{"versions": ["1"]}', '{"versions": null, "links": []}'])
def test_a_damaged_record_is_refused(host: Host, snapshot: Snapshot, content: str) -> None:
    host.install("0.69.0")
    for name in ("frp_server", "other"):
        record = host.opt / f"frp/.rigwright/{name}.json"
        kept = record.read_text() if record.exists() else ""
        record.write_text(content)
        message = refused(host, snapshot, "0.70.1")
        assert f"{record} is damaged (" in message and "remove it and run again" in message
        record.write_text(kept) if kept else record.unlink()
    assert release_run.is_due(**host.params("0.69.0")) is False


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": {}, "archive": 1}', "[" * 9999])
def test_a_damaged_receipt_is_refused(host: Host, snapshot: Snapshot, content: str) -> None:
    host.install("0.69.0")
    (host.opt / "frp/0.69.0/.rigwright.json").write_text(content)
    assert f"remove {host.opt}/frp/0.69.0 and run again" in refused(host, snapshot, "0.69.0")


def test_leftovers_of_an_interrupted_download_are_removed(host: Host, snapshot: Snapshot) -> None:
    host.install("0.70.1")
    before = snapshot(host.root)
    work = host.opt / "frp/.rigwright/work"
    work.mkdir()
    (work / "archive").write_bytes(b"half")
    assert host.install("0.70.1")["changed"] is True
    assert snapshot(host.root) == before


# Downloading


class Publisher(http.server.BaseHTTPRequestHandler):
    """Answers with what the test has lined up, then with the archive."""

    archive: bytes
    answers: list[int | str]
    requests: int
    ended: threading.Event

    def do_GET(self) -> None:
        type(self).requests += 1
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, int) and answer != 200:
            self.send_error(answer)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.archive)))
        self.send_header("Content-Encoding", "x-gzip")
        self.end_headers()
        if answer == "a byte at a time":
            with contextlib.suppress(OSError):
                for number in range(len(self.archive)):
                    self.wfile.write(self.archive[number : number + 1])
                    self.ended.wait(0.05)
            return
        self.wfile.write(self.archive[:100] if answer == "cut short" else self.archive)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def publisher(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Publisher]]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    handler = type(
        "Handler",
        (Publisher,),
        {"archive": host.publish("0.70.1").read_bytes(), "answers": [], "requests": 0, "ended": threading.Event()},
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        handler.url = f"http://127.0.0.1:{server.server_port}/frp_0.70.1.tar.gz"  # type: ignore[attr-defined]
        yield handler
        handler.ended.set()  # type: ignore[attr-defined]
        server.shutdown()


@pytest.mark.parametrize(
    ("answers", "requests"), [([], 1), ([503], 2), ([500, 429, "cut short"], 4)], ids=["well", "once", "three times"]
)
def test_a_failed_download_is_tried_again(host: Host, publisher: Any, answers: list[Any], requests: int) -> None:
    publisher.answers = answers
    assert host.install("0.70.1", url=publisher.url, retries=3)["changed"] is True
    assert publisher.requests == requests
    assert host.says() == "frps 0.70.1"


@pytest.mark.parametrize(
    ("answers", "requests", "reason"),
    [([503] * 9, 3, "503"), ([404] * 9, 1, "404"), (["cut short"] * 9, 3, "IncompleteRead")],
)
def test_a_download_that_keeps_failing_is_given_up(
    host: Host, snapshot: Snapshot, publisher: Any, answers: list[Any], requests: int, reason: str
) -> None:
    publisher.answers = answers
    message = refused(host, snapshot, "0.70.1", url=publisher.url, retries=2)
    assert publisher.requests == requests
    assert publisher.url in message
    assert reason in message
    assert "Set `url`" in message


def test_a_download_without_end_is_given_up(host: Host, snapshot: Snapshot, publisher: Any) -> None:
    publisher.answers = ["a byte at a time"]
    assert "it did not end within 1 s" in refused(host, snapshot, "0.70.1", url=publisher.url, deadline=1, retries=3)
    publisher.archive = b"x" * (1 << 20) + b"y"
    assert "more than 1048576 bytes" in refused(host, snapshot, "0.70.1", url=publisher.url, max_mib=1, retries=3)
    assert publisher.requests == 2, "no further attempt"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/frp.tar.gz", "frp.tar.gz", "file:///none/frp.tar.gz"])
def test_an_address_that_does_not_answer_is_named(host: Host, snapshot: Snapshot, url: str) -> None:
    assert refused(host, snapshot, "0.70.1", url=url).startswith(f"{url} could not be downloaded: ")
