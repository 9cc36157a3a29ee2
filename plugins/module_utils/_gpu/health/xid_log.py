# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parser of Xids in the kernel's log, as journalctl or dmesg print it. Pure.

The driver reports an Xid once: in the log, and to programs that wait for NVML's events. So a periodic check has to read the log.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import sxid_log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import XidRow

# nvErrorLog of the open kernel module: "Xid (PCI:%04x:%02x:%02x GPU-I:%02u GPU-CI:%02u): %d, pid=%s, name=%s, %s". Older drivers leave out
# "PCI:" or the process; only a GPU with MIG has the instances.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:]+)(?P<instance>[^)]*)\): (?P<code>\d{1,9})(?:, *(?P<rest>.*))?$"
)
_PROCESS = re.compile(r"pid='?(?P<pid>\d{1,9}|<unknown>|N/A)'?(?:, name=(?P<name>[^,]*))?(?:, *(?P<text>.*))?$")
_INSTANCE = re.compile(r"GPU-I:(\d{1,9})")
# Some drivers report Xid 79 by this text only: "GPU 0000:41:00.0: GPU has ..." (gpud, matcher.go), old ones "GPU at 0000:41:00.0 has ...".
_FALLEN = re.compile(
    r"NVRM: GPU (?:at )?(?:PCI:)?(?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?:?"
    r" (?:GPU )?has fallen off the bus"
)
# The text, over three lines, for a card that is dead when the driver is loaded (rm_is_supported_device of the open kernel module).
_DEAD = re.compile(
    r"NVRM: The NVIDIA GPU (?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.\d.{,300}?"
    r"fallen off the bus and is not responding",
    re.DOTALL,
)
FALLEN_OFF_THE_BUS = 79
# Some of these texts have no address.
_UNSUPPORTED = re.compile(
    r"NVRM: The NVIDIA (?:GPU (?P<address>[0-9a-fA-F:]+)\.\d)?.{,300}?"
    r"(?:is\s+(?:NVRM:\s+)?not supported by|supported through the|requires\s+(?:NVRM:\s+)?use of the NVIDIA open)"
    r"|NVRM: Open nvidia\.ko is only ready",
    re.DOTALL,
)
_NO_ROOM = re.compile(r"NVRM: This PCI .{,150}?BAR(?P<bar>\d) is 0M @ 0x0 \(PCI:(?P<address>[\da-f:]+)", re.DOTALL)
_ABOUT_A_GPU = re.compile("NVRM: Th(e NVIDIA|is PCI) ")
# The most lines of one message of the driver.
_LINES = 6
# "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)". The names change with the driver (610 says "OS Reboot", and
# "PF FLR" for a reset); the numbers are those of nvmlDeviceGpuRecoveryAction_t.
_RECOVERY = re.compile(r"recovery action changed from 0x[0-9a-fA-F]+.*? to 0x(?P<action>[0-9a-fA-F]+)")
RECOVERY_ACTION_CHANGED = 154
# NVLink 5 (Xids 144 to 150): "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x...)".
_SEVERITY = re.compile(r"\b(Fatal|Nonfatal)\s+XC\d")
# The first number after the link is its source: bits 20 to 25 are the part of the link (the catalogue's "Xid 144-150
# Decode"). Of Xid 149's link events two are fatal and need no reset there: by software or a user, and by the host.
_LINK_SOURCE = re.compile(r"NETIR_LINK_(?:EVT|DOWN)\b.*\bLink +-?\d+ +\(0x(?P<source>[0-9a-fA-F]+)")
_LINK_EVENT, _NO_RESET = 149, frozenset({0b100110, 0b101000})
# Xid 13: "Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address".
_PLACE = re.compile(r"\(GPC (\d+), TPC (\d+)")
# Xid 45: "Ch 00000001 caused by previous Xid 149".
_CAUSE = re.compile(r"caused by previous Xid (\d{1,9})")

_ISO = re.compile(r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?) ?(?P<zone>Z|[+-]\d\d:?\d\d)?")
_CTIME = re.compile(r"\[\w{3} (?P<time>\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_MICROSECONDS = re.compile(r"[0-9]{1,20}")
_SECONDS = re.compile(r"\[ *(?P<seconds>\d+\.\d+)\]")


@dataclasses.dataclass(frozen=True)
class Xid:
    """An Xid of one GPU. A value that its line does not have is None."""

    code: int
    pci_address: str
    time: float | None = None
    pid: int | None = None
    process: str | None = None
    gpu_instance: int | None = None
    text: str = ""
    # The time in the journal, where *time* is another: in the clock of the check, which may have been set since.
    stamped: float | None = None

    @property
    def action(self) -> int | None:
        """Return the recovery action that an Xid 154 names, as a number of NVML's field 230."""
        found = _RECOVERY.search(self.text) if self.code == RECOVERY_ACTION_CHANGED else None
        return int(found["action"], 16) if found else None

    @property
    def fatal(self) -> bool | None:
        """Return whether the Xid calls itself fatal; None where it does not say."""
        found = _SEVERITY.search(self.text)
        return found[1] == "Fatal" if found else None

    @property
    def place(self) -> str:
        """Return the part of the chip that it names; empty where it names none."""
        found = _PLACE.search(self.text)
        return f"GPC {found[1]}, TPC {found[2]}" if found else ""

    @property
    def needs_reset(self) -> bool:
        """Return whether the catalogue requires a reset for this error of NVLink 5."""
        found = _LINK_SOURCE.search(self.text) if self.code == _LINK_EVENT else None
        if found and int(found["source"], 16) >> 20 & 0x3F in _NO_RESET:
            return False
        return self.fatal is not False

    @property
    def cause(self) -> int | None:
        """Return the code of the Xid that caused this one, where it names one."""
        found = _CAUSE.search(self.text)
        return int(found[1]) if found else None

    def as_result(self) -> XidRow:
        """Return the keys of a module's result."""
        row = data.find(self.code)
        return {
            "code": self.code,
            "pci_address": self.pci_address,
            "time": self.time if self.stamped is None else self.stamped,
            "pid": self.pid,
            "process": self.process,
            "gpu_instance": self.gpu_instance,
            "text": self.text,
            "name": row.name,
            "subsystem": row.subsystem,
            "action": row.action,
            "verdict": verdict_of(self),
        }


def normal_address(address: str) -> str:
    """Return domain, bus and device as the kernel's log writes them: 00000000:41:00.0 is 0000:41:00."""
    parts = address.lower().partition(".")[0].split(":")
    domain = int(parts[-3], 16) if len(parts) > 2 and parts[-3] else 0
    return f"{domain:04x}:{':'.join(parts[-2:])}"


def parse_line(message: str, time: float | None = None) -> Xid | None:
    """Parse the Xid in a message of the kernel; None where there is none."""
    fallen = _FALLEN.search(message) or _DEAD.search(message)
    if fallen:
        return Xid(FALLEN_OFF_THE_BUS, normal_address(fallen["address"]), time, text="GPU has fallen off the bus")
    found = _XID.search(message.rstrip())
    if not found:
        return None
    instance = _INSTANCE.search(found["instance"])
    rest = found["rest"] or ""
    process = _PROCESS.match(rest)
    pid = process["pid"] if process else ""
    name = (process["name"] or "").strip("'") if process else ""
    return Xid(
        code=int(found["code"]),
        pci_address=normal_address(found["address"]),
        time=time,
        pid=int(pid) if pid.isdecimal() else None,
        process=name if name not in ("", "<unknown>", "N/A") else None,
        gpu_instance=int(instance[1]) if instance else None,
        text=((process["text"] or "") if process else rest).strip(),
    )


@dataclasses.dataclass
class Log:
    """The messages of the kernel's log about GPUs and NVSwitches."""

    xids: list[Xid] = dataclasses.field(default_factory=list)
    sxids: list[sxid_log.Sxid] = dataclasses.field(default_factory=list)
    # Addresses of GPUs that the driver does not support; empty for a message without an address.
    unsupported: set[str] = dataclasses.field(default_factory=set)
    # The number of the BAR without an address, by that of the GPU.
    no_room: dict[str, int] = dataclasses.field(default_factory=dict)


def parse(text: str, booted: float | None = None) -> list[Xid]:
    """Parse the Xids of a log, as :func:`read` does."""
    return read(text, booted).xids


def read(text: str, booted: float | None = None) -> Log:
    """Parse the output of ``journalctl -o json``, ``journalctl -o short-iso`` or ``dmesg`` (in any of its forms), in its order.

    :param booted: the time of the boot in the clock of the check, in seconds since 1970. Without it, plain dmesg has no time, and that of
        the journal is by the clock of then.
    """
    found = Log()
    recent: list[str] = []
    for line, time, stamped in _lines(text, booted):
        sxid = sxid_log.parse_line(line, time)
        if sxid:
            found.sxids.append(sxid)
        if "NVRM" not in line:
            continue
        recent = [*([] if _ABOUT_A_GPU.search(line) else recent), line][-_LINES:]
        xid = parse_line(line, time)
        whole = "\n".join(recent)
        if not xid and _DEAD.search(whole):
            xid, recent = parse_line(whole, time), []
        if xid:
            found.xids.append(dataclasses.replace(xid, stamped=stamped))
        elif _UNSUPPORTED.search(whole):
            found.unsupported.add(_address_of(_UNSUPPORTED.search(whole)))
            recent = []
        elif no_room := _NO_ROOM.search(whole):
            found.no_room[_address_of(no_room)] = int(no_room["bar"])
            recent = []
    return found


def _address_of(found: re.Match[str] | None) -> str:
    return normal_address(found["address"]) if found and found["address"] else ""


def _lines(text: str, booted: float | None) -> t.Iterator[tuple[str, float | None, float | None]]:
    """Yield the lines of all messages about GPUs, each with the time of its message, and with the journal's where it is another."""
    # Other line breaks may be in the name of a process.
    for line in text.split("\n"):
        # Most lines are about something else: skip the parser for them.
        if "NVRM" not in line and "SXid" not in line and '"MESSAGE":[' not in line.replace(" ", ""):
            continue
        message, time, stamped = (
            _entry(line, booted) if line.startswith("{") else (line, _time_or_none(line, booted), None)
        )
        for part in message.split("\n"):
            yield part, time, stamped


def _entry(line: str, booted: float | None) -> tuple[str, float | None, float | None]:
    """Parse message and times of a line of ``journalctl -o json``."""
    try:
        entry = json.loads(line)
        message = entry.get("MESSAGE") or ""
        if isinstance(message, list):
            # Bytes, where the message is no UTF-8 (systemd.io, "Journal JSON Format"): a process may have any name.
            message = bytes(message).decode("utf-8", errors="replace")
    except (ValueError, TypeError, RecursionError):
        # The last line of a truncated log, or no line of journald.
        return "", None, None
    stamped, uptime = (_seconds(entry.get(f"__{clock}_TIMESTAMP")) for clock in ("REALTIME", "MONOTONIC"))
    message = message if isinstance(message, str) else ""
    # The real time may have been set since. The kernel's own stamp of a message drifts from the monotonic clock; journald's does not.
    return (message, stamped, None) if booted is None or uptime is None else (message, booted + uptime, stamped)


def _seconds(microseconds: t.Any) -> float | None:
    found = _MICROSECONDS.fullmatch(str(microseconds))
    return int(found[0]) / 1e6 if found else None


def _time_or_none(line: str, booted: float | None) -> float | None:
    """Parse the time of a line; None for an impossible time, such as a month 13. An Xid counts without a time."""
    try:
        return _time_of(line, booted)
    except (ValueError, OverflowError):
        return None


def _time_of(line: str, booted: float | None) -> float | None:
    seconds = _SECONDS.search(line)
    if seconds:
        return booted + float(seconds["seconds"]) if booted is not None else None
    written = _CTIME.search(line)
    if written:
        # dmesg -T prints the time of the system's zone.
        return datetime.datetime.strptime(" ".join(written["time"].split()), "%b %d %H:%M:%S %Y").timestamp()
    iso = _ISO.search(line)
    if not iso:
        return None
    zone = (iso["zone"] or "").replace("Z", "+00:00")
    if zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return datetime.datetime.fromisoformat(re.sub(r"[.,]\d+$", "", iso["time"]) + zone).timestamp()


def since(xids: t.Iterable[Xid], earliest: float | None) -> list[Xid]:
    """Return the Xids from *earliest* on. An Xid without a time is kept: it may be new."""
    return [xid for xid in xids if earliest is None or xid.time is None or xid.time >= earliest]


def verdict_of(xid: Xid) -> str:
    """Return the verdict on an Xid by the catalogue and its own text.

    An Xid of NVLink 5 says whether it is fatal. Of the 43 fatal rows in the catalogue's table for Xids 144 to 150, 41 require a reset,
    and the other two are known. None of the 51 nonfatal rows requires one (one in six leaves it to Xid 154).
    """
    if xid.code == RECOVERY_ACTION_CHANGED:
        return data.MONITOR if xid.action is None else data.recovery(xid.action).verdict
    row = data.find(xid.code)
    if row.action == "WORKFLOW_NVLINK5_ERR" and not xid.needs_reset:
        return data.MONITOR
    return row.verdict
