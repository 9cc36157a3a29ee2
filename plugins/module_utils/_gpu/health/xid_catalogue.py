# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The meaning of the driver's Xids, and the verdict on each, with a source for each line.

NVIDIA's catalogue decides: its column "Immediate Action" is here as ``action``. Other tools contradict it and each other; where they do,
a comment gives the reason for the verdict of this collection. They are gpud (components/accelerator/nvidia/xid, August 2026), AWS
(awsome-distributed-training, gpu-cluster-healthcheck), DCGM 4.6 (DcgmHealthWatch.cpp), NVIDIA's k8s-device-plugin (internal/rm/health.go),
Azure (azurehpc-health-checks, azure_gpu_xid.nhc) and Meta (gcm, xid_error_codes.py).
"""

from __future__ import annotations

import typing as t

# From the mildest to the gravest.
PASS = "PASS"  # noqa: S105 - a verdict
MONITOR = "MONITOR"
RESTART_APP = "RESTART_APP"
RESET_GPU = "RESET_GPU"
REBOOT = "REBOOT"
REPLACE = "REPLACE"
VERDICTS = (PASS, MONITOR, RESTART_APP, RESET_GPU, REBOOT, REPLACE)

# The parts of a GPU that an Xid is about, by the names of the catalogue (ROBUST_CHANNEL_CE0_ERROR: engine; PMU_HALT_ERROR: firmware).
# DCGM files 38, 39 and 42 under PCIe, 60 to 62 under heat, 56 to 58 and 78 under power and clocks; the catalogue has other things there.
APPLICATION = "application"
BUS = "bus"
DISPLAY = "display"
ENGINE = "engine"
FIRMWARE = "firmware"
LINK = "link"
MEMORY = "memory"
OTHER = "other"
POWER = "power"

# Read through the copy of 29 October 2025 that gpud generates from it.
CATALOG = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
# What codes mean on GPUs before Ampere, without an action: NVIDIA's list before the catalogue, read through gpud's copy of r555.
LIST = "https://docs.nvidia.com/deploy/xid-errors/index.html#xid-error-listing"
# The codes of a driver that is newer than the copy.
NVERROR = "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/common/sdk/nvidia/inc/nverror.h"
FLAGS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html"


class Recovery(t.NamedTuple):
    """A recovery action of the driver."""

    name: str
    verdict: str
    next_step: str
    source: str


_RESET = "end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>)"
_DRAIN = "start nothing new on it, end the programs that exchange data with other GPUs, and check again; if it stays, reset it"

# nvmlDeviceGpuRecoveryAction_t of nvml.h (field 230), which the text of Xid 154 has as well.
RECOVERY_ACTIONS = {
    0: Recovery("none", PASS, "", FLAGS),
    1: Recovery("reset", RESET_GPU, _RESET, FLAGS),
    2: Recovery("reboot", REBOOT, "reboot: the system may be in an inconsistent state", FLAGS),
    3: Recovery("drain_p2p", RESTART_APP, _DRAIN, FLAGS),
    4: Recovery(
        "drain_and_reset", RESET_GPU, f"start nothing new on it, let what runs there end, and then {_RESET}", FLAGS
    ),
    # Some versions of the binding call 5 GPU_RESET_BUS, 13.615 RECOVER_IMEX_DOMAIN. A single host has no such domain: the reset holds.
    5: Recovery("recover_imex_domain", RESET_GPU, _RESET, FLAGS),
    6: Recovery("bus_reset", RESET_GPU, f"{_RESET}; if that does not help, reboot", FLAGS),
    7: Recovery("system_reboot", REBOOT, "reboot", FLAGS),
}


_BY_ACTION = {key: row for number, row in RECOVERY_ACTIONS.items() for key in (str(number), row.name)}


def recovery(action: int | str) -> Recovery:
    """Return a recovery action by its number, or by its name in gpu_info.

    An action that is not in the table is of a later driver, and its meaning is unknown. NVIDIA's own DRA driver for Kubernetes takes such
    a GPU out as well (device_health.go, "unknown non-zero action is fatal").
    """
    found = _BY_ACTION.get(str(action))
    return found or Recovery(str(action), RESET_GPU, f"read its meaning in `nvidia-smi -q`; or {_RESET}", FLAGS)


class Xid(t.NamedTuple):
    """A line of the catalogue. *action* is its own term, empty where it has none; *verdict* is its meaning on a single host."""

    code: int
    name: str
    subsystem: str
    action: str
    verdict: str
    source: str


# Unless a line has a comment, its verdict follows from its action. IGNORE is MONITOR where the catalogue asks for an investigation
# afterwards, and PASS where it does not. RESTART_BM and RESTART_VM are both a reboot of the system.
XIDS = (
    Xid(8, "GPU stopped processing", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(11, "Invalid or corrupted push buffer stream", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    # gpud warns, AWS and Meta only watch, the k8s plugin ignores 13 and 31: all see an error of the application. The program has to be
    # started again; the GPU is healthy.
    Xid(13, "Graphics Engine Exception", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    # Errors of the display. The catalogue covers data centres from Ampere on, and calls these numbers unused.
    Xid(16, "Display engine hung", DISPLAY, "", MONITOR, LIST),
    Xid(19, "Display engine error", DISPLAY, "", MONITOR, LIST),
    Xid(25, "Invalid or illegal push buffer stream", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(27, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(28, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(29, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    # DCGM warns of failing memory; the catalogue sees an illegal address that the program used.
    Xid(31, "GPU memory page fault", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(32, "Invalid or corrupted push buffer stream", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(33, "Internal micro-controller error", FIRMWARE, "", RESET_GPU, LIST),
    Xid(34, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(35, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(36, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(37, "Driver firmware error", FIRMWARE, "IGNORE", MONITOR, CATALOG),
    Xid(38, "Driver firmware error", FIRMWARE, "IGNORE", MONITOR, CATALOG),
    Xid(39, "Copy Engine Exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(40, "Copy Engine Exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(41, "Copy Engine Exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(42, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    # DCGM warns of memory here too; the catalogue asks for nothing, since it follows an error of the application.
    Xid(43, "GPU stopped processing", APPLICATION, "IGNORE", MONITOR, CATALOG),
    Xid(44, "Graphics Engine fault during context switch", APPLICATION, "IGNORE", MONITOR, CATALOG),
    # Its own text or another Xid names the cause, and that one decides (WORKFLOW_XID_45). Alone, as when a program is killed: the
    # catalogue has the fabric manager restarted where there is one; a single host has none.
    Xid(45, "Preemptive cleanup, due to previous errors", APPLICATION, "WORKFLOW_XID_45", MONITOR, CATALOG),
    Xid(46, "GPU stopped processing", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(47, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    # WORKFLOW_XID_48: a reset, with 63 or 64 after the GPU was drained. Flags of NVML make it a reason to replace
    # the card (_gpu.health.verdict).
    Xid(48, "Double Bit ECC Error", MEMORY, "WORKFLOW_XID_48", RESET_GPU, CATALOG),
    # The cable has to be checked, with the host powered off.
    Xid(54, "Auxiliary power is not connected to the GPU board", POWER, "CHECK_MECHANICALS", REBOOT, CATALOG),
    Xid(56, "Display engine error", DISPLAY, "", MONITOR, LIST),
    # Azure takes the host out for 56 to 58, 65, 73 and 81. A reset trains the memory interface again; a picture comes back without a reset.
    Xid(57, "Error programming the video memory interface", MEMORY, "", RESET_GPU, LIST),
    Xid(58, "Unstable video memory interface, or EDC error", MEMORY, "", RESET_GPU, LIST),
    # The same controller as in 62, on older drivers.
    Xid(59, "Internal micro-controller error", FIRMWARE, "", RESET_GPU, LIST),
    # DCGM files 60 to 62 under thermal violations; the catalogue has the video processor, an unused number, and a micro-controller.
    Xid(60, "Video processor exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    # The controller goes on after a breakpoint.
    Xid(61, "Internal micro-controller breakpoint or warning", FIRMWARE, "", MONITOR, LIST),
    # AWS watches, DCGM warns of heat, gpud reboots. The controller has halted, and only a reset starts it again.
    Xid(62, "Internal micro-controller halt", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    # gpud reboots, Azure and the k8s plugin take the GPU out. A row was remapped as designed; a pending reset is a flag of
    # its own in NVML.
    Xid(63, "GPU memory remapping event", MEMORY, "IGNORE", PASS, CATALOG),
    # AWS isolates the host for good (July 2026). The policy for replacement uses the failure flag of the remapper, which NVML reports.
    Xid(64, "GPU memory remapping failure", MEMORY, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(65, "Video processor exception", ENGINE, "", RESTART_APP, LIST),
    Xid(66, "Illegal access by driver", FIRMWARE, "IGNORE", MONITOR, CATALOG),
    Xid(67, "Illegal access by driver", FIRMWARE, "IGNORE", MONITOR, CATALOG),
    # gpud reboots and Azure takes the host out, the k8s plugin ignores it. The video decoder's channel has failed, with the program that
    # used it.
    Xid(68, "NVDEC0 Exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(69, "Graphics Engine class error", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(70, "CE3: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(71, "CE4: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(72, "CE5: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(73, "NVENC2 Error", ENGINE, "", RESTART_APP, LIST),
    # WORKFLOW_NVLINK_ERR needs seven registers decoded. Every tool but AWS's (configurable) fails the GPU; a reset trains the link again.
    Xid(74, "NVLINK Error", LINK, "WORKFLOW_NVLINK_ERR", RESET_GPU, CATALOG),
    Xid(75, "CE6: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(76, "CE7: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(77, "CE8: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    # DCGM files it under power and clocks; a virtual GPU was started with a driver that does not match.
    Xid(78, "vGPU Start Error", OTHER, "UPDATE_SWFW", MONITOR, CATALOG),
    # AWS reboots as well. A card that is missing after the reboot has to be reseated.
    Xid(79, "GPU has fallen off the bus", BUS, "RESTART_BM", REBOOT, CATALOG),
    Xid(80, "Corrupted data sent to GPU", APPLICATION, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(81, "VGA Subsystem Error", DISPLAY, "", MONITOR, LIST),
    Xid(82, "NVJPG0 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(83, "NVDEC1 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(84, "NVDEC2 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(85, "CE9: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(86, "OFA Exception", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(88, "NVDEC3 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(89, "NVDEC4 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    # k8s and Azure take the GPU out, AWS watches. Corrected errors do no harm; their rate predicts 48.
    Xid(92, "High single-bit ECC error rate", MEMORY, "IGNORE", MONITOR, CATALOG),
    Xid(93, "Non-fatal violation of provisioned InfoROM wear limit", FIRMWARE, "IGNORE", MONITOR, CATALOG),
    # gpud calls it fatal (with a threshold of 1000), the k8s plugin and Meta critical. Contained means that only one program was hit.
    Xid(94, "Contained memory error", MEMORY, "RESTART_APP", RESTART_APP, CATALOG),
    # AWS reboots an A100 without MIG; the catalogue resets every card that it knows.
    Xid(95, "Uncontained memory error", MEMORY, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(96, "NVDEC5 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(97, "NVDEC6 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(98, "NVDEC7 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(99, "NVJPG1 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(100, "NVJPG2 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(101, "NVJPG3 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(102, "NVJPG4 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(103, "NVJPG5 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(104, "NVJPG6 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(105, "NVJPG7 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(106, "SMBPBI Test Message", OTHER, "IGNORE", PASS, CATALOG),
    Xid(107, "SMBPBI Test Message Silent", OTHER, "IGNORE", PASS, CATALOG),
    # The k8s plugin ignores it, gpud warns, Meta calls it minor: they follow lists older than the catalogue. The GPU does not switch
    # contexts any more.
    Xid(109, "Context Switch Timeout Error", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(110, "Security Fault Error", OTHER, "RESET_GPU", RESET_GPU, CATALOG),
    # The catalogue calls them unused, and has mnemonics of the display for them (DISP_SUPERVISOR_ERROR, DP_LT_FAILURE, ...).
    Xid(112, "Display supervisor error", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(113, "DisplayPort link training failure", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(114, "Underflow of a display head", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(115, "Registers of the core display channel", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(116, "Registers of a window display channel", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(117, "Registers of a cursor display channel", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(118, "Registers of a display head", DISPLAY, "CONTACT_SUPPORT", MONITOR, CATALOG),
    # All agree but Azure's list, which has no 140: the firmware does not answer until it is loaded again.
    Xid(119, "GSP RPC Timeout", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(120, "GSP Error", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(121, "C2C Error", LINK, "IGNORE", MONITOR, CATALOG),
    # Unused as well. The card's own flash could not be read or written. NVML reports whether the InfoROM is valid.
    Xid(122, "SPI PMU RPC read failure", FIRMWARE, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(123, "SPI PMU RPC write failure", FIRMWARE, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(124, "SPI PMU RPC erase failure", FIRMWARE, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(125, "InfoROM file system error", FIRMWARE, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(126, "CE10: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(127, "CE11: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(128, "CE12: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(129, "CE13: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(130, "CE14: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(131, "CE15: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(132, "CE16: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(133, "CE17: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(134, "CE18: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(135, "CE19: Unknown Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(136, "Link Training Failed", LINK, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(137, "NVLink Privilege Error", APPLICATION, "IGNORE", MONITOR, CATALOG),
    Xid(139, "OFA1 Error", ENGINE, "RESTART_APP", RESTART_APP, CATALOG),
    Xid(140, "ECC Unrecovered Error", MEMORY, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(141, "CUDA Fast Path Error", APPLICATION, "IGNORE", MONITOR, CATALOG),
    Xid(142, "NVENC3 Error", ENGINE, "CONTACT_SUPPORT", MONITOR, CATALOG),
    Xid(143, "GPU Initialization Error", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    # WORKFLOW_NVLINK5_ERR. The line says fatal or nonfatal: of the 43 fatal rows in the catalogue's own table 41 are a reset, of the 51
    # others none (`verdict_of` in _gpu.health.xid_log). This is the row for a line that does not say.
    Xid(144, "NVLINK: SAW Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(145, "NVLINK: RLW Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(146, "NVLINK: TLW Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(147, "NVLINK: TREX Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(148, "NVLINK: NVLPW_CTRL Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(149, "NVLINK: NETIR Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(150, "NVLINK: MSE Error", LINK, "WORKFLOW_NVLINK5_ERR", RESET_GPU, CATALOG),
    Xid(151, "Key rotation Error", OTHER, "RESTART_VM", REBOOT, CATALOG),
    Xid(152, "DLA SMMU Error", ENGINE, "IGNORE", MONITOR, CATALOG),
    Xid(153, "DLA timeout Error", ENGINE, "IGNORE", MONITOR, CATALOG),
    # Its own text names the action (_gpu.health.xid_log); k8s, Meta and gpud do not read it there.
    Xid(154, "GPU Recovery Action Changed", OTHER, "XID_154", MONITOR, CATALOG),
    Xid(155, "NVLINK: SW Defined Error", LINK, "RESET_GPU", RESET_GPU, CATALOG),
    Xid(156, "Resource Retirement Event", MEMORY, "RESET_GPU", RESET_GPU, CATALOG),
    # NVML has a flag for memory that could not be retired (unrepairable memory); the immediate action is none.
    Xid(157, "Resource Retirement Failure", MEMORY, "IGNORE", MONITOR, CATALOG),
    Xid(158, "GPU Fatal Timeout", FIRMWARE, "RESET_GPU", RESET_GPU, CATALOG),
    # CHECK_UVM refers to another part of the driver; it is no action of its own.
    Xid(159, "CHI Non-Data Error", MEMORY, "CHECK_UVM", MONITOR, CATALOG),
    Xid(160, "Channel Retirement Event", MEMORY, "IGNORE", MONITOR, CATALOG),
    Xid(161, "Channel Retirement Failure", MEMORY, "IGNORE", MONITOR, CATALOG),
    # For 162 to 172 the copy names no action: the driver's recovery action decides.
    Xid(162, "Power Smoothing HW Circuitry capability reengaged", POWER, "", MONITOR, CATALOG),
    Xid(163, "Power Smoothing HW Circuitry capability disengaged", POWER, "", MONITOR, CATALOG),
    Xid(164, "Power Smoothing HW Circuitry low lifetime reached", POWER, "", MONITOR, CATALOG),
    Xid(165, "Power Smoothing HW Circuitry lifetime exhausted", POWER, "", MONITOR, CATALOG),
    Xid(166, "Traffic of confidential computing before the link was configured for it", LINK, "", MONITOR, CATALOG),
    Xid(167, "PCIe fatal timeout", BUS, "", MONITOR, CATALOG),
    Xid(168, "Errors found in the write protected region", MEMORY, "", MONITOR, CATALOG),
    # The same text and effect as 62: the copy names no action yet.
    Xid(169, "Internal micro-controller halt", FIRMWARE, "", RESET_GPU, CATALOG),
    Xid(170, "Interrupt seen in CC mode", LINK, "", MONITOR, CATALOG),
    Xid(171, "Uncorrectable DRAM error, in addition to Xid 48", MEMORY, "", MONITOR, CATALOG),
    Xid(172, "Uncorrectable SRAM error, in addition to Xid 48", MEMORY, "", MONITOR, CATALOG),
    # Newer than the copy of the catalogue. A reset trains a fatal link again, as with NVLink.
    Xid(173, "C2C fatal link failure", LINK, "", RESET_GPU, NVERROR),
    Xid(174, "Channel reset, the process is killed", APPLICATION, "", RESTART_APP, NVERROR),
    # The driver reports it in place of 119 where the memory of the firmware has failed (kernel_gsp.c).
    Xid(175, "Memory subsystem error", MEMORY, "", RESET_GPU, NVERROR),
    Xid(176, "PCIe correctable error fault", BUS, "", MONITOR, NVERROR),
)

# Numbers that the catalogue calls unused, and NVIDIA's older list as well, or names an error of the driver alone.
_UNUSED_RANGES = "1-7 9-10 12 14-15 17-18 20-24 26 30 49-53 55 87 90-91 108 111 138"
UNUSED = frozenset(
    code
    for first, _dash, last in (numbers.partition("-") for numbers in _UNUSED_RANGES.split())
    for code in range(int(first), int(last or first) + 1)
)

_BY_CODE = {row.code: row for row in XIDS}


def find(code: int) -> Xid:
    """Return the line of an Xid. An unknown Xid has the verdict MONITOR."""
    row = _BY_CODE.get(code)
    if row:
        return row
    return Xid(code, "Unused" if code in UNUSED else "Unknown", OTHER, "CONTACT_SUPPORT", MONITOR, CATALOG)
