# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_health on fake GPUs: its verdicts, its refusals, and that it writes nothing to a GPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import gpu_health

from harness.fakes.nvml import Machine, fake, models

Run = Callable[..., dict[str, Any]]


class Host:
    """A host below a folder, with a journal and fake GPUs."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root, self.machine = root, machine
        self.journal: list[str] = []
        self.readable = True
        for path, text in {"/proc/sys/kernel/random/boot_id": "one\n", "/proc/uptime": "3600.0 1.0\n"}.items():
            self.write(path, text)
        for gpu in machine.gpus:
            self.write(f"/sys/bus/pci/devices/{gpu.pci_address}/vendor", "0x10de\n")
            self.write(f"/sys/bus/pci/devices/{gpu.pci_address}/class", "0x030200\n")
            (root / f"sys/bus/pci/devices/{gpu.pci_address}/driver").symlink_to("../../drivers/nvidia")
        namespace = root / "proc/self/ns/pid"
        namespace.parent.mkdir(parents=True)
        namespace.symlink_to("pid:[4026531836]")

    def write(self, path: str, text: str) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def log(self, gpu: int, code: int, text: str = "") -> None:
        slot = self.machine.gpus[gpu].pci_address.partition(".")[0]
        self.journal.append(f"NVRM: Xid (PCI:{slot}): {code}, {text}")

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        if Path(command[0]).name == "dmesg" or not self.readable:
            return 1, "", "Operation not permitted"
        lines = ["Linux version 6.12", *self.journal]
        return (
            0,
            "".join(json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": "9000000000000000"}) + "\n" for line in lines),
            "",
        )


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Host]]:
    """Return a function that creates a host with these GPUs, on which the module then runs."""
    factories: list[Any] = []

    def make(*names: str) -> Host:
        context = fake(names)
        machine = context.__enter__()
        factories.append(context)
        host = Host(tmp_path, machine)
        monkeypatch.setattr(gpu_health, "ROOT", str(tmp_path))
        monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: host.run_command(command))
        monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name, **_options: f"/usr/bin/{name}")
        return host

    yield make
    for context in factories:
        context.__exit__(None, None, None)


@pytest.fixture
def health(run_module: Run) -> Run:
    return lambda **params: run_module(gpu_health, **params)


def whats(gpu: dict[str, Any]) -> list[str]:
    return [row["what"] for row in gpu["reasons"]]


@pytest.mark.parametrize("name", models())
def test_healthy_card_of_any_model_passes(health: Run, hosts: Any, name: str) -> None:
    host = hosts(name)
    result = health()
    assert result["gpus"][0]["reasons"] == []
    assert (result["verdict"], result["changed"], result["unread"], result["gpus"][0]["verdict"]) == (
        "PASS",
        False,
        [],
        "PASS",
    )
    assert result["gpus"][0]["uuid"] == host.machine.gpus[0].uuid


@pytest.mark.parametrize(
    ("model", "facts", "name", "verdict"),
    [
        ("H200", {"recovery_action": 1}, "recovery_action", "RESET_GPU"),
        ("H200", {"recovery_action": 2}, "recovery_action", "REBOOT"),
        ("H200", {"unrepairable": 1}, "unrepairable_memory", "REPLACE"),
        ("H200", {"remapped__failure": 1}, "row_remap_failure", "REPLACE"),
        ("A100 40GB", {"remapped__pending": 1}, "row_remap_pending", "RESET_GPU"),
        ("A100 40GB", {"remapped__uncorrectable": 512}, "remapped_rows", "REPLACE"),
        ("H200", {"sram__exceeded": 1}, "sram_threshold", "REPLACE"),
        ("B200", {"repair__channel": 1}, "channel_repair", "RESET_GPU"),
        ("V100", {"retired__pending": 1}, "page_retirement_pending", "RESET_GPU"),
        ("V100", {"retired__0": [*range(63)]}, "retired_pages", "REPLACE"),
        ("RTX 4090", {"temperature__gpu": 200}, "gpu_temperature", "MONITOR"),
        ("RTX 4090", {"events__current": 0x48}, "hardware_slowdown", "MONITOR"),
        ("H200", {"pcie__width": 8, "utilization__gpu": 100}, "pcie_width", "MONITOR"),
        ("RTX 4090", {"pcie__max_generation": 3}, "pcie_slot", "MONITOR"),
        ("H200", {"fabric__state": 1}, "fabric_not_started", "REBOOT"),
        ("H200", {"fabric__state": 2}, "fabric_in_progress", "REBOOT"),
        ("H200", {"fabric__status": 999}, "fabric_failed", "REBOOT"),
        ("H200", {"fabric__health": 0x10}, "fabric_health", "MONITOR"),
        ("H200", {"nvlink__active": 0}, "nvlinks_down", "RESET_GPU"),
        ("A100 40GB", {"nvlink.7.active": 0}, "nvlinks_down", "RESET_GPU"),
        ("B200", {"nvlink__effective_ber": 0x20C}, "nvlink_bit_error_rate", "MONITOR"),
        ("H100", {"inforom__valid": 0}, "inforom_corrupted", "REBOOT"),
        ("A100 80GB", {"remapper__none": 2}, "banks_without_spare_rows", "MONITOR"),
        ("A100 80GB", {"ecc__current": 0, "ecc__pending": 0}, "ecc_off", "MONITOR"),
        ("V100", {"retired__1": [*range(16)]}, "double_bit_pages", "MONITOR"),
    ],
)
def test_each_problem_of_a_card_is_found_through_nvml(
    health: Run, hosts: Any, model: str, facts: dict[str, Any], name: str, verdict: str
) -> None:
    host = hosts(model)
    host.machine.set(0, **facts)
    result = health()
    assert whats(result["gpus"][0]) == [name]
    assert result["verdict"] == verdict


def away(host: Host, gpu: int) -> None:
    """Report a GPU that is off the bus, and missing in NVML after the next load of the driver."""
    host.machine.kill(gpu)
    host.machine.reboot()
    shutil.rmtree(host.root / f"sys/bus/pci/devices/{host.machine.gpus[gpu].pci_address}")


def test_lost_gpu_is_reported_until_acknowledged(health: Run, hosts: Any) -> None:
    host = hosts("H200", "RTX 4090")
    host.write(gpu_health.state.STATE, "")
    uuid = host.machine.gpus[1].uuid
    assert health(remember=True)["verdict"] == "PASS"
    away(host, 1)
    result = health(remember=True, expected_count=2)
    assert [(gpu["uuid"], whats(gpu)) for gpu in result["gpus"]] == [
        (host.machine.gpus[0].uuid, []),
        (uuid, ["missing"]),
    ]
    assert (result["verdict"], [row["what"] for row in result["reasons"]]) == ("REBOOT", ["gpu_count"])
    host.write("/proc/sys/kernel/random/boot_id", "two\n")
    assert health(remember=True)["verdict"] == "REPLACE"
    assert health(remember=True, acknowledged=[uuid])["verdict"] == "PASS"
    assert health()["verdict"] == "PASS"


def test_gpu_dead_when_the_driver_is_loaded_is_reported(health: Run, hosts: Any) -> None:
    host = hosts("H200", "H200")
    host.machine.kill(1)
    host.machine.reboot()
    address = host.machine.gpus[1].pci_address
    (host.root / f"sys/bus/pci/devices/{address}/driver").unlink()
    host.journal.append(
        f"NVRM: The NVIDIA GPU {address}\nNVRM: (PCI ID: 10de:2335) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands."
    )
    result = health()
    assert (result["verdict"], whats(result["gpus"][1])) == ("REBOOT", ["no_driver", "xid_79"])


def test_v100_with_growing_retired_pages_is_replaced(health: Run, hosts: Any) -> None:
    host = hosts("V100")
    host.write(gpu_health.state.STATE, "")
    host.machine.set(0, retired__1=[*range(3)])
    assert health(remember=True)["verdict"] == "PASS"
    host.machine.set(0, retired__1=[*range(16)])
    result = health()
    assert (result["verdict"], whats(result["gpus"][0])) == ("REPLACE", ["double_bit_pages"])


def test_nvlink_5_errors_are_compared_with_the_last_check(health: Run, hosts: Any) -> None:
    host = hosts("B200")
    host.write(gpu_health.state.STATE, "")
    health(remember=True)
    host.machine.set(0, nvlink__recovery_failures=1)
    assert whats(health()["gpus"][0]) == ["nvlink_recovery_failures"]


def test_state_of_another_user_is_left_out(health: Run, hosts: Any, tmp_path: Path) -> None:
    host = hosts("H200")
    place = host.write("/theirs/state.json", "{}")
    link = host.write(gpu_health.state.STATE, "")
    link.unlink()
    link.symlink_to(place)
    result = health()
    assert (result["verdict"], "the last check" in result["unread"][0]) == ("PASS", True)


def test_module_writes_nothing_to_a_gpu_or_the_state(health: Run, hosts: Any) -> None:
    host = hosts("H200", "RTX 4090")
    before = host.machine.state()
    health(remember=False)
    health(check=True, remember=True)
    assert (host.machine.writes, host.machine.state()) == (0, before)
    assert not list(host.root.rglob("state.json"))


def test_a_lost_gpu_is_a_verdict_and_no_crash(health: Run, hosts: Any) -> None:
    host = hosts("H200", "H200")
    host.machine.lose(1)
    host.log(1, 79, "GPU has fallen off the bus.")
    result = health()
    assert (result.get("failed", False), result["verdict"]) == (False, "REBOOT")
    assert [gpu["verdict"] for gpu in result["gpus"]] == ["PASS", "REBOOT"]
    assert whats(result["gpus"][1]) == ["nvml_GPU_IS_LOST", "xid_79"]


def test_driver_library_mismatch_is_a_verdict(health: Run, hosts: Any) -> None:
    host = hosts("RTX 4090")
    host.machine.upgrade_library("590.48.01")
    result = health()
    assert (result.get("failed", False), result["verdict"]) == (False, "REBOOT")
    assert [row["what"] for row in result["reasons"]] == ["nvml_LIB_RM_VERSION_MISMATCH"]
    host.machine.reboot()
    assert health()["verdict"] == "PASS"


def test_driver_that_is_not_loaded_is_a_verdict(health: Run, hosts: Any) -> None:
    host = hosts("RTX 4090")
    host.machine.unload_driver()
    assert [row["what"] for row in health()["reasons"]] == ["nvml_DRIVER_NOT_LOADED"]


def test_an_xid_of_the_journal_is_judged_by_the_catalogue(health: Run, hosts: Any) -> None:
    host = hosts("H200", "H200")
    host.log(1, 109, "pid=4242, name=train, Ch 00000008")
    result = health()
    assert [gpu["verdict"] for gpu in result["gpus"]] == ["PASS", "RESET_GPU"]
    assert result["gpus"][1]["xids"][0]["process"] == "train"


def test_remapped_rows_are_read_unlike_azures_check(health: Run, hosts: Any) -> None:
    host = hosts("A100 80GB")
    host.machine.set(0, remapped__uncorrectable=600)
    assert (health()["verdict"], whats(health()["gpus"][0])) == ("REPLACE", ["remapped_rows"])


def test_nvlinks_of_each_gpu_count_unlike_gcps_check(health: Run, hosts: Any) -> None:
    host = hosts("H200", "H200")
    host.write(gpu_health.state.STATE, "")
    health(remember=True)
    host.machine.set(1, nvlink__error__2=10_000_000)
    assert [(gpu["verdict"], whats(gpu)) for gpu in health()["gpus"]] == [
        ("PASS", []),
        ("MONITOR", ["nvlink_crc_errors"]),
    ]


def test_one_ecc_error_counts_unlike_gcps_check(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    host.machine.set(0, **{"ecc.0.1.total": 1})
    assert whats(health()["gpus"][0]) == ["uncorrected_errors"]


@pytest.mark.parametrize(
    ("code", "verdict"), [(109, "RESET_GPU"), (13, "RESTART_APP"), (31, "RESTART_APP"), (43, "MONITOR"), (63, "PASS")]
)
def test_xid_109_counts_unlike_the_k8s_plugin(health: Run, hosts: Any, code: int, verdict: str) -> None:
    host = hosts("H200")
    host.machine.run_process(gpu=0, pid=4242)
    host.log(0, code)
    assert health()["verdict"] == verdict


def test_subsystems_of_xids_are_the_catalogues_not_dcgms(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    for code in (38, 62, 78):
        host.log(0, code)
    result = {row["code"]: row["subsystem"] for row in health()["gpus"][0]["xids"]}
    assert result == {38: "firmware", 62: "firmware", 78: "other"}


def test_unknown_rows_inside_mig_are_no_problem(health: Run, hosts: Any) -> None:
    host = hosts("A100 40GB")
    host.machine.set(0, mig__mode=1, mig__pending=1)
    host.machine.fail("nvmlDeviceGetRemappedRows", "NOT_SUPPORTED", times=0)
    (gpu,) = health()["gpus"]
    assert (gpu["card"]["modes"]["mig"]["current"], gpu["card"]["counters"]["remapped_rows"]) == (True, None)
    assert (gpu["verdict"], gpu["reasons"]) == ("PASS", [])


def test_error_of_a_program_ends_with_the_program(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    host.write("/proc/4242/comm", "train\n")
    host.machine.run_process(gpu=0, pid=4242)
    host.log(0, 31, "pid=4242, name=train, MMU Fault")
    host.log(0, 94, "pid='<unknown>', name=<unknown>, Contained: SM (0x1)")
    assert health()["verdict"] == "RESTART_APP"
    host.machine.end_process(gpu=0, pid=4242)
    assert [row["code"] for row in health()["gpus"][0]["xids"]] == [31]
    (host.root / "proc/4242/comm").unlink()
    (host.root / "proc/4242").rmdir()
    result = health()
    assert (result["verdict"], [row["code"] for row in result["gpus"][0]["xids_over"]]) == ("PASS", [31, 94])


def test_healthy_node_passes_unlike_deepops_prolog(health: Run, hosts: Any) -> None:
    """Pass a healthy node. DeepOps drains it, since its grep finds no "fail", and gives the job to a broken one."""
    host = hosts("H200")
    assert "failed" not in health(fail_on="RESET_GPU")
    host.machine.set(0, remapped__failure=1)
    result = health(fail_on="RESET_GPU")
    assert result["failed"] and result["verdict"] == "REPLACE"
    assert "row_remap_failure" in result["msg"]


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [("none", False), ("MONITOR", True), ("RESTART_APP", True), ("RESET_GPU", False), ("REPLACE", False)],
)
def test_module_fails_from_the_given_verdict_on(health: Run, hosts: Any, fail_on: str, failed: bool) -> None:
    host = hosts("H200")
    host.machine.run_process(gpu=0, pid=4242)
    host.log(0, 31, "MMU Fault")
    result = health(fail_on=fail_on)
    assert result.get("failed", False) is failed
    # Everything is returned all the same.
    assert (result["verdict"], len(result["gpus"])) == ("RESTART_APP", 1)


def test_lost_card_is_named_by_address_or_index(health: Run, hosts: Any) -> None:
    """Name it by its address or index: it has no UUID, and perhaps no address."""
    host = hosts("H200")
    host.machine.lose(gpu=0)
    assert health(fail_on="REBOOT")["msg"].startswith("The verdict is REBOOT: 0000:41:00.0: nvml_GPU_IS_LOST")
    shutil.rmtree(host.root / "sys/bus/pci")
    assert health(fail_on="REBOOT")["msg"].startswith("The verdict is REBOOT: index 0: nvml_GPU_IS_LOST")


def test_module_without_rights_lists_unread_values(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    host.readable = False
    result = health()
    assert result["verdict"] == "PASS"
    assert len(result["unread"]) == 1 and "the kernel's log" in result["unread"][0]


def test_counters_are_compared_with_the_remembered_check(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    state = host.write(gpu_health.state.STATE, "")
    assert health(remember=True)["since"] is None
    result = health()
    assert result["since"] == json.loads(state.read_text())["time"]
    assert result["gpus"][0]["since_last_check"]["pcie_replays"] == 0


def test_damaged_state_file_is_unread(health: Run, hosts: Any) -> None:
    host = hosts("H200")
    host.write(gpu_health.state.STATE, '{"version": 1, "gpus"')
    result = health()
    assert (result["verdict"], result["since"]) == ("PASS", None)
    assert "the last check" in result["unread"][0]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"window": "yesterday"}, "`window` is 'yesterday': it is `boot`, or a number"),
        ({"limits": {"remapped_rows": 0}}, "`limits` has remapped_rows at 0 or below"),
        ({"limits": {"rows": 5}}, "rows"),
        ({"fail_on": "WORSE"}, "value of fail_on must be one of"),
        ({"remember": True, "state_file": "/nowhere/state.json"}, "`remember`: "),
    ],
)
def test_invalid_options_are_refused_with_possible_values(
    health: Run, hosts: Any, params: dict[str, Any], text: str
) -> None:
    host = hosts("H200")
    result = health(**params)
    assert result["failed"] and text in result["msg"]
    assert host.machine.writes == 0
