# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as a playbook runs it, on fake GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot as mig_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mig

from harness.fakes.nvml import Machine, fake

Run = Callable[..., dict[str, Any]]

DECLARED = "var/lib/rigwright_gpu_mig/declared.json"
UNIT = "etc/systemd/system/rigwright-gpu-mig.service"
CDI = "usr/lib/systemd/system/nvidia-cdi-refresh.service"
LAYOUT = [{"profile": "3g.71gb"}, {"profile": "1g.18gb", "count": 2}]


class Host:
    """What is around the GPUs: files below a root, services, and nvidia-smi."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.machine: Machine | None = None
        self.active = {"nvidia-persistenced", "nvidia-dcgm"}
        self.commands: list[str] = []
        self.refuses = self.says = ""
        self.missing: list[str] = []

    def touch(self, *paths: str) -> None:
        for path in paths:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).touch()

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        line = " ".join(command)
        if "is-active" in command:
            return 0 if command[-1] in self.active else 3, "", ""
        self.commands.append(line)
        if self.refuses and self.refuses in line:
            return 1, "", self.says or f"{self.refuses} failed"
        if command[0] in self.missing:
            raise FileNotFoundError(2, "No such file or directory", command[0])
        if command[0] == "nvidia-smi" and self.machine:
            self.machine.reset(gpu=0)
        return 0, "", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(gpu_mig, "ROOT", str(tmp_path))
    monkeypatch.setattr(mig_run.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: found.run_command(command))
    return found


@pytest.fixture
def mig(run_module: Run, host: Host) -> Run:
    return lambda **params: run_module(gpu_mig, **({"devices": ["all"]} | params))


@pytest.fixture
def h200() -> Iterator[Machine]:
    with fake(["H200"]) as machine:
        yield machine


def profiles(result: dict[str, Any], gpu: int = 0) -> list[str]:
    return [instance["profile"] for instance in result["gpus"][gpu]["instances"]]


def test_layout_is_applied_and_a_second_run_changes_nothing(mig: Run, h200: Machine) -> None:
    first = mig(mode="enabled", layout=LAYOUT)
    assert first["changed"], first
    assert profiles(first) == ["1g.18gb", "1g.18gb", "3g.71gb"]
    writes = h200.writes
    second = mig(mode="enabled", layout=LAYOUT)
    assert (second["changed"], h200.writes) == (False, writes)
    assert second["diff"]["before"] == second["diff"]["after"] == first["diff"]["after"]
    assert second["gpus"][0]["instances"] == first["gpus"][0]["instances"]


@pytest.mark.parametrize("second", [LAYOUT, [{"profile": "2g.35gb", "compute_instances": ["1c", "1c"]}], []])
def test_check_mode_predicts_the_run(mig: Run, h200: Machine, host: Host, second: list[dict[str, Any]]) -> None:
    mig(mode="enabled", layout=[{"profile": "4g.71gb"}])
    state, files = h200.state(), {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()}
    writes = h200.writes
    predicted = mig(mode="enabled", layout=second, check=True)
    assert (h200.state(), h200.writes) == (state, writes)
    assert {path: path.read_bytes() for path in host.root.rglob("*") if path.is_file()} == files
    done = mig(mode="enabled", layout=second)
    for key in ("changed", "diff", "boot", "needs"):
        assert predicted[key] == done[key]
    assert predicted["gpus"][0]["changes"] == done["gpus"][0]["changes"]
    assert predicted["gpus"][0]["slots"] == done["gpus"][0]["slots"]


def test_the_diff_shows_the_slots(mig: Run, h200: Machine) -> None:
    mig(mode="enabled", layout=[{"profile": "4g.71gb"}], persist="none")
    diff = mig(mode="enabled", layout=[{"profile": "3g.71gb", "start": 4, "compute_instances": ["2c", "1c"]}])["diff"]
    uuid = h200.gpus[0].uuid
    head = f"{uuid} NVIDIA H200 0000:41:00.0\n  MIG enabled\n"
    assert diff["before"] == head + "  slots 0-3: 4g.71gb\n" + "".join(f"  slot {slot}: free\n" for slot in range(4, 8))
    free = "".join(f"  slot {slot}: free\n" for slot in range(4))
    assert diff["after"] == f"{head}{free}  slots 4-7: 3g.71gb (2c + 1c)\n  at boot: MIG enabled, 3g.71gb\n"


def test_removed_uuids_are_reported_with_their_replacements(mig: Run, h200: Machine) -> None:
    before = mig(mode="enabled", layout=LAYOUT)
    after = mig(mode="enabled", layout=[{"profile": "3g.71gb", "start": 0}])
    old = {instance["start"]: instance["compute_instances"][0]["uuid"] for instance in before["gpus"][0]["instances"]}
    new = after["gpus"][0]["instances"][0]["compute_instances"][0]["uuid"]
    # The large one had to move to slot 0, where the small ones were.
    assert after["gpus"][0]["uuid_changes"] == {old[0]: None, old[1]: None, old[4]: new}


def test_devices_are_found_by_uuid_address_and_index(mig: Run) -> None:
    with fake(["H200", "H200", "H200"]) as machine:
        named = [machine.gpus[0].uuid, "00000000:42:00.0", "2"]
        result = mig(devices=named, mode="enabled", layout=[{"profile": "7g.141gb"}])
        assert [row["index"] for row in result["gpus"]] == [0, 1, 2]
        assert result["warnings"] == [
            f"devices: index 2 may be another GPU after a change of hardware; write {machine.gpus[2].uuid}"
        ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"devices": ["GPU-of-nobody"], "mode": "enabled"}, "devices: no GPU is 'GPU-of-nobody'. There are 0 = GPU-"),
        ({"devices": ["MIG-1"], "mode": "enabled"}, "is a MIG instance and no GPU"),
        ({"mode": "enabled", "layout": [{"profile": "3g.40gb"}]}, "this card has no 3g.40gb; it has 1g.18gb"),
        ({"mode": "enabled", "layout": [{"profile": "big"}]}, "is no name of a MIG profile"),
        (
            {"mode": "enabled", "layout": [{"profile": name} for name in ("3g.71gb", "4g.71gb", "1g.18gb")]},
            "the nearest that fit: 4g.71gb + 3g.71gb, or 4g.71gb + 2g.35gb + 1g.18gb",
        ),
        ({"layout": LAYOUT}, "set mode: enabled"),
        ({"mode": "disabled", "layout": LAYOUT}, "has no instances"),
    ],
)
def test_impossible_request_is_refused_before_a_write(
    mig: Run, h200: Machine, host: Host, params: dict[str, Any], message: str
) -> None:
    result = mig(**params)
    assert result["failed"] and message in result["msg"] and result["msg"].endswith("Nothing was changed.")
    assert h200.writes == 0 and list(host.root.iterdir()) == []


def test_all_refused_gpus_are_named_and_none_is_changed(mig: Run) -> None:
    with fake(["H200", "RTX 4090", "T4"]) as machine:
        result = mig(mode="enabled", devices=["0", "1", "2"])
        assert "GPU 1 (NVIDIA GeForce RTX 4090 0000:42:00.0): " in result["msg"] and "GPU 2 (" in result["msg"]
        assert machine.writes == 0


def test_mig_on_a_geforce_is_refused(mig: Run) -> None:
    with fake(["RTX 4090"]):
        assert "has no MIG: leave it out of `devices`" in mig(mode="enabled", devices=["0"])["msg"]
        assert "no GPU here has MIG" in mig(mode="enabled")["msg"]
        assert not mig(mode="disabled")["changed"]


@pytest.mark.parametrize("how", ["devices", "mig_parted"])
def test_all_means_the_cards_that_have_mig(mig: Run, host: Host, how: str) -> None:
    with fake(["RTX 4090", "H200"]) as machine:
        params = (
            {"mode": "enabled", "layout": LAYOUT} if how == "devices" else parted(**{"mig-devices": {"7g.141gb": 1}})
        )
        first = mig(**params)
        assert [bool(row["changes"]) for row in first["gpus"]] == [False, True]
        assert machine.gpus[0].uuid not in (host.root / DECLARED).read_text()
        assert not mig(**params)["changed"]


def test_an_exclusive_compute_mode_is_refused_with_mig(mig: Run, h200: Machine) -> None:
    h200.set(0, compute_mode=3)
    assert "compute mode exclusive_process, which excludes MIG" in mig(mode="enabled")["msg"]


def test_a_lost_gpu_is_refused_by_its_error(mig: Run) -> None:
    with fake(["H200", "H200"]) as machine:
        machine.lose(gpu=1)
        result = mig(mode="enabled")
        assert result["nvml_error"] == "GPU_IS_LOST" and machine.writes == 0
        assert "of GPU 1: GPU_IS_LOST" in result["msg"]
        named = mig(devices=[machine.gpus[1].uuid], mode="enabled")["msg"]
        assert "1 = lost. GPU 1 does not answer, and may be it: the GPU has fallen off the bus: reboot" in named
        assert named.endswith("replace the card. Nothing was changed.")
        # The other one can still be had.
        assert mig(devices=[machine.gpus[0].uuid], mode="enabled")["changed"]


def test_without_permission_nothing_is_changed(mig: Run, h200: Machine) -> None:
    h200.fail("write", "NO_PERMISSION", times=0)
    result = mig(mode="enabled", layout=LAYOUT)
    assert (result["nvml_error"], result["restored"]) == ("NO_PERMISSION", True)
    assert "run it as root" in result["next_step"]
    assert h200.state()["gpu.0.mig.mode"] == "0"


def test_declaration_of_a_replaced_gpu_can_be_removed(mig: Run, host: Host) -> None:
    with fake(["H200", "H200"]) as machine:
        gone, present = machine.gpus[1].uuid, machine.gpus[0].uuid
        mig(mode="enabled", layout=LAYOUT)
    with fake(["H200"]) as machine:
        # Any other request for a missing GPU is refused.
        assert "no GPU is" in mig(devices=[gone], mode="enabled", persist="none")["msg"]
        assert "no GPU is" in mig(devices=[gone])["msg"]
        assert "no GPU is" in mig(devices=["GPU-x"], persist="none")["msg"]
        predicted = mig(devices=[gone], persist="none", check=True)
        assert list(json.loads((host.root / DECLARED).read_text())["gpus"]) == sorted([present, gone])
        done = mig(devices=[gone], persist="none")
        assert done["boot"] == predicted["boot"] == [f"/{DECLARED}"]
        assert list(json.loads((host.root / DECLARED).read_text())["gpus"]) == [present]
        assert (done["gpus"], machine.writes) == ([], 0)
        again = mig(devices=[gone], persist="none")
        assert not again["changed"] and f"{gone} is not there" in again["warnings"][0]
        # Together with a GPU that is there.
        assert mig(devices=[present], persist="none")["boot"]


@pytest.mark.parametrize("model", ["H200", "RTX 4090"])
def test_empty_layout_with_mig_off_declares_no_mode(mig: Run, host: Host, model: str) -> None:
    with fake([model]) as machine:
        result = mig(layout=[])
        assert (result["changed"], machine.writes) == (False, 0)
        assert not (host.root / DECLARED).exists()


def test_failed_declaration_is_reported_with_the_gpus(mig: Run, h200: Machine, host: Host) -> None:
    host.touch("usr/local/lib/rigwright", CDI)
    (host.root / "run/systemd/system").mkdir(parents=True)
    result = mig(mode="enabled", layout=LAYOUT)
    assert "the GPUs are as requested, but the next boot does not restore them ([Errno" in result["msg"]
    assert result["changed"] and profiles(result) == ["1g.18gb", "1g.18gb", "3g.71gb"]
    # Containers find what there is now.
    assert "systemctl restart nvidia-cdi-refresh.service" in host.commands
    (host.root / "usr/local/lib/rigwright").unlink()
    writes = h200.writes
    assert mig(mode="enabled", layout=LAYOUT)["boot"] and h200.writes == writes


def test_driver_upgrade_without_a_reboot_is_reported(mig: Run, h200: Machine) -> None:
    h200.upgrade_library("590.48.01")
    result = mig(mode="enabled")
    assert result["nvml_error"] == "LIB_RM_VERSION_MISMATCH" and "reboot" in result["next_step"]


def occupy(machine: Machine, result: dict[str, Any], profile: str, pid: int) -> str:
    instance = next(instance for instance in result["gpus"][0]["instances"] if instance["profile"] == profile)
    inner = instance["compute_instances"][0]
    machine.run_process(gpu=0, pid=pid, instance=(instance["id"], inner["id"]))
    return str(inner["uuid"])


@pytest.fixture
def alice(host: Host) -> None:
    """Make Alice the owner of process 4242."""
    for path, text in {
        "proc/4242/status": "Name:\tpython3\nUid:\t1001\t1001\t1001\t1001\n",
        "proc/4242/cmdline": "python3\0train.py\0",
        "etc/passwd": "alice:x:1001:1001::/home/alice:/bin/bash\n",
    }.items():
        host.touch(path)
        (host.root / path).write_text(text)


@pytest.mark.usefixtures("alice")
def test_busy_instances_fail_the_run_with_users_and_commands(mig: Run, h200: Machine) -> None:
    occupy(h200, mig(mode="enabled", layout=LAYOUT), "3g.71gb", 4242)
    writes = h200.writes
    result = mig(mode="enabled", layout=[{"profile": "7g.141gb"}])
    assert "processes run in 3g.71gb at slot 4: 4242 (alice: python3 train.py)" in result["msg"]
    assert result["busy"] == [
        {"gpu": h200.gpus[0].uuid, "pid": 4242, "user": "alice", "command": "python3 train.py"},
    ]
    assert h200.writes == writes


def test_when_busy_skip_leaves_only_busy_gpus(mig: Run) -> None:
    with fake(["H200", "H200"]) as machine:
        occupy(machine, mig(mode="enabled", layout=LAYOUT), "3g.71gb", 4242)
        result = mig(mode="enabled", layout=[{"profile": "7g.141gb"}], when_busy="skip")
        assert [row["skipped"] for row in result["gpus"]] == [True, False]
        assert [profiles(result, gpu) for gpu in (0, 1)] == [["1g.18gb", "1g.18gb", "3g.71gb"], ["7g.141gb"]]
        assert "4242 (user unknown: command unknown)" in result["warnings"][0]


def test_when_busy_wait_waits_for_processes(mig: Run, h200: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    occupy(h200, mig(mode="enabled", layout=LAYOUT), "3g.71gb", 4242)
    predicted = mig(mode="enabled", layout=[{"profile": "7g.141gb"}], when_busy="wait", check=True)
    assert predicted["gpus"][0]["slots"] == ["slots 0-7: 7g.141gb"]
    monkeypatch.setattr(mig_run.time, "sleep", lambda seconds: h200.end_process(gpu=0, pid=4242))
    result = mig(mode="enabled", layout=[{"profile": "7g.141gb"}], when_busy="wait")
    assert profiles(result) == ["7g.141gb"]
    assert result["diff"] == predicted["diff"]


def test_wait_ends_after_busy_timeout(mig: Run, h200: Machine) -> None:
    occupy(h200, mig(mode="enabled", layout=LAYOUT), "3g.71gb", 4242)
    result = mig(mode="enabled", layout=[], when_busy="wait", busy_timeout=0)
    assert "they did not end within 0 s" in result["msg"]


def test_busy_instance_keeps_its_uuid_while_others_change(mig: Run, h200: Machine) -> None:
    uuid = occupy(h200, mig(mode="enabled", layout=LAYOUT), "3g.71gb", 4242)
    result = mig(mode="enabled", layout=[{"profile": "3g.71gb"}, {"profile": "2g.35gb"}])
    assert uuid in [
        inner["uuid"] for instance in result["gpus"][0]["instances"] for inner in instance["compute_instances"]
    ]


def test_ampere_is_not_reset_by_default(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        result = mig(mode="enabled", layout=[{"profile": "1g.5gb"}], persist="none")
        assert (result["needs"], result["gpus"][0]["needs"]) == ("gpu_reset", "gpu_reset")
        assert (result["changed"], machine.writes, host.commands) == (False, 0, [])
        # "Applied successfully" with nothing applied is what nvidia-mig-parted says (#18).
        assert "was left as it is: MIG enabled needs a reset" in result["warnings"][0]


def test_running_services_are_restarted_around_a_reset(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.machine = machine
        params = {"mode": "enabled", "layout": [{"profile": "1g.5gb"}], "allow_reset": "gpu"}
        services = ["nvidia-persistenced", "nvidia-dcgm", "gdm"]
        result = mig(**params, stop_services=services)
        assert profiles(result) == ["1g.5gb"]
        assert host.commands == [
            "systemctl stop nvidia-persistenced",
            "systemctl stop nvidia-dcgm",
            f"nvidia-smi --gpu-reset -i {machine.gpus[0].uuid}",
            "systemctl start nvidia-persistenced",
            "systemctl start nvidia-dcgm",
        ]
        host.commands.clear()
        mig(**{**params, "layout": []}, stop_services=services)
        assert host.commands == []


def test_reset_without_nvidia_smi_is_reverted_and_reported(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.missing = ["nvidia-smi"]
        machine.fail("nvmlDeviceSetMigMode", "SUCCESS", activation="RESET_REQUIRED")
        before = machine.state()
        result = mig(mode="enabled", allow_reset="gpu")
        assert "nvidia-smi --gpu-reset ([Errno 2] No such file or directory: 'nvidia-smi')" in result["msg"]
        assert result["restored"] and machine.state() == before


def test_mode_that_waits_for_a_reboot_is_set_once(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.refuses = "--gpu-reset"
        host.touch("sys/module/nvidia_drm/refcnt")
        params = {
            "mode": "enabled",
            "layout": [{"profile": "3g.20gb", "count": 2}],
            "allow_reset": "gpu",
            "persist": "none",
        }
        first, second = mig(**params), mig(**params)
        assert (first["changed"], first["needs"], second["changed"], second["needs"]) == (
            True,
            "reboot",
            False,
            "reboot",
        )
        assert "rmmod nvidia_drm" in first["warnings"][0]
        machine.reboot()
        third = mig(**params)
        assert (third["changed"], third["needs"], len(third["gpus"][0]["instances"])) == (True, "none", 2)
        assert not mig(**params)["changed"]


def test_services_start_again_when_the_reset_fails(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.refuses = "--gpu-reset"
        result = mig(mode="enabled", allow_reset="gpu", stop_services=["nvidia-dcgm"])
        assert (result["needs"], result["gpus"][0]["mode"], result["gpus"][0]["pending"]) == (
            "reboot",
            "disabled",
            "enabled",
        )
        assert "--gpu-reset failed" in result["warnings"][0]
        assert host.commands[-1] == "systemctl start nvidia-dcgm"
        assert machine.state()["gpu.0.mig.pending"] == "1"


def test_mode_that_waits_stops_no_service_again(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]):
        host.refuses = "--gpu-reset"
        params = {"mode": "enabled", "allow_reset": "gpu", "stop_services": ["nvidia-dcgm"]}
        mig(**params)
        host.commands.clear()
        result = mig(**params)
        assert (result["changed"], result["needs"], host.commands) == (False, "reboot", [])
        assert "waits for a reboot" in result["warnings"][0]


USED = """\
GPU 00000000:07:00.0 is currently in use by one or more other processes (e.g., CUDA application, or a monitoring application).
"""


def test_gpu_that_programs_use_waits_for_no_reboot(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.refuses, host.says = "--gpu-reset", USED
        before = machine.state()
        result = mig(mode="enabled", allow_reset="gpu")
        assert "in use by one or more other processes" in result["msg"]
        assert result["restored"] and machine.state() == before


def test_instances_of_a_gpu_that_cannot_be_reset_are_restored(mig: Run, host: Host) -> None:
    with fake(["A100 40GB"]) as machine:
        host.machine = machine
        mig(mode="enabled", layout=[{"profile": "3g.20gb", "count": 2}], allow_reset="gpu")
        host.refuses, host.says = "--gpu-reset", "GPU 00000000:00:04.0: Not Supported"
        machine.fail("nvmlDeviceSetMigMode", "SUCCESS", activation="RESET_REQUIRED")
        result = mig(mode="disabled", allow_reset="gpu")
        assert "Not Supported" in result["msg"] and result["restored"]
        assert (result["now"]["mode"], result["now"]["pending"]) == ("enabled", "enabled")
        assert [row["profile"] for row in result["now"]["instances"]] == ["3g.20gb", "3g.20gb"]


def test_failure_has_both_states_and_earlier_gpus(mig: Run) -> None:
    with fake(["H200", "H200"]) as machine:
        mig(mode="enabled", layout=[{"profile": "7g.141gb"}])
        machine.fail("nvmlDeviceCreateGpuInstanceWithPlacement", "INSUFFICIENT_RESOURCES", gpu=1)
        result = mig(mode="enabled", layout=[{"profile": "3g.71gb"}])
        assert result["failed"] and result["changed"]
        assert (result["nvml_error"], result["restored"]) == ("INSUFFICIENT_RESOURCES", True)
        assert [row["uuid"] for row in result["gpus"]] == [machine.gpus[0].uuid]
        assert result["before"]["slots"] == result["now"]["slots"] == ["slots 0-7: 7g.141gb"]


def declared(host: Host) -> Any:
    return json.loads((host.root / DECLARED).read_text())["gpus"]


def test_request_is_declared_for_boots_by_uuid(mig: Run, h200: Machine, host: Host) -> None:
    result = mig(devices=["0"], mode="enabled", layout=LAYOUT)
    assert [Path(path).name for path in result["boot"]].count("rigwright-gpu-mig.service") == 2
    entry = declared(host)[h200.gpus[0].uuid]
    assert entry["devices"] == [h200.gpus[0].uuid]
    assert (entry["mode"], entry["persist"], entry["refresh_cdi"]) == ("enabled", "unchanged", "never")
    assert "After=" in (host.root / UNIT).read_text() and "rigwright-gpu-mode.service" in (host.root / UNIT).read_text()


def test_declaration_restores_the_layout_after_a_reboot(
    mig: Run, h200: Machine, host: Host, capfd: pytest.CaptureFixture[str]
) -> None:
    before = mig(mode="enabled", layout=LAYOUT)
    h200.reboot()
    assert mig_boot.main(str(host.root)) == 0
    assert "MIG enabled, create 3g.71gb at slot 4" in capfd.readouterr().out
    after = mig(mode="enabled", layout=LAYOUT)
    assert not after["changed"]
    assert after["gpus"][0]["instances"] == before["gpus"][0]["instances"]


def test_module_sends_the_boot_program(
    run_tasks: Callable[..., Any], h200: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check what Ansible sends: what a module imports, so boot's program as well, which nothing else of the module needs."""
    for name, value in h200.env.items():
        monkeypatch.setenv(name, value)
    task = {"rigwright.workstation.gpu_mig": {"devices": ["all"], "mode": "enabled", "layout": LAYOUT}}
    ran = run_tasks([task], "--check", "--diff")
    assert ran.rc == 0, ran.output
    assert "at boot: MIG enabled, 3g.71gb + 2x 1g.18gb" in ran.output
    assert h200.writes == 0


def test_gpus_of_other_tasks_stay_declared(mig: Run, host: Host) -> None:
    with fake(["H200", "H200"]) as machine:
        first, second = (gpu.uuid for gpu in machine.gpus)
        mig(devices=[first], mode="enabled", layout=LAYOUT)
        mig(devices=[second], mode="enabled", layout=[])
        assert sorted(declared(host)) == sorted([first, second])
        mig(devices=[second], mode="disabled")
        assert list(declared(host)) == [first]
        assert mig(devices=[first], mode="enabled", layout=LAYOUT, persist="none")["changed"]
        assert not (host.root / UNIT).exists()


@pytest.mark.usefixtures("h200")
def test_cdi_is_refreshed_only_for_new_instances(mig: Run, host: Host) -> None:
    host.touch(CDI, "run/systemd/system")
    assert not mig(mode="enabled", layout=LAYOUT, refresh_cdi="never")["cdi_refreshed"]
    restart = "systemctl restart nvidia-cdi-refresh.service"
    assert restart not in host.commands
    assert mig(mode="enabled", layout=[])["cdi_refreshed"] and restart in host.commands
    host.commands.clear()
    assert not mig(mode="enabled", layout=[])["cdi_refreshed"] and host.commands == []


@pytest.mark.usefixtures("h200")
def test_failed_refresh_of_cdi_is_a_warning(mig: Run, host: Host) -> None:
    host.touch(CDI, "run/systemd/system")
    host.refuses = "nvidia-cdi-refresh"
    result = mig(mode="enabled", layout=LAYOUT)
    assert not result["cdi_refreshed"] and "containers may not find the instances" in result["warnings"][0]


def parted(**spec: Any) -> dict[str, Any]:
    config = {
        "version": "v1",
        "mig-configs": {"ours": [{"devices": "all", "mig-enabled": True, "mig-devices": {}, **spec}]},
    }
    return {"devices": None, "mig_parted": {"config": config, "selected": "ours"}}


def test_mig_parted_configuration_is_read_and_returned(mig: Run, h200: Machine) -> None:
    result = mig(**parted(**{"mig-devices": {"1g.18gb": 2, "3g.71gb": 1}}))
    assert profiles(result) == ["1g.18gb", "1g.18gb", "3g.71gb"]
    written = result["mig_parted"]
    assert written["mig-configs"]["current"][0] == {
        "devices": "all",
        "mig-enabled": True,
        "mig-devices": {"1g.18gb": 2, "3g.71gb": 1},
    }
    assert not mig(devices=None, mig_parted={"config": written, "selected": "current"})["changed"]


def test_a_filter_of_mig_parted_leaves_other_cards_alone(mig: Run) -> None:
    with fake(["H200", "RTX 4090"]) as machine:
        result = mig(**parted(**{"device-filter": "0x233510DE"}))
        assert [row["index"] for row in result["gpus"]] == [0]
        assert "gpu.1.mig.mode" not in machine.state()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "enabled"}, "leave `mode` and `layout` out"),
        ({"layout": []}, "mutually exclusive"),
    ],
)
def test_mig_parted_excludes_mode_and_layout(mig: Run, h200: Machine, params: dict[str, Any], message: str) -> None:
    assert message in mig(**parted(), **params)["msg"]


def test_migparted_a_mode_of_another_gpu_changes_nothing(mig: Run) -> None:
    with fake(["H200", "H200"]) as machine:
        first = mig(devices=[machine.gpus[0].uuid], mode="enabled", layout=LAYOUT)
        result = mig(mode="enabled", layout=LAYOUT)
        assert result["gpus"][0]["changes"] == [] and result["gpus"][1]["changes"] != []
        assert result["gpus"][0]["instances"] == first["gpus"][0]["instances"]


def test_migparted_b_only_the_pending_gpu_is_reset(mig: Run, host: Host) -> None:
    with fake(["A100 40GB", "A100 40GB"]) as machine:
        host.machine = machine
        mig(devices=[machine.gpus[0].uuid], mode="enabled", allow_reset="gpu")
        assert [line for line in host.commands if "reset" in line] == [
            f"nvidia-smi --gpu-reset -i {machine.gpus[0].uuid}"
        ]


def test_deepops_example_of_two_7g_80gb_is_refused(mig: Run) -> None:
    with fake(["A100 80GB"]) as machine:
        machine.set(0, **{"mig.mode": 1, "mig.pending": 1})
        result = mig(**parted(**{"mig-devices": {"7g.80gb": 2}}))
        assert "2x 7g.80gb does not fit this card" in result["msg"] and "nearest that fit: 7g.80gb" in result["msg"]
        assert machine.writes == 0


@pytest.mark.usefixtures("h200")
def test_the_documentation_names_every_fact_of_a_gpu(mig: Run) -> None:
    found = mig(mode="enabled", layout=LAYOUT)
    documented = yaml.safe_load(gpu_mig.RETURN)
    assert documented["gpus"]["contains"].keys() == found["gpus"][0].keys()
    assert found.keys() - {"changed", "invocation", "warnings", "diff"} <= documented.keys()
