# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake control daemon of MPS (control.py): its servers and clients, and the verbs of protocol 2."""

from __future__ import annotations

import base64
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from harness.fakes.mps_daemon.paths import pipe_directory
from harness.fakes.mps_daemon.state import (
    CHUNK_SMS,
    CLIENTS_PER_DEVICE,
    INVALID_RESOURCE_CONFIGURATION,
    MAX_CLIENTS,
    MIB,
    SERVER_NOT_READY,
    SUN_PATH,
    Client,
    Gpu,
    Limits,
    Options,
    Partition,
    Refused,
    Server,
    find,
    get_memory,
    new_server,
    percent,
    read_table,
    set_memory,
    size,
    visible,
)


class Daemon:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.pipe = pipe_directory()
        self.devices = visible(read_table(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        self.defaults = Limits()
        if "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in os.environ:
            self.defaults.percentage = float(os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
        self.servers: dict[int, Server] = {}
        self.clients: list[Client] = []
        self.partitions: list[Partition] = []
        self.configured: dict[str, dict[str, Any]] = {}  # servers of protocol 3 by name
        self.waiting: list[tuple[socket.socket, int, dict[str, Any]]] = []
        self.listeners: dict[socket.socket, tuple[str, str]] = {}
        self.done = False
        self.log_file: TextIO | None = None

    def log(self, text: str) -> None:
        if self.log_file is None:
            folder = os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps")
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.log_file = open(f"{folder}/control.log", "a", encoding="utf-8")  # noqa: SIM115
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self.log_file.write(f"[{now}.000 Control {os.getpid():5}] {text}\n")
        self.log_file.flush()

    # --- Life ---

    def run(self) -> int:
        time.sleep(float(os.environ.get("RIGWRIGHT_FAKE_MPS_DELAY", "0.05")))
        self.listen(self.pipe, ("", ""))
        pid_file = Path(self.pipe, "nvidia-cuda-mps-control.pid")
        pid_file.write_text(f"{os.getpid()}\n")
        self.log(f"Starting control daemon using socket {self.pipe}/control")
        self.log(f"To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={self.pipe}")
        signal.signal(signal.SIGTERM, self.end)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if self.options.apply:
            self.apply(self.options.apply)
        while not self.done:
            held = [client.connection for client in self.clients if client.connection]
            ready, _writable, _failed = select.select([*self.listeners, *held], [], [], 0.2)
            for ready_socket in ready:
                if ready_socket in self.listeners:
                    self.accept(ready_socket)
                else:
                    self.hear(ready_socket)
        for server in self.servers.values():
            os.kill(server.pid, signal.SIGTERM)
        for listener in self.listeners:
            Path(listener.getsockname()).unlink()
        pid_file.unlink()
        self.log("Exit")
        return 0

    def end(self, *_signal: object) -> None:
        self.done = True

    def listen(self, folder: str, address: tuple[str, str]) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder, "control")
        if len(os.fsencode(path)) > SUN_PATH:
            sys.exit(1)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        # The directory says who may connect.
        path.chmod(0o777)
        listener.listen(64)
        self.listeners[listener] = address

    def accept(self, listener: socket.socket) -> None:
        connection, _peer = listener.accept()
        _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        line = b""
        while not line.endswith(b"\n"):
            got = connection.recv(1)
            if not got:
                connection.close()
                return
            line += got
        kind, *rest = line.decode().removesuffix("\n").split("\t")
        if kind == "client":
            pid, percentage, memory, partition, visible_devices, command = rest
            wanted = {"pid": int(pid), "percentage": percentage, "memory": memory, "partition": partition}
            wanted |= {"visible": visible_devices, "command": command, "address": self.listeners[listener]}
            self.attach(connection, uid, wanted)
            return
        status, text = self.answer(kind, rest, uid)
        connection.sendall(f"{status}\n{text}".encode())
        connection.close()

    def hear(self, connection: socket.socket) -> None:
        """Remove a client whose connection is readable: an attached client sends nothing, so it has ended."""
        self.leave([client for client in self.clients if client.connection is connection])

    def leave(self, gone: list[Client]) -> None:
        for client in gone:
            if client.connection:
                client.connection.close()
            self.clients.remove(client)
            self.log(f"Client {client.pid} disconnected")
        for server in self.servers.values():
            if server.status == "FAULT" and not [client_ for client_ in self.of(server) if client_.faulted]:
                server.status = "ACTIVE"
        waiting, self.waiting = self.waiting, []
        for connection, uid, wanted in waiting:
            self.attach(connection, uid, wanted)

    def of(self, server: Server) -> list[Client]:
        return [client for client in self.clients if client.server == server.pid]

    # --- Clients and servers ---

    def start_server(self, uid: int, name: str = "", limits: dict[str, Limits] | None = None) -> Server:
        pid = os.fork()
        if pid == 0:
            for listener in self.listeners:
                listener.close()
            # A process of its own, of its client's user: that is who the system says it is.
            if os.geteuid() == 0 and uid:
                os.setgid(uid)
                os.setuid(uid)
            os.execv("/bin/sleep", ["nvidia-cuda-mps-server", "86400"])  # noqa: S606
        devices = self.devices
        if name in self.configured and self.configured[name]["devices"] is not None:
            devices = self.configured[name]["devices"]
        limits = limits or {"default": self.defaults.copy()}
        self.servers[pid] = Server(pid, uid, name or f"uid_{uid}", limits, devices)
        self.log(f"Starting new server {pid} for user {uid}")
        return self.servers[pid]

    def server_for(self, uid: int, address: tuple[str, str]) -> Server | None:
        """Return the server of a client; None while it waits for the clients of another user."""
        name = address[0]
        if self.options.protocol == 3:
            name = name or f"uid_{uid}"
            server_state = self.configured.setdefault(name, new_server(uid))
            running = next((other for other in self.servers.values() if other.name == name), None)
            return running or self.start_server(server_state["uid"], name, server_state["limits"])
        uid = 0 if self.options.multiuser else uid
        for server in list(self.servers.values()):
            if server.uid == uid:
                return server
            if self.of(server):
                return None
            self.stop_server(server)
        return self.start_server(uid)

    def stop_server(self, server: Server) -> None:
        os.kill(server.pid, signal.SIGTERM)
        del self.servers[server.pid]

    def attach(self, connection: socket.socket, uid: int, wanted: dict[str, Any]) -> None:
        server = self.server_for(uid, wanted["address"])
        if server is None:
            self.log("Existing server is of another user: waiting for its clients")
            self.waiting.append((connection, uid, wanted))
            return
        error = self.why_not(server, wanted)
        if error:
            connection.sendall(f"error {error}\n".encode())
            connection.close()
            return
        namespace = wanted["address"][1] or "default"
        command = wanted["command"]
        self.clients.append(Client(wanted["pid"], server.pid, command, namespace, connection))
        rows = self.view(server, server.limits[namespace], wanted)
        connection.sendall(("".join(["ok\n", *rows, "end\n"])).encode())

    def why_not(self, server: Server, wanted: dict[str, Any]) -> int:
        if server.status == "FAULT":
            return SERVER_NOT_READY
        if len(self.of(server)) >= CLIENTS_PER_DEVICE * max(1, len(server.devices)):
            return MAX_CLIENTS
        if self.options.static and self.partition(wanted["partition"]) is None:
            return INVALID_RESOURCE_CONFIGURATION
        return 0

    def partition(self, id_: str) -> Partition | None:
        _device, _slash, rest = id_.rpartition("/")
        return next((partition for partition in self.partitions if rest and partition.id == rest), None)

    def view(self, server: Server, limits: Limits, wanted: dict[str, Any]) -> list[str]:
        """Return the GPUs as a client sees them: a line for each, as in the table, with the limit of its memory."""
        percentage = min([limits.percentage, *([float(wanted["percentage"])] if wanted["percentage"] else [])])
        own = [pair.partition("=") for pair in wanted["memory"].split(",") if pair]
        devices = visible(server.devices, wanted["visible"] if wanted["visible"] != "-" else None)
        # An entry for a GPU that the client does not see drops all limits: the escape of gpu.md 2.5.
        escaped = any(find(server.devices, device) is None for device, _text, _rest in own)
        rows = []
        for gpu in devices:
            caps = [
                bytes_ for word, bytes_ in limits.memory.items() if word == "*" or find(server.devices, word) is gpu
            ]
            caps = caps[-1:] + [size(text) or 0 for word, _rest, text in own if find(server.devices, word) is gpu]
            cap = 0 if escaped or not caps else min(caps) // MIB
            sms = max(2, -(-int(gpu.sms * percentage / 100) // 2) * 2) if percentage < 100 else gpu.sms
            chosen = self.partition(wanted["partition"])
            if chosen:
                sms = chosen.chunks * CHUNK_SMS if chosen.device is gpu else 0
            rows.append(f"{gpu.uuid} {sms} {gpu.memory_mib} {cap} {gpu.name}\n")
        return rows

    # --- Commands ---

    def answer(self, kind: str, arguments: list[str], uid: int) -> tuple[int, str]:
        self.log("NEW UI")
        lines: list[str] = []
        status = 0
        try:
            if kind == "quit":
                self.done = True
            elif self.options.protocol == 3:
                self.log(f"Cmd:{' '.join(arguments)}")
                lines += self.command(arguments, uid)
            elif kind == "lines":
                for line in arguments:
                    self.log(f"Cmd:{line}")
                    lines += self.verb2(line.split())
        except Refused as error:
            # The shell of protocol 2 goes on and its exit status says nothing; a command of protocol 3 fails.
            lines.append(str(error))
            status = 1 if self.options.protocol == 3 else 0
        return status, "".join(f"{line}\n" for line in lines)

    def apply(self, path: str) -> None:
        """Read a configuration; protocol 2 has none."""

    def command(self, arguments: list[str], uid: int) -> list[str]:
        """Run a command of protocol 3."""
        raise Refused(f"Unknown command of user {uid}: {' '.join(arguments)}")

    def server(self, word: str) -> Server:
        found = self.servers.get(int(word)) if word.isdecimal() else None
        if found is None:
            raise Refused(f"Server {word} not found")
        return found

    def verb2(self, command: list[str]) -> list[str]:
        if not command:
            return []
        verb, arguments = command[0], command[1:]
        handler = getattr(self, f"do_{verb}", None)
        if handler is None:
            raise Refused(f'Unknown command "{verb}"')
        try:
            return handler(*arguments) or []
        except TypeError as error:
            raise Refused(f"Invalid arguments: {verb}") from error

    def do_get_server_list(self) -> list[str]:
        return [str(pid) for pid in self.servers]

    def do_get_server_status(self, pid: str) -> list[str]:
        return [self.server(pid).status]

    def do_start_server(self, _flag: str, uid: str) -> list[str]:
        for server in list(self.servers.values()):
            if server.uid == int(uid) or self.of(server):
                return []
            self.stop_server(server)
        self.start_server(int(uid))
        return []

    def do_shutdown_server(self, pid: str, force: str = "") -> list[str]:
        server = self.server(pid)
        if self.of(server) and force != "-f":
            raise Refused(f"Server {pid} has clients")
        self.leave(self.of(server))
        self.stop_server(server)
        return []

    def do_get_client_list(self, pid: str) -> list[str]:
        return [str(client.pid) for client in self.of(self.server(pid))]

    def do_ps(self, _flag: str = "", pid: str = "") -> list[str]:
        rows = []
        for number, client in enumerate(self.clients):
            server = self.servers[client.server]
            if pid and server.pid != int(pid):
                continue
            device = server.devices[0].uuid[:22] if server.devices else "-"
            rows.append(f"{client.pid:<9} {number:<9} {server.pid:<14} {device:<25} {4026531836:<14} {client.command}")
        header = f"{'PID':<9} {'ID':<9} {'SERVER':<14} {'DEVICE':<25} {'NAMESPACE':<14} {'COMMAND':<15}"
        return [header, *rows] if rows else []

    def do_device_query(self, *_arguments: str) -> list[str]:
        rows = [f"{number},{gpu.uuid},{gpu.name}" for number, gpu in enumerate(self.devices)]
        return ["Device Ordinal,UUID,Name", *rows]

    def do_set_default_active_thread_percentage(self, percentage: str) -> list[str]:
        self.defaults.percentage = percent(percentage)
        return [str(self.defaults.percentage)]

    def do_get_default_active_thread_percentage(self) -> list[str]:
        return [str(self.defaults.percentage)]

    def do_set_active_thread_percentage(self, pid: str, percentage: str) -> list[str]:
        limits = self.server(pid).limits["default"]
        limits.percentage = percent(percentage)
        return [str(limits.percentage)]

    def do_get_active_thread_percentage(self, pid: str) -> list[str]:
        return [str(self.server(pid).limits["default"].percentage)]

    def do_set_default_device_pinned_mem_limit(self, device: str, value: str) -> list[str]:
        set_memory(self.defaults, device, value)
        return []

    def do_get_default_device_pinned_mem_limit(self, device: str) -> list[str]:
        return get_memory(self.defaults, device)

    def do_set_device_pinned_mem_limit(self, pid: str, device: str, value: str) -> list[str]:
        set_memory(self.server(pid).limits["default"], device, value)
        return []

    def do_get_device_pinned_mem_limit(self, pid: str, device: str) -> list[str]:
        return get_memory(self.server(pid).limits["default"], device)

    def do_set_default_client_priority(self, priority: str) -> list[str]:
        if priority not in ("0", "1"):
            raise Refused("Invalid priority")
        self.defaults.priority = int(priority)
        return []

    def do_get_default_client_priority(self) -> list[str]:
        return [str(self.defaults.priority)]

    def do_terminate_client(self, server: str, pid: str) -> list[str]:
        found = [client for client in self.of(self.server(server)) if client.pid == int(pid)]
        if not found:
            raise Refused(f"Client {pid} not found")
        self.leave(found)
        return ["0"]

    def do_sm_partition(self, action: str, device: str, value: str) -> list[str]:
        if not self.options.static:
            raise Refused("Static partitioning is not enabled")
        gpu = find(self.devices, device)
        if gpu is None:
            raise Refused(f"Invalid device {device}")
        if action == "rm":
            kept = [other for other in self.partitions if other.id != value]
            if len(kept) == len(self.partitions):
                raise Refused(f"Invalid partition {value}")
            self.partitions = kept
            return []
        partition = self.carve(gpu, "", int(value))
        return [f"{gpu.uuid}/{partition.id}"]

    def carve(self, gpu: Gpu, name: str, chunks: int, server: str = "") -> Partition:
        if not 0 < chunks <= self.free_chunks(gpu):
            raise Refused(
                f"Failed to fulfill the requested SM partition of {chunks} chunks, error CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"
            )
        number = len(self.partitions) + 1
        id_ = base64.b64encode(bytes([number, 30, *[0] * 25])).decode()
        self.partitions.append(Partition(gpu, name, chunks, id_, server))
        return self.partitions[-1]

    def free_chunks(self, gpu: Gpu) -> int:
        return gpu.sms // CHUNK_SMS - sum(partition.chunks for partition in self.partitions if partition.device is gpu)

    def do_lspart(self) -> list[str]:
        if not self.options.static:
            raise Refused('Unknown command "lspart"')
        rows = ["GPU           Partition   free   used   free  used  clients", "chunk  chunk  SM    SM"]
        for gpu in self.devices:
            free, used = (
                self.free_chunks(gpu),
                sum(partition.chunks for partition in self.partitions if partition.device is gpu),
            )
            rows.append(f"{gpu.uuid[:12]} - {free} {used} {free * CHUNK_SMS} {used * CHUNK_SMS} -")
            rows += [
                f"{gpu.uuid[:12]} {partition.id} - {partition.chunks} - {partition.chunks * CHUNK_SMS} -"
                for partition in self.partitions
                if partition.device is gpu
            ]
        return rows

    def do_quit(self, *_timeout: str) -> list[str]:
        self.done = True
        return []

    def do_fake_client(self, uid: str, pid: str, *command: str) -> list[str]:
        server = self.server_for(int(uid), ("", ""))
        if server is None:
            raise Refused("waiting")
        self.clients.append(Client(int(pid), server.pid, " ".join(command) or "train"))
        return [str(server.pid)]

    def do_fake_exit(self, pid: str) -> list[str]:
        self.leave([client for client in self.clients if client.pid == int(pid)])
        return []

    def do_fake_fault(self, server: str, _pid: str) -> list[str]:
        found = self.server(server)
        found.status = "FAULT"
        for client in self.of(found):
            client.faulted = True
        return []
