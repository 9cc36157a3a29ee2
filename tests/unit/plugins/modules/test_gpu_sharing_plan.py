# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for fake GPUs: modes, MIG and MPS in one run, which writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import run as mode_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import facts as sharing_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing_run
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mig, gpu_mode, gpu_mps, gpu_sharing_plan

from harness.fakes import nvml as fake_nvml
from harness.fakes.mps import fake_mps
from harness.fakes.nvml import Machine

Run = Callable[..., dict[str, Any]]
SMALL = [{"profile": "1g.18gb", "count": 7}]


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake_nvml.fake(["H200", "H200"]) as found:
        yield found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for module in (sharing_run, gpu_mode, gpu_mig):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(mode_run, "is_root", lambda: True)

    monkeypatch.setattr(AnsibleModule, "run_command", lambda *_arguments, **_options: (0, "", ""))
    return tmp_path


@pytest.fixture
def plan(run_module: Run, root: Path) -> Run:
    def run(*gpus: dict[str, Any], **params: Any) -> dict[str, Any]:
        return run_module(gpu_sharing_plan, gpus=list(gpus), **params)

    return run


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
    for row in found["mig"]:
        wanted = {key: value for key, value in row.items() if key not in ("changed", "mig_parted")}
        assert run_module(gpu_mig, **wanted)["changed"]
    writes = machine.writes

    again = plan(*rows)
    assert (again["modes"]["changed"], [row["changed"] for row in again["mig"]]) == (False, [False])
    assert machine.writes == writes
    # Boot would run other code than this.
    (root / gpu_boot.program_path("gpu_mig").lstrip("/")).write_bytes(b"of an earlier version")
    assert [row["changed"] for row in plan(*rows)["mig"]] == [True]


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
    found = plan({"device": "all", "users": "strangers"})
    assert [(row["id"], row["status"]) for row in found["findings"]] == [
        ("gpu_sharing.gpu0", "warn"),
        ("gpu_sharing.gpu1", "warn"),
    ]


def test_driver_mismatch_has_its_stable_name(plan: Run, machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    found = plan({"device": "all", "users": "team"})
    assert (found["nvml_error"], found["failed"]) == ("LIB_RM_VERSION_MISMATCH", True)


def test_check_mode_without_the_binding_succeeds(plan: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    monkeypatch.setattr(nvml, "PYTHON", "/does/not/exist")
    found = plan({"device": "all", "persistence": True}, check=True)
    assert (found["known"], found["changed"]) == (False, False)
    assert any("known once it is" in text for text in found["warnings"])
    assert plan({"device": "all", "persistence": True})["failed"]
    # Taken away already, by a run that was ended before its end.
    assert plan()["known"] is False


def test_mps_without_its_program_is_refused(plan: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_arguments, **_options: None)
    found = plan({"device": "all", "mps": [{"name": "vision"}]})
    assert "there is no nvidia-cuda-mps-control" in found["msg"]


def test_undeclared_daemons_of_the_record_are_absent(
    plan: Run, root: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = root / "etc/rigwright/gpu_sharing.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"daemons": ["vision"]}')
    monkeypatch.setattr(
        AnsibleModule, "get_bin_path", lambda *_arguments, **_options: "/usr/bin/nvidia-cuda-mps-control"
    )
    found = plan({"device": "all", "users": "team"})
    assert (found["mps"]["daemons"], found["mps"]["names"]) == ([{"name": "vision", "state": "absent"}], [])
    record.write_text('{"daemons": ["vi')
    assert "gpu_sharing.json is damaged" in plan({"device": "all", "users": "team"})["msg"]


def test_empty_request_succeeds_without_a_driver(plan: Run, machine: Machine) -> None:
    machine.unload_driver()
    found = plan()
    assert (found["known"], found["mig"], found.get("failed")) == (False, [], None)
    assert any("DRIVER_NOT_LOADED" in text for text in found["warnings"])


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
        found = run_module(gpu_sharing_plan, gpus=rows)
        assert (found["mps"]["changed"], found["mps"]["names"]) == (True, ["vision"])
        assert found["mps"]["daemons"][0]["devices"] == uuids

        roots = {"pipe_root": places["PIPES"], "log_root": places["LOGS"], "config_root": places["CONFIGURATIONS"]}
        run_module(
            gpu_mps,
            daemons=found["mps"]["daemons"],
            manager="none",
            verify=False,
            **{k: str(v) for k, v in roots.items()},
        )
        assert not run_module(gpu_sharing_plan, gpus=rows)["mps"]["changed"]

        rows[0]["mps"][0]["active_thread_percentage"] = 40
        assert run_module(gpu_sharing_plan, gpus=rows)["mps"]["changed"]
