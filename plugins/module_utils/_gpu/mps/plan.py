# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide the steps from a running daemon to the requested one. Pure.

Options are read from the process, and limits from the daemon. Nothing is recorded, so the next run completes one that was interrupted.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.files import (
    FOREIGN,
    LOG,
    MARK,
    PARTS,
    PIPE,
    SYSTEMD,
    VISIBLE,
    arguments,
    environment,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    ABSENT,
    DEFER,
    DRAIN,
    FAIL,
    STARTED,
    Daemon,
)

START = "start"
RESTART = "restart"
STOP = "stop"
PUSH = "push"
ENABLE = "enable"
DISABLE = "disable"

_LIMIT = re.compile(r"^((?:pinned_memory_limit|active_thread_percentage|client_priority) = ).*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of a running daemon. ``stale``: limits of its next clients that differ from the request."""

    pid: int
    status: str = ""
    clients: tuple[int, ...] = ()
    stale: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Live:
    """The daemon at a pipe directory; ``pid`` is None without one.

    :param mark: manager and name; empty for a daemon that this module did not start.
    :param stale: defaults that differ from the request.
    :param extra: defaults that are not requested; only a restart removes them.
    """

    pid: int | None = None
    mark: str = ""
    uid: int | None = None
    arguments: tuple[str, ...] = ()
    environment: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    servers: tuple[Server, ...] = ()
    stale: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    enabled: bool = False

    @property
    def clients(self) -> list[int]:
        return [pid for server in self.servers for pid in server.clients]

    @property
    def ours(self) -> bool:
        return self.pid is not None and bool(self.mark)


@dataclasses.dataclass
class Steps:
    """The steps of a daemon, in this order: drain, files, verbs, servers. A file that is None is removed."""

    files: dict[str, str | None] = dataclasses.field(default_factory=dict)
    verbs: list[str] = dataclasses.field(default_factory=list)
    servers: list[int] = dataclasses.field(default_factory=list)
    drain: bool = False
    pending: list[str] = dataclasses.field(default_factory=list)
    refusal: str = ""

    @property
    def changed(self) -> bool:
        return bool(self.files or self.verbs or self.servers)


def decide(
    daemon: Daemon,
    live: Live,
    wanted_files: t.Mapping[str, str],
    on_disk: t.Mapping[str, str | None],
    when_clients: str,
    manager: str,
    uid: int | None,
) -> Steps:
    """Decide the steps of one daemon.

    :param wanted_files: all files of the daemon; other files of *on_disk* are removed.
    :param uid: the user of the requested daemon.
    """
    steps = Steps()
    if live.pid is not None and not live.ours:
        if daemon.state == STARTED:
            steps.refusal = (
                f"another daemon has {daemon.pipe} (pid {live.pid or 'unknown'}), which this module did not start;"
                " it is left alone: stop it, or take another name or pipe_root"
            )
        # This module stops only daemons that it started.
        return steps
    if daemon.state != STARTED:
        return _to_stop(daemon, live, on_disk, when_clients, manager)
    steps.files = {path: text for path, text in wanted_files.items() if on_disk.get(path) != text}
    steps.files.update({path: None for path, text in on_disk.items() if text is not None and path not in wanted_files})
    if manager == SYSTEMD and not live.enabled:
        steps.verbs.append(ENABLE)
    reasons = _restart_for(daemon, live, wanted_files, on_disk, manager, uid)
    if live.pid is None:
        steps.verbs.append(START)
    elif reasons:
        _with_clients(steps, live, RESTART, f"a restart for {', '.join(reasons)}", when_clients)
    else:
        if live.stale or _pushes(steps.files, on_disk):
            steps.verbs.append(PUSH)
        old = [server for server in live.servers if server.stale]
        busy = [server for server in old if server.clients]
        steps.servers = [server.pid for server in old if not server.clients]
        for server in busy:
            reason = f"{', '.join(server.stale)} of server {server.pid}"
            if when_clients == DRAIN:
                steps.drain = True
                steps.servers.append(server.pid)
            elif when_clients == FAIL:
                steps.refusal = _busy(daemon, live, reason)
            else:
                steps.pending.append(
                    f"{daemon.name}: {reason}, until its clients {_pid_list(server.clients)} have ended"
                )
    return steps


def _restart_for(
    daemon: Daemon,
    live: Live,
    wanted_files: t.Mapping[str, str],
    on_disk: t.Mapping[str, str | None],
    manager: str,
    uid: int | None,
) -> list[str]:
    """Return the reasons for a restart."""
    if live.pid is None:
        return []
    reasons = []
    configuration = next((path for path in wanted_files if path.endswith(".toml")), "")
    if list(live.arguments) != arguments(daemon, manager == SYSTEMD, configuration):
        reasons.append("its options")
    wanted = environment(daemon, manager)
    names = {PIPE: "directory", LOG: "log directory", VISIBLE: "devices", MARK: "manager", PARTS: "partitions"}
    reasons += [reason for key, reason in names.items() if live.environment.get(key, "") != wanted.get(key, "")]
    reasons += [key for key in FOREIGN if key in live.environment]
    if uid is not None and live.uid is not None and uid != live.uid:
        reasons.append("its user")
    if configuration and _shape(wanted_files[configuration]) != _shape(on_disk.get(configuration) or ""):
        reasons.append("its configuration")
    return reasons + list(live.extra)


def _shape(configuration: str) -> str:
    """Return a configuration without the values that a running daemon also takes from a command."""
    return _LIMIT.sub(r"\1", configuration)


def _pushes(files: t.Mapping[str, str | None], on_disk: t.Mapping[str, str | None]) -> bool:
    """Return whether limits changed in a way that reading them back may not show: 1044M and 1100M are both reported as 1G."""
    return any(path.endswith(".sh") and on_disk.get(path) is not None for path in files)


def _to_stop(daemon: Daemon, live: Live, on_disk: t.Mapping[str, str | None], when_clients: str, manager: str) -> Steps:
    steps = Steps()
    if live.pid is not None:
        _with_clients(steps, live, STOP, "its stop", when_clients)
    if steps.refusal or steps.pending:
        return steps
    if manager == SYSTEMD and live.enabled:
        steps.verbs.append(DISABLE)
    if daemon.state == ABSENT:
        steps.files = {path: None for path, text in on_disk.items() if text is not None}
    return steps


def _with_clients(steps: Steps, live: Live, verb: str, reason: str, when_clients: str) -> None:
    """Add a step that ends clients, if *when_clients* allows it."""
    name = live.mark.partition(":")[2]
    if not live.clients:
        steps.verbs.append(verb)
    elif when_clients == DRAIN:
        steps.drain = True
        steps.verbs.append(verb)
    elif when_clients == DEFER:
        # The files wait too: they have to match the running process.
        steps.files = {}
        steps.pending.append(f"{name}: {reason}, until its clients {_pid_list(live.clients)} have ended")
    else:
        steps.refusal = f"daemons[{name}]: {_waits(reason, live.clients)}"


def _busy(daemon: Daemon, live: Live, reason: str) -> str:
    return f"daemons[{daemon.name}]: {_waits(reason, live.clients)}"


def _waits(reason: str, clients: t.Sequence[int]) -> str:
    return (
        f"{reason} meets clients ({_pid_list(clients)}): end them, or set when_clients to drain (wait for them, then end them)"
        " or defer (leave them, report what is pending)"
    )


def _pid_list(clients: t.Sequence[int]) -> str:
    return ", ".join(map(str, clients))
