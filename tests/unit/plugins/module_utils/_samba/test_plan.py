# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for a request, on a host made of files below a root and fake programs of Samba."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import Record, State
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import samba as samba_role
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import facts as samba_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import plan as planner
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import nt_hash

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
PACKAGES = {"server": ["samba"], "windows": ["wsdd2"], "macos": ["avahi-daemon"], "hashes": ["python3-samba"]}
CONTEXT: dict[str, Any] = {"packages": PACKAGES, "discovery_unit": "wsdd2.service", "listeners": []}
UNITS = """\
Id={0}
Names={0}
LoadState=loaded
ActiveState=active
UnitFileState=enabled
"""


class Host:
    """A host with Samba, whose testparm says what a test has it say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[list[str]] = []
        self.testparm_output = ""
        self.status = 0
        self.accounts = ""
        self.pdbedit_status = 0
        self.packages = ["samba"]
        self.tried = ""

    def write(self, path: str, text: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def run(self, command: list[str]) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0].endswith("testparm"):
            self.tried = Path(command[-1]).read_text(encoding="utf-8")
            return self.status, self.tried, self.testparm_output
        if command[0].endswith("pdbedit"):
            return self.pdbedit_status, self.accounts, ""
        if command[0] == "dpkg-query":
            return 0, "".join(f"ii {name}\n" for name in self.packages if name in command), ""
        return 0, "\n".join(UNITS.format(name) for name in command[3:]), ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(planner, "ROOT", str(tmp_path))
    for name in ("TESTPARM", "SMBD", "PDBEDIT"):
        monkeypatch.setattr(planner, name, str(found.write(f"/usr/bin/{name.lower()}")))
    monkeypatch.setattr(samba_facts, "ipv4_addresses", lambda _names: [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _name: type("Entry", (), {"pw_uid": 1000}))
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: found.run(command))
    found.write("/usr/lib/x/samba/vfs/fruit.so")
    (tmp_path / "data").mkdir()
    return found


@pytest.fixture
def plan(run_module: Run, host: Host) -> Run:
    def run(users: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
        listed = [{"name": "alice", "password": "correct-horse"}] if users is None else users
        request = {"allowed_roots": [str(host.root)], **more}
        request.setdefault("shares", [{"name": "data", "path": str(host.root / "data")}])
        planned = request.pop("planned", {})
        return run_plan(run_module, samba_role, {**CONTEXT, "planned": planned}, users=listed, **request)

    return run


def problems(result: dict[str, Any]) -> str:
    return "; ".join(entry["problem"] for entry in result["requirements"])


def test_a_share_is_planned_and_tried_without_changing_anything(plan: Run, host: Host) -> None:
    before = sorted(host.root.rglob("*"))
    result = plan()
    assert (result["requirements"], result["changed"]) == ([], False)
    assert f"path = {host.root}/data" in result["smb_conf"] and "interfaces = lo" in result["listen"]
    assert result["smb_conf"] + result["listen"] == host.tried, "all that smbd will read is tried"
    assert (result["packages"]["install"], result["users_due"], result["windows"]) == ([], True, False)
    assert sorted(host.root.rglob("*")) == before


def test_plan_contains_no_password_and_no_hash(plan: Run, host: Host) -> None:
    text = json.dumps(plan())
    assert "correct-horse" not in text and nt_hash("correct-horse") not in text.upper()


def test_common_word_as_password_does_not_mask_the_plan(plan: Run, host: Host) -> None:
    """Use the name of a share and of a directory as a password: Ansible removes secrets from results."""
    assert "[data]" in plan(users=[{"name": "alice", "password": "data"}])["smb_conf"]


def test_unchanged_users_need_no_run(plan: Run, host: Host) -> None:
    host.accounts = f"alice:1000:X:{nt_hash('correct-horse')}:[U          ]:LCT-0:\n"
    host.write("/etc/samba/smb.conf", "[global]\npassdb backend = tdbsam\n")
    result = plan()
    assert (result["users_due"], result["users"]["password"]) == (False, [])
    result = plan(users=[{"name": "alice", "password": "changed"}])
    assert (result["users_due"], result["users"]["password"]) == (True, ["alice"])


@pytest.mark.parametrize(("backend", "status"), [("ldapsam", 0), ("", 0), ("tdbsam", 1)])
def test_users_of_another_database_are_not_planned(plan: Run, host: Host, backend: str, status: int) -> None:
    """The module looks itself: it may be none, one that does not answer, or that of the smb.conf before the role."""
    host.write("/etc/samba/smb.conf", f"[global]\npassdb backend = {backend}\n" if backend else "")
    host.pdbedit_status = status
    result = plan()
    assert (result["users_due"], result["users"]) == (True, None)


@pytest.mark.parametrize(
    ("status", "output", "expected"),
    [
        (
            0,
            'Unknown parameter encountered: "gost ok"\nIgnoring unknown parameter "gost ok"\n',
            "would ignore: gost ok",
        ),
        (
            1,
            "Load smb config files from x\nERROR: lp_bool(maybe): value is not boolean!\n",
            "is refused by testparm: ERROR",
        ),
    ],
)
def test_configuration_that_testparm_rejects_is_refused(
    plan: Run, host: Host, status: int, output: str, expected: str
) -> None:
    host.status, host.testparm_output = status, output
    assert expected in problems(plan())


def test_invalid_request_is_not_tried_with_testparm(plan: Run, host: Host) -> None:
    assert "keeps for itself" in problems(plan(shares=[{"name": "global", "path": str(host.root / "data")}]))
    assert host.tried == ""


def test_networks_and_hashes_add_their_packages(plan: Run, host: Host) -> None:
    result = plan(users=[{"name": "alice", "nt_hash": "0" * 32}], networks=["10.0.0.0/8"])
    assert (result["windows"], result["packages"]["install"]) == (True, ["wsdd2", "python3-samba"])
    assert "interfaces" not in result["listen"] and "10.0.0.0/8" in result["smb_conf"]


def test_a_disk_of_yesterday_is_still_waited_for(plan: Run, host: Host) -> None:
    sets = host.root / "data" / "sets"
    host.write("/etc/fstab", f"UUID=1 {host.root}/data ext4 nofail 0 2\n")
    result = plan(shares=[{"name": "data", "path": str(sets)}])
    assert (result["requirements"], result["mounts"]) == ([], {str(sets): f"{host.root}/data"})
    assert {entry["id"]: entry["status"] for entry in result["findings"]}["samba.disks"] == "warn"
    host.write("/etc/samba/smb.conf", result["smb_conf"])
    host.write("/etc/fstab")
    assert plan(shares=[{"name": "data", "path": str(sets)}])["mounts"] == result["mounts"]


def test_the_original_state_of_the_host_is_recorded_once(plan: Run, host: Host) -> None:
    first = plan()
    (record,) = first["packages"]["files"]
    assert first["packages"]["files_due"] and json.loads(record["content"])["units"]["smbd.service"]["active"]
    host.write(record["path"], record["content"])
    assert not plan()["packages"]["due"]
    assert "smbd.service" in [unit["name"] for unit in plan(state="absent")["units"]]


def test_absent_leaves_a_samba_alone_that_the_role_never_had(plan: Run, host: Host) -> None:
    result = plan(state="absent")
    assert (result["units"], result["requirements"]) == ([], [])
    assert not (result["users_due"] or result["share_directories_due"] or result["packages"]["due"])


def test_a_fresh_host_is_planned_without_samba(plan: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TESTPARM", "SMBD", "PDBEDIT"):
        monkeypatch.setattr(planner, name, "/nonexistent")
    host.packages = []
    result = plan()
    assert (result["requirements"], result["installed"], result["packages"]["install"]) == ([], False, ["samba"])


def test_check_mode_accepts_planned_disks_and_groups(plan: Run, host: Host) -> None:
    path = str(host.root / "data/sets")
    share = {"name": "sets", "path": path, "group": "no-such-group"}
    planned = {
        "mounts": [{"target": str(host.root / "data"), "source": "/dev/sdb1", "fstype": "ext4", "bytes": 1}],
        "directories": [path],
        "groups": ["no-such-group"],
    }
    found = plan(shares=[share], planned=planned, check=True)
    assert (found["requirements"], found["mounts"]) == ([], {path: str(host.root / "data")})
    assert "samba.paths" not in {row["id"] for row in found["findings"]}
    problems = [row["problem"] for row in plan(shares=[share], planned=planned)["requirements"]]
    assert any("which is no directory" in problem for problem in problems)
    assert any("no-such-group" in problem for problem in problems)


def test_shares_of_the_host_are_named_before_and_after(plan: Run, host: Host) -> None:
    def named() -> str:
        return next(each["evidence"] for each in plan()["findings"] if each["id"] == "samba.overridden")

    path = host.write("/etc/samba/smb.conf", "[media]\n path = /srv\n[DATA]\n path = /old\n")
    assert named().endswith("/etc/samba/smb.conf: media")
    store = Store("samba", str(host.root) + STORE)
    original = State("file", path.read_bytes(), 0o644)
    store.keep_original("/etc/samba/smb.conf", original)
    store.save({"/etc/samba/smb.conf": Record(original)}, "a transaction")
    path.write_text("[data]\n")
    assert named().endswith("/etc/samba/smb.conf: media")
    host.write("/var/lib/samba/usershares/scans", "path=/mnt/scans\nsharename=Scans\x1b[2J\n")
    assert named().endswith("/etc/samba/smb.conf: Scans?[2J, media")


def test_new_packages_start_no_unit(plan: Run, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def new(**options: Any) -> list[str]:
        return [unit["name"] for unit in plan(**options)["packages"]["new_units"]]

    assert new(networks=["10.0.0.0/8"]) == ["wsdd2.service"]
    host.packages = []
    monkeypatch.setattr(planner, "SMBD", f"{host.root}/missing")
    assert new() == ["smbd.service", "nmbd.service", "samba-ad-dc.service"]


def test_files_are_those_of_what_announces_the_host(plan: Run) -> None:
    def paths(**options: Any) -> list[str]:
        return [os.path.basename(file["path"]) for file in plan(**options)["files"]]

    own = ["smb.conf", "rigwright-listen.conf", "samba.nft"]
    assert paths() == own
    assert paths(networks=["10.0.0.0/8"]) == [*own, "rigwright.conf"]
    # The plan is refused.
    assert paths(networks=["10.0.0.1/8"]) == []
