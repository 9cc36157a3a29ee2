# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake control daemon of MPS (control.py) on protocol 3: named servers, namespaces, a configuration file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from harness.fakes.mps_daemon.daemon import Daemon
from harness.fakes.mps_daemon.state import CHUNK_SMS, Limits, Refused, Server, find, limits_of, new_server, shown


class Daemon3(Daemon):
    """A daemon of protocol 3."""

    def apply(self, path: str) -> None:
        import tomllib  # Python 3.11; only this protocol has it

        with open(path, "rb") as file:
            wanted = tomllib.load(file)
        try:
            for name, table in wanted.get("servers", {}).items():
                self.configure(name, table)
        except (Refused, KeyError, ValueError) as error:
            self.log(f"Configuration error: {error}")
            self.done = True

    def configure(self, name: str, table: dict[str, Any]) -> None:
        allowed = {"allowed_devices", "pinned_memory_limit", "active_thread_percentage", "client_priority", "uid"}
        extra = set(table) - allowed - {"locality_domains", "namespaces", "devices"}
        if extra or not re.fullmatch(r"[a-z0-9_]{1,64}", name):
            raise Refused(f"{name}: {sorted(extra)}")
        server = self.create(name, int(table.get("uid", os.getuid())), table.get("allowed_devices"))
        server["limits"]["default"] = limits_of(table)
        for space, values in table.get("namespaces", {}).items():
            # A namespace has only its own limits: those of the server are of its `default`.
            self.namespace(name, space, limits_of(values))
        for device in table.get("devices", []):
            gpu = find(self.devices, device["uuid"])
            if gpu is None:
                raise Refused(f"Invalid device {device['uuid']}")
            for partition in device.get("sm_partitions", []):
                self.carve(gpu, partition["name"], partition["chunks"], name)

    def create(self, name: str, uid: int, devices: str | None) -> dict[str, Any]:
        server = new_server(uid)
        if devices is not None:
            found = [find(self.devices, word.strip()) for word in devices.split(",")]
            server["devices"] = [gpu for gpu in found if gpu]
            # A bad UUID is taken, and the server then ends.
            server["bad"] = None in found
        self.configured[name] = server
        self.listen(f"{self.pipe}/{name}", (name, "default"))
        self.namespace(name, "default", server["limits"]["default"])
        return server

    def namespace(self, server: str, name: str, limits: Limits) -> None:
        self.configured[server]["limits"][name] = limits
        folder = f"{self.pipe}/{server}/{name}"
        if not Path(folder, "control").exists():
            self.listen(folder, (server, name))

    def command(self, arguments: list[str], uid: int) -> list[str]:
        positional = [word for word in arguments if not word.startswith("--")]
        flags = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
        module, verb, *rest = [*positional, "", ""]
        rest = [word for word in rest if word]
        handler = getattr(self, f"on_{module.replace('-', '_')}_{verb}", None)
        if handler is None:
            raise Refused(f"Unknown command: {' '.join(arguments)}")
        rows = handler(rest, flags, uid) or []
        if verb != "list":
            return [str(row) for row in rows]
        header, *lines = rows
        form = flags.get("format", "table")
        joint = "," if form.startswith("csv") else " "
        shown_rows = lines if form.endswith(",noheader") else [header, *lines]
        return [joint.join(map(str, row)) for row in shown_rows]

    def configured_server(self, name: str) -> dict[str, Any]:
        if name not in self.configured:
            raise Refused(f"Server '{name}' does not exist")
        return self.configured[name]

    def process(self, name: str) -> Server | None:
        return next((server for server in self.servers.values() if server.name == name), None)

    def on_server_create(self, rest: list[str], flags: dict[str, str], uid: int) -> list[str]:
        owner = int(flags.get("uid", uid))
        self.create(rest[0] if rest else f"uid_{owner}", owner, flags.get("allowed-devices"))
        return []

    def on_server_delete(self, rest: list[str], flags: dict[str, str], _uid: int) -> list[str]:
        self.configured_server(rest[0])
        process = self.process(rest[0])
        if process and self.of(process) and "force" not in flags:
            raise Refused(f"Server '{rest[0]}' has active clients")
        if process:
            self.leave(self.of(process))
            self.stop_server(process)
        del self.configured[rest[0]]
        return []

    def on_server_set(self, rest: list[str], flags: dict[str, str], _uid: int) -> list[str]:
        self.configured_server(rest[0])
        return self.on_namespace_set(["default"], {**flags, "server": rest[0]}, _uid)

    def on_server_get(self, rest: list[str], _flags: dict[str, str], _uid: int) -> list[str]:
        row = self.server_row(rest[0])
        return [str(row[rest[1]])]

    def server_row(self, name: str) -> dict[str, object]:
        server, process = self.configured_server(name), self.process(name)
        devices = "all" if server["devices"] is None else ";".join(gpu.uuid for gpu in server["devices"])
        status = "Exited" if server["bad"] else "Ready"
        row = {"name": name, "uid": server["uid"], "pid": process.pid if process else "-", "status": status}
        return {**row, "pipe-directory": f"{self.pipe}/{name}", "allowed-devices": devices, "context-ids": "-"}

    def on_server_list(self, rest: list[str], _flags: dict[str, str], _uid: int) -> list[list[Any]]:
        rows = [self.server_row(name) for name in rest[:1] or self.configured]
        header = ["name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"]
        return [header, *([row[key] for key in header] for row in rows)]

    def on_namespace_create(self, rest: list[str], flags: dict[str, str], _uid: int) -> list[str]:
        self.configured_server(flags["server"])
        self.namespace(flags["server"], rest[0], Limits())
        return []

    def on_namespace_set(self, rest: list[str], flags: dict[str, str], _uid: int) -> list[str]:
        limits = self.configured_server(flags["server"])["limits"].get(rest[0])
        if limits is None:
            raise Refused(f"Namespace '{rest[0]}' does not exist")
        changed = limits_of({key.replace("-", "_"): value for key, value in flags.items()})
        if "active-thread-percentage" in flags:
            limits.percentage = changed.percentage
        if "pinned-memory-limit" in flags:
            limits.memory = changed.memory
        if "client-priority" in flags:
            limits.priority = changed.priority
        return []

    def on_namespace_get(self, rest: list[str], _flags: dict[str, str], _uid: int) -> list[str]:
        name, server, key = rest
        return [str(self.namespace_row(server, name)[key])]

    def namespace_row(self, server: str, name: str) -> dict[str, object]:
        limits = self.configured_server(server)["limits"].get(name)
        if limits is None:
            raise Refused(f"Namespace '{name}' does not exist")
        memory = shown(limits.memory["*"]) if limits.memory else "-"
        row = {"name": name, "server": server, "server-status": "Ready", "pinned-memory-limit": memory}
        row |= {"active-thread-percentage": f"{limits.percentage:g}", "client-priority": limits.priority}
        return {**row, "pipe-directory": f"{self.pipe}/{server}/{name}"}

    def on_namespace_list(self, _rest: list[str], flags: dict[str, str], _uid: int) -> list[list[Any]]:
        servers = [flags["server"]] if "server" in flags else list(self.configured)
        rows = [
            self.namespace_row(server, name) for server in servers for name in self.configured_server(server)["limits"]
        ]
        header = ["name", "server", "server-status", "pinned-memory-limit", "active-thread-percentage"]
        header += ["client-priority", "pipe-directory"]
        return [header, *([row[key] for key in header] for row in rows)]

    def on_client_list(self, _rest: list[str], flags: dict[str, str], _uid: int) -> list[list[Any]]:
        rows = []
        for client in self.clients:
            server = self.servers[client.server].name
            if flags.get("server", server) == server:
                rows.append([client.pid, server, 0, client.namespace, client.command])
        return [["pid", "server", "device", "namespace", "cmd"], *rows]

    def on_client_terminate(self, rest: list[str], _flags: dict[str, str], _uid: int) -> list[str]:
        found = [client for client in self.clients if client.pid == int(rest[0])]
        if not found:
            raise Refused(f"Client {rest[0]} does not exist")
        self.leave(found)
        return []

    def on_sm_partition_create(self, rest: list[str], flags: dict[str, str], _uid: int) -> list[str]:
        gpu = find(self.devices, flags["device"])
        if gpu is None:
            raise Refused(f"Invalid device {flags['device']}")
        partition = self.carve(gpu, rest[0], int(flags["chunks"]), flags["server"])
        line = f"SM partition '{partition.name}' created on device {gpu.uuid} (sm-count={partition.chunks * CHUNK_SMS})"
        return [line, f"CUDA_MPS_SM_PARTITION={gpu.uuid}/{partition.id}"]

    def on_sm_partition_list(self, _rest: list[str], flags: dict[str, str], _uid: int) -> list[list[Any]]:
        header = ["server", "device", "name", "chunks", "sm-count", "include-remainder", "status", "visible-uuid"]
        rows = [
            [
                partition.server,
                partition.device.uuid,
                partition.name,
                partition.chunks,
                partition.chunks * CHUNK_SMS,
                "false",
                "created",
                partition.id,
            ]
            for partition in self.partitions
            if flags.get("server", partition.server) == partition.server
        ]
        return [header, *rows]
