# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read MPS daemons of a host: their processes, files, servers and limits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, directories
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import plan as steps_
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import (
    NO_DAEMON,
    PROGRAM,
    REFUSED,
    Control,
    MpsError,
    Run,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import STARTED, Daemon

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

# MPS reports a limit of this size or more where none is set.
BEYOND = 10**8
PID_FILE = "nvidia-cuda-mps-control.pid"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*[KMGT]i?B?")


@dataclasses.dataclass(frozen=True)
class Host:
    """Paths of this host, and the function that runs a command: arguments, environment, input -> status, output, errors."""

    execute: Run
    manager: str
    program: str
    config_root: str
    unit_folder: str = files.UNIT_FOLDER
    proc: str = "/proc"

    def script(self, name: str) -> str:
        return f"{self.config_root}/{name}.sh"

    def configuration(self, name: str) -> str:
        return f"{self.config_root}/{name}.toml"

    def unit(self, name: str) -> str:
        return f"{self.unit_folder}/{files.unit_name(name)}"

    def run_as(self, user: str, unset: t.Sequence[str] = files.FOREIGN) -> Run:
        """Return a way to run commands of a user, without variables that would set undeclared limits."""
        before = ["env", *(word for name in unset for word in ("-u", name))]
        if user and os.geteuid() == 0 and user != "root":
            before = ["runuser", "-u", user, "--", *before]
        return lambda command, environment, text: self.execute([*before, *command], environment, text)

    def control(self, daemon: Daemon, live: steps_.Live | None = None) -> Control:
        """Return the control of the requested daemon, or of the running one with its user and protocol."""
        user, protocol = daemon.user, daemon.protocol
        if live is not None and live.pid:
            user, protocol = user_name(live.uid), 3 if "-p" in live.arguments and "3" in live.arguments else 2
        return Control(self.run_as(user), self.program, daemon.pipe, daemon.log, protocol)

    def must(self, *command: str) -> str:
        """Run a command that has to succeed.

        :raises MpsError: the command failed.
        """
        status, out, err = self.execute(command, {}, "")
        if status != 0:
            raise MpsError(REFUSED, f"`{' '.join(command)}`: {err.strip() or out.strip()}")
        return out


def find_host(module: Runner, manager: str, config_root: str, unit_folder: str = files.UNIT_FOLDER) -> Host | None:
    """Return the host of the module; None where it has no control program."""
    # In containers with the driver of their host, the program is in this folder.
    program = module.get_bin_path(PROGRAM, opt_dirs=["/usr/local/nvidia/bin"])
    if program is None:
        return None

    def execute(command: t.Sequence[str], environment: t.Mapping[str, str], text: str) -> tuple[int, str, str]:
        result = module.run_command(list(command), data=text, binary_data=True, environ_update={**environment})
        return t.cast("tuple[int, str, str]", result)

    return Host(execute, manager, program, config_root, unit_folder)


def files_of(daemon: Daemon, host: Host) -> dict[str, str]:
    """Return the files of a daemon that is to run."""
    texts = {host.script(daemon.name): files.script(daemon, host.program, host.manager)}
    if daemon.protocol == 3:
        uid = accounts.uid_of(daemon.user) if daemon.user else None
        texts[host.configuration(daemon.name)] = files.configuration(daemon, uid)
    if host.manager == files.SYSTEMD:
        script, configuration = host.script(daemon.name), host.configuration(daemon.name)
        texts[host.unit(daemon.name)] = files.unit(daemon, host.program, script, configuration)
    return texts


def on_disk(daemon: Daemon, host: Host) -> dict[str, str | None]:
    paths = [host.script(daemon.name), host.configuration(daemon.name)]
    paths += [host.unit(daemon.name)] if host.manager == files.SYSTEMD else []
    return {path: read_text(path) for path in paths}


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def folder_of(path: str) -> str:
    """Return the path of a daemon's directory with its parents resolved. It must be no link itself, since its user can write to it."""
    parent, name = os.path.split(path.rstrip("/"))
    return os.path.join(os.path.realpath(parent), name)


def read_below(folder: str, name: str) -> str | None:
    """Read a file in a directory of a daemon's user; None where there is none, or where the user put something else there."""
    try:
        with directories.directory(folder_of(folder)) as handle:
            return directories.read_file(name, dir_fd=handle).decode(errors="replace")
    except OSError:
        return None


def user_name(uid: int | None) -> str:
    """Return the name of a user; empty for the user of this process, and for a user without a name."""
    if uid is None or uid == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def read_live(daemon: Daemon, host: Host) -> steps_.Live:
    """Read what runs at the daemon's pipe directory.

    :raises MpsError: the daemon exists but does not answer.
    """
    enabled = host.manager == files.SYSTEMD and _is_enabled(daemon, host)
    pid = find_pid(daemon.pipe, host.proc)
    process = read_process(pid, host.proc) if pid else None
    if process is None:
        # A daemon in another PID namespace, such as a container's, has no process here.
        answers = os.path.exists(f"{daemon.pipe}/control") and host.control(daemon).answers()
        return steps_.Live(pid=0 if answers else None, enabled=enabled)
    arguments, environment, uid = process
    mark = environment.get(files.MARK, "")
    live = steps_.Live(
        pid, mark if mark.partition(":")[2] == daemon.name else "", uid, arguments, environment, enabled=enabled
    )
    if not live.ours:
        return live
    control = host.control(daemon, live)
    try:
        return ask_limits(daemon, control, live)
    except MpsError as error:
        if error.name != NO_DAEMON:
            raise
        # The daemon has not opened its socket yet, or has just closed it.
        return dataclasses.replace(live, stale=("everything",))


def read_servers(daemon: Daemon, host: Host) -> steps_.Live:
    """Read the servers and their clients after a change, without limits."""
    control = host.control(daemon)
    pids = control.servers()
    clients = control.clients(pids)
    return steps_.Live(
        find_pid(daemon.pipe, host.proc),
        f"{host.manager}:{daemon.name}",
        servers=tuple(
            steps_.Server(
                pid, control.status(pid), tuple(client.pid for client in clients if client.server in (pid, 0))
            )
            for pid in pids
        ),
    )


def ask_limits(daemon: Daemon, control: Control, live: steps_.Live) -> steps_.Live:
    pids = control.servers()
    clients = control.clients(pids)
    same = control.protocol == daemon.protocol and daemon.state == STARTED
    servers = [
        steps_.Server(
            pid,
            control.status(pid),
            tuple(client.pid for client in clients if client.server in (pid, 0)),
            tuple(
                query.name
                for query in files.server_queries(daemon, pid)
                if files.differs(query, control.try_ask(query.get))
            )
            if same
            else (),
        )
        for pid in pids
    ]
    return dataclasses.replace(
        live,
        servers=tuple(servers),
        stale=tuple(query.name for query in files.queries(daemon) if not files.holds(query, control.try_ask(query.get)))
        if same
        else (),
        extra=extra(daemon, control) if same and daemon.protocol == 2 else (),
    )


def extra(daemon: Daemon, control: Control) -> tuple[str, ...]:
    """Return limits that are set and not wanted: no command removes them."""
    limits = []
    for device in daemon.devices:
        if device not in daemon.memory_mib:
            answer = control.try_ask(f"get_default_device_pinned_mem_limit {device}") or ""
            if is_limit(answer):
                limits.append(f"the limit {answer} of {device}")
    if daemon.priority is None and (control.try_ask("get_default_client_priority") or "").startswith("1"):
        limits.append("its priority")
    return tuple(limits)


def is_limit(answer: str) -> bool:
    """Return whether a size limits anything: 0, or more than any card has, does not."""
    match = _SIZE.fullmatch(answer)
    return match is not None and 0 < float(match.group(1)) < BEYOND


def find_pid(pipe: str, proc: str) -> int | None:
    """Return the process of the control daemon that has this pipe directory."""
    named = read_pid(pipe)
    if named and read_process(named, proc):
        return named
    # A daemon that is starting, or a driver without this file.
    for pid in (int(name) for name in os.listdir(proc) if name.isdecimal()):
        found = read_process(pid, proc)
        if found and found[1].get(files.PIPE) == pipe and {"-d", "-f"} & set(found[0]):
            return pid
    return None


def read_pid(pipe: str) -> int | None:
    text = (read_below(pipe, PID_FILE) or "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def read_process(pid: int, proc: str) -> tuple[tuple[str, ...], dict[str, str], int] | None:
    """Read options, environment and user of a control daemon; None for no process, or another program with its number."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            arguments = file.read().decode(errors="replace").split("\0")[:-1]
        program = next((place for place, word in enumerate(arguments) if "mps-control" in os.path.basename(word)), None)
        if program is None:
            return None
        uid, pairs = os.stat(f"{proc}/{pid}").st_uid, []
        # Without root, the process of another user is no daemon of this module.
        with contextlib.suppress(PermissionError), open(f"{proc}/{pid}/environ", "rb") as file:
            pairs = [row.partition("=") for row in file.read().decode(errors="replace").split("\0") if row]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return tuple(arguments[program + 1 :]), {key: value for key, _equals, value in pairs}, uid


def _is_enabled(daemon: Daemon, host: Host) -> bool:
    status, out, _err = host.execute(["systemctl", "is-enabled", files.unit_name(daemon.name)], {}, "")
    return status == 0 and out.strip() == "enabled"
