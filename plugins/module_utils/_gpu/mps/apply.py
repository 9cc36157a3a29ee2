# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply the steps of MPS daemons, and prove their limits with a client."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files, probe
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import plan as steps_
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import (
    REFUSED,
    Control,
    MpsError,
    cuda_error,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.facts import (
    Host,
    find_pid,
    folder_of,
    read_below,
    read_process,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon

PARTITIONS, START_LOG = "partitions", "start.log"
IN_THE_WAY = "remove it, or choose another pipe_root or log_root, which only root can write to"
SETTLE_S = 20
POLL_S = 0.2


def apply(daemon: Daemon, live: steps_.Live, steps: steps_.Steps, host: Host, drain_s: int) -> None:
    """Carry out the steps of a daemon.

    :raises MpsError: a step failed; a daemon that started without its limits is stopped again.
    """
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
        push_to_server(daemon, server, host.control(daemon))


def start(daemon: Daemon, host: Host) -> None:
    if host.manager == files.SYSTEMD:
        # systemd refuses to start a unit that failed often, which a run is no reason for.
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
    command = [host.program, *files.arguments(daemon, False, host.configuration(daemon.name))]
    # The output goes to a file: a daemon that keeps a pipe open would block the module forever.
    line = ["/bin/sh", "-c", 'exec "$@" >"$0" 2>&1 </dev/null', start_log, *command]
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
    """Run the script that sets the limits and reads them back."""
    environment = {files.PIPE: daemon.pipe, files.LOG: daemon.log}
    status, out, err = host.run_as(daemon.user)(["/bin/sh", host.script(daemon.name)], environment, "")
    if status != 0:
        raise MpsError(REFUSED, err.strip() or out.strip() or f"the script ended with {status}")


def push_to_server(daemon: Daemon, server: int, control: Control) -> None:
    for query in files.server_queries(daemon, server):
        control.ask(query.set)
        answer = control.ask(query.get)
        if files.differs(query, answer):
            raise MpsError(REFUSED, f"after `{query.set}` server {server} reports {answer!r}")


def drain(control: Control, seconds: int) -> None:
    """Wait for clients to end. After the time, terminate their work on the GPU before anything else is ended."""
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
    """Make a daemon quit; the last resort is a signal to its process alone."""
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
    """Create a directory for its user alone, or readable by all, independent of the umask.

    :raises MpsError: a directory of another user, or a link, is in its place.
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
        # The directory goes with its last file.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))
        return
    make_directory(os.path.dirname(path), "")
    replace_file(path, text)


# --- Prove ---


def partitions_of(daemon: Daemon) -> dict[str, str]:
    """Return the ids by which clients choose a partition, as the script has recorded them."""
    rows = [line.partition(" ") for line in (read_below(daemon.pipe, PARTITIONS) or "").splitlines()]
    return {name: id_ for name, _space, id_ in rows}


class Proof(t.TypedDict):
    """The devices of a new client, those of a program outside MPS, the error of CUDA, and the problems."""

    devices: list[probe.Device]
    outside: t.NotRequired[list[probe.Device] | None]
    error: t.NotRequired[probe.CudaError | None]
    problems: list[str]


def prove(daemon: Daemon, live: steps_.Live, host: Host) -> Proof:
    """Return what a new client gets. ``problems`` is empty where everything is as declared."""
    user = daemon.user
    busy = [server.pid for server in live.servers if server.clients]
    if busy and not user and not daemon.multiuser:
        # A server has one user at a time: a probe of another user would wait for its clients.
        with contextlib.suppress(OSError, KeyError):
            user = pwd.getpwuid(os.stat(f"{host.proc}/{busy[0]}").st_uid).pw_name
    client = files.client_environment(daemon)[files.PIPE]
    partitions = partitions_of(daemon)
    chosen = {"CUDA_MPS_SM_PARTITION": next(iter(partitions.values()))} if partitions else {}
    probed = ask_probe(host, user, {files.PIPE: client, **chosen}, probe.request(daemon.memory_mib, contexts=True))
    error = probed["error"]
    if error:
        name, next_step = cuda_error(error["code"])
        message = f"a client fails at {error['function']}: {error['words'] or name}: {next_step}"
        return {"devices": probed["devices"], "error": error, "problems": [message]}
    beside = {files.PIPE: f"{daemon.pipe}/no-daemon", files.VISIBLE: ",".join(daemon.devices)}
    outside = ask_probe(host, user, beside, probe.request({}, contexts=False)) if daemon.percentage else None
    problems = probe.judge(probed, outside, daemon.percentage, daemon.memory_mib, daemon.devices)
    return {"devices": probed["devices"], "outside": outside and outside["devices"], "problems": problems}


def ask_probe(host: Host, user: str, environment: t.Mapping[str, str], request: str) -> probe.Account:
    unset = [*files.FOREIGN, *([] if files.VISIBLE in environment else [files.VISIBLE])]
    command = ["timeout", "--signal=KILL", str(probe.TIMEOUT_S), sys.executable, "-IS", "-c", probe.source()]
    status, out, err = host.run_as(user, unset)(command, environment, request)
    try:
        return probe.read(out)
    except ValueError:
        late = status in (124, 137, -9)
        message = f"no answer in {probe.TIMEOUT_S} s" if late else err.strip() or f"exit status {status}"
        return {"devices": [], "error": {"function": "the probe", "code": 807 if late else 999, "words": message}}
