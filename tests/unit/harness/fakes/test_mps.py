# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake MPS behaves as NVIDIA's documentation and recordings show."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.mps import Mps, fake_mps, files, waited_for
from plugins.module_utils._gpu.mps import probe

CHECKOUT = Path(__file__).parents[4]
A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"


@pytest.fixture
def mps() -> Iterator[Mps]:
    with fake_mps([A, B]) as fake:
        yield fake


@pytest.fixture
def pipe(mps: Mps) -> Path:
    return mps.folder / "p"


def devices(mps: Mps, pipe: Path, limits: dict[str, int] | None = None, **environment: str) -> dict[str, Any]:
    """Return the devices that a program sees, by the collection's own probe."""
    done = subprocess.run(
        [sys.executable, "-I", probe.__file__],
        input=probe.request(limits or {}, contexts=True),
        env={**mps.env, "CUDA_MPS_PIPE_DIRECTORY": str(pipe), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of(found: dict[str, Any], key: str) -> list[Any]:
    return [device[key] for device in found["devices"]]


def test_daemon_answers_as_recorded_on_an_h100(mps: Mps, pipe: Path) -> None:
    recorded = json.loads((CHECKOUT / "tests/unit/fixtures/mps/h100_driver_580.json").read_text())

    def answer(command: str, **names: object) -> str:
        for name, value in {"UUID": A, **names}.items():
            command = command.replace(name, str(value))
        return mps.ask(pipe, command)

    mps.start(pipe, CUDA_VISIBLE_DEVICES=A)
    assert [[command, answer(command)] for command, _reply in recorded["replies"]] == recorded["replies"]
    devices(mps, pipe)
    server = mps.ask(pipe, "get_server_list")
    answers = [
        [command, answer(command, SERVER=server).replace(server, "SERVER")]
        for command, _reply in recorded["with_a_server"]
    ]
    assert answers == recorded["with_a_server"]

    (_ps, table), (terminate, ended) = recorded["with_a_client"]
    mps.client(pipe, os.getuid(), 2481)
    header, row = mps.ask(pipe, "ps").splitlines()
    real_header, real_row = table.splitlines()
    assert header.rstrip() == real_header.rstrip()
    starts = [header.index(word) for word in header.split()]
    assert [row[place - 1 : place] for place in starts[1:]] == [real_row[place - 1 : place] for place in starts[1:]]
    assert answer(terminate, SERVER=server, CLIENT=2481) == ended


def test_program_without_a_daemon_has_the_whole_gpu(mps: Mps, pipe: Path) -> None:
    found = devices(mps, pipe)
    assert (of(found, "mps"), of(found, "multiprocessors"), of(found, "uuid")) == ([0, 0], [132, 132], [A, B])


def test_a_program_under_a_daemon_has_what_the_daemon_gives(mps: Mps, pipe: Path) -> None:
    mps.start(pipe, CUDA_VISIBLE_DEVICES=B)
    mps.ask(pipe, "set_default_active_thread_percentage 50", f"set_default_device_pinned_mem_limit {B} 2G")
    found = devices(mps, pipe, {B: 2048})
    assert (of(found, "mps"), of(found, "multiprocessors"), of(found, "uuid")) == ([1], [66], [B])
    assert of(found, "memory_total_mib") == [143771], "a limit shows as free, not as the total"
    assert of(found, "memory_free_mib")[0] < 2048
    assert of(found, "beyond_limit") == [probe.OUT_OF_MEMORY]


def test_defaults_are_for_the_next_server_and_are_lost_on_quit(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    server = mps.client(pipe, uid=os.getuid(), pid=4242)
    assert mps.ask(pipe, "set_default_active_thread_percentage 25", f"get_active_thread_percentage {server}") == (
        "25.0\n100.0"
    )
    assert of(devices(mps, pipe), "multiprocessors") == [132, 132]
    mps.ask(pipe, "quit")
    waited_for(lambda: not mps.daemons())
    mps.start(pipe)
    assert mps.ask(pipe, "get_default_active_thread_percentage") == "100.0"


def test_limit_is_reported_in_whole_gibibytes(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    answers = [
        mps.ask(pipe, f"set_default_device_pinned_mem_limit {A} {size}", f"get_default_device_pinned_mem_limit {A}")
        for size in ("512M", "1044M", "20G")
    ]
    assert answers == ["512M", "1G", "20G"]
    # Neither is an ordinal translated, nor is a GPU missed that is not there.
    assert mps.ask(pipe, "get_default_device_pinned_mem_limit 0") == ""
    assert mps.ask(pipe, "set_default_device_pinned_mem_limit GPU-none 1G") == ""


def test_a_variable_that_names_an_invisible_gpu_drops_all_limits(mps: Mps, pipe: Path) -> None:
    mps.start(pipe, CUDA_VISIBLE_DEVICES=A)
    mps.ask(pipe, f"set_default_device_pinned_mem_limit {A} 2G")
    assert of(devices(mps, pipe, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=1G"), "memory_free_mib")[0] < 1024
    assert of(devices(mps, pipe, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=3G"), "memory_free_mib")[0] < 2048
    assert of(devices(mps, pipe, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=1G,7=1G"), "memory_free_mib")[0] > 100000


def test_a_client_may_lower_its_percentage_and_not_raise_it(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    mps.ask(pipe, "set_default_active_thread_percentage 50")
    lower, higher = (devices(mps, pipe, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=value) for value in ("25", "100"))
    assert (of(lower, "multiprocessors"), of(higher, "multiprocessors")) == ([34, 34], [66, 66])


def test_one_user_has_the_server_at_a_time_and_others_wait(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    first = mps.client(pipe, uid=4001, pid=11)
    assert mps.ask(pipe, "fake_client 4002 12") == "waiting"
    mps.leave(pipe, 11)
    assert mps.client(pipe, uid=4002, pid=12) != first
    assert len(mps.ask(pipe, "get_server_list").split()) == 1


def test_a_multiuser_server_takes_all_users_at_once(mps: Mps, pipe: Path) -> None:
    mps.start(pipe, "-multiuser-server")
    assert mps.client(pipe, uid=4001, pid=11) == mps.client(pipe, uid=4002, pid=12)


def test_fault_blocks_new_clients_until_affected_ones_end(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    server = mps.client(pipe, uid=os.getuid(), pid=11)
    mps.fault(pipe, server, 11)
    assert mps.ask(pipe, f"get_server_status {server}") == "FAULT"
    assert devices(mps, pipe)["error"] == {"function": "cuInit", "code": 807, "words": ""}
    mps.leave(pipe, 11)
    assert mps.ask(pipe, f"get_server_status {server}") == "ACTIVE"
    assert devices(mps, pipe)["error"] is None


def test_clients_are_listed_and_terminated(mps: Mps, pipe: Path) -> None:
    mps.start(pipe)
    server = mps.client(pipe, uid=os.getuid(), pid=4242)
    header, row = mps.ask(pipe, "ps").splitlines()
    assert header.split() == ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]
    assert row.split()[::2][:2] == ["4242", str(server)]
    assert mps.ask(pipe, f"get_client_list {server}") == "4242"
    assert mps.ask(pipe, f"terminate_client {server} 4242", f"get_client_list {server}") == "0"


def test_missing_and_second_daemon_are_errors(mps: Mps, pipe: Path) -> None:
    gone = mps.run(pipe, text="get_server_list\n")
    assert (gone.returncode, gone.stderr.strip()) == (1, "Cannot find MPS control daemon process")
    mps.start(pipe)
    again = mps.run(pipe, "-d")
    assert (again.returncode, again.stdout.strip()) == (1, "An instance of this daemon is already running")


def test_too_long_socket_path_ends_the_daemon(mps: Mps) -> None:
    deep = mps.folder / ("x" * 100)
    assert mps.run(deep, "-d").returncode == 0
    waited_for(lambda: not mps.daemons())
    assert "Cannot find MPS control daemon" in mps.run(deep, text="get_server_list\n").stderr


def test_static_partitions_are_exclusive_and_need_their_id(mps: Mps, pipe: Path) -> None:
    mps.start(pipe, "-S", CUDA_VISIBLE_DEVICES=A)
    first = mps.ask(pipe, f"sm_partition add {A} 5")
    assert first.startswith(f"{A}/")
    assert "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION" in mps.ask(pipe, f"sm_partition add {A} 12")
    assert devices(mps, pipe)["error"]["code"] == 914
    assert of(devices(mps, pipe, CUDA_MPS_SM_PARTITION=first), "multiprocessors") == [40]


CONFIGURATION = f"""\
schema_version = "1.0"
[servers.training]
allowed_devices = "{A}"
pinned_memory_limit = "2G"
active_thread_percentage = "50"
[servers.training.namespaces.free]
active_thread_percentage = "100"
"""


@pytest.fixture
def protocol3(mps: Mps, pipe: Path) -> Path:
    (mps.folder / "mps.toml").write_text(CONFIGURATION)
    mps.start(pipe, "-p", "3", "-a", str(mps.folder / "mps.toml"))
    waited_for((pipe / "training/free/control").exists)
    return pipe


def test_protocol_3_reads_its_file_and_answers_in_csv(mps: Mps, protocol3: Path) -> None:
    status, output = mps.command(protocol3, "server", "list", "--format=csv,noheader")
    assert (status, output.split(",")) == (
        0,
        ["training", str(os.getuid()), "-", "Ready", f"{protocol3}/training", A, "-"],
    )
    assert mps.command(protocol3, "namespace", "get", "default", "training", "pinned-memory-limit") == (0, "2G")
    assert (
        mps.command(protocol3, "namespace", "set", "default", "--server=training", "--pinned-memory-limit=1G")[0] == 0
    )
    assert mps.command(protocol3, "namespace", "get", "default", "training", "pinned-memory-limit") == (0, "1G")
    assert mps.command(protocol3, "server", "get", "nobody", "status")[0] == 1


def test_limits_of_a_server_hold_only_in_namespace_default(mps: Mps, protocol3: Path) -> None:
    default, named = (devices(mps, protocol3 / "training" / space) for space in ("default", "free"))
    assert (of(default, "multiprocessors"), of(default, "mps"), of(named, "multiprocessors")) == ([66], [1], [132])
    assert of(default, "memory_free_mib")[0] < 2048 < of(named, "memory_free_mib")[0]


def test_protocol_3_is_ended_by_an_option(mps: Mps, protocol3: Path) -> None:
    mps.run(protocol3, text="quit\n")
    assert mps.command(protocol3, "server", "list")[0] == 0
    assert mps.command(protocol3, "-q")[0] == 0
    waited_for(lambda: not mps.daemons())


def test_a_sandbox_host_gets_all_that_the_program_needs(mps: Mps, tmp_path: Path) -> None:
    paths = files([A], python=sys.executable)
    for path, (content, mode) in paths.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.replace(b"'/usr/lib/", f"'{tmp_path}/usr/lib/".encode()))
        place.chmod(mode)
    done = subprocess.run(
        [tmp_path / "usr/bin/nvidia-cuda-mps-control"],
        input="ps\n",
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "Cannot find MPS control daemon process\n")
    assert ctypes.CDLL(str(mps.folder / "libcuda.so.1")).cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 3
