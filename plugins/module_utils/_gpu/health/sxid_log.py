# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parser of SXids, which NVSwitches report in the kernel's log, and the verdict on each. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data

# Appendix D of the guide: D.4 not fatal, D.5 fatal for the partition, D.6 fatal for the whole fabric; the codes of D.6 are read through
# gpud's copy (components/accelerator/nvidia/sxid). NVSentinel calls support for every fatal one, and does nothing for the others.
GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"
ALWAYS_FATAL = frozenset({10003, 12020, 22003, 22011, *range(23001, 23018)})

# NVSWITCH_PRINT_SXID of the open kernel module: "nvidia-%s: SXid (PCI:%s): %05d, %s".
_SXID = re.compile(
    r"nvidia-(?P<switch>nvswitch\d+): SXid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<code>\d+), *(?P<text>.*)"
)
# The second line of an SXid: registers, and the part of the switch.
_DETAIL = ("Severity ", "Data {")
_NEXT_STEPS = {
    data.RESET_GPU: "end what uses the GPUs and reset all of them together (nvidia-smi --gpu-reset); if that fails, reboot",
    data.REBOOT: "reboot: the fabric is not reliable; if it comes back, have the NVSwitch examined",
    data.MONITOR: "nothing has to be done now: check whether it grows",
}


@dataclasses.dataclass(frozen=True)
class Sxid:
    """An SXid of one NVSwitch."""

    code: int
    switch: str
    pci_address: str
    time: float | None = None
    text: str = ""

    @property
    def verdict(self) -> str:
        """Return the verdict of the guide."""
        if self.code in ALWAYS_FATAL:
            return data.REBOOT
        return data.RESET_GPU if self.text.startswith("Fatal") else data.MONITOR

    @property
    def next_step(self) -> str:
        """Return the next step for the verdict."""
        return _NEXT_STEPS[self.verdict]


def parse_line(message: str, time: float | None = None) -> Sxid | None:
    """Parse the SXid in a message of the kernel; None where there is none, or only its details."""
    found = _SXID.search(message)
    if not found or found["text"].startswith(_DETAIL):
        return None
    return Sxid(int(found["code"]), found["switch"], found["address"].lower(), time, found["text"].strip()[:200])


def by_switch(sxids: t.Iterable[Sxid]) -> dict[tuple[str, str, int], list[Sxid]]:
    """Group SXids by NVSwitch and code."""
    found: dict[tuple[str, str, int], list[Sxid]] = {}
    for sxid in sxids:
        found.setdefault((sxid.switch, sxid.pci_address, sxid.code), []).append(sxid)
    return found
