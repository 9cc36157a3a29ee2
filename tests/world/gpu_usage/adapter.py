# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes, samples of the driver and hours of use, as gpu_usage reads them."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import containers as names
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, who
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import Metrics
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.probe import Probe
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.proc import CONTAINERS, Processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sampler import Sampler, Settings
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

from harness.fakes import nvml

USERS = {"root": 0, "ollama": 998, "alice": 1000, "bob": 1001, "carol": 1002}
NOW = 1_764_000_000.0
# The longest interval of the role: hours are simulated in few samples.
STEP_S = 300


class World:
    """A host: its /proc, its accounts, its containers and its GPUs."""

    def __init__(
        self, root: Path, machine: nvml.Machine | None, containers: Mapping[str, Any], users: Mapping[str, int]
    ):
        self.root, self.machine, self.users = root, machine, dict(users)
        self.tree = Tree(str(root))
        self.now, self.clock = NOW, 100_000.0
        for folder in (days.HOME, gpu_snapshot.HOME, "/run/systemd/sessions", "/proc"):
            (root / folder.lstrip("/")).mkdir(parents=True)
        (root / "run/systemd/sessions/3").write_text("UID=1000\nSERVICE=sshd\n")
        path = root / CONTAINERS.lstrip("/")
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"containers": containers}))
        self.processes = Processes(self.tree, self.name_of, 100, self.users.get)
        self.probe = Probe(self.processes)

    def name_of(self, uid: int) -> str:
        return next((name for name, number in self.users.items() if number == uid), "")

    def add(
        self,
        pid: int,
        uid: int,
        group: str,
        command: str = "python3",
        start: float | None = None,
        state: str = "S",
        login: int = 2**32 - 1,
        **_rest: Any,
    ) -> None:
        folder = self.root / f"proc/{pid}"
        folder.mkdir(parents=True, exist_ok=True)
        ticks = round((self.clock - 600 if start is None else start) * 100)
        (folder / "stat").write_text(f"{pid} ({command}) {state} {' '.join(['1'] * 18)} {ticks} 0 0\n")
        (folder / "status").write_text(f"Name:\t{command}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cgroup").write_text(group if ":" in group.split("/")[0] else f"0::{group}\n")
        (folder / "loginuid").write_text(str(login))

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path.lstrip("/")).write_text(text)


@contextmanager
def world(
    cards: Sequence[str] = (), containers: Mapping[str, Any] | None = None, users: Mapping[str, int] | None = None
) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"):
        if not cards:
            yield World(Path(folder), None, containers or {}, USERS if users is None else users)
            return
        with nvml.fake(list(cards)) as machine:
            yield World(Path(folder), machine, containers or {}, USERS if users is None else users)


def owner(
    group: str,
    uid: int,
    files: Mapping[str, str] | None = None,
    users: Mapping[str, int] | None = None,
    containers: Mapping[str, Any] | None = None,
    login: int = 2**32 - 1,
) -> list[str]:
    """Return user, kind and name of a process."""
    with world(containers=containers, users=users) as host:
        host.write(files or {})
        host.add(42, uid, group, login=login)
        found = host.processes.read([42], host.clock)[42].owner
    return [found.user, found.kind, found.name]


def container_owner(api: Mapping[str, Any], group: str, uid: int) -> list[str]:
    """Return user, kind and name of a process in a container, by what docker answers."""
    with mock.patch.object(names, "ask", lambda path: api[path]):
        return owner(group, uid, containers=names.names_of(api["/containers/json"]))


def shares(
    reads: Sequence[Mapping[str, Any]], processes: Mapping[int, str], commands: Mapping[int, str] | None = None
) -> list[dict[int, int | None]]:
    """Return the share of each process at each read. The driver's samples are given by seconds before the read."""
    answers = []
    with world(["H200"]) as host:
        assert host.machine
        for pid, kind in processes.items():
            host.add(pid, 1000, "/user.slice/user-1000.slice/session-3.scope", (commands or {}).get(pid, "python3"))
            host.machine.run_process(0, pid, kind=kind)
        for read in reads:
            host.now, host.clock = NOW + read["at"], 100_000.0 + read["at"]
            host.machine.change(
                {
                    f"gpu.0.use.{pid}": f"{round((host.now - ago) * 1e6)} {percent} 0 0 0"
                    for pid, (ago, percent) in read.get("samples", {}).items()
                }
            )
            (gpu,) = host.probe.sample(host.clock, host.now)["gpus"]
            answers.append({row["pid"]: row["share_percent"] for row in gpu["processes"]})
    return answers


def hours(
    processes: Sequence[Mapping[str, Any]],
    seconds: float,
    answer: Sequence[str],
    cards: int = 1,
    containers: Mapping[str, Any] | None = None,
    watts: int = 0,
    mig: bool = False,
    settings: Mapping[str, Any] | None = None,
    later: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return what the sampler did in some hours.

    A process has `memory` in MiB by GPU, `busy` in percent by GPU, and is busy in each `every`-th sample. `later`: after `after` seconds,
    `users` are other users, a process is another one (`process`) or gone from /proc (`gone`).
    """
    messages: Counter[int] = Counter()
    with world(["H200"] * cards, containers) as host:
        assert host.machine
        for index in range(cards):
            host.machine.change({f"gpu.{index}.mig.mode": "1" if mig else "0"})
        for process in processes:
            _start(host, process)

        def send(uid: int, _text: str) -> int:
            messages[uid] += 1
            return 1

        sampler = Sampler(
            Settings("ws1", STEP_S, **(settings or {})),
            host.tree,
            lambda: host.probe.sample(host.clock, host.now),
            send,
            list,
        )
        running = list(processes)
        waiting = list(later)
        for number in range(round(seconds / STEP_S) + 1):
            host.now += STEP_S
            host.clock += STEP_S
            while waiting and number * STEP_S >= waiting[0]["after"]:
                _change(host, waiting.pop(0), running)
            for process in running:
                if number % process.get("every", 1) == 0:
                    for index, percent in process.get("busy", {}).items():
                        stamp = round((host.now - 1) * 1e6)
                        host.machine.change({f"gpu.{index}.use.{process['pid']}": f"{stamp} {percent} 0 0 0"})
            if watts:
                host.machine.change({"gpu.0.power.energy": str(10**9 + (number + 1) * STEP_S * watts * 1000)})
            sampler.sample(host.now, host.clock)
        sampler.save(host.clock)
        rows, totals, _problems = who.summed(host.tree, days.days(host.tree))
        snapshot: Any = gpu_snapshot.parse(host.tree.text(gpu_snapshot.PATH))
        text = who.now_text(snapshot, host.now)
    found = {
        "told": dict(messages),
        "held": {f"{row['user']} {row['kind']}": round(row["gpu_hours"], 1) for row in rows},
        "busy": {f"{row['user']} {row['kind']}": round(row["busy_gpu_hours"], 1) for row in rows},
        "kwh": round(totals["kwh"], 1),
        "idle_kwh": round(totals["idle_kwh"], 1),
        "is_idle": " idle " in text,
    }
    return {name: found[name] for name in answer}


def _start(host: World, process: Mapping[str, Any]) -> None:
    assert host.machine
    host.add(**process)
    for index, memory in process["memory"].items():
        instance = tuple(process["instance"]) if "instance" in process else None
        host.machine.run_process(
            index, process["pid"], process.get("type", "compute"), memory, instance, process.get("command", "python3")
        )


def _change(host: World, step: Mapping[str, Any], running: list[Any]) -> None:
    if "users" in step:
        host.users = dict(step["users"])
    if "gone" in step:
        for name in ("stat", "status", "cgroup"):
            (host.root / f"proc/{step['gone']}/{name}").unlink()
    if "process" in step:
        host.add(**{"start": host.clock - 1, **step["process"]})
        if "memory" in step["process"]:
            _start(host, {"start": host.clock - 1, **step["process"]})
            running.append(step["process"])
    running[:] = [row for row in running if row["pid"] not in step.get("quiet", ())]


def labels(others: int, seconds: float) -> list[str]:
    """Return the label of a user who comes after others, each of whom had one short job."""
    metrics = Metrics()
    with world(users={"alice": 1000, "bob": 1001}) as host:
        host.write({"/etc/subuid": "alice:100000:65536\n"})
        for number in range(others):
            host.add(42, 100_000 + number, "/system.slice/cron.service", start=float(number))
            found = host.processes.read([42], host.clock)[42].owner
            metrics.label("0", found.user, found.kind, 1, number * 15.0)
    return list(metrics.label("0", "bob", "ssh", 1, seconds))
