# SPDX-License-Identifier: GPL-3.0-or-later
"""Modes of fake GPUs as a playbook sets them: refusals, restores after failures, and restores at boot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files as gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import locked_clocks
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import boot as mode_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import run as mode_run
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mode

from harness.fakes import nvml as fake_nvml
from harness.fakes.nvml import Machine

Run = Callable[..., dict[str, Any]]
DECLARED = gpu_boot.declared_path("gpu_mode")
PROGRAM = gpu_boot.program_path("gpu_mode")
UNIT = gpu_boot.unit_path("gpu_mode")


class Host:
    """Files below a directory, systemctl that is recorded, nvidia-smi as far as time slices go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.systemctl: list[list[str]] = []
        self.slices: dict[str, int] = {}
        self.broken_smi = False
        self.no_smi = False
        (root / "run/systemd/system").mkdir(parents=True)
        self.boot("first")

    def boot(self, name: str) -> None:
        self.write(locked_clocks.BOOT_ID, f"{name}\n")
        self.slices.clear()

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def text(self, path: str) -> str:
        place = self.root / path.lstrip("/")
        return place.read_text() if place.exists() else ""

    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file() or path.is_symlink()
        }

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "systemctl":
            self.systemctl.append(command[1:])
            return 0, "", ""
        return self.smi(command)

    def smi(self, command: list[str]) -> tuple[int, str, str]:
        """Return the status and output of nvidia-smi of driver 580."""
        if self.no_smi:
            raise FileNotFoundError(2, "No such file or directory", "nvidia-smi")
        if "-l" in command:
            rows = [f"|   {index}   Timeslice       {self._slice(index):13} |\n" for index in range(4)]
            return (
                0,
                "+---+\n| GPU compute policies:               |\n| GPU     Name           Value        |\n"
                + "".join(rows),
                "",
            )
        if self.broken_smi:
            return 4, "", "Failed to set timeslice: Insufficient Permissions"
        assert command[:3] == ["nvidia-smi", "compute-policy", "-i"]
        self.slices[command[3]] = int(command[4].removeprefix("--set-timeslice="))
        return 0, "", ""

    def _slice(self, index: int) -> str:
        uuids = [gpu.uuid for gpu in fake_nvml.cards(["H100"] * 4)]
        return ["Default", "Short", "Medium", "Long"][self.slices.get(uuids[index], 0)]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(gpu_mode, "ROOT", str(tmp_path))
    monkeypatch.setattr(mode_run, "is_root", lambda: True)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: found.run_command(command))
    return found


@pytest.fixture
def mode(run_module: Run, host: Host) -> Run:
    def run(*gpus: dict[str, Any], **params: Any) -> dict[str, Any]:
        return run_module(gpu_mode, gpus=list(gpus), **params)

    return run


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake_nvml.fake(["H100", "H100"]) as found:
        yield found


EVERYTHING = {
    "device": "all",
    "persistence": True,
    "compute_mode": "exclusive_process",
    "power_limit": "80 %",
    "locked_gpu_clocks": [1900, 1950],
    "accounting": True,
    "ecc": False,
}


def test_all_modes_are_set_in_one_run(mode: Run, host: Host, machine: Machine) -> None:
    first = mode(EVERYTHING)
    assert [[row["setting"] for row in gpu["changes"]] for gpu in first["gpus"]] == [
        ["persistence", "compute_mode", "power_limit", "locked_gpu_clocks", "accounting", "ecc"]
    ] * 2
    state = machine.state()
    assert [state[f"gpu.{gpu}.power.limit"] for gpu in (0, 1)] == ["560000", "560000"]
    assert [state[f"gpu.{gpu}.compute_mode"] for gpu in (0, 1)] == ["3", "3"]

    writes, calls = machine.writes, len(host.systemctl)
    second = mode(EVERYTHING)
    assert not second["changed"]
    assert [gpu["changes"] for gpu in second["gpus"]] == [[], []]
    assert (machine.writes, len(host.systemctl)) == (writes, calls)
    # Still to come, though this run changed nothing.
    assert (first["needs"], second["needs"]) == ("gpu_reset", "gpu_reset")


def test_check_mode_predicts_the_run(mode: Run, host: Host, machine: Machine) -> None:
    files = host.files()
    predicted = mode(EVERYTHING, check=True)
    assert predicted["changed"]
    assert (machine.writes, host.files(), host.systemctl) == (0, files, [])
    done = mode(EVERYTHING)
    assert predicted["diff"] == done["diff"]
    assert [gpu["changes"] for gpu in predicted["gpus"]] == [gpu["changes"] for gpu in done["gpus"]]


def test_the_diff_shows_settings_by_card_as_a_person_writes_them(mode: Run, machine: Machine) -> None:
    found = mode({"device": machine.gpus[0].uuid, "power_limit": "300 W"}, persist="none")
    called = f"NVIDIA H100 80GB HBM3 ({machine.gpus[0].uuid})"
    assert found["diff"] == {
        "before": {called: {"power_limit": "700 W"}},
        "after": {called: {"power_limit": "300 W"}},
    }
    assert (found["gpus"][0]["power_limit_w"], found["gpus"][0]["enforced_power_limit_w"]) == (300, 300)


def test_set_and_enforced_power_limits_are_returned(mode: Run, machine: Machine) -> None:
    """Return both: GetEnforcedPowerLimit may be lower than GetPowerManagementLimit, so comparing it would never come to an end."""
    machine.set(0, power__cap=400000)
    request = {"device": machine.gpus[0].uuid, "power_limit": "600 W"}
    assert mode(request, persist="none")["changed"]
    second = mode(request, persist="none")
    assert not second["changed"]
    assert (second["gpus"][0]["power_limit_w"], second["gpus"][0]["enforced_power_limit_w"]) == (600, 400)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"power_limit": "900 W"}, "`gpus[0].power_limit` is '900 W': NVIDIA H100 80GB HBM3 takes 200 W to 700 W"),
        ({"power_limit": "20 %"}, "is '20 %' = 140 W: NVIDIA H100 80GB HBM3 takes 200 W to 700 W, by default 700 W"),
        ({"power_limit": "much"}, "write `300 W`, `80 %` of the default, or `default`"),
        ({"locked_gpu_clocks": [1950, 1900]}, "begins above its end"),
        ({"locked_gpu_clocks": [100, 9000]}, "beyond what the card does: write `[lowest, highest]` in MHz"),
        ({"locked_gpu_clocks": 1500}, "write `[lowest, highest]` in MHz"),
        ({"locked_gpu_clocks": "locked"}, "or `unlocked`"),
        ({"compute_mode": "exclusive_process", "time_slice": "long"}, "set `compute_mode: default` as well"),
    ],
)
def test_invalid_value_is_refused_before_a_write(
    mode: Run, machine: Machine, wanted: dict[str, Any], message: str
) -> None:
    found = mode({"device": "0000:41:00.0", "persistence": True, **wanted})
    assert found["failed"]
    assert message in found["msg"]
    assert found["msg"].endswith("Nothing was changed.")
    assert machine.writes == 0


def test_all_problems_are_reported_at_once(mode: Run, machine: Machine) -> None:
    found = mode(
        {"device": machine.gpus[0].uuid, "power_limit": "900 W"}, {"device": machine.gpus[1].uuid, "power_limit": "1 W"}
    )
    assert "`gpus[0].power_limit`" in found["msg"] and "`gpus[1].power_limit`" in found["msg"]


def test_unsupported_setting_is_refused_by_name(mode: Run) -> None:
    with fake_nvml.fake(["RTX 4090"]) as machine:
        found = mode({"device": "all", "ecc": True})
        assert machine.writes == 0
    assert f"`gpus[0].ecc`: NVIDIA GeForce RTX 4090 ({machine.gpus[0].uuid}) has no ECC to switch" in found["msg"]


def test_clocks_of_a_card_before_volta_cannot_be_locked(mode: Run) -> None:
    with fake_nvml.fake(["GTX 1080"]) as machine:
        found = mode({"device": "all", "locked_gpu_clocks": [1000, 1500]})
        assert machine.writes == 0
    assert "which begin with Volta" in found["msg"]


def test_exclusive_mode_is_refused_for_a_card_with_mig(mode: Run, machine: Machine) -> None:
    with gpu_nvml.Nvml() as nvml:
        nvml.call("nvmlDeviceSetMigMode", nvml.cards()[0].handle, 1)
    writes = machine.writes
    found = mode({"device": "all", "compute_mode": "exclusive_process"})
    assert "is in MIG mode" in found["msg"]
    assert machine.gpus[0].uuid in found["msg"] and machine.gpus[1].uuid not in found["msg"]
    assert machine.writes == writes


def test_unknown_uuid_is_refused_with_the_known_ones(mode: Run, machine: Machine) -> None:
    found = mode({"device": "GPU-00000000-0000-0000-0000-000000000000", "persistence": True})
    assert "`gpus[0].device`: no GPU is" in found["msg"]
    assert all(gpu.uuid in found["msg"] for gpu in machine.gpus)


def test_a_card_that_is_named_twice_is_refused(mode: Run, machine: Machine) -> None:
    found = mode(
        {"device": machine.gpus[0].uuid, "persistence": True}, {"device": "0000:41:00.0", "persistence": False}
    )
    assert "`gpus[0]` and `gpus[1]` name one card" in found["msg"]
    assert machine.writes == 0


def test_row_for_one_card_wins_over_all(mode: Run, machine: Machine) -> None:
    mode(
        {"device": machine.gpus[1].uuid, "power_limit": "300 W"},
        {"device": "all", "power_limit": "500 W", "persistence": True},
        persist="none",
    )
    state = machine.state()
    assert [state[f"gpu.{gpu}.power.limit"] for gpu in (0, 1)] == ["500000", "300000"]
    assert [state[f"gpu.{gpu}.persistence"] for gpu in (0, 1)] == ["1", "1"]


def test_an_index_is_accepted_with_a_warning(mode: Run, machine: Machine) -> None:
    found = mode({"device": "1", "persistence": True}, persist="none")
    assert found["gpus"][0]["uuid"] == machine.gpus[1].uuid
    assert any("may be another card after a reboot" in text for text in found["warnings"])


def test_lost_card_is_refused_and_no_other_is_changed(mode: Run, machine: Machine) -> None:
    machine.lose(1)
    found = mode({"device": "all", "persistence": True})
    assert "does not answer" in found["msg"] and "GPU_IS_LOST" in found["msg"]
    assert machine.writes == 0


def test_user_without_root_is_refused_before_a_write(
    mode: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode({"device": "all", "persistence": True}, persist="none")
    writes = machine.writes
    monkeypatch.setattr(mode_run, "is_root", lambda: False)
    assert not mode({"device": "all", "persistence": True}, persist="none").get("failed")
    assert "become: true" in mode({"device": "all", "persistence": False}, persist="none")["msg"]
    assert machine.writes == writes


def test_library_mismatch_has_its_stable_name(mode: Run, machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    found = mode({"device": "all", "persistence": True})
    assert (found["nvml_error"], found["failed"]) == ("LIB_RM_VERSION_MISMATCH", True)
    assert "reboot" in found["next_step"]


@pytest.mark.parametrize("number", range(12))
def test_a_failure_of_any_write_leaves_all_cards_as_they_were(
    mode: Run, host: Host, machine: Machine, number: int
) -> None:
    before = machine.state()
    machine.fail("write", "UNKNOWN", skip=number)
    found = mode(EVERYTHING)
    assert found["failed"]
    assert found["nvml_error"] == "UNKNOWN"
    assert found["left"] == []
    assert machine.state() == before
    assert host.text(DECLARED) == host.text(UNIT) == ""
    # The next run succeeds.
    assert mode(EVERYTHING)["changed"]
    assert not mode(EVERYTHING)["changed"]


def test_setting_that_is_not_restored_is_reported(mode: Run, machine: Machine) -> None:
    machine.fail("nvmlDeviceSetPowerManagementLimit", "UNKNOWN", gpu=0, times=0)
    machine.fail("nvmlDeviceSetPersistenceMode", "UNKNOWN", gpu=0, skip=1, times=0)
    found = mode({"device": machine.gpus[0].uuid, "persistence": True, "power_limit": "300 W"})
    assert len(found["left"]) == 1 and "persistence False" in found["left"][0]
    assert "This stayed changed" in found["msg"]


def test_a_write_that_the_card_ignores_is_a_failure(
    mode: Run, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = gpu_nvml.Nvml.call

    def deaf(self: gpu_nvml.Nvml, function: str, *arguments: Any) -> Any:
        return None if function == "nvmlDeviceSetPowerManagementLimit" else call(self, function, *arguments)

    monkeypatch.setattr(gpu_nvml.Nvml, "call", deaf)
    found = mode({"device": machine.gpus[0].uuid, "power_limit": "300 W", "persistence": True})
    assert "was set to 300 W, and the card reports 700 W" in found["msg"]
    assert machine.state()["gpu.0.persistence"] == "0"


def test_ecc_waits_for_a_reset_and_is_kept_by_the_card(mode: Run, host: Host, machine: Machine) -> None:
    request = {"device": machine.gpus[0].uuid, "ecc": False}
    found = mode(request)
    assert (found["needs"], found["gpus"][0]["persistent"], found["declared"]) == ("gpu_reset", True, {})
    machine.reset(0)
    second = mode(request)
    assert (second["changed"], second["needs"]) == (False, "none")
    assert host.text(UNIT) == ""


def test_ecc_of_a_card_with_a_display_needs_a_reboot(mode: Run, machine: Machine) -> None:
    machine.set(0, display__active=1)
    assert mode({"device": machine.gpus[0].uuid, "ecc": False})["needs"] == "reboot"


def test_time_slices_are_set_by_nvidia_smi_and_read_back(mode: Run, host: Host, machine: Machine) -> None:
    request = {"device": machine.gpus[1].uuid, "time_slice": "long"}
    assert mode(request)["gpus"][0]["changes"] == [{"setting": "time_slice", "before": "default", "after": "long"}]
    assert host.slices == {machine.gpus[1].uuid: 3}
    assert not mode(request)["changed"]


def test_failure_of_nvidia_smi_restores_the_other_settings(mode: Run, host: Host, machine: Machine) -> None:
    host.broken_smi = True
    before = machine.state()
    found = mode({"device": machine.gpus[0].uuid, "time_slice": "long", "persistence": True})
    assert "Insufficient Permissions" in found["msg"]
    assert machine.state() == before


def test_time_slices_without_nvidia_smi_are_refused_by_name(mode: Run, host: Host, machine: Machine) -> None:
    host.no_smi = True
    found = mode({"device": machine.gpus[0].uuid, "time_slice": "long", "persistence": True}, check=True)
    assert "`time_slice`: only nvidia-smi sets time slices, and it cannot be run ([Errno 2]" in found["msg"]
    assert found["msg"].endswith("Nothing was changed.") and machine.writes == 0
    assert not mode({"device": machine.gpus[0].uuid, "compute_mode": "default"})["changed"]


def test_missing_program_at_boot_fails_only_its_card(
    mode: Run, host: Host, machine: Machine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first, *_others = sorted(gpu.uuid for gpu in machine.gpus)
    mode({"device": "all", "power_limit": "300 W"}, {"device": first, "time_slice": "long"})
    machine.reboot()
    host.boot("second")
    monkeypatch.setenv("PATH", str(host.root))
    assert mode_boot.main(str(host.root)) == 1
    limits = [machine.state()[f"gpu.{gpu.index}.power.limit"] for gpu in machine.gpus if gpu.uuid != first]
    assert set(limits) == {"300000"}
    assert f"{first}: `time_slice`: only nvidia-smi" in capfd.readouterr().out


def test_missing_persistence_is_a_warning(mode: Run, machine: Machine) -> None:
    found = mode({"device": machine.gpus[0].uuid, "power_limit": "300 W"})
    assert any("forgets power_limit when the last program closes the GPU" in text for text in found["warnings"])


def test_recorded_clocks_are_not_locked_again(mode: Run, host: Host, machine: Machine) -> None:
    request = {"device": machine.gpus[0].uuid, "locked_gpu_clocks": [1900, 1950]}
    assert mode(request)["gpus"][0]["not_read_back"] == ["locked_gpu_clocks"]
    assert not mode(request)["changed"]
    # The driver forgets them with a boot, so that the record counts no more.
    machine.reboot()
    host.boot("second")
    assert mode(request)["gpus"][0]["changes"] == [
        {"setting": "locked_gpu_clocks", "before": "unlocked", "after": [1900, 1950]}
    ]
    assert mode({**request, "locked_gpu_clocks": "unlocked"})["changed"]
    assert not mode({**request, "locked_gpu_clocks": "unlocked"})["changed"]


def test_unit_restores_the_modes_after_a_reboot(
    mode: Run, host: Host, machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    mode(EVERYTHING)
    declared = json.loads(host.text(DECLARED))["gpus"]
    assert declared[machine.gpus[0].uuid] == {
        "persistence": True,
        "compute_mode": "exclusive_process",
        "power_limit": "80 %",
        "locked_gpu_clocks": [1900, 1950],
        "accounting": True,
    }
    assert host.systemctl == [["daemon-reload"]]
    assert f"ExecStart={sys.executable} -I -B {PROGRAM}" in host.text(UNIT)

    machine.reboot()
    host.boot("second")
    assert machine.state()["gpu.0.power.limit"] == "700000"
    assert mode_boot.main(str(host.root)) == 0
    assert "power_limit 560 W" in capfd.readouterr().out
    assert not mode(EVERYTHING)["changed"]


def test_program_of_the_unit_runs_without_ansible(mode: Run, host: Host, machine: Machine, tmp_path: Path) -> None:
    mode({"device": machine.gpus[0].uuid, "power_limit": "300 W"})
    machine.reboot()
    host.boot("second")
    program = host.root / PROGRAM.lstrip("/")
    binding = Path(gpu_nvml.pynvml.__file__)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/pynvml.py").symlink_to(binding)
    # With no path but the program's own and the binding's; the root comes as the only argument.
    code = f"import sys; sys.path[:0] = [{str(program)!r}, {str(tmp_path / 'alone')!r}]; "
    code += "from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.boot import main; "
    code += f"sys.exit(main({str(host.root)!r}))"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-s", "-B", "-c", code],
        env={**os.environ, **machine.env},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.state()["gpu.0.power.limit"] == "300000"


def test_lost_card_at_boot_does_not_stop_the_others(
    mode: Run, host: Host, machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    mode({"device": "all", "power_limit": "300 W"})
    machine.reboot()
    host.boot("second")
    machine.lose(0)
    assert mode_boot.main(str(host.root)) == 1
    assert machine.state()["gpu.1.power.limit"] == "300000"
    assert machine.gpus[0].uuid in capfd.readouterr().out


def test_failed_declaration_is_reported_and_the_modes_stay(mode: Run, host: Host, machine: Machine) -> None:
    host.write("usr/local/lib/rigwright", "in the way")
    result = mode({"device": "all", "power_limit": "300 W"})
    assert result["failed"] and result["changed"]
    assert "the modes are as requested, but the next boot does not restore them ([Errno" in result["msg"]
    assert machine.state()["gpu.0.power.limit"] == "300000"


def test_failed_record_of_clocks_restores_all_settings(mode: Run, host: Host, machine: Machine) -> None:
    host.write(gpu_files.home("gpu_mode"), "in the way")
    before = machine.state()
    result = mode({"device": "all", "power_limit": "300 W", "locked_gpu_clocks": [1200, 1500]}, persist="none")
    assert result["failed"] and "locked_gpu_clocks" in result["msg"]
    assert machine.state() == before


def test_unit_goes_with_the_last_declaration(mode: Run, host: Host, machine: Machine) -> None:
    before = host.files()
    mode({"device": "all", "power_limit": "300 W", "compute_mode": "prohibited"})
    found = mode({"device": "all", "power_limit": "default"})
    assert found["declared"][machine.gpus[0].uuid] == {"compute_mode": "prohibited"}
    found = mode({"device": "all", "compute_mode": "default"})
    assert found["declared"] == {}
    assert host.files() == before
    assert not [*host.root.rglob("rigwright*")]
    assert host.systemctl == [["daemon-reload"]] * 2


def test_only_exclusive_removes_other_declarations(mode: Run, machine: Machine) -> None:
    row, other = (gpu.uuid for gpu in machine.gpus)
    mode({"device": row, "power_limit": "300 W"})
    assert set(mode({"device": other, "power_limit": "400 W"})["declared"]) == {row, other}
    found = mode({"device": other, "power_limit": "400 W"}, exclusive=True)
    assert set(found["declared"]) == {other}
    # What the card has now is left as it is.
    assert machine.state()["gpu.0.power.limit"] == "300000"


def test_persist_unit_without_systemd_is_refused(mode: Run, host: Host, machine: Machine) -> None:
    (host.root / "run/systemd/system").rmdir()
    assert "set `persist: none`" in mode({"device": "all", "power_limit": "300 W"})["msg"]
    assert machine.writes == 0
    assert mode({"device": "all", "power_limit": "300 W"}, persist="none")["changed"]


def test_declaration_can_be_removed_without_systemd(mode: Run, host: Host, machine: Machine) -> None:
    mode({"device": "all", "power_limit": "300 W"})
    (host.root / "run/systemd/system").rmdir()
    assert mode({"device": "all", "power_limit": "default"})["declared"] == {}
    assert not [*host.root.rglob("rigwright*")]
    assert host.systemctl == [["daemon-reload"]]


@pytest.mark.parametrize("path", [DECLARED, locked_clocks.LOCKED])
@pytest.mark.parametrize("text", ['{"gpus": {"GPU-', "[]", '{"gpus": {"GPU-a": 3}}'])
def test_a_half_written_state_file_is_refused_with_its_name(
    mode: Run, host: Host, machine: Machine, path: str, text: str
) -> None:
    host.write(path, text)
    found = mode({"device": "all", "power_limit": "300 W"})
    assert f"{path} is damaged" in found["msg"]
    assert machine.writes == 0
