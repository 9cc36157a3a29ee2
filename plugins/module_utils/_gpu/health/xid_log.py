# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Xids in the lines of the kernel's log. Pure: the words of journalctl or dmesg in, Xids out.

The driver tells an Xid once, to the log and to whoever waits on NVML's events at that moment; who looks now and then reads the log.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import sxid_log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data

# nvErrorLog of the open kernel module: "Xid (PCI:%04x:%02x:%02x GPU-I:%02u GPU-CI:%02u): %d, pid=%s, name=%s, %s". Older drivers leave out
# "PCI:" or the process, and the instances stand there on a GPU with MIG alone.
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:]+)(?P<instance>[^)]*)\): (?P<code>\d{1,9})(?:, *(?P<rest>.*))?$"
)
_PROCESS = re.compile(r"pid='?(?P<pid>\d{1,9}|<unknown>|N/A)'?(?:, name=(?P<name>[^,]*))?(?:, *(?P<text>.*))?$")
_INSTANCE = re.compile(r"GPU-I:(\d{1,9})")
# Some drivers tell it in these words alone. It is Xid 79 (gpud, matcher.go).
_FALLEN = re.compile(
    r"NVRM: GPU (?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.0: GPU has fallen off the bus"
)
# And in these, over three lines, when the card is dead as the driver is loaded (rm_is_supported_device of the open kernel module).
_DEAD = re.compile(
    r"NVRM: The NVIDIA GPU (?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.\d.{,300}?"
    r"fallen off the bus and is not responding",
    re.DOTALL,
)
FALLEN_OFF_THE_BUS = 79
# A card that the driver leaves alone as too old, or too new. Those of legacy drivers are told without their address.
_UNSUPPORTED = re.compile(
    r"NVRM: The NVIDIA (?:GPU (?P<address>[0-9a-fA-F:]+)\.\d)?.{,300}?(?:is\s+(?:NVRM:\s+)?not supported by|supported through the)",
    re.DOTALL,
)
_ABOUT_A_GPU = "NVRM: The NVIDIA "
# So many lines of the driver belong to one message.
_LINES = 6
# "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)". The words change with the driver (610 says "OS Reboot", and
# "PF FLR" for a reset); the numbers are those of nvmlDeviceGpuRecoveryAction_t.
_RECOVERY = re.compile(r"recovery action changed from 0x[0-9a-fA-F]+.*? to 0x(?P<action>[0-9a-fA-F]+)")
RECOVERY_ACTION_CHANGED = 154
# NVLink 5 (Xids 144 to 150): "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x...)".
_SEVERITY = re.compile(r"\b(Fatal|Nonfatal)\s+XC\d")
# The first number behind the link says where it came from: its bits 20 to 25 are the part of the link (the catalogue's "Xid 144-150
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
    """An Xid of one GPU. What its line does not tell is None."""

    code: int
    pci_address: str
    time: float | None = None
    pid: int | None = None
    process: str | None = None
    gpu_instance: int | None = None
    text: str = ""

    @property
    def action(self) -> int | None:
        """The recovery action that an Xid 154 names, as NVML's field 230 has it."""
        found = _RECOVERY.search(self.text) if self.code == RECOVERY_ACTION_CHANGED else None
        return int(found["action"], 16) if found else None

    @property
    def fatal(self) -> bool | None:
        found = _SEVERITY.search(self.text)
        return found[1] == "Fatal" if found else None

    @property
    def place(self) -> str:
        """The part of the chip that it names, empty where it names none."""
        found = _PLACE.search(self.text)
        return f"GPC {found[1]}, TPC {found[2]}" if found else ""

    @property
    def needs_reset(self) -> bool:
        """Whether the catalogue has the GPU reset for an error of NVLink 5."""
        found = _LINK_SOURCE.search(self.text) if self.code == _LINK_EVENT else None
        if found and int(found["source"], 16) >> 20 & 0x3F in _NO_RESET:
            return False
        return self.fatal is not False

    @property
    def cause(self) -> int | None:
        """The Xid that this one says it follows."""
        found = _CAUSE.search(self.text)
        return int(found[1]) if found else None

    def as_result(self) -> dict[str, t.Any]:
        """Return the keys of a module's result."""
        row = data.find(self.code)
        return {
            **dataclasses.asdict(self),
            "name": row.name,
            "subsystem": row.subsystem,
            "action": row.action,
            "verdict": verdict_of(self),
        }


def normal_address(told: str) -> str:
    """Domain, bus and device as the kernel's log writes them, of an address in any other form: 00000000:41:00.0 is 0000:41:00."""
    parts = told.lower().partition(".")[0].split(":")
    domain = int(parts[-3], 16) if len(parts) > 2 and parts[-3] else 0
    return f"{domain:04x}:{':'.join(parts[-2:])}"


def parse_line(message: str, time: float | None = None) -> Xid | None:
    """The Xid in a message of the kernel, None where there is none."""
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
    """What the kernel's log says of GPUs and NVSwitches."""

    xids: list[Xid] = dataclasses.field(default_factory=list)
    sxids: list[sxid_log.Sxid] = dataclasses.field(default_factory=list)
    # Addresses of GPUs that the driver does not support; empty for one that is told without.
    unsupported: set[str] = dataclasses.field(default_factory=set)


def parse(text: str, booted: float | None = None) -> list[Xid]:
    """The Xids alone of what :func:`read` reads."""
    return read(text, booted).xids


def read(text: str, booted: float | None = None) -> Log:
    """What ``journalctl -o json``, ``journalctl -o short-iso`` or ``dmesg`` (in any of its forms) says, in its order.

    :param booted: when the system was booted, in seconds since 1970: without it the seconds of plain dmesg are no time.
    """
    found = Log()
    recent: list[str] = []
    for line, time in _lines(text, booted):
        sxid = sxid_log.parse_line(line, time)
        if sxid:
            found.sxids.append(sxid)
        if "NVRM" not in line:
            continue
        recent = [*(recent if _ABOUT_A_GPU not in line else []), line][-_LINES:]
        xid = parse_line(line, time)
        whole = "\n".join(recent)
        if not xid and _DEAD.search(whole):
            xid, recent = parse_line(whole, time), []
        if xid:
            found.xids.append(xid)
        elif _UNSUPPORTED.search(whole):
            found.unsupported.add(_address_of(_UNSUPPORTED.search(whole)))
            recent = []
    return found


def _address_of(found: re.Match[str] | None) -> str:
    return normal_address(found["address"]) if found and found["address"] else ""


def _lines(text: str, booted: float | None) -> t.Iterator[tuple[str, float | None]]:
    """The lines of all messages that concern GPUs, each with the time of its message."""
    for line in text.splitlines():
        # Most lines of a kernel's log are nobody's concern, and need not be taken apart.
        if "NVRM" not in line and "SXid" not in line and '"MESSAGE":[' not in line.replace(" ", ""):
            continue
        message, time = _entry(line) if line.startswith("{") else (line, _time_or_none(line, booted))
        for part in message.splitlines():
            yield part, time


def _entry(line: str) -> tuple[str, float | None]:
    """Message and time of a line of ``journalctl -o json``."""
    try:
        entry = json.loads(line)
        message = entry.get("MESSAGE") or ""
        if isinstance(message, list):
            # Bytes, where they are no UTF-8 (systemd.io, "Journal JSON Format"): a process may be named as it likes.
            message = bytes(message).decode("utf-8", errors="replace")
    except (ValueError, TypeError, RecursionError):
        # The last line of a log that was cut off, or none of journald's.
        return "", None
    stamp = _MICROSECONDS.fullmatch(str(entry.get("__REALTIME_TIMESTAMP")))
    return message if isinstance(message, str) else "", int(stamp[0]) / 1e6 if stamp else None


def _time_or_none(line: str, booted: float | None) -> float | None:
    """None also for what is no time, such as a month 13: an Xid counts without one."""
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
        # dmesg -T has no zone: it is the system's own.
        return datetime.datetime.strptime(" ".join(written["time"].split()), "%b %d %H:%M:%S %Y").timestamp()
    iso = _ISO.search(line)
    if not iso:
        return None
    zone = (iso["zone"] or "").replace("Z", "+00:00")
    if zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return datetime.datetime.fromisoformat(re.sub(r"[.,]\d+$", "", iso["time"]) + zone).timestamp()


def since(xids: t.Iterable[Xid], earliest: float | None) -> list[Xid]:
    """Those from *earliest* on. One without a time is kept: nobody knows that it is older."""
    return [xid for xid in xids if earliest is None or xid.time is None or xid.time >= earliest]


def verdict_of(xid: Xid) -> str:
    """What an Xid comes to by the catalogue and its own words.

    NVLink 5 says itself whether it is fatal: of the 43 fatal rows of the catalogue's table for Xids 144 to 150 a reset is due for 41, and
    the other two are known; of the 51 that are not fatal for none (one in six leaves it to Xid 154).
    """
    if xid.code == RECOVERY_ACTION_CHANGED:
        return data.MONITOR if xid.action is None else data.recovery(xid.action).verdict
    row = data.find(xid.code)
    if row.action == "WORKFLOW_NVLINK5_ERR" and not xid.needs_reset:
        return data.MONITOR
    return row.verdict
