# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons of the fake MPS: started, changed, drained, stopped and proven; with and without systemd."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import devices as mps_devices
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import run as mps_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Device
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mps

from harness.fakes.mps import Mps, fake_mps, files, program, waited_for
from harness.fakes.nvml import fake

Run = Callable[..., dict[str, Any]]

SYSTEMCTL = Path(__file__).parents[2] / "support/gpu/systemctl.py"

A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"
GPUS = [
    Device(A, "0", "0000:41:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771),
    Device(B, "1", "0000:42:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771),
]


class Machine:
    """The fake MPS, and the GPUs that NVML reports."""

    def __init__(self, mps: Mps, run_module: Run) -> None:
        self.mps, self.run_module = mps, run_module
        self.devices, self.driver = list(GPUS), "580.159.04"
        self.places = {"manager": "none"}

    def pipe(self, name: str = "team") -> Path:
        return self.mps.folder / "run" / name

    def run(self, *daemons: dict[str, Any], **params: Any) -> dict[str, Any]:
        root = self.mps.folder
        places = {"pipe_root": f"{root}/run", "log_root": f"{root}/log", "config_root": f"{root}/etc"}
        return self.run_module(gpu_mps, daemons=list(daemons), **{"verify": False, **places, **self.places, **params})

    def pid(self, name: str = "team") -> int:
        return int((self.pipe(name) / "nvidia-cuda-mps-control.pid").read_text())


@pytest.fixture
def machine(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with fake_mps([A, B]) as mps:
        host = Machine(mps, run_module)
        monkeypatch.setattr(gpu_mps, "Nvml", lambda: contextlib.nullcontext("no NVML"))
        monkeypatch.setattr(gpu_mps, "respawn_where_needed", lambda module: None)
        monkeypatch.setattr(mps_devices, "read", lambda nvml: (host.devices, host.driver))
        for key in ("PATH", "LD_LIBRARY_PATH", "RIGWRIGHT_FAKE_CUDA"):
            monkeypatch.setenv(key, mps.env[key])
        yield host


def deaf(program: Path) -> str:
    """Return a daemon program that reads any percentage as 100."""
    change = "from harness.fakes.mps_daemon import daemon\ndaemon.percent = lambda text: 100.0\n"
    return program.read_text().replace("sys.exit(", f"{change}sys.exit(")


TEAM = {"name": "team", "devices": [A], "active_thread_percentage": 50, "memory_limits": {A: "2G"}}


def test_a_config_root_that_others_may_write_is_refused(machine):
    (machine.mps.folder / "etc").mkdir(exist_ok=True)
    (machine.mps.folder / "etc").chmod(0o777)
    assert f"`config_root`: users other than root may write in {machine.mps.folder}/etc" in machine.run(TEAM)["msg"]
    assert not machine.pipe().exists()


def test_daemon_starts_with_limits_and_is_proven(machine: Machine) -> None:
    result = machine.run(TEAM, verify=True)
    assert result["changed"], result
    (daemon,) = result["daemons"]
    assert daemon["actions"] == ["start"]
    assert daemon["client_environment"] == {"CUDA_MPS_PIPE_DIRECTORY": str(machine.pipe())}
    (device,) = daemon["verified"]["devices"]
    assert (device["mps"], device["multiprocessors"], device["uuid"]) == (1, 66, A)
    assert machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "50.0"


def test_a_second_run_changes_nothing(machine: Machine) -> None:
    machine.run(TEAM, verify=True)
    before = machine.pid()
    again = machine.run(TEAM, verify=True)
    assert (again["changed"], again["pending"], again["daemons"][0]["actions"]) == (False, [], []), again
    assert again["diff"]["before"] == again["diff"]["after"]
    assert machine.pid() == before


def test_check_mode_predicts_the_run(machine: Machine) -> None:
    predicted = machine.run(TEAM, check=True)
    assert (predicted["changed"], machine.mps.daemons(), machine.pipe().exists()) == (True, [], False)
    done = machine.run(TEAM)
    assert [row["actions"] for row in predicted["daemons"]] == [row["actions"] for row in done["daemons"]]
    assert predicted["diff"] == done["diff"]
    changed = machine.run({**TEAM, "active_thread_percentage": 25}, check=True)
    assert changed["daemons"][0]["actions"][0] == "push"
    assert machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "50.0"


def test_diff_shows_differences_and_the_script(machine: Machine) -> None:
    machine.run(TEAM)
    diff = machine.run({**TEAM, "active_thread_percentage": 25})["diff"]
    before, after = (json.loads(diff[key])["team"] for key in ("before", "after"))
    assert (before["not_as_declared"], after["not_as_declared"]) == (["active_thread_percentage"], [])
    (path,) = after["files"]
    assert "set_default_active_thread_percentage 25" in after["files"][path]


def test_two_teams_have_a_server_each_on_one_gpu(machine: Machine) -> None:
    result = machine.run(
        {**TEAM, "name": "vision"}, {**TEAM, "name": "speech", "active_thread_percentage": 25}, verify=True
    )
    servers = [server["pid"] for row in result["daemons"] for server in row["servers"]]
    assert len(set(servers)) == 2
    assert [row["verified"]["devices"][0]["multiprocessors"] for row in result["daemons"]] == [66, 34]
    assert not machine.run({**TEAM, "name": "vision"}, {**TEAM, "name": "speech", "active_thread_percentage": 25})[
        "changed"
    ]


def test_defaults_lost_on_quit_are_set_by_the_next_run(machine: Machine) -> None:
    machine.run(TEAM)
    machine.mps.ask(machine.pipe(), "quit")
    waited_for(lambda: not machine.mps.daemons())
    assert machine.run(TEAM)["daemons"][0]["actions"] == ["start"]
    assert machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "50.0"


def test_changed_default_is_corrected(machine: Machine) -> None:
    machine.run(TEAM)
    machine.mps.ask(machine.pipe(), "set_default_active_thread_percentage 90")
    assert machine.run(TEAM)["daemons"][0]["actions"] == ["push"]
    assert not machine.run(TEAM)["changed"]


def test_limits_of_a_server_with_clients_are_pending(machine: Machine) -> None:
    machine.run(TEAM)
    server = machine.mps.client(machine.pipe(), os.getuid(), 5012)
    result = machine.run({**TEAM, "active_thread_percentage": 25}, when_clients="defer")
    assert (result["changed"], result["pending"]) == (
        True,
        [f"team: active_thread_percentage of server {server}, until its clients 5012 have ended"],
    )
    assert machine.mps.ask(machine.pipe(), f"get_active_thread_percentage {server}") == "50.0"

    again = machine.run({**TEAM, "active_thread_percentage": 25}, when_clients="defer")
    assert (again["changed"], again["pending"]) == (False, result["pending"])

    machine.mps.leave(machine.pipe(), 5012)
    assert machine.run({**TEAM, "active_thread_percentage": 25})["daemons"][0]["actions"] == [
        f"limits of server {server}"
    ]
    assert machine.mps.ask(machine.pipe(), f"get_active_thread_percentage {server}") == "25.0"


@pytest.mark.parametrize(
    "change", [{"active_thread_percentage": 25}, {"devices": [B], "memory_limits": {}}, {"state": "absent"}]
)
def test_clients_fail_a_run_before_a_write(machine: Machine, change: dict[str, Any]) -> None:
    machine.run(TEAM)
    machine.mps.client(machine.pipe(), os.getuid(), 5012)
    before = {path: path.read_text() for path in (machine.mps.folder / "etc").iterdir()}
    result = machine.run({**TEAM, **change})
    assert "meets clients (5012)" in result["msg"] and result["error"] == "REFUSED"
    assert {path: path.read_text() for path in (machine.mps.folder / "etc").iterdir()} == before
    assert machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "50.0"


def test_clients_are_terminated_before_the_daemon_quits(machine: Machine) -> None:
    machine.run(TEAM)
    server = machine.mps.client(machine.pipe(), os.getuid(), 5012)
    result = machine.run({**TEAM, "state": "absent"}, when_clients="drain", drain_timeout=0)
    assert result["daemons"][0]["actions"] == ["stop"]
    # Its server ends with it, on its own.
    waited_for(lambda: not machine.mps.daemons())
    log = (machine.mps.folder / "log/team/control.log").read_text()
    assert 0 < log.index(f"terminate_client {server} 5012") < log.index("Cmd:quit")


def test_a_drain_waits_for_clients_to_end(machine: Machine) -> None:
    machine.run(TEAM)
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import ctypes, time; ctypes.CDLL('libcuda.so.1').cuInit(0); print(flush=True); time.sleep(1)",
        ],
        env={**machine.mps.env, "CUDA_MPS_PIPE_DIRECTORY": str(machine.pipe())},
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        result = machine.run({**TEAM, "state": "stopped"}, when_clients="drain", drain_timeout=30)
    assert result["changed"]
    assert "terminate_client" not in (machine.mps.folder / "log/team/control.log").read_text()


def test_foreign_daemon_is_left_alone(machine: Machine) -> None:
    machine.mps.start(machine.pipe())
    pid = machine.pid()
    result = machine.run(TEAM)
    assert f"another daemon has {machine.pipe()} (pid {pid})" in result["msg"]
    for state in ("stopped", "absent"):
        gone = machine.run({**TEAM, "state": state})
        assert (gone["changed"], gone["daemons"][0]["state"]) == (False, "foreign")
    assert machine.pid() == pid and machine.mps.ask(machine.pipe(), "get_default_active_thread_percentage") == "100.0"


def test_memory_limit_of_another_gpu_is_refused(machine: Machine) -> None:
    result = machine.run({**TEAM, "memory_limits": {A: "2G", B: "2G"}})
    assert "would drop all its limits" in result["refusals"][0]
    waited_for(lambda: not machine.mps.daemons())
    assert not (machine.mps.folder / "etc").exists()


@pytest.mark.parametrize("option", ["pipe_root", "log_root", "config_root"])
def test_a_directory_that_is_not_absolute_is_refused(machine: Machine, option: str) -> None:
    assert machine.run(TEAM, **{option: "run/x"})["refusals"] == [
        f"{option}: run/x is not absolute; write the whole path"
    ]
    waited_for(lambda: not machine.mps.daemons())


def test_all_problems_are_reported_at_once(machine: Machine) -> None:
    result = machine.run(
        {"name": "a", "devices": ["7"], "active_thread_percentage": 101}, {"name": "b", "user": "nobody-of-that-name"}
    )
    assert len(result["refusals"]) == 3
    assert "there is no user nobody-of-that-name" in result["refusals"][2]


def test_small_difference_of_a_limit_is_pushed(machine: Machine) -> None:
    machine.run({**TEAM, "memory_limits": {A: "1044M"}})
    result = machine.run({**TEAM, "memory_limits": {A: "1100M"}})
    assert result["daemons"][0]["actions"] == ["push"]
    assert not machine.run({**TEAM, "memory_limits": {A: "1100M"}})["changed"]


def test_removed_limit_needs_a_restart(machine: Machine) -> None:
    machine.run(TEAM)
    free = {**TEAM, "memory_limits": {}}
    assert machine.run(free)["daemons"][0]["actions"] == ["restart"]
    assert machine.mps.ask(machine.pipe(), f"get_default_device_pinned_mem_limit {A}") == ""
    assert not machine.run(free)["changed"]


def test_client_outside_mps_fails_the_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = mps_run.mps.ask_probe

    def elsewhere(host: Any, user: str, environment: dict[str, str], request: str) -> Any:
        return real(host, user, {**environment, "CUDA_MPS_PIPE_DIRECTORY": "/nowhere"}, request)

    monkeypatch.setattr(mps_run.mps, "ask_probe", elsewhere)
    result = machine.run(TEAM, verify=True)
    assert result["error"] == "NOT_PROVEN" and "runs outside MPS and without limits" in result["msg"]


def test_server_in_status_fault_is_reported_with_a_remedy(machine: Machine) -> None:
    machine.run(TEAM)
    server = machine.mps.client(machine.pipe(), os.getuid(), 5012)
    machine.mps.fault(machine.pipe(), server, 5012)
    result = machine.run(TEAM, verify=True)
    assert result["error"] == "NOT_PROVEN" and "MPS_SERVER_NOT_READY" in result["msg"]
    assert result["daemons"][0]["servers"] == [{"pid": server, "status": "FAULT", "clients": [5012]}]


def test_daemon_that_ignores_limits_is_stopped(machine: Machine) -> None:
    path = machine.mps.folder / "nvidia-cuda-mps-control"
    path.write_text(deaf(path))
    result = machine.run(TEAM)
    assert "after 'set_default_active_thread_percentage 50' the daemon reports '100.0'" in result["msg"]
    waited_for(lambda: not machine.mps.daemons())


def test_ids_of_static_partitions_are_returned(machine: Machine) -> None:
    daemon = {"name": "team", "devices": [A], "partitions": [{"name": "large", "device": A, "chunks": 8}]}
    result = machine.run(daemon, verify=True)
    id_ = result["daemons"][0]["client_environment"]["partitions"]["large"]
    assert id_.startswith(f"{A}/")
    assert result["daemons"][0]["verified"]["devices"][0]["multiprocessors"] == 64
    assert not machine.run(daemon)["changed"]
    more = {**daemon, "partitions": [*daemon["partitions"], {"name": "small", "device": A, "chunks": 4}]}
    assert machine.run(more)["daemons"][0]["actions"] == ["restart"]
    assert len(machine.run(more)["daemons"][0]["client_environment"]["partitions"]) == 2


def test_partitions_without_room_fail(machine: Machine) -> None:
    result = machine.run({"name": "team", "devices": [A], "partitions": [{"name": "all", "device": A, "chunks": 17}]})
    assert "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION" in result["msg"]
    waited_for(lambda: not machine.mps.daemons())


def test_multiuser_daemon_has_its_option(machine: Machine) -> None:
    if os.geteuid() != 0:
        assert "needs root" in machine.run({**TEAM, "multiuser": True})["msg"]
        return
    assert machine.run({**TEAM, "multiuser": True})["changed"]
    assert b"-multiuser-server" in Path(f"/proc/{machine.pid()}/cmdline").read_bytes()
    assert machine.run(TEAM)["daemons"][0]["actions"] == ["restart"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python that another user may run")
def test_daemon_of_a_user_is_closed_to_others(machine: Machine) -> None:
    home = machine.mps.folder
    for path, (content, _mode) in files([A]).items():
        place = home / Path(path).relative_to("/usr")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    (home / "nvidia-cuda-mps-control").write_text(program("/usr/bin/python3", f"{home}/lib/rigwright-fake-gpu"))
    daemon = {**TEAM, "user": "nobody"}
    result = machine.run(daemon)
    assert "changed" in result, result
    owner = pwd.getpwnam("nobody").pw_uid
    assert Path(f"/proc/{machine.pid()}").stat().st_uid == machine.pipe().stat().st_uid == owner
    assert machine.pipe().stat().st_mode & 0o777 == 0o700
    assert not machine.run(daemon)["changed"]
    assert machine.run(TEAM)["daemons"][0]["actions"] == ["restart"]


def test_missing_program_is_reported_with_its_package(machine: Machine) -> None:
    (machine.mps.folder / "nvidia-cuda-mps-control").unlink()
    assert "nvidia-compute-utils" in machine.run(TEAM)["msg"]


def test_gpus_come_from_nvml_and_are_not_written(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake(["H200", "RTX 4090"]) as cards, fake_mps([gpu.uuid for gpu in cards.gpus]) as mps:
        for key in ("PATH", "RIGWRIGHT_FAKE_CUDA"):
            monkeypatch.setenv(key, mps.env[key])
        monkeypatch.setenv("LD_LIBRARY_PATH", f"{mps.folder}:{cards.env['LD_LIBRARY_PATH']}")
        machine = Machine(mps, run_module)
        daemon = {"name": "team", "devices": ["0"], "active_thread_percentage": 50}
        result = machine.run(daemon, verify=True)
        assert result["daemons"][0]["verified"]["devices"][0]["uuid"] == cards.gpus[0].uuid
        assert "would drop all its limits" in machine.run({**daemon, "memory_limits": {"1": "1G"}})["msg"]
        assert machine.run({**daemon, "state": "absent"})["changed"]
        assert cards.writes == 0


def test_hard_limits_are_set_once_and_need_driver_615(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"slice": "user-1001.slice", "device": "0", "soft": "8G", "hard": "20G"}
    for driver, first, writes in (("615.71.09", True, 1), ("580.159.04", None, 0)):
        with fake(["H200"], driver=driver) as cards, fake_mps([cards.gpus[0].uuid]) as mps:
            monkeypatch.setenv("PATH", mps.env["PATH"])
            machine = Machine(mps, run_module)
            predicted = machine.run(hard_limits=[limit], check=True)
            assert (predicted.get("changed"), cards.writes) == (first, 0)
            result = machine.run(hard_limits=[limit])
            assert (result.get("changed"), cards.writes) == (first, writes)
            if first:
                assert result["hard_limits"] == predicted["hard_limits"]
                assert not machine.run(hard_limits=[limit])["changed"]
            else:
                assert "need driver 615 or later, this is 580.159.04" in result["msg"]


# --- Protocol 3 ---


@pytest.fixture
def newer(machine: Machine) -> Machine:
    machine.driver = "615.71.09"
    return machine


SPACES = {
    **TEAM,
    "namespaces": [{"name": "eval"}, {"name": "fast", "active_thread_percentage": 75, "memory_limit": "1G"}],
}


def test_protocol_3_uses_a_file_and_commands(newer: Machine) -> None:
    result = newer.run(SPACES, verify=True)
    (row,) = result["daemons"]
    assert (row["protocol"], row["verified"]["problems"]) == (3, [])
    assert row["client_environment"]["CUDA_MPS_PIPE_DIRECTORY"] == f"{newer.pipe()}/team/default"
    assert not newer.run(SPACES)["changed"]

    changed = newer.run({**SPACES, "active_thread_percentage": 25})
    assert changed["daemons"][0]["actions"] == ["push"]
    assert newer.mps.command(newer.pipe(), "namespace", "get", "eval", "team", "active-thread-percentage") == (0, "25")
    assert not newer.run({**SPACES, "active_thread_percentage": 25})["changed"]


def test_new_or_removed_namespace_needs_a_restart(newer: Machine) -> None:
    newer.run(SPACES)
    assert newer.run(TEAM)["daemons"][0]["actions"] == ["restart"]
    assert newer.run({**TEAM, "state": "absent"})["changed"]
    waited_for(lambda: not newer.mps.daemons())


def test_another_protocol_is_a_restart(newer: Machine) -> None:
    newer.run({**TEAM, "protocol": "2"})
    assert newer.run(TEAM)["daemons"][0]["actions"] == ["restart"]
    assert newer.mps.command(newer.pipe(), "server", "list")[0] == 0


# --- systemd ---

UNIT = "nvidia-mps@team.service"


@pytest.fixture
def systemd(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    root = machine.mps.folder
    for name in ("units", "enabled", "pids"):
        (root / name).mkdir()
    (root / "systemctl").write_text(f'#!/bin/sh\nexec {sys.executable} {SYSTEMCTL} {root} "$@"\n')
    (root / "journalctl").write_text(f"#!/bin/sh\ncat {root}/journal\n")
    for name in ("systemctl", "journalctl"):
        (root / name).chmod(0o755)
    monkeypatch.setattr(mps_run, "UNIT_FOLDER", f"{root}/units")
    monkeypatch.setattr(mps_run, "ROOTS", {"pipe_root": f"{root}/run", "log_root": f"{root}/var/log"})
    machine.places = {"manager": "systemd", "log_root": f"{root}/var/log"}
    return machine


def calls(machine: Machine) -> list[str]:
    """Return the changing calls of systemctl since the last call of this function."""
    file = machine.mps.folder / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    file.write_text("")
    return [line for line in lines if not line.startswith("is-enabled")]


def test_unit_is_enabled_and_started_with_limits(systemd: Machine) -> None:
    result = systemd.run(TEAM, verify=True)
    assert (result["daemons"][0]["actions"], result["daemons"][0]["verified"]["problems"]) == (["enable", "start"], [])
    assert calls(systemd) == ["daemon-reload", f"enable {UNIT}", f"reset-failed {UNIT}", f"start {UNIT}"]
    again = systemd.run(TEAM)
    assert (again["changed"], calls(systemd)) == (False, [])


def test_stopped_unit_stops_the_daemon(systemd: Machine) -> None:
    systemd.run(TEAM)
    result = systemd.run({**TEAM, "state": "absent"})
    assert result["daemons"][0]["actions"] == ["stop", "disable"]
    waited_for(lambda: not systemd.mps.daemons())
    # Nor is a directory left that held its files alone.
    assert not [path for folder in ("units", "etc") for path in systemd.mps.folder.glob(f"{folder}*")]
    assert not systemd.run({**TEAM, "state": "absent"})["changed"]


def test_limits_are_applied_again_after_a_restart_of_the_unit(systemd: Machine) -> None:
    systemd.run(TEAM)
    for verb in ("stop", "start"):
        subprocess.run([systemd.mps.folder / "systemctl", verb, UNIT], check=True)
    assert systemd.mps.ask(systemd.pipe(), "get_default_active_thread_percentage") == "50.0"
    assert not systemd.run(TEAM)["changed"]


def test_a_new_limit_restarts_no_unit(systemd: Machine) -> None:
    systemd.run(TEAM)
    calls(systemd)
    before = systemd.pid()
    assert systemd.run({**TEAM, "active_thread_percentage": 25})["daemons"][0]["actions"][0] == "push"
    assert (calls(systemd), systemd.pid()) == ([], before)


def test_failed_unit_is_reported_with_its_journal(systemd: Machine) -> None:
    path = systemd.mps.folder / "nvidia-cuda-mps-control"
    path.write_text(deaf(path))
    assert "the daemon reports '100.0'" in systemd.run(TEAM)["msg"]


def test_another_device_restarts_the_unit(systemd: Machine) -> None:
    systemd.run(TEAM)
    calls(systemd)
    systemd.run({**TEAM, "devices": [B], "memory_limits": {}})
    assert calls(systemd) == [f"stop {UNIT}", "daemon-reload", f"reset-failed {UNIT}", f"start {UNIT}"]


def test_directories_outside_run_and_var_log_are_refused(systemd: Machine) -> None:
    assert "pipe_root: with systemd it is below" in systemd.run(TEAM, pipe_root="/tmp/mps")["msg"]
