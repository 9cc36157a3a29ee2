# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates really made by openssl, and met by a real TLS client."""

from __future__ import annotations

import datetime
import errno
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import certificate_run
from ansible_collections.rigwright.workstation.plugins.modules import tls_certificate

Run = Callable[..., dict[str, Any]]
Snapshot = Callable[[Path], dict[str, Any]]

FILES = {"ca.crt", "ca.key", "server.crt", "server.key"}


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "pki"


@pytest.fixture
def keep(run_module: Run, pki: Path) -> Run:
    """Run the module for gateway.test and 127.0.0.1, or with other parameters."""
    pki.parent.mkdir()

    def run(**params: Any) -> dict[str, Any]:
        result = run_module(
            tls_certificate, **{"directory": str(pki), "names": ["gateway.test", "127.0.0.1"], **params}
        )
        assert "PRIVATE" not in str(result), "no result shows a key"
        return result

    return run


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock of the module, not that of openssl, by so many days."""

    def travel(days: float) -> None:
        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
                return datetime.datetime.now(tz) + datetime.timedelta(days=days)

        fake = type("datetime", (), {**vars(datetime), "datetime": Clock})
        monkeypatch.setattr(certificate_run, "datetime", fake)

    return travel


def test_files_are_on_the_disk(keep: Run, pki: Path, synced: Callable[[Path], bool]) -> None:
    keep()
    assert [path for path in (pki, *pki.iterdir()) if not synced(path)] == []


def shake_hands(pki: Path, name: str, ca: str) -> str:
    """Connect as a client that trusts the CA alone and expects this name; the error, or nothing."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(pki / "server.crt", pki / "server.key")
    trusting = ssl.create_default_context(cadata=ca)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        trusting.wrap_socket(ours, server_hostname=name).close()
    except ssl.SSLError as error:
        ours.close()
        return str(error)
    finally:
        server.join()
    return ""


def modes(pki: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o7777:04o}" for path in pki.iterdir()}


def texts(pki: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pki.iterdir()}


# Making


@pytest.mark.parametrize("name", ["gateway.test", "127.0.0.1"])
def test_a_client_that_trusts_the_ca_connects(keep: Run, pki: Path, name: str) -> None:
    result = keep()
    assert result["changed"] is True
    assert result["reasons"] == ["there is none"]
    assert shake_hands(pki, name, result["ca_certificate"]) == ""


def test_a_client_refuses_another_name_and_another_ca(keep: Run, pki: Path, run_module: Run, tmp_path: Path) -> None:
    ours = keep()["ca_certificate"]
    theirs = run_module(tls_certificate, directory=str(tmp_path / "theirs"), names=["gateway.test"])["ca_certificate"]
    assert "Hostname mismatch" in shake_hands(pki, "other.test", ours)
    assert "certificate verify failed" in shake_hands(pki, "gateway.test", theirs)


def test_keys_are_private(keep: Run, pki: Path) -> None:
    keep()
    assert modes(pki) == {"ca.crt": "0644", "ca.key": "0600", "server.crt": "0644", "server.key": "0640"}
    assert pki.stat().st_mode & 0o7777 == 0o755


def test_a_strict_verifier_accepts_both(keep: Run, pki: Path) -> None:
    keep()
    strict = ["-x509_strict", "-purpose", "sslserver", "-CAfile", str(pki / "ca.crt")]
    subprocess.run(["openssl", "verify", *strict, pki / "server.crt"], check=True, capture_output=True)
    printed = subprocess.run(
        ["openssl", "x509", "-in", pki / "ca.crt", "-noout", "-ext", "basicConstraints,keyUsage"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "CA:TRUE, pathlen:0" in printed
    assert "Certificate Sign, CRL Sign" in printed


def test_the_second_run_does_nothing(keep: Run, pki: Path, snapshot: Snapshot) -> None:
    first = keep()
    before = snapshot(pki)
    second = keep()
    assert second["changed"] is False
    assert second["reasons"] == second["changed_paths"] == []
    assert {key: second[key] for key in ("ca_certificate", "not_after", "fingerprint")} == {
        key: first[key] for key in ("ca_certificate", "not_after", "fingerprint")
    }
    assert snapshot(pki) == before


def test_check_mode_predicts_and_changes_nothing(keep: Run, pki: Path) -> None:
    predicted = keep(check=True, group="a-group-to-come")
    assert (predicted["changed"], predicted["ca_certificate"], predicted["fingerprint"]) == (True, None, None)
    assert not pki.exists()
    created = keep()
    assert predicted["changed_paths"] == created["changed_paths"] == sorted(str(pki / name) for name in FILES)
    assert predicted["not_after"][:13] == created["not_after"][:13]
    assert predicted["diff"]["after"]["certificate"]["names"] == ["DNS:gateway.test", "IP:127.0.0.1"]


def test_plan_knows_whether_the_certificate_is_due(keep: Run, pki: Path, snapshot: Snapshot) -> None:
    runner = SimpleNamespace(run_command=run_openssl, get_bin_path=lambda _name, **_options: "openssl", warn=print)

    def is_due(**changes: Any) -> bool:
        return certificate_run.is_due(
            runner, **{"directory": str(pki), "names": ["gateway.test", "127.0.0.1"], **changes}
        )

    assert is_due()
    assert not is_due(state="absent")
    keep()
    before = snapshot(pki)
    assert not is_due()
    assert is_due(names=["other.test"])
    assert is_due(names=["no name"]), "the module refuses it"
    assert is_due(state="absent")
    assert snapshot(pki) == before
    runner.get_bin_path = lambda _name, **_options: None
    assert is_due(), "a package may bring openssl"


def run_openssl(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_changed_mode_is_put_right(keep: Run, pki: Path) -> None:
    keep()
    before = texts(pki)
    (pki / "ca.key").chmod(0o644)
    result = keep(mode="0600")
    assert result["changed_paths"] == [str(pki / "ca.key"), str(pki / "server.key")]
    assert result["reasons"] == []
    assert (modes(pki)["ca.key"], modes(pki)["server.key"]) == ("0600", "0600")
    assert texts(pki) == before


# Renewing


@pytest.mark.parametrize(
    ("spoil", "params", "reason"),
    [
        (lambda pki: None, {"names": ["other.test"]}, "its names differ"),
        (lambda pki: (pki / "server.key").unlink(), {}, "its key is missing or another one's"),
        (lambda pki: shutil.copy(pki / "ca.key", pki / "server.key"), {}, "its key is missing or another one's"),
        (lambda pki: (pki / "server.crt").write_text("no certificate"), {}, "there is none"),
        (lambda pki: shutil.copy(pki / "ca.crt", pki / "server.crt"), {}, "its names differ"),
    ],
)
def test_unusable_certificate_is_created_again(
    keep: Run, pki: Path, spoil: Callable[[Path], Any], params: dict[str, Any], reason: str
) -> None:
    ca = keep()["ca_certificate"]
    spoil(pki)
    result = keep(**params)
    assert reason in result["reasons"]
    assert result["changed_paths"] == [str(pki / "server.crt"), str(pki / "server.key")]
    assert result["ca_certificate"] == ca, "clients keep what they trust"
    assert shake_hands(pki, params.get("names", ["gateway.test"])[0], ca) == ""
    assert keep(**params)["changed"] is False


@pytest.mark.parametrize(("days", "renewed"), [(794, False), (796, True), (900, True)])
def test_a_certificate_is_renewed_before_it_ends(
    keep: Run, later: Callable[[float], None], days: int, renewed: bool
) -> None:
    keep()
    later(days)
    assert keep(check=True)["changed"] is renewed


def test_a_certificate_does_not_outlive_its_ca(keep: Run) -> None:
    keep(ca_days=20, days=19, renew_days=10)
    unchanged = keep()
    assert unchanged["changed"] is False, "a new certificate would end with the CA, too"
    assert "ends on" in str(unchanged["warnings"])
    assert "Set `renew_ca`" in str(unchanged["warnings"])
    renewed = keep(names=["other.test"])
    assert renewed["not_after"] <= renewed["diff"]["after"]["ca"]["not_after"]


# The CA


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda pki: (pki / "ca.key").unlink(), "its key is missing"),
        (lambda pki: shutil.copy(pki / "server.key", pki / "ca.key"), "its key is missing or another one's"),
        (lambda pki: (pki / "ca.crt").write_text("no certificate"), "its certificate cannot be read"),
    ],
)
def test_a_broken_ca_is_replaced_only_when_asked(
    keep: Run, pki: Path, snapshot: Snapshot, spoil: Callable[[Path], Any], problem: str
) -> None:
    keep()
    spoil(pki)
    before = snapshot(pki)
    refused = keep()
    assert refused["failed"] is True
    assert problem in refused["msg"]
    assert "set `renew_ca`" in refused["msg"]
    assert snapshot(pki) == before

    renewed = keep(renew_ca=True)
    assert renewed["changed"] is True
    assert shake_hands(pki, "gateway.test", renewed["ca_certificate"]) == ""
    assert keep(renew_ca=True)["changed"] is False, "a CA that serves stays"


def test_an_ended_ca_is_refused(keep: Run, pki: Path, snapshot: Snapshot, later: Callable[[float], None]) -> None:
    keep()
    before = snapshot(pki)
    later(3650)
    assert "can sign nothing: it ends on" in keep()["msg"]
    assert snapshot(pki) == before
    assert keep(renew_ca=True, check=True)["changed"] is True


def test_a_lost_ca_certificate_is_made_from_its_key(keep: Run, pki: Path) -> None:
    trusted = keep()["ca_certificate"]
    (pki / "ca.crt").unlink()
    assert keep()["changed"] is True
    assert shake_hands(pki, "gateway.test", trusted) == "", "clients keep what they trust"


# Removing, refusing, interrupted


def test_absent_removes_the_directory(keep: Run, pki: Path) -> None:
    keep()
    assert keep(state="absent", check=True)["changed"] is True
    assert modes(pki).keys() == FILES
    assert keep(state="absent")["changed"] is True
    assert not pki.exists()
    assert keep(state="absent")["changed"] is False


def test_absent_keeps_unmanaged_files(keep: Run, pki: Path) -> None:
    keep()
    (pki / "mine.crt").write_text("mine")
    keep(state="absent")
    assert modes(pki).keys() == {"mine.crt"}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"names": ["no name"]}, "Set `names`"),
        ({"owner": "nobody-here"}, "There is no owner nobody-here. Create it, or set `owner`"),
        ({"group": "none-here"}, "There is no group none-here. Create it, or set `group`"),
        ({"mode": "0644"}, "Set `mode`"),
    ],
)
def test_a_bad_request_changes_nothing(
    keep: Run, pki: Path, snapshot: Snapshot, params: dict[str, Any], message: str
) -> None:
    keep()
    before = snapshot(pki)
    assert message in keep(**params)["msg"]
    assert snapshot(pki) == before


@pytest.mark.parametrize("link", ["ca.crt", "server.key"])
def test_nothing_behind_a_link_gets_another_mode(keep: Run, pki: Path, tmp_path: Path, link: str) -> None:
    keep()
    victim = tmp_path / "victim"
    victim.touch(0o600)
    before = victim.stat()
    (pki / link).rename(victim.with_name("moved"))
    (pki / link).symlink_to(victim)
    # It is copied, so that openssl reads what it was.
    victim.write_bytes((tmp_path / "moved").read_bytes())
    assert f"{pki / link}" in keep(mode="0600")["msg"]
    assert (victim.stat().st_mode, victim.stat().st_uid) == (before.st_mode, before.st_uid)


def test_a_missing_parent_is_refused(run_module: Run, tmp_path: Path) -> None:
    result = run_module(tls_certificate, directory=str(tmp_path / "none/pki"), names=["gateway.test"])
    assert "none is no directory. Create it, or set `directory`" in result["msg"]
    assert list(tmp_path.iterdir()) == []


def test_a_failing_openssl_leaves_nothing_behind(keep: Run, pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(certificate_run.Authority, "_make_key", lambda self, path: self._must("genpkey", "-nonsense"))
        assert keep()["msg"].startswith("openssl genpkey failed: ")
    assert not pki.exists()
    assert keep()["changed"] is True


def test_a_full_disk_leaves_nothing_behind(keep: Run, pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: str, text: str) -> None:
        Path(path).touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(certificate_run, "_write", write)
        assert "No space left on device. Free space on its disk." in keep()["msg"]
    assert not pki.exists()
    assert keep()["changed"] is True


@pytest.mark.parametrize("state", ["first", "renewal", "new CA"])
def test_next_run_completes_one_killed_at_any_step(
    keep: Run, pki: Path, run_killed: Callable[..., bool], state: str
) -> None:
    """Check that after each kill the next run with the same parameters ends in a pair that serves."""
    params: dict[str, Any] = {"names": ["gateway.test"]}
    if state != "first":
        keep()
    if state == "new CA":
        (pki / "ca.key").unlink()
        params["renew_ca"] = True
    before = shutil.copytree(pki.parent, pki.parent.with_name("before"))
    for step in range(1, 100):
        shutil.rmtree(pki.parent)
        shutil.copytree(before, pki.parent)
        if not run_killed(tls_certificate, step, directory=str(pki), **params):
            break
        ca = keep(**params)["ca_certificate"]
        assert modes(pki).keys() == FILES, f"killed at step {step}"
        assert shake_hands(pki, "gateway.test", ca) == "", f"killed at step {step}"
        assert keep(**params)["changed"] is False
    assert step > 4, "the module has at least as many steps"
