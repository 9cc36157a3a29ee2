# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Look at the daemons of a host, and do what was decided: for the module gpu_mps and the role that declares the sharing of GPUs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import re
import signal
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files, probe
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import plan as steps_
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import (
    NO_DAEMON,
    REFUSED,
    Control,
    MpsError,
    Run,
    cuda_error,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import STARTED, Daemon

PID_FILE = "nvidia-cuda-mps-control.pid"
PARTITIONS, START_LOG = "partitions", "start.log"
IN_THE_WAY = "remove it, or choose another pipe_root or log_root, which only root can write to"
SETTLE_S = 20
POLL_S = 0.2
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*[KMGT]i?B?")
BEYOND = 10**8


@dataclasses.dataclass(frozen=True)
class Host:
    """Where things lie on this host, and how a command is run: arguments, environment, input -> status, output, errors."""

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
        """Commands of a user, without variables that would set what nobody declared."""
        before = ["env", *(word for name in unset for word in ("-u", name))]
        if user and os.geteuid() == 0 and user != "root":
            before = ["runuser", "-u", user, "--", *before]
        return lambda command, environment, text: self.execute([*before, *command], environment, text)

    def control(self, daemon: Daemon, live: steps_.Live | None = None) -> Control:
        """Talk to the daemon as it should be, or to the one that lives: as the user and in the protocol that it has."""
        user, protocol = daemon.user, daemon.protocol
        if live is not None and live.pid:
            user, protocol = user_name(live.uid), 3 if "-p" in live.arguments and "3" in live.arguments else 2
        return Control(self.run_as(user), self.program, daemon.pipe, daemon.log, protocol)

    def must(self, *command: str) -> str:
        """:raises MpsError: it fails."""
        status, out, err = self.execute(command, {}, "")
        if status != 0:
            raise MpsError(REFUSED, f"`{' '.join(command)}`: {err.strip() or out.strip()}")
        return out


def files_of(daemon: Daemon, host: Host) -> dict[str, str]:
    """The files of a daemon that is to run."""
    made = {host.script(daemon.name): files.script(daemon, host.program, host.manager)}
    if daemon.protocol == 3:
        uid = user_id(daemon.user) if daemon.user else None
        made[host.configuration(daemon.name)] = files.configuration(daemon, uid)
    if host.manager == files.SYSTEMD:
        script, configuration = host.script(daemon.name), host.configuration(daemon.name)
        made[host.unit(daemon.name)] = files.unit(daemon, host.program, script, configuration)
    return made


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
    """A daemon's directory: links above it are the operator's, and it may be none itself, since its user can write to it."""
    parent, name = os.path.split(path.rstrip("/"))
    return os.path.join(os.path.realpath(parent), name)


def read_below(folder: str, name: str) -> str | None:
    """A file in a directory of a daemon's user. None where there is none, or what the user put there is no file to be read."""
    try:
        with directories.directory(folder_of(folder)) as handle:
            return directories.read_file(name, dir_fd=handle).decode(errors="replace")
    except OSError:
        return None


def user_id(user: str) -> int | None:
    """None: there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def user_name(uid: int | None) -> str:
    """Empty for who runs this, and for a user without a name."""
    if uid is None or uid == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


# --- Look ---


def look(daemon: Daemon, host: Host) -> steps_.Live:
    """What lives at the daemon's pipe directory.

    :raises MpsError: it is there and does not answer.
    """
    enabled = host.manager == files.SYSTEMD and _is_enabled(daemon, host)
    pid = find_pid(daemon.pipe, host.proc)
    process = read_process(pid, host.proc) if pid else None
    if process is None:
        # One in another PID namespace, such as a container's, has no process here.
        there = os.path.exists(f"{daemon.pipe}/control") and host.control(daemon).answers()
        return steps_.Live(pid=0 if there else None, enabled=enabled)
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
        # It has not opened its socket yet, or just closed it.
        return dataclasses.replace(live, stale=("everything",))


def look_at_servers(daemon: Daemon, host: Host) -> steps_.Live:
    """What lives after a change: servers and their clients, without limits."""
    control = host.control(daemon)
    pids = control.servers()
    clients = control.clients(pids)
    return steps_.Live(
        find_pid(daemon.pipe, host.proc),
        f"{host.manager}:{daemon.name}",
        servers=tuple(
            steps_.Server(pid, control.status(pid), tuple(one.pid for one in clients if one.server in (pid, 0)))
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
            tuple(one.what for one in files.server_queries(daemon, pid) if files.differs(one, control.try_ask(one.get)))
            if same
            else (),
        )
        for pid in pids
    ]
    return dataclasses.replace(
        live,
        servers=tuple(servers),
        stale=tuple(one.what for one in files.queries(daemon) if not files.holds(one, control.try_ask(one.get)))
        if same
        else (),
        extra=extra(daemon, control) if same and daemon.protocol == 2 else (),
    )


def extra(daemon: Daemon, control: Control) -> tuple[str, ...]:
    """Limits that are set and not wanted: no verb takes them back."""
    made = []
    for device in daemon.devices:
        if device not in daemon.memory_mib:
            told = control.try_ask(f"get_default_device_pinned_mem_limit {device}") or ""
            if is_limit(told):
                made.append(f"the limit {told} of {device}")
    if daemon.priority is None and (control.try_ask("get_default_client_priority") or "").startswith("1"):
        made.append("its priority")
    return tuple(made)


def is_limit(told: str) -> bool:
    """Whether it is a size that limits anything: 0, or more than any card has, does not."""
    match = _SIZE.fullmatch(told)
    return match is not None and 0 < float(match.group(1)) < BEYOND


def find_pid(pipe: str, proc: str) -> int | None:
    """The process of the control daemon that has this pipe directory."""
    named = read_pid(pipe)
    if named and read_process(named, proc):
        return named
    # One that is just starting, or of a driver that leaves no such file.
    for pid in (int(name) for name in os.listdir(proc) if name.isdecimal()):
        found = read_process(pid, proc)
        if found and found[1].get(files.PIPE) == pipe and {"-d", "-f"} & set(found[0]):
            return pid
    return None


def read_pid(pipe: str) -> int | None:
    text = (read_below(pipe, PID_FILE) or "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def read_process(pid: int, proc: str) -> tuple[tuple[str, ...], dict[str, str], int] | None:
    """Options, environment and user of a control daemon; None for no process, or another program that got its number."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")[:-1]
        program = next((place for place, word in enumerate(words) if "mps-control" in os.path.basename(word)), None)
        if program is None:
            return None
        uid, pairs = os.stat(f"{proc}/{pid}").st_uid, []
        # Another user's is there, and not ours.
        with contextlib.suppress(PermissionError), open(f"{proc}/{pid}/environ", "rb") as file:
            pairs = [row.partition("=") for row in file.read().decode(errors="replace").split("\0") if row]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return tuple(words[program + 1 :]), {key: value for key, _equals, value in pairs}, uid


def _is_enabled(daemon: Daemon, host: Host) -> bool:
    status, out, _err = host.execute(["systemctl", "is-enabled", files.unit_name(daemon.name)], {}, "")
    return status == 0 and out.strip() == "enabled"


# --- Do ---


def apply(daemon: Daemon, live: steps_.Live, steps: steps_.Steps, host: Host, drain_s: int) -> None:
    """:raises MpsError: something did not come about; a daemon that was started without its limits is stopped again."""
    before = host.control(daemon, live)
    if steps.drain:
        drain(before, drain_s)
    ends = [verb for verb in steps.verbs if verb in (steps_.STOP, steps_.RESTART)]
    by_unit = live.mark.startswith(files.SYSTEMD)
    if ends and by_unit and host.manager == files.SYSTEMD:
        host.must("systemctl", "stop", files.unit_name(daemon.name))
    if ends and live.pid and read_process(live.pid, host.proc):
        quit_and_wait(before, live.pid, host)
    if steps_.DISABLE in steps.verbs:
        host.must("systemctl", "disable", files.unit_name(daemon.name))
    for path, text in steps.files.items():
        write(path, text)
    if host.manager == files.SYSTEMD and any(path.startswith(host.unit_folder) for path in steps.files):
        host.must("systemctl", "daemon-reload")
    if steps_.ENABLE in steps.verbs:
        host.must("systemctl", "enable", files.unit_name(daemon.name))
    if steps_.START in steps.verbs or steps_.RESTART in steps.verbs:
        start(daemon, host)
    if steps_.PUSH in steps.verbs:
        push(daemon, host)
    for server in steps.servers:
        say_to_server(daemon, server, host.control(daemon))


def start(daemon: Daemon, host: Host) -> None:
    if host.manager == files.SYSTEMD:
        # A run is no loop: without this systemd refuses a unit that failed often.
        host.execute(["systemctl", "reset-failed", files.unit_name(daemon.name)], {}, "")
        status, _out, err = host.execute(["systemctl", "start", files.unit_name(daemon.name)], {}, "")
        if status != 0:
            _status, journal, _err = host.execute(
                ["journalctl", "--unit", files.unit_name(daemon.name), "--lines=8", "--output=cat", "--no-pager"],
                {},
                "",
            )
            raise MpsError(REFUSED, f"{files.unit_name(daemon.name)} did not start: {journal.strip() or err.strip()}")
        return
    for path in (daemon.pipe, daemon.log):
        make_directory(path, daemon.user)
    with contextlib.suppress(FileNotFoundError), directories.directory(folder_of(daemon.pipe)) as handle:
        os.unlink(PARTITIONS, dir_fd=handle)
    start_log = f"{daemon.log}/{START_LOG}"
    words = [host.program, *files.arguments(daemon, False, host.configuration(daemon.name))]
    # Its words go to a file: a daemon that keeps a pipe of its starter open would hold that up for good.
    line = ["/bin/sh", "-c", 'exec "$@" >"$0" 2>&1 </dev/null', start_log, *words]
    status, _out, _err = host.run_as(daemon.user)(line, files.environment(daemon, host.manager), "")
    if status != 0:
        raise MpsError(
            REFUSED, f"the daemon did not start: {(read_below(daemon.log, START_LOG) or '').strip() or status}"
        )
    try:
        push(daemon, host)
    except MpsError:
        pid = find_pid(daemon.pipe, host.proc)
        if pid:
            quit_and_wait(host.control(daemon), pid, host)
        raise


def push(daemon: Daemon, host: Host) -> None:
    """Run the script: it says the limits and asks for them."""
    environment = {files.PIPE: daemon.pipe, files.LOG: daemon.log}
    status, out, err = host.run_as(daemon.user)(["/bin/sh", host.script(daemon.name)], environment, "")
    if status != 0:
        raise MpsError(REFUSED, err.strip() or out.strip() or f"the script ended with {status}")


def say_to_server(daemon: Daemon, server: int, control: Control) -> None:
    for query in files.server_queries(daemon, server):
        control.ask(query.set)
        told = control.ask(query.get)
        if files.differs(query, told):
            raise MpsError(REFUSED, f"after `{query.set}` server {server} tells {told!r}")


def drain(control: Control, seconds: int) -> None:
    """Wait for clients to end; those that are left lose their work on the GPU before anything else is ended."""
    end = time.monotonic() + seconds
    while control.clients():
        if time.monotonic() >= end:
            for client in control.clients():
                try:
                    control.terminate(client)
                except MpsError:
                    if client in control.clients():
                        raise
            return
        time.sleep(POLL_S)


def quit_and_wait(control: Control, pid: int, host: Host) -> None:
    """Have our daemon quit; a signal is the last resort, and goes to this process alone."""
    with contextlib.suppress(MpsError):
        control.quit()
    end = time.monotonic() + SETTLE_S
    while read_process(pid, host.proc):
        if time.monotonic() >= end:
            os.kill(pid, signal.SIGTERM)
            time.sleep(1)
            if read_process(pid, host.proc):
                raise MpsError(REFUSED, f"the daemon {pid} does not end")
            return
        time.sleep(POLL_S)


def make_directory(path: str, user: str) -> None:
    """For its user alone, or for all to read, whatever the mask of who runs this.

    :raises MpsError: somebody else's directory, or a link, is in its place.
    """
    before = os.umask(0o022)
    try:
        handle = directories.open_directory(folder_of(path), make=True)
    except directories.UnsafePath as error:
        raise MpsError(REFUSED, str(error), IN_THE_WAY) from error
    finally:
        os.umask(before)
    try:
        if user and os.geteuid() == 0:
            entry, owner = pwd.getpwnam(user), os.fstat(handle).st_uid
            if owner not in (0, entry.pw_uid):
                raise MpsError(REFUSED, f"{path} belongs to uid {owner}", IN_THE_WAY)
            os.fchmod(handle, 0o700)
            os.fchown(handle, entry.pw_uid, entry.pw_gid)
    finally:
        os.close(handle)


def write(path: str, text: str | None) -> None:
    if text is None:
        os.unlink(path)
        # The last one takes along the directory that the first one made.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))
        return
    make_directory(os.path.dirname(path), "")
    replace_file(path, text)


# --- Prove ---


def partitions_of(daemon: Daemon) -> dict[str, str]:
    """The ids by which clients choose a partition, as the script has noted them."""
    rows = [line.partition(" ") for line in (read_below(daemon.pipe, PARTITIONS) or "").splitlines()]
    return {name: id_ for name, _space, id_ in rows}


def prove(daemon: Daemon, live: steps_.Live, host: Host) -> dict[str, t.Any]:
    """What a client gets that starts now. ``problems`` is empty where everything is as declared."""
    user = daemon.user
    busy = [server.pid for server in live.servers if server.clients]
    if busy and not user and not daemon.multiuser:
        # A server has one user at a time: another one's probe would wait for its clients.
        with contextlib.suppress(OSError, KeyError):
            user = pwd.getpwuid(os.stat(f"{host.proc}/{busy[0]}").st_uid).pw_name
    client = files.client_environment(daemon)[files.PIPE]
    partitions = partitions_of(daemon)
    chosen = {"CUDA_MPS_SM_PARTITION": next(iter(partitions.values()))} if partitions else {}
    seen = ask_probe(host, user, {files.PIPE: client, **chosen}, probe.request(daemon.memory_mib, contexts=True))
    if seen["error"]:
        name, next_step = cuda_error(seen["error"]["code"])
        words = seen["error"]["words"] or name
        return {**seen, "problems": [f"a client fails at {seen['error']['function']}: {words}: {next_step}"]}
    beside = {files.PIPE: f"{daemon.pipe}/no-daemon", files.VISIBLE: ",".join(daemon.devices)}
    outside = ask_probe(host, user, beside, probe.request({}, contexts=False)) if daemon.percentage else None
    problems = probe.judge(seen, outside, daemon.percentage, daemon.memory_mib, daemon.devices)
    return {"devices": seen["devices"], "outside": outside and outside["devices"], "problems": problems}


def ask_probe(host: Host, user: str, environment: t.Mapping[str, str], request: str) -> dict[str, t.Any]:
    unset = [*files.FOREIGN, *([] if files.VISIBLE in environment else [files.VISIBLE])]
    command = ["timeout", "--signal=KILL", str(probe.TIMEOUT_S), sys.executable, "-IS", "-c", probe.source()]
    status, out, err = host.run_as(user, unset)(command, environment, request)
    try:
        return probe.read(out)
    except ValueError:
        late = status in (124, 137, -9)
        words = f"no answer in {probe.TIMEOUT_S} s" if late else err.strip() or f"exit status {status}"
        return {"devices": [], "error": {"function": "the probe", "code": 807 if late else 999, "words": words}}
