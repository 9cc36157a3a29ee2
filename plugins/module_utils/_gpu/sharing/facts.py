# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Differences between declared and actual sharing: gpu_mode, gpu_mig and gpu_mps run in one process, in check mode."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot as gpu_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import Declared
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot as mig_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import resolve
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import Request as ModeRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import requests_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import devices as mps_devices
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import facts as mps_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files as mps_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import memory_limits
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import PROGRAM
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import decide
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    STARTED,
    DaemonRequest,
    wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Gpu, MigEntry

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host

# Defaults of gpu_mps, as in its argument spec.
PIPES, LOGS, CONFIGURATIONS = "/run/nvidia-mps", "/var/log/nvidia-mps", "/etc/nvidia-mps"
SYSTEMD = "/run/systemd/system"


@dataclasses.dataclass
class Outcome:
    """What a module would report in check mode."""

    changed: bool = False
    warnings: list[str] = dataclasses.field(default_factory=list)
    needs: str = "none"
    pending: list[str] = dataclasses.field(default_factory=list)
    plans: list[MigEntry] = dataclasses.field(default_factory=list)


def gpu_of(nvml: Nvml, card: Card) -> Gpu:
    reader = Reader(nvml, card)
    capability = reader.ask("nvmlDeviceGetCudaComputeCapability")
    return Gpu(card, reader.ask("nvmlDeviceGetMigMode") is not None, capability and tuple(capability))


def preview_modes(host: Host, nvml: Nvml, rows: list[Declared], root: str) -> Outcome:
    """Return what gpu_mode would change.

    :raises Refusal: gpu_mode would refuse it.
    """
    request = ModeRequest(requests_of(rows, nvml.cards()), keep=True, exclusive=True)
    prepared = request.prepare(nvml, Tree(root), host.run_command)
    return Outcome(prepared.changed, prepared.warnings, prepared.needs)


def preview_mig(nvml: Nvml, request: MigEntry, root: str) -> Outcome:
    """Return what gpu_mig would change.

    :param request: all parameters of gpu_mig, see :func:`_gpu.mig.options.with_defaults`.
    :raises Refusal: gpu_mig would refuse it.
    """
    try:
        requests = resolve(nvml.cards(), request)
        prepared = mig_run.prepare(nvml, requests, request, mig_boot.PROGRAM, Tree(root))
    except mig_run.Stopped as stopped:
        raise Refusal(str(stopped)) from stopped
    return Outcome(prepared.changed, prepared.warnings, prepared.needs, plans=prepared.plans)


def undeclared_mig(requests: t.Sequence[MigEntry], root: str) -> list[str]:
    """Return cards that boot still divides without a declaration, removed cards included.

    :raises Refusal: what boot divides cannot be read.
    """
    declared = gpu_boot.read_declared(Tree(root), mig_run.NAME)
    requested = {uuid for request in requests for uuid in request["devices"]}
    return sorted(set(declared) - requested)


def preview_mps(
    host: Host, nvml: Nvml, daemons: list[DaemonRequest], limits: list[dict[str, str]], when_clients: str
) -> Outcome:
    """Return what gpu_mps would change.

    :raises Refusal: gpu_mps would refuse it.
    """
    if not (daemons or limits):
        return Outcome()
    devices, driver = mps_devices.read(nvml)
    machine = _host(host)
    request = wanted(daemons, devices, driver, PIPES, LOGS)
    hard, problems = memory_limits.read(limits, devices, driver)
    problems = request.refusals + problems
    result = Outcome()
    for daemon in request.daemons if not problems else []:
        texts = mps_facts.files_of(daemon, machine) if daemon.state == STARTED else {}
        uid = accounts.uid_of(daemon.user) if daemon.user else os.geteuid()
        on_disk, live = mps_facts.on_disk(daemon, machine), mps_facts.read_live(daemon, machine)
        steps = decide(daemon, live, texts, on_disk, when_clients, machine.manager, uid)
        problems += [steps.refusal] if steps.refusal else []
        result.changed = result.changed or steps.changed
        result.pending += steps.pending
    if problems:
        raise Refusal("; ".join(problems))
    result.changed = result.changed or bool(memory_limits.due(nvml, hard))
    return result


def _host(host: Host) -> mps_facts.Host:
    manager = mps_files.SYSTEMD if os.path.isdir(SYSTEMD) else mps_files.DIRECT
    found = mps_facts.find_host(host, manager, CONFIGURATIONS)
    if found is None:
        raise Refusal(f"there is no {PROGRAM}: it comes with the driver (the role nvidia_driver); or leave `mps` out")
    return found
