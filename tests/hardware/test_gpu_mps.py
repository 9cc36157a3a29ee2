# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_mps on a real GPU: a private daemon below a folder of its own, without systemd. No setting of a GPU is changed.

Needs root, nvidia-cuda-mps-control, a GPU of Volta or later in compute mode DEFAULT, and nvidia-ml-py. With the variable OUT, what the
real daemon answers is left there as mps_transcript.txt. The tests build on one another, in this order.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import adhoc

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
PROGRAM = shutil.which("nvidia-cuda-mps-control") or shutil.which("/usr/local/nvidia/bin/nvidia-cuda-mps-control")
NAME = "rigwright-test"
LIMIT_MIB = 2048
OUT_OF_MEMORY = 2
VARIABLES = ("CUDA_MPS_", "CUDA_VISIBLE_DEVICES")

# Allocates so many MiB on the first GPU that it sees; a second argument has it stay, with its context.
ALLOCATE = """\
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
device, context, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
for code in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
             cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)):
    if code:
        sys.exit(f"context: {code}")
print(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) << 20)), flush=True)
time.sleep(float(sys.argv[2]))
"""


class Site:
    """A folder with everything that the daemon has."""

    def __init__(self, folder: Path, uuid: str) -> None:
        self.folder, self.uuid = folder, uuid
        self.pipe = folder / "run" / NAME
        limits = {uuid: f"{LIMIT_MIB}M"}
        self.daemon: dict[str, Any] = {
            "name": NAME,
            "devices": [uuid],
            "active_thread_percentage": 50,
            "memory_limits": limits,
        }
        self.transcript: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if not key.startswith(VARIABLES)}

    def run(self, *options: str, succeeds: bool = True, **changes: Any) -> dict[str, Any]:
        """Run the module by Ansible; *changes* are options of the daemon."""
        of_module: dict[str, Any] = {
            key: changes.pop(key) for key in ("when_clients", "drain_timeout", "verify") if key in changes
        }
        places = {f"{key}_root": str(self.folder / key) for key in ("pipe", "log", "config")}
        places["pipe_root"] = str(self.folder / "run")
        request: dict[str, Any] = {"daemons": [{**self.daemon, **changes}], "manager": "none", **places, **of_module}
        answer = adhoc.ask("gpu_mps", request, *options, env=self.environment, limit_s=180)
        assert (answer.rc == 0) is succeeds, answer.output
        return answer.result

    def ask(self, command: str) -> str:
        """Send a command to the real daemon, without the module, and keep its answer."""
        assert PROGRAM
        done = subprocess.run(
            ["timeout", "20", PROGRAM],
            input=f"{command}\n",
            env={**self.environment, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.transcript.append(
            f"$ echo {command} | nvidia-cuda-mps-control  # {done.returncode}\n{done.stdout}{done.stderr}"
        )
        print(self.transcript[-1])
        # The message that there is no daemon is on the other stream.
        return (done.stdout + done.stderr).strip()

    def allocate(self, mib: int, pipe: Path) -> int:
        done = subprocess.run(
            [sys.executable, "-c", ALLOCATE, str(mib), "0"],
            env={**self.environment, "CUDA_MPS_PIPE_DIRECTORY": str(pipe)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    @property
    def pid(self) -> int | None:
        """Return the id of the private daemon: it has the mark of the module, and the directory of this site."""
        wanted = {f"RIGWRIGHT_MPS=none:{NAME}".encode(), f"CUDA_MPS_PIPE_DIRECTORY={self.pipe}".encode()}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
                if b"nvidia-cuda-mps-control" in command and wanted <= set(
                    (entry / "environ").read_bytes().split(b"\0")
                ):
                    return int(entry.name)
        return None


@pytest.fixture(scope="module")
def site(nvidia_smi: Any) -> Iterator[Site]:
    if PROGRAM is None:
        pytest.skip("no nvidia-cuda-mps-control here: it comes with the driver")
    gpu = nvidia_smi("uuid", "compute_mode", "mig.mode.current")[0]
    if gpu["compute_mode"] != "Default" or gpu["mig.mode.current"] == "Enabled":
        pytest.skip(f"{gpu} is no undivided GPU in compute mode DEFAULT, and settings are left as they are")
    # The path of a socket may have 107 bytes: pytest's own folders are too long.
    folder = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
    private = Site(folder, gpu["uuid"])
    try:
        yield private
    finally:
        for log in sorted((folder / "log").rglob("*.log")):
            private.transcript.append(f"--- {log.name}\n{log.read_text(errors='replace')}")
        if "OUT" in os.environ:
            Path(os.environ["OUT"], "mps_transcript.txt").write_text("\n".join(private.transcript))
        if private.pid:
            private.ask("quit -t 5")
            time.sleep(2)
        if pid := private.pid:
            os.kill(pid, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_private_daemon_is_started_and_a_client_proves_it(site: Site) -> None:
    result = site.run()
    (daemon,) = result["daemons"]
    assert (result["changed"], daemon["actions"], daemon["verified"]["problems"]) == (True, ["start"], [])
    assert site.pid
    (inside,), (outside,) = daemon["verified"]["devices"], daemon["verified"]["outside"]
    assert (inside["mps"], outside["mps"], inside["uuid"]) == (1, 0, site.uuid)
    whole = outside["multiprocessors"]
    assert whole * 0.4 <= inside["multiprocessors"] <= whole * 0.5 + 2


def test_daemon_answers_as_the_fake_does(site: Site) -> None:
    for command in (
        "help",
        "ps",
        "device_query",
        "device_query --csv",
        "lspart",
        "get_default_client_priority",
        "no_such_verb",
    ):
        site.ask(command)
    site.ask("get_default_device_pinned_mem_limit 0")
    (server,) = site.ask("get_server_list").split()
    assert server.isdecimal()
    assert "ACTIVE" in site.ask(f"get_server_status {server}").upper()
    assert not site.ask(f"get_client_list {server}").isdecimal()
    assert float(site.ask("get_default_active_thread_percentage")) == 50
    assert float(site.ask(f"get_active_thread_percentage {server}")) == 50
    assert site.ask(f"get_default_device_pinned_mem_limit {site.uuid}") in ("2G", "2048M")
    site.ask(f"get_device_pinned_mem_limit {server} {site.uuid}")


def test_the_second_run_changes_nothing(site: Site) -> None:
    before = site.pid
    result = site.run()
    assert (result["changed"], result["pending"], result["daemons"][0]["actions"]) == (False, [], [])
    assert site.pid == before


def test_memory_above_the_limit_is_refused(site: Site) -> None:
    assert site.allocate(LIMIT_MIB // 8, site.pipe) == 0
    assert site.allocate(LIMIT_MIB + 512, site.pipe) == OUT_OF_MEMORY
    # The same is given to a program that does not run under the daemon: it is the limit that holds it back.
    assert site.allocate(LIMIT_MIB + 512, site.folder / "no-daemon") == 0


def test_check_mode_changes_nothing(site: Site) -> None:
    result = site.run("--check", active_thread_percentage=25)
    assert result["changed"]
    assert float(site.ask("get_default_active_thread_percentage")) == 50


def test_limit_for_another_gpu_is_refused(site: Site) -> None:
    before = site.pid
    for other_gpu in ("63", "GPU-00000000-0000-0000-0000-000000000000"):
        result = site.run(succeeds=False, memory_limits={site.uuid: "1G", other_gpu: "1G"})
        assert result["error"] == "REFUSED"
        assert "would drop all its limits" in result["msg"]
    assert site.pid == before
    assert site.ask(f"get_default_device_pinned_mem_limit {site.uuid}") in ("2G", "2048M")


def test_a_server_without_clients_takes_a_new_limit_at_once(site: Site) -> None:
    result = site.run(active_thread_percentage=25)
    (daemon,) = result["daemons"]
    assert "push" in daemon["actions"]
    assert daemon["verified"]["problems"] == []
    (inside,), (outside,) = daemon["verified"]["devices"], daemon["verified"]["outside"]
    assert inside["multiprocessors"] <= outside["multiprocessors"] * 0.25 + 2
    assert not site.run(active_thread_percentage=25)["changed"]


def test_undeclared_limit_is_removed_by_a_restart(site: Site) -> None:
    before = site.pid
    result = site.run(active_thread_percentage=None, memory_limits={})
    assert (result["daemons"][0]["actions"], result["daemons"][0]["verified"]["problems"]) == (["restart"], [])
    assert site.pid not in (None, before)
    site.ask(f"get_default_device_pinned_mem_limit {site.uuid}")
    assert site.allocate(LIMIT_MIB + 512, site.pipe) == 0
    assert not site.run(active_thread_percentage=None, memory_limits={})["changed"]


def test_clients_block_changes_that_affect_them(site: Site) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", ALLOCATE, "64", "300"],
        env={**site.environment, "CUDA_MPS_PIPE_DIRECTORY": str(site.pipe)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline().strip() == "0"
        site.ask("ps")
        before = site.pid

        refused = site.run(succeeds=False, state="absent", verify=False)
        assert refused["error"] == "REFUSED" and str(client.pid) in refused["msg"]
        deferred = site.run(when_clients="defer", active_thread_percentage=75, verify=False)
        assert "active_thread_percentage of server" in deferred["pending"][0]
        again = site.run(when_clients="defer", active_thread_percentage=75, verify=False)
        assert (again["changed"], len(again["pending"])) == (False, 1)
        assert site.pid == before and client.poll() is None

        ended = site.run(when_clients="drain", drain_timeout=1, state="absent", verify=False)
        assert ended["daemons"][0]["actions"] == ["stop"]
        assert site.pid is None
    finally:
        client.kill()
        client.wait()


def test_removed_daemon_stays_removed(site: Site) -> None:
    result = site.run(state="absent")
    assert (result["changed"], result["daemons"][0]["state"]) == (False, "stopped")
    assert not list((site.folder / "config").glob("*"))
    assert "Cannot find MPS control daemon" in site.ask("get_server_list")
    # A client without a daemon runs outside MPS: that is why the module proves it by a client.
    assert site.allocate(64, site.pipe) == 0
