# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for fake GPUs: modes, MIG and MPS in one run, which writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import steps as mig_steps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import run as mode_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as sharing_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing_run
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import gpu_sharing as gpu_sharing_role
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mig, gpu_mode, gpu_mps

from harness.fakes import nvml as fake_nvml
from harness.fakes.mps import fake_mps
from harness.fakes.nvml import Machine
from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]
SMALL = [{"profile": "1g.18gb", "count": 7}]
CONTEXT = {"python": "nvidia-ml-py==13.0"}
RECORD = "/etc/rigwright/gpu_sharing.json"


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake_nvml.fake(["H200", "H200"]) as found:
        yield found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for module in (sharing_run, gpu_mode, gpu_mig):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(sharing_run, "ENVIRONMENT", str(tmp_path / "opt/rigwright/python"))
    monkeypatch.setattr(mode_run, "is_root", lambda: True)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda *_arguments, **_options: (0, "", ""))
    return tmp_path


@pytest.fixture
def plan(run_module: Run, root: Path) -> Run:
    def run(*gpus: dict[str, Any], **options: Any) -> dict[str, Any]:
        return run_plan(run_module, gpu_sharing_role, CONTEXT, gpus=list(gpus), **options)

    return run


def write_record(root: Path, text: str) -> None:
    """Write the record of an earlier run, as its set of files."""
    for path, content in (
        (RECORD, text),
        ("/var/lib/rigwright/config_files/gpu_sharing/journal.json", "{}"),
    ):
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


JOB = {"model": "resnet18", "batch": 4, "dtype": "amp"}


def test_a_plan_with_jobs_has_their_finding(plan: Run, machine: Machine) -> None:
    found = plan({"device": "all"}, jobs=[JOB, JOB])
    assert [row["id"] for row in found["findings"]] == ["gpu_sharing.gpu0", "gpu_sharing.gpu1", "gpu_sharing.jobs"]


def test_an_impossible_job_is_refused_before_a_change(plan: Run, machine: Machine) -> None:
    (refused,) = plan({"device": "all"}, jobs=[JOB, {**JOB, "batch": 0}])["requirements"]
    assert refused["variable"] == "gpu_sharing_jobs" and machine.writes == 0


def test_plan_has_the_same_keys_with_and_without_nvml(
    plan: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan({"device": "all"})
    monkeypatch.setattr(nvml, "pynvml", None)
    again = plan({"device": "all"})
    assert (first["known"], again["known"]) == (True, False)
    assert first.keys() == again.keys()
    for part in ("modes", "mps"):
        assert first[part].keys() == again[part].keys()
    assert first["directories"] == [{"path": "/etc/rigwright"}]


def test_plan_writes_nothing_and_names_the_changes(plan: Run, machine: Machine) -> None:
    found = plan(
        {"device": machine.gpus[0].uuid, "persistence": True},
        {"device": machine.gpus[1].uuid, "mig": {"mode": "enabled", "layout": SMALL}},
    )
    assert (found["changed"], machine.writes) == (False, 0)
    assert found["modes"] == {"changed": True, "gpus": [{"device": machine.gpus[0].uuid, "persistence": True}]}
    (mig,) = found["mig"]
    assert (mig["changed"], mig["mode"], mig["devices"]) == (True, "enabled", [machine.gpus[1].uuid])
    assert mig["layout"] == [{"profile": "1g.18gb", "count": 7, "start": None, "compute_instances": None}]
    assert (mig["when_busy"], mig["allow_reset"], mig["persist"]) == ("fail", "never", "unit")
    assert (found["mps"]["changed"], found["needs"]) == (False, "none")


def test_plan_is_empty_after_the_modules_have_run(plan: Run, run_module: Run, root: Path, machine: Machine) -> None:
    rows = (
        {"device": machine.gpus[0].uuid, "persistence": True, "power_limit": "80 %"},
        {"device": machine.gpus[1].uuid, "mig": {"mode": "enabled", "layout": SMALL}},
    )
    found = plan(*rows)
    assert run_module(gpu_mode, gpus=found["modes"]["gpus"], exclusive=True)["changed"]
    assert all(done["changed"] for done in apply_mig(run_module, found))
    writes = machine.writes

    again = plan(*rows)
    assert (again["modes"]["changed"], [row["changed"] for row in again["mig"]]) == (False, [False])
    assert machine.writes == writes
    # Boot would run other code than this.
    (root / gpu_boot.program_path("gpu_mig").lstrip("/")).write_bytes(b"of an earlier version")
    assert [row["changed"] for row in plan(*rows)["mig"]] == [True]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the searches for a placement, each by its function."""
    found: list[str] = []
    for name in ("choose", "fits", "nearest"):
        search: Any = getattr(mig_steps, name)

        def counted(*arguments: Any, name: str = name, search: Any = search) -> Any:
            found.append(name)
            return search(*arguments)

        monkeypatch.setattr(mig_steps, name, counted)
    return found


def apply_mig(run_module: Run, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Run gpu_mig as the role does."""
    rows = [{key: row[key] for key in row.keys() - {"changed", "mig_parted"}} for row in found["mig"] if row["changed"]]
    return [run_module(gpu_mig, **row) for row in rows]


def test_first_run_searches_a_placement_twice(
    plan: Run, run_module: Run, machine: Machine, searches: list[str]
) -> None:
    """Search to plan and to check after, and not in between."""
    row = {"device": machine.gpus[1].uuid, "mig": {"mode": "enabled", "layout": SMALL}}
    found = json.loads(json.dumps(plan(row)))
    (done,) = apply_mig(run_module, found)
    assert [len(gpu["instances"]) for gpu in done["gpus"]] == [7]
    assert [each["changed"] for each in plan(row)["mig"]] == [False]
    assert searches == ["choose"] * 2


def test_changed_card_is_planned_again(plan: Run, run_module: Run, machine: Machine, searches: list[str]) -> None:
    """Keep an instance that another program has made since the plan."""
    uuid = machine.gpus[1].uuid
    found = plan({"device": uuid, "mig": {"mode": "enabled", "layout": SMALL}})
    run_module(gpu_mig, devices=[uuid], mode="enabled", layout=[{"profile": "1g.18gb", "start": 6}])
    searches.clear()
    (done,) = apply_mig(run_module, found)
    assert sum(change.startswith("create 1g.18gb") for change in done["gpus"][0]["changes"]) == 6
    assert "create 1g.18gb at slot 6" not in done["gpus"][0]["changes"]
    assert searches == ["choose"]


def test_all_refusals_are_reported_at_once(plan: Run, machine: Machine) -> None:
    found = plan(
        {"device": machine.gpus[0].uuid, "power_limit": "9000 W"},
        {"device": machine.gpus[1].uuid, "mig": {"mode": "enabled", "layout": [{"profile": "9g.18gb"}]}},
    )
    assert found["failed"]
    assert "takes 200 W to 700 W" in found["msg"] and "9g.18gb" in found["msg"]
    assert machine.writes == 0


def test_mig_on_a_geforce_is_refused(plan: Run) -> None:
    with fake_nvml.fake(["RTX 4090"]) as machine:
        found = plan({"device": "all", "mig": {"mode": "enabled", "layout": []}})
        assert machine.writes == 0
    assert found["failed"] and "RTX 4090" in found["msg"]


def test_undeclared_mig_layout_is_removed_from_boots(plan: Run, run_module: Run, machine: Machine) -> None:
    uuid = machine.gpus[1].uuid
    run_module(gpu_mig, devices=[uuid], mode="enabled", layout=SMALL)
    found = plan({"device": machine.gpus[0].uuid, "users": "team"})
    (mig,) = found["mig"]
    assert (mig["changed"], mig["devices"], mig["mode"], mig["persist"]) == (True, [uuid], "unchanged", "none")


def test_declaration_of_a_removed_card_is_removed(plan: Run, run_module: Run, machine: Machine) -> None:
    uuid = machine.gpus[1].uuid
    run_module(gpu_mig, devices=[uuid], mode="enabled", layout=SMALL)
    with fake_nvml.fake(["RTX 4090"]):
        found = plan({"device": "all", "users": "team"})
    (mig,) = found["mig"]
    assert (mig["changed"], mig["devices"], mig["mode"], mig["persist"]) == (True, [uuid], "unchanged", "none")


def test_plan_has_findings_about_the_choice(plan: Run, machine: Machine) -> None:
    found = plan({"device": "all", "users": "untrusted"})
    assert [(row["id"], row["status"]) for row in found["findings"]] == [
        ("gpu_sharing.gpu0", "warn"),
        ("gpu_sharing.gpu1", "warn"),
    ]


def test_driver_mismatch_has_its_stable_name(plan: Run, machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    found = plan({"device": "all", "users": "team"})
    assert (found["nvml_error"], found["failed"]) == ("LIB_RM_VERSION_MISMATCH", True)


def test_cards_are_unknown_until_the_binding_is_installed(
    plan: Run, root: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    monkeypatch.setattr(nvml, "PYTHON", "/does/not/exist")
    row = {"device": "all", "persistence": True, "mps": [{"name": "vision"}]}
    found = plan(row)
    assert (found["known"], found["environment_due"], found["apply_due"]) == (False, True, False)
    # The daemon starts after the installation.
    assert (len(found["files_before"]), found["files"], found["warnings"]) == (1, [], [])
    assert "known once it is" in plan(row, check=True)["warnings"][0]

    monkeypatch.setattr(sharing_run, "environment_due", lambda *_arguments, **_options: False)
    assert "NVML does not answer: install nvidia-ml-py" in plan(row)["msg"]


def test_removal_without_the_binding_succeeds(
    plan: Run, root: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan after a removal that was ended before its end."""
    monkeypatch.setattr(nvml, "pynvml", None)
    monkeypatch.setattr(nvml, "PYTHON", "/does/not/exist")
    write_record(root, '{"daemons": []}')
    found = plan(state="absent")
    assert (found["known"], found["apply_due"], found["environment_due"], found["record_due"]) == (
        False,
        False,
        False,
        True,
    )
    assert "nvidia-ml-py is not installed" in found["warnings"][0]


def test_all_problems_of_the_list_are_returned(plan: Run, machine: Machine) -> None:
    found = plan(limits=[{"slice": "user-1001.slice"}])
    assert [row["variable"] for row in found["requirements"]] == ["gpu_sharing_gpus", "gpu_sharing_limits"]
    assert (found["known"], found["apply_due"], found["environment_due"]) == (False, False, False)


def test_mps_without_its_program_is_refused(plan: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_arguments, **_options: None)
    found = plan({"device": "all", "mps": [{"name": "vision"}]})
    assert "there is no nvidia-cuda-mps-control" in found["msg"]


def test_undeclared_daemons_of_the_record_are_absent(
    plan: Run, root: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(root, '{"daemons": ["vision"]}')
    monkeypatch.setattr(
        AnsibleModule, "get_bin_path", lambda *_arguments, **_options: "/usr/bin/nvidia-cuda-mps-control"
    )
    found = plan({"device": "all", "users": "team"})
    assert found["mps"]["daemons"] == [{"name": "vision", "state": "absent"}]
    assert found["files"][0]["content"] == '{\n  "daemons": []\n}\n'
    assert plan({"device": "all"}, state="absent")["mps"]["daemons"] == [{"name": "vision", "state": "absent"}]
    write_record(root, '{"daemons": ["vi')
    assert "gpu_sharing.json is damaged" in plan({"device": "all", "users": "team"})["msg"]


def test_removal_succeeds_without_a_driver(plan: Run, root: Path, machine: Machine) -> None:
    write_record(root, '{"daemons": []}')
    machine.unload_driver()
    found = plan(state="absent")
    assert (found["known"], found["mig"], found.get("failed")) == (False, [], None)
    assert any("DRIVER_NOT_LOADED" in text for text in found["warnings"])


def test_removal_leaves_declarations_of_others(plan: Run, run_module: Run, root: Path, machine: Machine) -> None:
    uuid = machine.gpus[1].uuid
    run_module(gpu_mig, devices=[uuid], mode="enabled", layout=SMALL)
    found = plan(state="absent")
    assert (found["mig"], found["apply_due"], found["record_due"], found["warnings"]) == ([], False, False, [])

    write_record(root, '{"daemons": []}')
    found = plan(state="absent")
    assert ([row["devices"] for row in found["mig"]], found["apply_due"]) == ([[uuid]], True)
    # gpu_mode removes its declarations without a plan.
    assert found["modes"] == {"changed": False, "gpus": []}


def test_daemons_as_declared_are_unchanged(
    run_module: Run, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan with the fake MPS, without systemd, and with the real code of gpu_mps."""
    uuids = [gpu.uuid for gpu in machine.gpus]
    with fake_mps(uuids) as mps:
        for key in ("PATH", "LD_LIBRARY_PATH", "RIGWRIGHT_FAKE_CUDA"):
            monkeypatch.setenv(key, mps.env[key])
        places = {"PIPES": mps.folder / "run", "LOGS": mps.folder / "log", "CONFIGURATIONS": mps.folder / "etc"}
        for name, place in places.items():
            monkeypatch.setattr(sharing_facts, name, str(place))
        monkeypatch.setattr(sharing_facts, "SYSTEMD", "/does/not/exist")
        monkeypatch.setattr(sharing_run, "ROOT", str(tmp_path))
        rows: list[dict[str, Any]] = [{"device": "all", "mps": [{"name": "vision", "active_thread_percentage": 50}]}]

        def plan_rows() -> dict[str, Any]:
            return run_plan(run_module, gpu_sharing_role, CONTEXT, gpus=rows)

        found = plan_rows()
        assert (found["mps"]["changed"], found["apply_due"], found["files"]) == (True, True, [])
        assert json.loads(found["files_before"][0]["content"]) == {"daemons": ["vision"]}
        assert found["mps"]["daemons"][0]["devices"] == uuids

        roots = {"pipe_root": places["PIPES"], "log_root": places["LOGS"], "config_root": places["CONFIGURATIONS"]}
        run_module(
            gpu_mps,
            daemons=found["mps"]["daemons"],
            manager="none",
            verify=False,
            **{k: str(v) for k, v in roots.items()},
        )
        found = plan_rows()
        assert (found["mps"]["changed"], found["apply_due"]) == (False, False)

        rows[0]["mps"][0]["active_thread_percentage"] = 40
        assert plan_rows()["mps"]["changed"]
