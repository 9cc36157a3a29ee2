# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files and units of a planned driver. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import OWN_PREFERENCES
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import MODPROBE
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState

ARCHIVE_SOURCE = "/etc/apt/sources.list.d/rigwright-nvidia-driver.sources"
SETTLE = "rigwright-nvidia-driver.service"
SETTLE_LINK = f"/etc/systemd/system/multi-user.target.wants/{SETTLE}"
PERSISTENCE, FABRIC = "nvidia-persistenced.service", "nvidia-fabricmanager.service"
PERSISTENCE_DROP_INS = f"/etc/systemd/system/{PERSISTENCE}.d"
# unattended-upgrades skips these; its patterns begin at the start of a name. Holds would be enough until a person lifts one.
UNATTENDED = (
    "nvidia-",
    "libnvidia-",
    "libcuda1",
    "libnvcuvid1",
    "libnvoptix1",
    "cuda-drivers",
    "xserver-xorg-video-nvidia",
    "linux-image-",
    "linux-headers-",
    "linux-modules-nvidia-",
)
# Debian's own modules have other names, and take options by those (nvidia-kernel-support and nvidia-open-kernel-support:
# /etc/modprobe.d/nvidia.conf).
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open")
# What stands between double quotes may have blanks: the kernel reads it so. A backslash would join lines.
_OPTION_NAME, _OPTION_VALUE = r"[A-Za-z0-9_]+", r'(?:[!#-\[\]-~]|"[ !#-\[\]-~]*")+'


def source_files(components_source: str | None) -> list[FileRow]:
    """Return the source of the archive's components: the only file that is needed before packages change."""
    return [{"path": ARCHIVE_SOURCE, "content": components_source}] if components_source else []


def apt_files(state: DriverState, lock: bool) -> list[FileRow]:
    """Return the configuration of apt and its helpers for the installed driver. The transaction itself has its own pins."""
    files: list[FileRow] = []
    if state.plan.preferences:
        files.append({"path": f"/etc/apt/preferences.d/{OWN_PREFERENCES}", "content": state.plan.preferences})
    if lock:
        patterns = "".join(f'  "{name}";\n' for name in UNATTENDED)
        files += [
            {
                "path": "/etc/apt/apt.conf.d/52rigwright-nvidia-driver",
                "content": "// Driver, libraries and kernel change together, by the role nvidia_driver.\n"
                f"Unattended-Upgrade::Package-Blacklist {{\n{patterns}}};\n",
            },
            {
                "path": "/etc/needrestart/conf.d/rigwright-nvidia-driver.conf",
                "content": "# Restarting them takes the GPU from running programs.\n"
                "$nrconf{override_rc}{qr(^nvidia-)} = 0;\n"
                "$nrconf{override_rc}{qr(^dcgm)} = 0;\n",
            },
        ]
    return files


def option_value(value: t.Any) -> str:
    """Return a module option's value as modprobe.d has it, empty for one that modprobe cannot read."""
    text = str(int(value) if isinstance(value, bool) else value) if isinstance(value, (bool, int, float, str)) else ""
    return text if re.fullmatch(_OPTION_VALUE, text) else ""


def modprobe_files(state: DriverState, change: Change | None, options: JsonObject) -> list[FileRow]:
    """Return the configuration of modprobe. It disables nouveau only if another module replaces it."""
    if not state.built and change is None:
        return []
    lines = [
        "# nouveau would take the card before NVIDIA's module does.",
        "blacklist nouveau",
        "options nouveau modeset=0",
    ]
    if options:
        assignments = " ".join(f"{name}={option_value(value)}" for name, value in sorted(options.items()))
        lines += [f"options {module} {assignments}" for module in MODULES]
    return [{"path": MODPROBE, "content": "\n".join(lines) + "\n"}]


def persistence_files(state: DriverState) -> list[FileRow]:
    """Return the drop-in that lets the daemon keep the driver loaded, where its package's unit does not."""
    start = _persistence_start(state)
    if not start:
        return []
    content = (
        "# The package's unit starts the daemon with an option that makes it do nothing.\n"
        f"[Service]\nExecStart=\nExecStart={start.group(1)}{start.group(2)}\n"
    )
    return [{"path": f"{PERSISTENCE_DROP_INS}/rigwright.conf", "content": content}]


def directories(files: t.Iterable[FileRow]) -> list[DirectoryRow]:
    """Return the directories of files that no package of the system creates."""
    own = ("/etc/needrestart", "/etc/needrestart/conf.d", PERSISTENCE_DROP_INS)
    paths = [row["path"] for row in files]
    return [{"path": path} for path in own if any(name.startswith(f"{path}/") for name in paths)]


def _persistence_start(state: DriverState) -> re.Match[str] | None:
    """Return how Ubuntu's unit starts the daemon: with an option that makes it do nothing."""
    return re.search(r"^ExecStart=(.*) --no-persistence-mode(.*)$", state.persistence_unit, re.MULTILINE)


def units(state: DriverState) -> list[UnitRow]:
    """Return the units. The daemons run once the driver is loaded: a driver that waits for its reboot has none to serve."""
    found: list[UnitRow] = []
    if state.facts["driver"]["matches"] and not state.plan.refused:
        if state.persistence_unit:
            found.append({"name": PERSISTENCE, "enabled": True, "restart_on": [PERSISTENCE_DROP_INS]})
        if state.facts["nvswitch"]:
            found.append({"name": FABRIC, "enabled": True})
    return found


def boot_units(tree: Tree) -> list[UnitRow]:
    """Return the unit that checks a driver after a boot, if it is not enabled yet."""
    return [] if tree.link(SETTLE_LINK) else [{"name": SETTLE, "enabled": True, "state": "stopped"}]
