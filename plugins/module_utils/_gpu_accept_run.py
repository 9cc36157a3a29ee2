# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""One GPU under the measuring program, sampled through NVML by its side. PyTorch needs no NVML, and NVML no PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept_program as program
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu_state import EVENT_REASONS
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml import Card, Nvml

Facts = dict[str, t.Any]

# Ten samples a second: gpu.md 5.3 asks for five at least, and each takes some milliseconds.
PERIOD_S = 0.1
# Of what the program writes, and of its complaints.
KEPT_LINES = 20000
KEPT_WORDS = 20
# Beside warm-up and windows: an import of PyTorch from a cold disk, data, the windows' settling.
START_S = 120.0

SM, MEMORY = 1, 2


class Outcome(t.NamedTuple):
    """*status* is None when the program was ended at its limit. *events* and *samples* are in the order of time."""

    status: int | None
    events: list[Facts]
    samples: list[Facts]
    words: str


def source() -> str:
    """The program as text: it reaches the target inside Ansible's archive, where no path leads to it."""
    loader: t.Any = program.__spec__.loader
    text: str = loader.get_source(program.__spec__.name)
    return text


def sample(nvml: Nvml, card: Card) -> Facts:
    """What the card says now; null where it does not say.

    :raises NvmlError: the card does not answer.
    """
    handle = card.handle
    reasons = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:
        reasons = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    power = nvml.ask("nvmlDeviceGetPowerUsage", handle)
    return {
        "at": time.monotonic(),
        "clock_mhz": nvml.ask("nvmlDeviceGetClockInfo", handle, SM),
        "memory_clock_mhz": nvml.ask("nvmlDeviceGetClockInfo", handle, MEMORY),
        "power_w": None if power is None else power / 1000,
        "temperature_c": nvml.ask("nvmlDeviceGetTemperature", handle, 0),
        "reasons": None if reasons is None else [name for bit, name in EVENT_REASONS.items() if reasons & bit],
        "pcie_generation": nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_width": nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
    }


def seconds_needed(request: t.Mapping[str, t.Any]) -> float:
    """What the program takes at most, if nothing hangs."""
    windows = request["windows"] * (len(request["dtypes"]) + 3)
    settle = windows * (program.SETTLE_S + 1)
    return START_S + request["warm_up_s"] + windows * request["window_s"] + settle + 1.2 * request["burn_in_s"]


def read_lines(pipe: t.IO[str], events: list[Facts]) -> None:
    for line in pipe:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            # A program of somebody else's might print numbers.
            if isinstance(found, dict) and len(events) < KEPT_LINES:
                events.append(found)


def keep_end(pipe: t.IO[str], words: list[str]) -> None:
    for line in pipe:
        words.append(line.strip())
        del words[:-KEPT_WORDS]


def measure(nvml: Nvml, card: Card, python: str, request: t.Mapping[str, t.Any], **options: t.Any) -> Outcome:
    """Run the program on one GPU, with a Python that has PyTorch, and sample the GPU until it ends. It is ended at its limit.

    :param options: of the process, such as its user.
    :raises OSError: it cannot be started.
    :raises NvmlError: the card no longer answers; the program is ended.
    """
    seconds = seconds_needed(request)
    request = {**request, "limit_s": seconds}
    environment = {**os.environ, **options.pop("env", {}), "CUDA_VISIBLE_DEVICES": card.uuid, "CUDA_CACHE_DISABLE": "1"}
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        [python, "-I", "-u", "-", json.dumps(request)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=environment,
        start_new_session=True,
        **options,
    )
    events: list[Facts] = []
    words: list[str] = []
    samples: list[Facts] = []
    stdin, stdout, stderr = t.cast("tuple[t.IO[str], ...]", (process.stdin, process.stdout, process.stderr))
    threads = [
        threading.Thread(target=read_lines, args=(stdout, events), daemon=True),
        threading.Thread(target=keep_end, args=(stderr, words), daemon=True),
    ]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    in_time = False
    try:
        with contextlib.suppress(BrokenPipeError):
            stdin.write(source())
            stdin.close()
        # Not reaped yet, it keeps the number of its group from being anybody else's.
        while not in_time and time.monotonic() < limit:
            samples.append(sample(nvml, card))
            time.sleep(PERIOD_S)
            in_time = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join(5)
    return Outcome(process.returncode if in_time else None, events, samples, " ".join(words[-3:]))
