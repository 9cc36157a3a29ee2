# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in a directory, with fakes of dpkg and apt-get. The depot is a file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_repository as cuda_repository_run,
)
from ansible_collections.rigwright.workstation.plugins.modules import cuda_repository

Run = Callable[..., dict[str, Any]]

DEB = b"the package cuda-keyring"
SOURCE = "etc/apt/sources.list.d/cuda-debian13-x86_64.list"
PIN = "etc/apt/preferences.d/cuda-repository-pin-600"
STATUS = "Package: cuda-keyring\nStatus: install ok installed\nVersion: 1.1-1\n"


class Host:
    """A root directory, and what apt-get update says there: nothing while all is well. *locks* are the messages of the next commands."""

    def __init__(self, folder: Path) -> None:
        self.root, self.depot = folder / "root", folder / "depot"
        self.complaint = ""
        self.locks: list[str] = []
        self.slept = 0
        for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "var/lib/dpkg"):
            (self.root / name).mkdir(parents=True)
        self.status.write_text("")
        self.depot.mkdir()
        (self.depot / "cuda-keyring_1.1-1_all.deb").write_bytes(DEB)

    @property
    def status(self) -> Path:
        return self.root / "var/lib/dpkg/status"

    def install(self) -> None:
        """Install the package as dpkg does."""
        self.status.write_text(STATUS)
        (self.root / SOURCE).write_text("deb [signed-by=...] https://its.own.example/ /\n")
        (self.root / PIN).write_text("Package: *\n")

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        if self.locks and "indextargets" not in command:
            return 100, "", self.locks.pop(0)
        if "indextargets" in command:
            return self.read_sources(Path(command[-1].partition("=")[2]))
        if command[0] == "apt-get":
            return (100, "", self.complaint) if self.complaint else (0, "", "")
        if "--install" in command:
            assert Path(command[-1]).read_bytes() == DEB
            self.install()
        else:
            assert command == ["dpkg", "--purge", "cuda-keyring"]
            self.status.write_text("")
            for name in (SOURCE, PIN):
                (self.root / name).unlink(missing_ok=True)
        return 0, "", ""

    def read_sources(self, parts: Path) -> tuple[int, str, str]:
        """Read the sources as apt does: one address with several keys is an error."""
        texts = [path.read_text() for path in sorted(parts.iterdir())]
        keys = [re.search(r"[Ss]igned-[Bb]y[=:] ?([^\]\s]+)", text) for text in texts if self.depot.as_uri() in text]
        if len({key and key[1] for key in keys}) < 2:
            return 0, "", ""
        message = f"E: Conflicting values set for option Signed-By regarding source {self.depot.as_uri()}/ /\n"
        return 100, "", 2 * f"{message}E: The list of sources could not be read.\n"

    def request(self, **more: Any) -> dict[str, Any]:
        return {
            "user": "cuda",
            "url": self.depot.as_uri(),
            "directory": "debian13",
            "architecture": "x86_64",
            "keyring": "cuda-keyring_1.1-1_all.deb",
            "keyring_sha256": hashlib.sha256(DEB).hexdigest(),
            **more,
        }


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    monkeypatch.setattr(cuda_repository_run, "ROOT", str(host.root))
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command, **_options: host.run_command(command))
    monkeypatch.setattr(cuda_repository_run.time, "sleep", lambda seconds: setattr(host, "slept", host.slept + seconds))
    return host


def test_repository_has_the_requested_address(run_module: Run, host: Host) -> None:
    result = run_module(cuda_repository, **host.request())

    assert result["changed"]
    assert (host.root / SOURCE).read_text() == (
        f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {host.depot.as_uri()}/ /\n"
    )
    assert not run_module(cuda_repository, **host.request())["changed"]


def test_repository_is_due_when_the_module_would_change_it(run_module: Run, host: Host) -> None:
    options = {name: value for name, value in host.request().items() if name != "user"}

    def due(wanted: dict[str, str], user: str = "cuda") -> bool:
        return cuda_repository_run.is_due(host.run_command, user, wanted)

    assert [due(options), due({})] == [True, False]
    run_module(cuda_repository, **host.request())
    assert [due(options), due({}), due(options, "cudnn"), due({}, "cudnn")] == [False, True, True, False]
    # What the module refuses, it has to see.
    assert due({**options, "keyring_sha256": "short"}) is True
    assert due({**options, "url": "https://another.example"}) is True


@pytest.mark.parametrize("content", ["", "{", '{"package": true}', "[]"])
def test_damaged_record_is_refused_with_its_path_and_a_remedy(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], content: str
) -> None:
    run_module(cuda_repository, **host.request())
    record = host.root / cuda_repository_run.MEMORY.lstrip("/") / cuda_repository_run.RECORD
    record.write_text(content)
    before = snapshot(host.root)
    for request in (host.request(), {"user": "cuda", "state": "absent"}):
        result = run_module(cuda_repository, **request)
        assert result["failed"] and result["msg"].startswith(f"{record} is damaged ("), result
        assert "): restore it, or remove it, and " in result["msg"] and result["msg"].endswith(". Nothing was changed.")
    assert snapshot(host.root) == before


def test_last_user_removes_it(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    (host.root / "var/lib").mkdir(exist_ok=True)
    before = snapshot(host.root)
    run_module(cuda_repository, **host.request())
    run_module(cuda_repository, **host.request(user="nvidia_driver"))
    # As a run that was killed leaves it.
    (host.root / cuda_repository_run.MEMORY.lstrip("/") / ".cuda.k3j2h1ab").touch()

    assert run_module(cuda_repository, user="cuda", state="absent")["changed"]
    assert (host.root / SOURCE).exists()
    assert run_module(cuda_repository, user="nvidia_driver", state="absent")["changed"]

    assert snapshot(host.root) == before
    assert not run_module(cuda_repository, user="cuda", state="absent")["changed"]


def test_earlier_repository_stays(run_module: Run, host: Host) -> None:
    host.install()
    run_module(cuda_repository, **host.request())

    run_module(cuda_repository, user="cuda", state="absent")

    assert host.status.read_text() == STATUS
    assert (host.root / SOURCE).exists()


@pytest.mark.parametrize("url", ["", "/mirror"])
def test_an_earlier_source_is_restored(run_module: Run, host: Host, snapshot: Callable[[Path], Any], url: str) -> None:
    host.install()
    (host.root / "var/lib").mkdir(exist_ok=True)
    before = snapshot(host.root)
    run_module(cuda_repository, **host.request())
    run_module(cuda_repository, **host.request(user="cudnn", url=host.depot.as_uri() + url))

    run_module(cuda_repository, user="cudnn", state="absent")
    assert snapshot(host.root) != before
    run_module(cuda_repository, user="cuda", state="absent")

    assert snapshot(host.root) == before


def test_source_without_the_package_is_restored(run_module: Run, host: Host) -> None:
    own = host.root / SOURCE
    own.write_text("deb [signed-by=/etc/apt/keyrings/mine.gpg] https://its.own.example/ /\n")
    run_module(cuda_repository, **host.request())

    run_module(cuda_repository, user="cuda", state="absent")

    assert host.status.read_text() == ""
    assert "mine.gpg" in own.read_text()


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia.sources", "Types: deb\nURIs: {url}\nSuites: /\nSigned-By: /etc/apt/keyrings/mine.gpg\n"),
        ("nvidia.list", "deb [signed-by=/etc/apt/keyrings/mine.gpg] {url}/ /\n"),
    ],
)
def test_other_key_for_the_same_address_is_refused(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], name: str, text: str, check: bool
) -> None:
    (host.root / "etc/apt/sources.list.d" / name).write_text(text.format(url=host.depot.as_uri()))
    before = snapshot(host.root)

    result = run_module(cuda_repository, check=check, **host.request())

    assert result["msg"] == (
        f"The CUDA repository {host.depot.as_uri()} cannot be used: apt does not accept it together with its other sources: Conflicting"
        f" values set for option Signed-By regarding source {host.depot.as_uri()}/ / The list of sources could not be read."
        " Nothing was changed, and apt works as before."
        f" Take this repository out of /etc/apt/sources.list.d/{name}."
    )
    assert snapshot(host.root) == before


def test_source_of_the_package_must_fit_the_others(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(host.root)
    other = host.root / "etc/apt/sources.list.d/of-the-package.list"
    monkeypatch.setattr(host, "install", lambda: other.write_text(f"deb [signed-by=x] {host.depot.as_uri()} /\n"))

    result = run_module(cuda_repository, **host.request())

    assert "Take this repository out of /etc/apt/sources.list.d/of-the-package.list." in result["msg"]
    other.unlink()
    assert snapshot(host.root) == before


LISTS_LOCKED = (
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)\n"
    "E: Unable to lock directory /var/lib/apt/lists/\n"
)
DPKG_LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 4711\n"


def test_locks_are_waited_for(run_module: Run, host: Host) -> None:
    host.locks = [DPKG_LOCKED, DPKG_LOCKED, LISTS_LOCKED]
    assert run_module(cuda_repository, **host.request())["changed"]
    assert host.slept == 15

    host.locks = [DPKG_LOCKED]
    assert run_module(cuda_repository, user="cuda", state="absent")["changed"]
    assert host.status.read_text() == ""


@pytest.mark.parametrize("message", [LISTS_LOCKED, DPKG_LOCKED])
def test_a_lock_that_stays_is_the_reason(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], message: str
) -> None:
    before = snapshot(host.root)
    host.locks = [message] * cuda_repository_run.TRIES

    result = run_module(cuda_repository, **host.request())

    assert "cannot be used: another process has held a lock of apt or dpkg for 300 s: " in result["msg"]
    assert result["msg"].endswith(
        " Nothing was changed, and apt works as before. Run again once that process has ended."
    )
    assert host.slept == 295
    assert snapshot(host.root) == before


def test_the_next_run_removes_a_package_that_stayed(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any]
) -> None:
    (host.root / "var/lib").mkdir(exist_ok=True)
    before = snapshot(host.root)
    run_module(cuda_repository, **host.request())
    host.locks = [DPKG_LOCKED] * cuda_repository_run.TRIES

    result = run_module(cuda_repository, user="cuda", state="absent")

    assert "cuda-keyring cannot be removed: another process has held a lock of apt or dpkg for 300 s" in result["msg"]
    assert run_module(cuda_repository, user="cuda", state="absent")["changed"]
    assert snapshot(host.root) == before


def test_a_source_of_the_user_s_own_stays(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    # NVIDIA's local installer brings one whose name looks like the repository's, and comes before it.
    own = host.root / "etc/apt/sources.list.d/cuda-debian12-12-4-local.list"
    own.write_text("deb [signed-by=...] file:///var/cuda-repo-debian12-12-4-local /\n")
    before = snapshot(host.root)
    run_module(cuda_repository, **host.request())

    run_module(cuda_repository, user="cuda", state="absent")

    assert snapshot(host.root) == before


def test_after_an_upgrade_of_the_system_the_newer_source_goes(run_module: Run, host: Host) -> None:
    run_module(cuda_repository, **host.request())
    run_module(cuda_repository, **host.request(directory="debian14"))
    newer = host.root / "etc/apt/sources.list.d/cuda-debian14-x86_64.list"
    assert newer.exists()

    run_module(cuda_repository, user="cuda", state="absent")

    assert not newer.exists()


def test_the_index_that_apt_has_fetched_goes_too(run_module: Run, host: Host) -> None:
    lists = host.root / "var/lib/apt/lists"
    lists.mkdir(parents=True)
    run_module(cuda_repository, **host.request())
    (host.root / SOURCE).write_text("deb [signed-by=x] http://m.example/repos/debian13/x86_64/ /\n")
    for name in ("m.example_repos_debian13_x86%5f64_InRelease", "deb.example_debian_dists_trixie_InRelease"):
        (lists / name).touch()

    run_module(cuda_repository, user="cuda", state="absent")

    assert [path.name for path in lists.iterdir()] == ["deb.example_debian_dists_trixie_InRelease"]


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        (
            "W: An error occurred during the signature verification.\n"
            "E: Sub-process /usr/bin/sqv returned an error code (1), error message is: ... SHA1 is not considered secure\n",
            "cannot be used: its key is refused: An error occurred",
        ),
        (
            "E: Failed to fetch http://x/Packages.gz  Hash Sum mismatch\nE: Some index files failed to download.\n",
            "cannot be used: its index is broken or cannot be fetched: Failed to fetch http://x/Packages.gz  Hash Sum mismatch",
        ),
    ],
)
def test_untrusted_repository_leaves_no_files(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], complaint: str, message: str
) -> None:
    before = snapshot(host.root)
    host.complaint = complaint

    result = run_module(cuda_repository, **host.request())

    assert result["failed"]
    assert f"The CUDA repository {host.depot.as_uri()} {message}" in result["msg"]
    assert snapshot(host.root) == before


def test_a_mirror_that_is_broken_gives_way_to_the_address_before(run_module: Run, host: Host) -> None:
    run_module(cuda_repository, **host.request())
    before = (host.root / SOURCE).read_text()
    host.complaint = "E: The repository 'http://broken.example' does not have a Release file.\n"

    assert run_module(cuda_repository, **host.request(url="http://broken.example"))["failed"]

    assert (host.root / SOURCE).read_text() == before
    assert host.status.read_text() == STATUS


DIGEST = hashlib.sha256(DEB).hexdigest()


@pytest.mark.parametrize(
    ("digest", "message"),
    [
        ("00" * 32, "is not the package that was expected: its SHA-256 is"),
        (DIGEST[:8], f"{DIGEST[:8]} is no SHA-256 of cuda-keyring_1.1-1_all.deb: set"),
        (DIGEST[:63], f"{DIGEST[:63]} is no SHA-256"),
        ("", "no SHA-256 of cuda-keyring_1.1-1_all.deb is known for debian13 on x86_64: set"),
    ],
)
def test_only_the_package_with_the_whole_checksum_is_installed(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], digest: str, message: str
) -> None:
    before = snapshot(host.root)

    result = run_module(cuda_repository, **host.request(keyring_sha256=digest))

    assert message in result["msg"]
    assert snapshot(host.root) == before


def test_unusable_checksum_is_refused_in_check_mode_too(run_module: Run, host: Host) -> None:
    result = run_module(cuda_repository, check=True, **host.request(keyring_sha256=DIGEST[:8]))

    assert "`workstation_cuda_repository.keyring_sha256` to {debian13: <64 hexadecimal digits>}" in result["msg"]


def test_a_package_that_is_there_needs_no_checksum(run_module: Run, host: Host) -> None:
    host.install()
    assert run_module(cuda_repository, **host.request(keyring_sha256=""))["changed"]
    assert run_module(cuda_repository, **host.request(keyring_sha256=DIGEST.upper()))["changed"] is False


def test_a_missing_package_names_its_address(run_module: Run, host: Host) -> None:
    (host.depot / "cuda-keyring_1.1-1_all.deb").unlink()

    result = run_module(cuda_repository, **host.request())

    assert "cuda-keyring_1.1-1_all.deb could not be downloaded" in result["msg"]


def test_check_mode_changes_nothing(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    before = snapshot(host.root)

    assert run_module(cuda_repository, check=True, **host.request())["changed"]

    assert snapshot(host.root) == before
