# SPDX-License-Identifier: GPL-3.0-or-later
"""The sampler of gpu_usage and real processes of two users, compared with nvidia-smi. Needs a GPU, its driver, PyTorch and root.

The clients of MPS have a daemon of their own, below a folder of the test. No setting of a GPU is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import sampler  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.child import Child  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Sample  # noqa: E402
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of other users")]

PYTHON = os.environ.get("RIGWRIGHT_TORCH_PYTHON", sys.executable)
# Every Debian and Ubuntu has these users; each fills a part of the memory.
GIB_OF = {"daemon": 2, "nobody": 5}
SAMPLES = 200
MPS = shutil.which("nvidia-cuda-mps-control") or shutil.which("/usr/local/nvidia/bin/nvidia-cuda-mps-control")
# An interval that says that a process is idle, and the time until the driver has its samples.
SETTLED_S = 8

# Holds so many GiB, works for so many seconds, and stays.
LOAD = """
import sys, time, torch
kept = torch.zeros(int(sys.argv[1]) << 28, device="cuda:0")
one = torch.randn(4096, 4096, device="cuda:0")
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    one = torch.tanh(one @ one)
    torch.cuda.synchronize()
time.sleep(600)
"""
PROBE = f"""
import sys
sys.path.insert(0, {str(ROOT / "collections")!r})
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import program
program.probe()
"""


@pytest.fixture(scope="module")
def pids() -> Iterator[dict[str, int]]:
    """Start a process of each user on the first GPU."""
    running = {
        user: subprocess.Popen(
            [PYTHON, "-c", LOAD, str(gib), "600"],
            stdout=subprocess.PIPE,
            text=True,
            user=user,
            group="nogroup",
            cwd="/",
        )
        for user, gib in GIB_OF.items()
    }
    try:
        for process in running.values():
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield {user: process.pid for user, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
            process.wait()


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Return a function that takes a sample, as the unit does, and reads the GPUs of the snapshot."""
    for folder in (gpu_snapshot.PATH.rpartition("/")[0], "/var/lib/rigwright_gpu_usage"):
        (tmp_path / folder[1:]).mkdir(parents=True)
    tree = Tree(str(tmp_path))
    child = Child([sys.executable, "-c", PROBE])
    unit = sampler.Sampler(
        sampler.Settings("here"), tree, lambda: cast(Sample, child.ask(10)), lambda _uid, _text: 0, print
    )

    def take() -> list[dict[str, Any]]:
        unit.sample(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))
        found: list[dict[str, Any]] = json.loads(tree.text(gpu_snapshot.PATH))["gpus"]
        return found

    yield take
    child.close()


def share_equally(rows: dict[int, dict[str, Any]]) -> bool:
    """Return whether two equal loads have the GPU in turns: of 8 checks of the driver, a load has 1 to 7 in 99 of 100 intervals."""
    shares = [row["share_percent"] or 0 for row in rows.values()]
    return len(shares) == len(GIB_OF) and all(10 <= share <= 90 for share in shares) and sum(shares) <= 105


def nvidia_smi(*arguments: str) -> str:
    return subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=True).stdout


def test_each_process_has_its_user_memory_and_share(
    pids: dict[str, int], sample: Callable[[], list[dict[str, Any]]]
) -> None:
    # The first samples are from before one of them worked.
    time.sleep(SETTLED_S)
    rows: dict[int, dict[str, Any]] = {}
    # However often the sampler asks, a load that works is not idle.
    for pause in (0.0, 0.1, 0.3, 0.3, 0.6, 1.0, 1.0, 2.0, 5.0, 5.0):
        time.sleep(pause)
        rows = {row["pid"]: row for row in sample()[0]["processes"] if row["pid"] in pids.values()}
        print(pause, {pid: row["share_percent"] for pid, row in rows.items()})
        assert share_equally(rows)
    apps = nvidia_smi("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
    theirs = {int(pid): int(used) for pid, used in (line.split(",") for line in apps.splitlines())}
    print(rows, theirs, nvidia_smi("pmon", "-c", "1"), sep="\n")
    for user, pid in pids.items():
        assert rows[pid]["user"] == user
        assert rows[pid]["memory_mib"] == theirs[pid] >= GIB_OF[user] << 10


def test_what_a_sample_costs(pids: dict[str, int], sample: Callable[[], list[dict[str, Any]]]) -> None:
    sample()
    before = os.times()
    for _number in range(SAMPLES):
        assert len(sample()[0]["processes"]) >= len(pids)
    own = sum(os.times()[:2]) - sum(before[:2])
    (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[-1:]
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    child_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    peak = next(line for line in Path(f"/proc/{child}/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"samples": SAMPLES, "sampler_cpu_s": own, "child_cpu_s": child_s, "child_memory": peak}))
    # Less than half a percent of a core, at one sample in 15 s.
    assert (own + child_s) / SAMPLES < 0.005 * 15


@pytest.fixture
def clients() -> Iterator[list[int]]:
    """Start a daemon of MPS, a client that works for 12 seconds, and one that does nothing."""
    if MPS is None:
        pytest.skip("no nvidia-cuda-mps-control here: it comes with the driver")
    # The path of a socket may have 107 bytes.
    folder = tempfile.mkdtemp(prefix="mps-", dir="/tmp")
    environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    subprocess.run([MPS, "-d"], env=environment, check=True)
    running = []
    try:
        for seconds in ("12", "0"):
            command = [PYTHON, "-c", LOAD, "1", seconds]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
            output = running[-1].stdout
            assert output is not None and output.readline() == "ready\n"
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
        subprocess.run([MPS], input="quit -t 5\n", env=environment, text=True, check=False, timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def test_clients_of_mps_are_idle_with_their_server(
    clients: list[int], sample: Callable[[], list[dict[str, Any]]]
) -> None:
    def shares() -> dict[str, list[int | None]]:
        rows = sample()[0]["processes"]
        print([(row["pid"], row["command"], row["memory_mib"], row["share_percent"], row["idle_s"]) for row in rows])
        found = {row["pid"]: row["share_percent"] for row in rows}
        servers = [row["share_percent"] for row in rows if row["command"] == "nvidia-cuda-mps"]
        return {"clients": [found[pid] for pid in clients], "servers": servers}

    time.sleep(SETTLED_S)
    for _number in range(5):
        busy = shares()
        assert busy["clients"] == [None, None]
        assert any(busy["servers"])
    time.sleep(SETTLED_S + 12)
    assert shares() == {"clients": [0, 0], "servers": [0]}
