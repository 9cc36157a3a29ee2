# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan from the output of the live system, and from a manifest that is given or in the backup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import apply as bare_metal_apply
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import plan as planning
from ansible_collections.rigwright.workstation.plugins.modules import bare_metal_plan

from tests.unit.support.manifest.manifests import simple

Run = Callable[..., dict[str, Any]]

LSBLK = {
    "blockdevices": [
        {
            "name": "vda",
            "path": "/dev/vda",
            "type": "disk",
            "size": 8 << 30,
            "log-sec": 512,
            "serial": "NEW0",
            "mountpoints": [None],
        },
        {
            "name": "vdb",
            "path": "/dev/vdb",
            "type": "disk",
            "size": 1 << 30,
            "fstype": "ext4",
            "uuid": "b",
            "mountpoints": ["/"],
        },
    ]
}
PVS = "pvs --reportformat json -o pv_name,vg_name"
GROUPS = {"report": [{"pv": [{"pv_name": "/dev/vdb", "vg_name": "vg0"}, {"pv_name": "/dev/vdc", "vg_name": ""}]}]}
MANIFEST = simple(("ext4 /", 4000, 1000), ("swap", 500, 0))


@pytest.fixture
def plan(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    links = tmp_path / "root/dev/disk/by-id"
    links.mkdir(parents=True)
    (links / "virtio-NEW0").symlink_to("../../vda")
    monkeypatch.setattr(bare_metal_plan, "ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(bare_metal_apply, "STATE", str(tmp_path / "state.json"))
    monkeypatch.setattr(bare_metal_apply.read_state, "__defaults__", (str(tmp_path / "state.json"),))

    def run(commands: dict[str, tuple[int, str, str]] | None = None, **params: Any) -> dict[str, Any]:
        answers = {"lsblk -J -O -b": (0, json.dumps(LSBLK), ""), PVS: (0, json.dumps(GROUPS), "")}
        listed = {**answers, **(commands or {})}
        options = {"confirm": "ws1", "disks": {"sda": "/dev/disk/by-id/virtio-NEW0"}, **params}
        return run_module(bare_metal_plan, commands=listed, **options)

    return run


def test_a_plan_has_a_summary_and_steps(plan: Run) -> None:
    result = plan(manifest=MANIFEST)
    assert (result["changed"], result["requirements"], result["host"]) == (False, [], "ws1")
    assert result["summary"][0] == "/dev/vda: a new gpt table, as sda had"
    assert set(result["plan"]["phases"]) == {"disks", "files", "system"}
    facts = {"device": "/dev/vda", "serial": "NEW0", "wwn": "", "size": 8 << 30}
    assert result["plan"]["disks"] == {"/dev/disk/by-id/virtio-NEW0": facts}


def test_a_begun_disk_is_recognized_by_its_table(plan: Run, tmp_path: Path) -> None:
    lsblk = json.loads(json.dumps(LSBLK))
    table = MANIFEST["disks"]["sda"]["table"]["id"]
    lsblk["blockdevices"][0].update(pttype="gpt", ptuuid=table)
    answers = {"lsblk -J -O -b": (0, json.dumps(lsblk), "")}
    options = {
        "disks": {"sda": "/dev/disk/by-id/virtio-NEW0"},
        "keep": [],
        "empty": [],
        "overwrite": [],
        "data": {},
        "grow": {},
    }
    begun = {"/dev/disk/by-id/virtio-NEW0": {"serial": "NEW0", "wwn": "", "size": 8 << 30}}
    bare_metal_apply.write_state(
        {"plan": bare_metal_apply.identity(MANIFEST, options), "begun": begun, "done": []}, bare_metal_apply.STATE
    )
    assert plan(answers, manifest=MANIFEST)["requirements"] == []
    lsblk["blockdevices"][0]["serial"] = "NEW1"
    answers = {"lsblk -J -O -b": (0, json.dumps(lsblk), "")}
    assert "is another disk" in plan(answers, manifest=MANIFEST)["requirements"][0]["problem"]


@pytest.fixture
def backup(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fake the backup; return its manifest, which a test can replace. Real ones: _bare_metal/test_backup.py."""
    found = [json.dumps(MANIFEST)]

    class Backup:
        def __init__(self, entry: dict[str, Any]) -> None:
            assert (entry["name"], entry["password"]) == ("backup", "hunter2")

        def resolve(self, snapshot: str, filters: list[str]) -> dict[str, Any]:
            assert (snapshot, filters) == ("latest", ["--tag=system"])
            return {"id": "80b7", "host": "ws1", "time": "2026-11-22", "tags": TAGS, "paths": ["/"]}

        def manifest(self, snapshot: dict[str, Any]) -> Any:
            assert snapshot["id"] == "80b7"
            return json.loads(found[0])

    monkeypatch.setattr(bare_metal_plan, "Backup", Backup)
    return found


TAGS: list[str] = []
FROM = {
    "repository": {"url": "rest:https://backup.example/", "password": "hunter2"},
    "snapshots": [{"id": "latest", "filters": ["--tag=system"]}],
}


def test_the_manifest_is_taken_from_the_backup(plan: Run, backup: list[str]) -> None:
    result = plan(**FROM)
    assert result["requirements"] == [] and "hunter2" not in json.dumps(result["plan"])
    # What is restored is what was looked at, also when a newer one has come meanwhile.
    assert result["snapshots"] == [{"id": "80b7", "filters": []}]


def test_a_dump_is_refused_also_with_a_given_manifest(
    plan: Run, backup: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.TAGS", ["part:dump:wiki"])
    result = plan(**FROM, manifest=MANIFEST)
    assert "which is the dump wiki" in result["requirements"][0]["problem"] and result["plan"]["phases"] == {}


def test_a_group_that_is_on_a_disk_here_is_seen(plan: Run) -> None:
    manifest = json.loads(json.dumps(MANIFEST))
    manifest["volume_groups"]["vg0"] = {"extent_size": 4 << 20, "devices": [{"path": "/dev/sda2"}], "volumes": []}
    assert "/dev/vdb of this machine has one of that name" in plan(manifest=manifest)["requirements"][0]["problem"]
    assert plan({PVS: (5, "", "no LVM in this kernel")}, manifest=manifest)["requirements"] == []


@pytest.mark.parametrize(
    ("found", "message"), [("{}", "no schema"), ("no json", "Expecting value"), ('{"schema": 1}', "host is missing")]
)
def test_a_backup_without_a_valid_manifest_fails(plan: Run, backup: list[str], found: str, message: str) -> None:
    backup[0] = found
    result = plan(**FROM)
    assert result["failed"] and message in result["msg"] and "Nothing was changed" in result["msg"]


def test_a_repository_without_a_password_is_refused(plan: Run) -> None:
    result = plan(repository={"url": "rest:https://backup.example/"})
    assert result["failed"] and "has no password" in result["msg"] and "Nothing was changed" in result["msg"]


def test_a_missing_program_of_the_live_system_is_refused(plan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[str] = []

    def missing(result: planning.Plan) -> list[str]:
        needed.extend(programs(result))
        monkeypatch.setattr(
            AnsibleModule, "get_bin_path", lambda _self, name, **_options: None if name == "mke2fs" else name
        )
        return needed

    programs = planning.Plan.programs
    monkeypatch.setattr(planning.Plan, "programs", missing)
    result = plan(manifest=MANIFEST)
    assert {"sfdisk", "wipefs", "mke2fs", "mkswap", "mount", "chroot"} <= set(needed)
    (only,) = result["requirements"]
    assert (only["variable"], only["problem"]) == ("bare_metal_hosts", "lack mke2fs") and result["plan"]["phases"] == {}


def test_a_refused_plan_has_no_steps(plan: Run) -> None:
    result = plan(manifest=MANIFEST, confirm="another")
    assert [row["variable"] for row in result["requirements"]] == ["bare_metal_confirm"]
    assert result["plan"]["phases"] == {}


def test_one_of_manifest_and_repository_has_to_be_named(plan: Run) -> None:
    assert "one of the following is required" in plan()["msg"]


def test_sizes_are_given_as_people_write_them(plan: Run) -> None:
    assert plan(manifest=MANIFEST, data={"/": "300M"})["requirements"] == []
    result = plan(manifest=MANIFEST, data={"/": "half"})
    (problem,) = result["requirements"]
    assert (problem["variable"], problem["problem"]) == ("bare_metal_data", "has 'half' for /")
    assert result["plan"]["phases"] == {}


def test_answers_for_later_tasks_are_checked_first(plan: Run) -> None:
    result = plan(manifest=MANIFEST, reboot="true", accept_losses="false", hours="2")
    assert result["answers"] == {"reboot": True, "accept_losses": False, "seconds": 7200}
    assert "reboot" in plan(manifest=MANIFEST, reboot="perhaps")["msg"]
