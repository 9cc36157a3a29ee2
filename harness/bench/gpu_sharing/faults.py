"""The effect of a fault on other clients, and memory limits: short cases, each with its own clients and daemons.

E1  time-sliced: offender and victim share nothing but the GPU
E2  both are clients of one MPS server
E3  as E2, and `terminate_client` removes the offender before it is killed
E4  each is the client of an MPS server of its own
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bench.gpu_sharing import mps
from harness.bench.gpu_sharing.process import Lost, Process, end

CLIENTS = "harness.bench.gpu_sharing.clients"
START_S = 15.0
ANSWER_S = 6.0
# Seconds to watch a victim after the fault, and to wait for service.
WATCHED_S = 1.5
SERVICE_S = 12.0
# Seconds that both run before the fault.
CALM_S = 0.5
PROBE_S = 6.0
CASE_S = 7.0
GIB = 1 << 30

Record = dict[str, Any]

FAULTS = ("illegal", "assertion", "memory", "kill")


@dataclass(frozen=True)
class Case:
    name: str
    fault: str
    offender: str  # a daemon's name; empty: no MPS
    victim: str
    terminate: bool = False


CASES = (
    *(Case("E1", fault, "", "") for fault in FAULTS),
    *(Case("E2", fault, "a", "a") for fault in FAULTS),
    Case("E3", "kill", "a", "a", terminate=True),
    *(Case("E4", fault, "a", "b") for fault in FAULTS),
)


class Faults:
    """Runs cases one by one; *empty* is a directory without a daemon."""

    def __init__(self, empty: Path, deadline: float, record: Callable[[str, Record], None]) -> None:
        self.empty, self.deadline, self.record = empty, deadline, record
        self.daemons: dict[str, mps.Daemon] = {}
        self.clients: list[Process] = []

    def client(self, role: str, daemon: str, *arguments: str, **environment: str) -> Process:
        """Start a client."""
        own = self.daemons[daemon].environment if daemon else {"CUDA_MPS_PIPE_DIRECTORY": str(self.empty)}
        process = Process(CLIENTS, role, *arguments, environment={**own, **environment})
        self.clients.append(process)
        return process

    def close(self) -> None:
        """End all clients and daemons."""
        end(self.clients)
        self.clients = []
        for daemon in self.daemons.values():
            daemon.close()
        self.daemons = {}

    def contain(self, cases: Sequence[Case] = CASES) -> None:
        """Run the cases of faults."""
        for case in cases:
            found: Record = {"case": case.name, "fault": case.fault}
            if self.deadline - time.monotonic() < CASE_S + 3:
                self.record("faults", {**found, "failed": "no time"})
                continue
            try:
                for name in {case.offender, case.victim} - {""}:
                    self.daemons[name] = mps.Daemon(name)
                found.update(self.fault(case))
            except (Lost, mps.NotStarted) as error:
                found["failed"] = str(error)
            finally:
                self.close()
            self.record("faults", found)

    def fault(self, case: Case) -> Record:
        """Run one case of a fault."""
        victim, offender = self.client("victim", case.victim), self.client("offender", case.offender)
        ready = {name: process.hear(START_S) for name, process in (("victim", victim), ("offender", offender))}
        for name, answer in ready.items():
            if "ready" not in answer:
                raise Lost(f"{name}: {answer}")
        found: Record = {f"{name}_proof": answer["proof"] for name, answer in ready.items()}
        wanted = {"victim": bool(case.victim), "offender": bool(case.offender)}
        wrong = [name for name, answer in ready.items() if bool(answer["proof"]["mps"]) != wanted[name]]
        if wrong:
            raise Lost(f"not in its mode: {', '.join(wrong)}")
        daemon = self.daemons.get(case.victim)
        servers = daemon.servers() if daemon else []
        time.sleep(CALM_S)
        done = time.monotonic()
        found["offender"] = self.offend(case, offender)
        found["server_states"] = self.watch_server(daemon, servers, done)
        found["victim"] = self.outcome(victim, done)
        # The victim may still hold a dead context here, and the offender all memory.
        found["new_client_at_once"] = self.probe(case.victim)
        end([victim, offender])
        quit_at = time.monotonic()
        found["service_after_exit_s"] = self.wait_for_service(case.victim, quit_at)
        if daemon:
            found["log"] = daemon.output_end(4)
        return found

    def offend(self, case: Case, offender: Process) -> Record:
        """Let the offender cause the fault, or kill it."""
        offender.send(do="spin" if case.fault == "kill" else case.fault)
        answer = offender.hear(START_S)
        if case.fault != "kill":
            return answer
        time.sleep(0.3)
        found: Record = {"killed": True}
        if case.terminate:
            daemon = self.daemons[case.offender]
            for server in daemon.servers():
                status, output = daemon.ask(f"terminate_client {server} {offender.pid}")
                found["terminate_client"] = {"status": status, "words": output}
            with contextlib.suppress(Lost):
                found["offender_saw"] = offender.hear(2)
        offender.kill()
        return found

    def watch_server(self, daemon: mps.Daemon | None, servers: Sequence[int], since: float) -> list[list[Any]]:
        """Return [seconds since the fault, status] for each new status of the victim's server."""
        states: list[list[Any]] = []
        while time.monotonic() < since + WATCHED_S:
            statuses = (
                [f"{number} {daemon.ask(f'get_server_status {number}', 2)[1]}" for number in servers] if daemon else []
            )
            if statuses and (not states or states[-1][1] != statuses):
                states.append([round(time.monotonic() - since, 2), statuses])
            time.sleep(0.1)
        return states

    def outcome(self, victim: Process, since: float) -> Record:
        """Return the outcome of the victim; code 0 where it ran until the command to stop."""
        with contextlib.suppress(Lost):
            victim.send(do="stop")
        try:
            answer = victim.hear(ANSWER_S)
        except Lost as error:
            return {"survived": False, "error": str(error)}
        seconds = answer.pop("at") - since
        return {
            **answer,
            "seconds_after_fault": round(seconds, 3),
            "survived": answer["code"] == 0 and not answer["wrong"],
        }

    def probe(self, daemon: str) -> Record:
        """Start a new client that computes once."""
        begun = time.monotonic()
        process = self.client("probe", daemon)
        try:
            answer = process.hear(PROBE_S)
        except Lost as error:
            answer = {"refused": str(error)}
        process.kill()
        return {**answer, "seconds": round(time.monotonic() - begun, 2)}

    def wait_for_service(self, daemon: str, since: float) -> float | None:
        """Return the seconds until a new client computes; None where none did in time."""
        while time.monotonic() < min(since + SERVICE_S, self.deadline):
            answer = self.probe(daemon)
            if answer.get("right"):
                return round(time.monotonic() - since, 2)
        return None

    # Memory

    def limit_memory(self) -> None:
        """Measure each memory limit. The hog allocates pieces of 256 MiB and stops by itself at 12 GiB."""
        cases: tuple[tuple[str, str, str, str], ...] = (
            ("none: MPS without a limit", "a", "", ""),
            ("environment 4 GiB", "a", "", "0=4G"),
            ("default of the daemon 4 GiB", "b", "4G", ""),
            ("default 4 GiB, environment asks for 8 GiB", "b", "4G", "0=8G"),
            ("default 4 GiB, environment asks for 2 GiB", "b", "4G", "0=2G"),
            ("environment 4 GiB and a GPU that is not there", "a", "", "0=4G,7=1G"),
            ("default 4 GiB, environment names a GPU that is not there", "b", "4G", "0=4G,7=1G"),
            ("time-sliced, environment 4 GiB", "", "", "0=4G"),
        )
        try:
            for name, daemon, default, limit in cases:
                found: Record = {"case": name, "mps": bool(daemon), "default": default, "environment": limit}
                if self.deadline - time.monotonic() < CASE_S:
                    self.record("memory", {**found, "failed": "no time"})
                    continue
                try:
                    found.update(self.take_memory(daemon, default, limit))
                except (Lost, mps.NotStarted) as error:
                    found["failed"] = str(error)
                self.record("memory", found)
        finally:
            self.close()

    def take_memory(self, daemon: str, default: str, limit: str) -> Record:
        """Let a client allocate memory under a limit, next to another client."""
        found: Record = {}
        if daemon and daemon not in self.daemons:
            self.daemons[daemon] = mps.Daemon(daemon)
            if default:
                found["told"] = self.daemons[daemon].ask(f"set_default_device_pinned_mem_limit 0 {default}")
                found["read_back"] = self.daemons[daemon].ask("get_default_device_pinned_mem_limit 0")
        neighbour = self.client("victim", daemon)
        ready = neighbour.hear(START_S)
        if "ready" not in ready:
            raise Lost(f"neighbour: {ready}")
        environment = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit} if limit else {}
        hog = self.client("hog", daemon, str(12 * GIB), str(GIB // 4), **environment)
        answer = hog.hear(START_S)
        hog.kill()
        found.update(answer)
        for key in ("taken", "free_at_first", "total"):
            if key in found:
                found[key.replace("_at_first", "") + "_gib"] = round(found.pop(key) / GIB, 3)
        neighbour.send(do="stop")
        calm = neighbour.hear(START_S)
        found["neighbour_unharmed"] = calm["code"] == 0 and not calm["wrong"] and calm["steps"] > 0
        end([neighbour])
        self.clients = []
        return found

    # Partitions

    def probe_partitions(self, uuid: str) -> Record:
        """Probe `-S`, static partitions of multiprocessors: add one of 8 chunks, and start a client in it."""
        found: Record = {}
        try:
            daemon = self.daemons["s"] = mps.Daemon("s", "-S")
            found["started"] = True
            found["added"] = daemon.ask(f"sm_partition add {uuid} 8")
            found["listed"] = daemon.ask("lspart")
            name = next((word for word in found["added"][1].split()[-1:] if found["added"][0] == 0), "")
            if name:
                answer = self.client("probe", "s", CUDA_MPS_SM_PARTITION=name).hear(START_S)
                found["client"] = answer
            found["client_without_partition"] = self.client("probe", "s").hear(START_S)
            found["log"] = daemon.output_end(6)
        except (Lost, mps.NotStarted) as error:
            found["failed"] = str(error)
        finally:
            self.close()
        return found
