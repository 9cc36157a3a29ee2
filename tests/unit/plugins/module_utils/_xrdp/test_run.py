# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the role xrdp on a fake host: packages and users are fake, certificates are real."""

from __future__ import annotations

import datetime
import hashlib
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import certificate_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    Store,
    Transaction,
    Wanted,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import xrdp as xrdp_role
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import facts, gnome, grdctl, plan, run
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome_remote_desktop import Settings
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT
from tests.unit.support.plan import run_role

Run = Callable[..., Any]

FIXTURES = Path(__file__).parents[3] / "fixtures/xrdp"
INI = (FIXTURES / "debian13-xrdp.ini").read_text()
SESMAN = (FIXTURES / "debian13-sesman.ini").read_text()
REQUEST: Any = {"users": ["alice"], "tls_names": ["ws.example.org"]}
CONTEXT: Any = {
    "packages": ["xrdp", "xorgxrdp"],
    "desktops": {"xfce": {"packages": ["xfce4"], "command": "startxfce4"}},
    "gnome_x11": True,
    "gnome_environment": {},
    "gnome_packages": [],
    "gnome_login": True,
    "listeners": [],
}
STATUS = """\
Package: xrdp
Status: install ok installed
Version: 0.10.1-3.1

Package: openbox
Status: install ok installed
Version: 3.6

Package: xorgxrdp
Status: deinstall ok config-files
Version: 1
"""
SHADOW = "root:$y$hash:1::::::\nalice:$y$hash:1::::::\nlocked:!:1::::::\nopen::1::::::\n"


class Host:
    """A host whose files are below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conffiles = {plan.XRDP_INI: INI, plan.SESMAN_INI: SESMAN}
        self.sessions = ""
        self.commands: list[list[str]] = []
        for path, text in self.conffiles.items():
            self.write(path, text)
        self.write("/etc/shadow", SHADOW)
        self.write("/var/lib/dpkg/status", STATUS)

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def run_command(self, command: list[str], data: str | None = None, **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "dpkg-query" and "${Conffiles}" in command:
            sums = {
                path: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
                for path, text in self.conffiles.items()
            }
            return 0, "".join(f" {path} {digest}\n" for path, digest in sums.items()), ""
        if command[0] == "systemctl":
            return 0, f"Id={command[-1]}\nNames={command[-1]}\nActiveState=inactive\nUnitFileState=\n", ""
        if "list-sessions" in command:
            return (
                0,
                "".join(f"{number} -\n" for number, _block in enumerate(filter(None, self.sessions.split("\n\n")))),
                "",
            )
        if "show-session" in command:
            return 0, self.sessions, ""
        done = subprocess.run(command, input=data, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    real = facts.read
    # The processes of this machine are not part of the host.
    for module in (facts, run):
        monkeypatch.setattr(
            module, "read", lambda path: real(path if path.startswith(str(tmp_path)) else str(found.path(path)))
        )
    monkeypatch.setattr(facts, "ROOT", str(tmp_path))
    monkeypatch.setattr(facts, "names_in", lambda directory: ["openbox"] if directory.endswith("xsessions") else [])
    monkeypatch.setattr(facts, "members", lambda name: None)
    monkeypatch.setattr(facts, "primary_members", lambda name: [])
    monkeypatch.setattr(facts, "Store", lambda name: Store(name, str(tmp_path / "store")))
    monkeypatch.setattr(pwd, "getpwnam", found_user)
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda _self, command, **options: found.run_command(command, **options)
    )
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name, **_options: name)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return found


def found_user(name: str) -> SimpleNamespace:
    if name in ("root", "alice", "locked", "open"):
        return SimpleNamespace(pw_name=name, pw_uid=0 if name == "root" else 1000)
    raise KeyError(name)


@pytest.fixture
def planned(run_module: Run, host: Host) -> Run:
    """Return a function that plans a request; its arguments are options of the role or entries of the context."""

    def run_plan(**given: Any) -> Any:
        context = {**CONTEXT, **{name: value for name, value in given.items() if name in CONTEXT}}
        options = {**REQUEST, **{name: value for name, value in given.items() if name not in CONTEXT}}
        values = {"remote_desktop_backend" if name == "backend" else f"xrdp_{name}": options[name] for name in options}
        request, secrets = request_of("xrdp", options_of(str(ROOT / "roles/xrdp")), values)
        return run_role(run_module, xrdp_role, {**request, **secrets, **context})

    return run_plan


def content(result: Any, path: str) -> str:
    return next(file["content"] for file in result["files"] if file["path"] == path)


def variables(result: Any) -> list[str]:
    return [problem["variable"] for problem in result["requirements"]]


def test_a_host_with_a_window_manager_is_planned(planned: Run) -> None:
    result = planned()
    assert (result["changed"], result["backend"], result["desktop"], result["command"]) == (False, "xrdp", "host", "")
    assert result["missing"] == ["xorgxrdp"]
    assert result["requirements"] == [] and result["sessions"] == []
    assert "port=tcp://127.0.0.1:3389" in result["listener"]
    assert result["groups"][0]["members"] == ["alice"]


def test_the_packaged_file_is_found_wherever_it_is(planned: Run, host: Host) -> None:
    """Find it at its path, next to it after an upgrade, or among the originals of config_files."""
    first = planned()
    written = content(first, plan.XRDP_INI)
    store = Store("xrdp", str(host.root / "store"))
    path = str(host.path(plan.XRDP_INI))
    state = read_state(path)
    transaction = Transaction(
        store, [Wanted(path, state.__class__("file", written.encode(), state.mode, state.uid, state.gid))]
    )
    transaction.stage()
    transaction.commit()
    transaction.finish()
    # The store knows the file by its path on a real host.
    manifest = Path(store.manifest)
    manifest.write_text(manifest.read_text().replace(path, plan.XRDP_INI))
    originals = Path(store.path, "originals")
    next(originals.iterdir()).rename(originals / "etc%2Fxrdp%2Fxrdp.ini")

    assert content(planned(), plan.XRDP_INI) == written

    upgraded = INI.replace("max_bpp=32", "max_bpp=32\nnew_option=1")
    host.conffiles[plan.XRDP_INI] = upgraded
    host.write(f"{plan.XRDP_INI}.dpkg-dist", upgraded)
    assert "new_option=1" in content(planned(), plan.XRDP_INI)
    assert planned()["managed"]


def test_earlier_edits_of_the_user_stay(planned: Run, host: Host) -> None:
    host.write(plan.XRDP_INI, INI.replace("max_bpp=32", "max_bpp=16"))
    assert "max_bpp=16" in content(planned(), plan.XRDP_INI)


def test_overrides_are_written_as_xrdp_reads_them(planned: Run) -> None:
    result = planned(ini_overrides={"Globals": {"bulk_compression": False, "max_bpp": 24}}, session_env={"N": 1})
    assert "bulk_compression=false" in content(result, plan.XRDP_INI)
    assert "max_bpp=24" in content(result, plan.XRDP_INI)
    assert "N=1" in content(result, plan.SESMAN_INI)


@pytest.mark.parametrize("user", ["open", "nobody-here", "root"])
def test_unsuitable_users_are_refused(planned: Run, user: str) -> None:
    result = planned(users=[user])
    assert set(variables(result)) == {"xrdp_users"}
    assert result["files"] == []


def test_a_user_without_a_password_is_a_warning(planned: Run) -> None:
    found = {finding["id"]: finding["status"] for finding in planned(users=["locked"])["findings"]}
    assert found["xrdp.users"] == "warn"


def test_a_user_at_the_machine_is_a_warning(planned: Run, host: Host) -> None:
    host.sessions = (
        "Name=alice\nSeat=seat0\nType=wayland\nClass=user\nState=active\n\nName=bob\nSeat=\nType=x11\nClass=user\n"
    )
    found = {finding["id"]: finding["evidence"] for finding in planned()["findings"]}
    assert found["xrdp.console"].startswith("alice is logged in")


def test_port_of_another_program_is_refused(planned: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"protocol": "tcp", "port": 3389, "unit": "other.service", "process": "other"}
    own = {**taken, "unit": "xrdp.service", "process": "xrdp"}
    former = {**taken, "unit": "gnome-remote-desktop.service", "process": "daemon"}
    (problem,) = planned(listeners=[taken])["requirements"]
    assert (problem["variable"], problem["problem"]) == ("xrdp_port", "wants port 3389, which is taken by other")
    assert planned(listeners=[own])["requirements"] == []
    assert planned(listeners=[taken], state="absent")["requirements"] == []
    assert variables(planned(listeners=[former])) == ["xrdp_port"]
    have_managed(monkeypatch, plan.DROP_IN)
    assert planned(listeners=[former])["requirements"] == []


def test_steps_are_due_only_for_a_difference(planned: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests: list[Any] = []

    def is_due(_module: Any, **request: Any) -> bool:
        requests.append(request)
        return True

    monkeypatch.setattr(certificate_run, "is_due", is_due)
    assert planned()["certificate_due"] is True
    assert planned(**GNOME)["certificate_due"] is True
    assert requests == [
        {"names": ["ws.example.org"], "directory": "/etc/xrdp/tls", "group": "xrdp"},
        {"names": ["ws.example.org"], "directory": "/etc/rigwright/remote_desktop", "group": "gnome-remote-desktop"},
    ]
    cert, key = make_certificate(tmp_path)
    assert planned(tls_cert_content=cert, tls_key_content=key)["certificate_due"] is False
    assert planned(state="absent")["certificate_due"] is False
    assert (planned()["fail2ban_due"], planned(fail2ban=True)["fail2ban_due"]) == (False, True)
    assert planned(**GNOME, fail2ban=True)["fail2ban_due"] is False


def test_files_of_fail2ban_that_lose_are_named(planned: Run, host: Host) -> None:
    host.write("/etc/fail2ban/jail.local", "[DEFAULT]\nignoreip = 192.0.2.9\n")
    host.write("/etc/fail2ban/jail.d/zz.local", "[rigwright-xrdp]\nmaxretry = 99\n")
    (found,) = [row for row in planned(fail2ban=True)["findings"] if row["id"] == "xrdp.jail_overridden"]
    assert found["status"] == "warn"
    assert "192.0.2.9" in found["evidence"] and "maxretry = 99" in found["evidence"]
    assert "xrdp.jail_overridden" not in {row["id"] for row in planned()["findings"]}


def test_options_of_the_package_are_nobodys_whatever_they_are(planned: Run, host: Host) -> None:
    packaged = INI.replace("[Globals]", "[Globals]\nuse_vsock=true", 1)
    host.conffiles[plan.XRDP_INI] = packaged
    host.write(plan.XRDP_INI, packaged)
    status = {row["id"]: row["status"] for row in planned()["findings"]}["xrdp.overridden"]
    assert status == "pass"
    host.write(plan.XRDP_INI, packaged.replace("port=3389", "port=3390\nls_title=Lab"))
    host.write(f"{plan.XRDP_INI}.dpkg-dist", packaged)
    (found,) = [row for row in planned()["findings"] if row["id"] == "xrdp.overridden"]
    assert found["status"] == "warn" and "port=3390" in found["evidence"]
    assert "ls_title" not in found["evidence"], "the role does not set it"
    assert "use_vsock" not in found["evidence"]


def test_options_from_before_the_role_are_compared(planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    own = b"[Security]\nTerminalServerUsers=lab\n"
    kept = SimpleNamespace(original=SimpleNamespace(content=own))
    monkeypatch.setattr(facts, "Store", lambda _name: SimpleNamespace(load=lambda: {plan.SESMAN_INI: kept}))
    (found,) = [row for row in planned()["findings"] if row["id"] == "xrdp.overridden"]
    assert "terminalserverusers=lab" in found["evidence"]


@pytest.mark.parametrize(("backend", "ids"), [("xrdp", ["xrdp.tls", "xrdp.confinement"]), ("gnome", ["xrdp.tls"])])
def test_sandboxing_of_xrdp_is_verified(backend: str, ids: list[str]) -> None:
    exposure = "Overall exposure level for xrdp.service: 2.1 OK"
    planned: Any = {"backend": backend, "findings": [{"id": "xrdp.tls"}]}
    found = run.verified(lambda *_command, **_options: (0, exposure, ""), planned)
    assert [row["id"] for row in found] == ids
    assert {row["status"] for row in found[1:]} <= {"pass"}


# --- GNOME's own remote login ---

GNOME: Any = {
    "backend": "gnome",
    "machine_password": "Wonder-1and again",
    "gnome_packages": ["gnome-remote-desktop", "openbox"],
}
REMOTE_SESSION = "Name=alice\nRemote=yes\nService=gdm-password\nType=wayland\nClass=user\n"


def found_grdctl(settings: Settings) -> SimpleNamespace:
    return SimpleNamespace(settings=lambda: settings)


def test_gnome_has_its_own_packages_and_no_file_of_xrdp(planned: Run) -> None:
    result = planned(**GNOME)
    assert (result["backend"], result["missing"], result["files"]) == ("gnome", ["gnome-remote-desktop"], [])
    assert [unit["name"] for unit in result["units"]] == ["gdm.service", "gnome-remote-desktop.service"]
    assert result["groups"] == [] and result["requirements"] == []
    assert result["gnome_configured"] is False
    assert "Wonder" not in str(result)


def test_gnome_with_all_settings_is_configured(planned: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = planned(**GNOME)["certificate"]
    settings = Settings(True, 3389, certificate, key, "workstation", GNOME["machine_password"])
    monkeypatch.setattr(grdctl, "find", lambda _run: found_grdctl(settings))
    assert planned(**GNOME)["gnome_configured"] is True
    assert planned(**GNOME, port=3390)["gnome_configured"] is False


def test_a_session_of_gnome_delays_a_restart(planned: Run, host: Host) -> None:
    host.sessions = REMOTE_SESSION
    result = planned(**GNOME)
    assert result["sessions"] == ["alice"]
    assert result["units"][-1]["may_restart"] is False


def test_a_request_that_gnome_cannot_serve_is_refused(planned: Run) -> None:
    assert variables(planned(backend="gnome")) == ["xrdp_machine_password"]
    assert variables(planned(**GNOME, gnome_login=False)) == ["remote_desktop_backend"]
    assert variables(planned(**GNOME, networks=["here"])) == ["xrdp_networks"]


def have_managed(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Fake an earlier run that has written this file."""
    monkeypatch.setattr(facts, "Store", lambda _name: SimpleNamespace(load=lambda: {path: None}))


def test_changes_for_xrdp_are_undone(planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    have_managed(monkeypatch, plan.DROP_IN)
    host.write(plan.RECORD, '{"group": "xrdp-users", "made": true, "added": ["alice"]}')
    monkeypatch.setattr(facts, "members", lambda _name: ["alice"])
    result = planned(**GNOME)
    assert [(unit["name"], unit.get("state", "started")) for unit in result["units"]] == [
        ("xrdp.service", "stopped"),
        ("xrdp-sesman.service", "stopped"),
        ("gdm.service", "started"),
        ("gnome-remote-desktop.service", "started"),
    ]
    assert result["groups"] == [{"name": "xrdp-users", "state": "absent"}]


@pytest.mark.parametrize("request_", [{}, {"state": "absent"}, {**GNOME, "state": "absent"}])
def test_the_removal_of_gnome_waits_for_its_users(
    planned: Run, host: Host, monkeypatch: pytest.MonkeyPatch, request_: Any
) -> None:
    have_managed(monkeypatch, gnome.DROP_IN)
    host.sessions = REMOTE_SESSION
    assert variables(planned(**request_)) == ["xrdp_state"]
    host.sessions = ""
    result = planned(**request_)
    assert (result["requirements"], result["gnome_managed"]) == ([], True)


# --- The user's own certificate ---


def make_certificate(folder: Path, *options: str, name: str = "ws.example.org") -> tuple[str, str]:
    """Return a certificate and its key in PEM format."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-noenc",
        "-subj",
        f"/CN={name}",
    ]
    subprocess.run(
        [*command, "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(cert), *options],
        check=True,
        capture_output=True,
    )
    return cert.read_text(), key.read_text()


def test_an_own_certificate_is_accepted_without_showing_its_key(planned: Run, host: Host, tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "-days", "90")
    result = planned(tls_cert_content=cert, tls_key_content=key)
    assert result["requirements"] == []
    assert result["certificate"] == ["/etc/xrdp/tls/own.crt", "/etc/xrdp/tls/own.key"]
    secret = key.splitlines()[1]
    assert secret not in str(result)
    assert secret not in str(host.commands)


@pytest.mark.parametrize(("days", "text"), [(40, "has ended on "), (-40, "begins on ")])
def test_a_certificate_outside_of_its_time_is_refused(
    planned: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, text: str
) -> None:
    cert, key = make_certificate(tmp_path, "-days", "30")
    then = facts.moment() + datetime.timedelta(days=days)
    monkeypatch.setattr(facts, "moment", lambda: then)
    result = planned(tls_cert_content=cert, tls_key_content=key)
    assert variables(result) == ["xrdp_tls_cert_content"]
    assert text in result["requirements"][0]["problem"]


def test_a_certificate_with_the_key_of_another_is_refused(planned: Run, tmp_path: Path) -> None:
    cert, _key = make_certificate(tmp_path)
    _cert, key = make_certificate(tmp_path)
    assert (
        "does not belong to its key"
        in planned(tls_cert_content=cert, tls_key_content=key)["requirements"][0]["problem"]
    )


@pytest.mark.parametrize(("cert", "key"), [("text", "text"), (None, "text")])
def test_invalid_pem_is_refused(planned: Run, tmp_path: Path, cert: str | None, key: str) -> None:
    result = planned(tls_cert_content=cert or make_certificate(tmp_path)[0], tls_key_content=key)
    assert variables(result) == ["xrdp_tls_cert_content"]


def test_a_public_or_missing_key_is_refused(planned: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "HIDDEN", ())
    make_certificate(tmp_path)
    cert, key = str(tmp_path / "cert.pem"), tmp_path / "key.pem"
    key.chmod(0o644)
    assert "every user of this host can read" in planned(tls_cert=cert, tls_key=str(key))["requirements"][0]["problem"]
    key.chmod(0o640)
    assert planned(tls_cert=cert, tls_key=str(key))["requirements"] == []
    assert "No such file" in planned(tls_cert=cert, tls_key=f"{key}x")["requirements"][0]["problem"]


def test_a_certificate_in_a_hidden_directory_is_refused(planned: Run) -> None:
    result = planned(tls_cert="/root/a.crt", tls_key="/root/a.key")
    assert "sandbox hides" in result["requirements"][0]["problem"]
