# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by other programs during a run. All other runs are in the tests of gpu_mig."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request, Requests
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from harness.fakes.nvml import Machine, fake

PARAMS: dict[str, Any] = {
    "devices": ["all"],
    "mode": "enabled",
    "layout": [{"profile": "7g.141gb"}],
    "mig_parted": None,
    "when_busy": "fail",
    "busy_timeout": 0,
    "allow_reset": "never",
    "stop_services": [],
    "keep_instances": True,
    "persist": "unchanged",
    "refresh_cdi": "never",
}


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake(["H200", "H200"]) as fake_machine:
        yield fake_machine


def run(root: Path, check: bool = False, **params: Any) -> dict[str, Any]:
    module = cast(AnsibleModule, SimpleNamespace(check_mode=check, warn=lambda text: None))
    with Nvml() as nvml:
        return mig_run.run(module, nvml, PARAMS | params, "_gpu.mig.boot", str(root))


def test_process_started_during_the_run_is_found(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start a process on the second GPU while the first is being changed."""
    carry_out = mig_run.apply

    def apply(*arguments: Any) -> Any:
        machine.run_process(gpu=1, pid=99)
        return carry_out(*arguments)

    monkeypatch.setattr(mig_run, "apply", apply)
    with pytest.raises(mig_run.Stopped, match="99") as stopped:
        run(tmp_path)
    assert stopped.value.result["changed"]
    assert [row["uuid"] for row in stopped.value.result["gpus"]] == [machine.gpus[0].uuid]
    assert machine.state()["gpu.1.mig.mode"] == "0"


def test_gpu_lost_during_the_run_is_reported_as_unchanged(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = mig_run.apply

    def apply(*arguments: Any) -> Any:
        done = carry_out(*arguments)
        machine.lose(gpu=1)
        return done

    monkeypatch.setattr(mig_run, "apply", apply)
    with pytest.raises(mig_run.Stopped, match="This GPU was not changed") as stopped:
        run(tmp_path)
    assert stopped.value.result["nvml_error"] == "GPU_IS_LOST"
    assert stopped.value.result["changed"]


def test_change_of_another_program_is_planned_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apply a plan of the current state: changes of another program are not repeated."""
    judge = mig_run._judge

    def late(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(mig_run, "_judge", judge)
        found = judge(*arguments, **options)
        run(tmp_path, devices=[machine.gpus[0].uuid])
        return found

    monkeypatch.setattr(mig_run, "_judge", late)
    result = run(tmp_path)
    assert result["gpus"][0]["changes"] == []
    assert result["gpus"][1]["changes"] != []


def test_each_gpu_can_have_its_own_request(machine: Machine, tmp_path: Path) -> None:
    """Refuse all requests when one is impossible, as gpu_sharing needs it."""
    module = cast(AnsibleModule, SimpleNamespace(check_mode=False, warn=lambda text: None))
    small, large = ({"profile": "1g.18gb", "count": 7},), ({"profile": "7g.141gb"},)
    with Nvml() as nvml:
        cards = nvml.cards()
        impossible = Requests([(cards[0], Request("enabled", large)), (cards[1], Request("enabled", large * 2))])
        with pytest.raises(Refusal, match="GPU 1 .* 2x 7g.141gb does not fit"):
            mig_run.prepare(nvml, impossible, PARAMS, "_gpu.mig.boot", Tree(str(tmp_path)))
        assert machine.writes == 0
        requests = Requests([(cards[0], Request("enabled", large)), (cards[1], Request("enabled", small))])
        result = mig_run.prepare(nvml, requests, PARAMS, "_gpu.mig.boot", Tree(str(tmp_path))).carry_out(module)
    assert [len(row["instances"]) for row in result["gpus"]] == [1, 7]


def test_gpus_without_an_entry_of_mig_parted_are_left_out(machine: Machine, tmp_path: Path) -> None:
    spec = {"devices": [1], "mig-enabled": True, "mig-devices": {}}
    config = {"config": {"version": "v1", "mig-configs": {"x": [spec]}}, "selected": "x"}
    result = run(tmp_path, devices=None, mode="unchanged", layout=None, mig_parted=config)
    assert [row["index"] for row in result["gpus"]] == [1]
