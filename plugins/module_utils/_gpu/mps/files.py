# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options, variables and files of an MPS daemon: unit, configuration, and the script that pushes the limits. Pure.

The script sets each limit and reads it back. So a daemon that starts without its limits is a failed unit, not a running one.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon

HEADER = "# Written by rigwright.workstation.gpu_mps; the next run writes it again."

# The variable that marks a daemon of this module, with manager and name.
MARK = "RIGWRIGHT_MPS"
PARTS = "RIGWRIGHT_MPS_PARTITIONS"
PIPE: t.Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG = "CUDA_MPS_LOG_DIRECTORY"
VISIBLE = "CUDA_VISIBLE_DEVICES"
# These variables would set undeclared defaults of the daemon, or another protocol.
FOREIGN = (
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_CLIENT_PRIORITY",
    "CUDA_MPS_PROTOCOL_VERSION",
)

SYSTEMD = "systemd"
DIRECT = "none"
UNIT_FOLDER = "/etc/systemd/system"
ANSWER_S = 20
# The daemon ends clients that still run this many seconds after a stop.
QUIT_S = 10
# A percentage, a priority or a size.
_A_LIMIT = re.compile(r"\d")


class Query(t.NamedTuple):
    """A limit: the commands that set and read it, and the answers that confirm it. On protocol 3 commands are arguments."""

    name: str
    set: str
    get: str
    answers: tuple[str, ...]


def holds(query: Query, answer: str | None) -> bool:
    """Return whether an answer means that the limit holds."""
    return answer in query.answers


def differs(query: Query, answer: str | None) -> bool:
    """Return whether an answer is another limit. A server without limits of its own has the defaults of its start."""
    return bool(answer) and not holds(query, answer) and _A_LIMIT.match(answer or "") is not None


def unit_name(name: str) -> str:
    return f"nvidia-mps@{name}.service"


def arguments(daemon: Daemon, foreground: bool, configuration: str) -> list[str]:
    """Return the options of the daemon."""
    options = ["-f" if foreground else "-d"]
    if daemon.protocol == 3:
        return [*options, "-p", "3", *(["-m"] if daemon.multiuser else []), "-a", configuration]
    return [*options, *(["-S"] if daemon.partitions else []), *(["-multiuser-server"] if daemon.multiuser else [])]


def environment(daemon: Daemon, manager: str) -> dict[str, str]:
    parts = ",".join(f"{partition.name}:{partition.device}:{partition.chunks}" for partition in daemon.partitions)
    return {
        PIPE: daemon.pipe,
        LOG: daemon.log,
        # By UUID: the server counts indices again, and tools count differently.
        VISIBLE: ",".join(daemon.devices),
        MARK: f"{manager}:{daemon.name}",
        **({PARTS: parts} if parts else {}),
    }


class ClientEnvironment(t.TypedDict):
    """The directory of a daemon, of each namespace, and the ids of partitions."""

    CUDA_MPS_PIPE_DIRECTORY: str
    namespaces: t.NotRequired[dict[str, str]]
    partitions: t.NotRequired[dict[str, str]]


def client_environment(daemon: Daemon, partitions: t.Mapping[str, str] | None = None) -> ClientEnvironment:
    """Return the variables with which a client runs under this daemon; CUDA_VISIBLE_DEVICES is not among them."""
    base = f"{daemon.pipe}/{daemon.server}/default" if daemon.protocol == 3 else daemon.pipe
    variables: ClientEnvironment = {PIPE: base}
    if daemon.namespaces:
        variables["namespaces"] = {
            namespace.name: f"{daemon.pipe}/{daemon.server}/{namespace.name}" for namespace in daemon.namespaces
        }
    if partitions:
        variables["partitions"] = dict(partitions)
    return variables


# --- Limits ---


def percentage_answers(percentage: int) -> tuple[str, ...]:
    return (str(percentage), f"{percentage}.0", f"{percentage}%")


def memory_answers(mib: int) -> tuple[str, ...]:
    """Return the answers that mean a limit. Drivers report a GiB or more in whole GiB, rounded down: 1044M is 1G (595.91.07)."""
    return (f"{mib}M", *((f"{mib // 1024}G",) if mib >= 1024 else ()))


def queries(daemon: Daemon) -> list[Query]:
    """Return the queries of limits at the daemon itself: the defaults of its next servers."""
    if daemon.protocol == 3:
        return _namespace_queries(daemon)
    found = []
    if not daemon.partitions:
        percentage = daemon.percentage or 100
        found.append(
            Query(
                "active_thread_percentage",
                f"set_default_active_thread_percentage {percentage}",
                "get_default_active_thread_percentage",
                percentage_answers(percentage),
            )
        )
    for device, mib in sorted(daemon.memory_mib.items()):
        found.append(
            Query(
                f"memory_limits[{device}]",
                f"set_default_device_pinned_mem_limit {device} {mib}M",
                f"get_default_device_pinned_mem_limit {device}",
                memory_answers(mib),
            )
        )
    if daemon.priority is not None:
        found.append(
            Query(
                "priority",
                f"set_default_client_priority {daemon.priority}",
                "get_default_client_priority",
                priority_answers(daemon.priority),
            )
        )
    return found


def priority_answers(priority: int) -> tuple[str, ...]:
    return (str(priority), *(("0 [NORMAL]", "NORMAL") if priority == 0 else ("1 [BELOW NORMAL]", "BELOW NORMAL")))


def server_queries(daemon: Daemon, server: int) -> list[Query]:
    """Return the same queries for a running server: what its next clients get. A server does not report priorities."""
    found = []
    for query in queries(daemon) if daemon.protocol == 2 else []:
        verb, *rest = query.set.split()
        getter, *of = query.get.split()
        if "_client_priority" not in verb:
            found.append(
                Query(
                    query.name,
                    " ".join([verb.replace("_default", ""), str(server), *rest]),
                    " ".join([getter.replace("_default", ""), str(server), *of]),
                    query.answers,
                )
            )
    return found


def _namespace_queries(daemon: Daemon) -> list[Query]:
    memory = min(daemon.memory_mib.values(), default=None)
    rows = [("default", daemon.percentage, memory, daemon.priority)]
    rows += [
        (namespace.name, namespace.percentage, namespace.memory_mib, namespace.priority)
        for namespace in daemon.namespaces
    ]
    found = []
    for name, percentage, mib, priority in rows:
        option = "" if name == "default" else f"namespaces[{name}]."
        change = f"namespace set {name} --server={daemon.server}"
        ask = f"namespace get {name} {daemon.server}"
        if percentage is not None:
            row = ("active-thread-percentage", str(percentage), percentage_answers(percentage))
            found.append(
                Query(f"{option}active_thread_percentage", f"{change} --{row[0]}={row[1]}", f"{ask} {row[0]}", row[2])
            )
        if mib is not None:
            row = ("pinned-memory-limit", f"{mib}M", memory_answers(mib))
            found.append(Query(f"{option}memory_limit", f"{change} --{row[0]}={row[1]}", f"{ask} {row[0]}", row[2]))
        if priority is not None:
            row = ("client-priority", str(priority), priority_answers(priority))
            found.append(Query(f"{option}priority", f"{change} --{row[0]}={row[1]}", f"{ask} {row[0]}", row[2]))
    return found


# --- Files ---

_SCRIPT = """\
#!/bin/sh
{header}
# Pushes the limits of the MPS daemon {name} and reads them back; fails where one does not hold. Runs at each start of the daemon.
set -eu
send() {{ {control}; }}
fail() {{ echo "nvidia-mps {name}: $1" >&2; exit 1; }}
push() {{
    reply=$(send "$1") || fail "$1: $reply"
    value=$(send "$2") || fail "$2: $value"
    case "|$3|" in *"|$value|"*) ;; *) fail "after '$1' the daemon reports '$value'${{reply:+, and it replied '$reply'}}" ;; esac
}}
partition() {{
    ids=${pipe}/partitions
    if grep -q "^$1 " "$ids" 2>/dev/null; then return; fi
    id=$(send "sm_partition add $2 $3") || fail "partition $1: $id"
    case "$id" in *" "*|"") fail "partition $1: $id" ;; */*) echo "$1 $id" >>"$ids" ;; *) fail "partition $1: $id" ;; esac
}}
# The daemon starts some time before its socket is ready.
tries=0
until send '{hello}' >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -le 100 ] || fail "no answer at ${pipe}; look at {look}"
    sleep 0.1
done
{pushes}"""


def script(daemon: Daemon, program: str, manager: str = DIRECT) -> str:
    limit = f"timeout --signal=KILL {ANSWER_S}"
    lines = [f"push '{query.set}' '{query.get}' '{'|'.join(query.answers)}'" for query in queries(daemon)]
    if daemon.protocol == 2:
        control, hello = f"printf '%s\\n' \"$1\" | {limit} {program}", "get_server_list"
        lines += [f"partition '{query.name}' '{query.device}' {query.chunks}" for query in daemon.partitions]
    else:
        # This protocol takes commands as arguments.
        control, hello = f"{limit} {program} $1", "server list"
    return _SCRIPT.format(
        header=HEADER,
        name=daemon.name,
        control=control,
        hello=hello,
        pipe=PIPE,
        look=f"journalctl -u {unit_name(daemon.name)}" if manager == SYSTEMD else f"control.log in ${LOG}",
        pushes="".join(f"{line}\n" for line in lines),
    )


def configuration(daemon: Daemon, uid: int | None) -> str:
    """Return the file that a daemon of protocol 3 reads once, at its start."""
    memory = min(daemon.memory_mib.values(), default=None)
    lines = [HEADER, 'schema_version = "1.0"', "", f"[servers.{daemon.server}]"]
    lines.append(f'allowed_devices = "{",".join(daemon.devices)}"')
    lines += _limits(daemon.percentage, memory, daemon.priority)
    if uid is not None:
        lines.append(f"uid = {uid}")
    for namespace in daemon.namespaces:
        lines += ["", f"[servers.{daemon.server}.namespaces.{namespace.name}]"]
        lines += _limits(namespace.percentage, namespace.memory_mib, namespace.priority)
    for device in dict.fromkeys(namespace.device for namespace in daemon.partitions):
        lines += ["", f"[[servers.{daemon.server}.devices]]", f'uuid = "{device}"']
        for part in daemon.partitions:
            if part.device == device:
                lines += ["", f"[[servers.{daemon.server}.devices.sm_partitions]]"]
                lines += [f'name = "{part.name}"', f"chunks = {part.chunks}"]
    return "".join(f"{line}\n" for line in lines)


def _limits(percentage: int | None, mib: int | None, priority: int | None) -> list[str]:
    """Return limits with numbers in quotes, as NVIDIA's example has them."""
    lines = []
    if mib is not None:
        lines.append(f'pinned_memory_limit = "{mib}M"')
    if percentage is not None:
        lines.append(f'active_thread_percentage = "{percentage}"')
    if priority is not None:
        lines.append(f'client_priority = "{priority}"')
    return lines


def stop_command(daemon: Daemon, program: str) -> str:
    """Return a shell line: systemd runs no shell, and `ExecStop=echo quit | ...` stops nothing."""
    if daemon.protocol == 3:
        return f"exec {program} -q"
    return f"echo quit -t {QUIT_S} | exec {program}"


def unit(daemon: Daemon, program: str, script_path: str, configuration_path: str) -> str:
    """Return the unit. The daemon runs in the foreground (``Type=simple``), so that systemd knows when it ends."""
    below = daemon.pipe.partition("/run/")[2]
    logs = daemon.log.partition("/var/log/")[2]
    start = " ".join([program, *arguments(daemon, True, configuration_path)])
    lines = [
        HEADER,
        "[Unit]",
        f"Description=NVIDIA MPS control daemon {daemon.name}",
        "Documentation=https://docs.nvidia.com/deploy/mps/",
        # Without persistence, the first client waits for the initialization of the GPU.
        "After=nvidia-persistenced.service",
        "",
        "[Service]",
        "Type=simple",
        *([f"User={daemon.user}"] if daemon.user else []),
        *(f'Environment="{key}={value}"' for key, value in environment(daemon, SYSTEMD).items()),
        f"UnsetEnvironment={' '.join(FOREIGN)}",
        f"RuntimeDirectory={below}",
        f"RuntimeDirectoryMode={'0700' if daemon.user else '0755'}",
        f"LogsDirectory={logs}",
        f"ExecStart={start}",
        f"ExecStartPost=/bin/sh {script_path}",
        f"ExecStop=/bin/sh -c '{stop_command(daemon, program)}'",
        f"TimeoutStopSec={QUIT_S + ANSWER_S}",
        "Restart=on-failure",
        "RestartSec=2",
        *(["NoNewPrivileges=true"] if daemon.user else []),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "".join(f"{line}\n" for line in lines)
