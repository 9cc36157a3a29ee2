# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings about a driver: what is left to do, and what is proven."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    DKMS,
    Change,
    Failure,
    describe,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import (
    new_kernels,
    to_complete,
    touched,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import of_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.nvidia_smi import DAMAGED_INFOROM
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import branch_of, is_driver_package


def reboot_reasons(state: DriverState, change: Change | None = None) -> list[str]:
    """Return why a reboot is due, or will be after *change*."""
    reasons, driver, running = list(state.plan.reboot), state.facts["driver"], state.running
    done, following = state.record.change, state.kernel.get("release", "")
    installed = new_kernels(dict.fromkeys([*state.record.installed, *(done.new if done else ())], ""))
    # Other kernels that wait for a reboot are not the role's.
    if not state.plan.changes and following != running and following in installed:
        reasons.append(f"the kernel {following} boots next, {running} runs")
    if done and not reasons and driver["loaded"] != done.version:
        reasons.append(f"driver {done.version} is installed and not loaded yet")
    if change is not None:
        names = touched(state, change)
        if not state.plan.changes and driver["loaded"] and any(map(is_driver_package, names)):
            reasons.append(f"driver {driver['loaded']} is loaded and will be replaced")
        reasons += [f"the kernel {release} comes along and boots next" for release in new_kernels(names)]
    return reasons


def findings(state: DriverState, change: Change | None, reboot: t.Sequence[str]) -> list[Finding]:
    """Return what a run leaves to a person."""
    boot, failure = state.plan.secure_boot, state.record.failure
    found = [
        finding(
            "nvidia_driver.reboot",
            "warn" if reboot else "pass" if state.has_driver else "skip",
            "; ".join(reboot) or ("no reboot is due" if state.has_driver else "no driver is installed"),
            "reboot when nobody works on the host, or set `nvidia_driver_reboot: true`",
        ),
        _taken_back(failure, state),
    ]
    if boot in ("pending", "enroll"):
        found.append(
            finding(
                "nvidia_driver.secure_boot",
                "warn",
                "Secure Boot is on, and the key that signs the module waits for a person at the console",
                "reboot, choose `Enroll MOK` at the blue screen and type the password of nvidia_driver_mok_password",
            )
        )
    if state.plan.notes:
        found.append(
            finding("nvidia_driver.plan", "warn", "; ".join(state.plan.notes), "choose another nvidia_driver_branch")
        )
    elif change is not None:
        found.append(finding("nvidia_driver.plan", "pass", "; ".join(state.plan.reasons), ""))
    return found


def _taken_back(failure: Failure | None, state: DriverState) -> Finding:
    """Return the finding about a driver that was taken back. It fails as long as the user wants that driver."""
    still_wanted = failure is not None and branch_of(failure.version) == state.plan.branch
    return finding(
        "nvidia_driver.change",
        "fail" if still_wanted else "pass" if state.has_driver else "skip",
        describe(failure) if failure else "no change of driver was taken back",
        "look at the evidence; choose another nvidia_driver_branch or kernel, and run the role again",
    )


def proofs(state: DriverState, change: Change | None, reboot: t.Sequence[str], lock: bool) -> list[Finding]:
    """Check what the role promises against the host. Without a GPU nothing of the driver can be proven."""
    driver, plan = state.facts["driver"], state.plan
    has_gpu = bool(of_host(state.facts["gpus"]))
    due = "warn" if reboot else "fail"
    faults = [f"{row['variable']} {row['problem']}" for row in plan.requirements if not row["ok"]]
    faults += [f"dpkg has not finished {name}" for name in to_complete(state, change)]
    loose = [name for name in state.locked if name not in state.facts["holds"]] if lock else []
    builds = [f"{row['version']} {row['state']}" for row in state.kernel.get("dkms", [])]
    found = [
        finding(
            "nvidia_driver.loaded",
            "skip"
            if not has_gpu
            else "pass"
            if driver["loaded"] and branch_of(driver["loaded"]) == plan.branch
            else due,
            f"{driver['modules'] or 'the'} module {driver['loaded'] or 'is not loaded'}, branch {plan.branch or 'none'} is wanted"
            if has_gpu
            else "no NVIDIA GPU here",
            "reboot; then look at `dmesg` and `nvidia-smi`",
        ),
        finding(
            "nvidia_driver.matches",
            "skip" if not has_gpu else "pass" if driver["matches"] else due,
            f"module {driver['loaded'] or 'none'}, libraries {driver['library'] or 'none'}"
            if has_gpu
            else "no NVIDIA GPU here",
            "reboot: module and libraries must be of one version",
        ),
        finding(
            "nvidia_driver.packages",
            "skip" if not has_gpu and not state.locked else "fail" if faults or change is not None else "pass",
            "; ".join(faults)
            or (
                f"not as planned: {', '.join([*change.install, *change.remove])}" if change else "; ".join(plan.reasons)
            ),
            "run the role again",
        ),
        finding(
            "nvidia_driver.locked",
            "skip" if not lock or not state.locked else "fail" if loose else "pass",
            "nvidia_driver_lock is off"
            if not lock
            else f"not held: {', '.join(loose)}"
            if loose
            else f"{len(state.locked)} packages are held as one unit",
            "run the role again",
        ),
        finding(
            "nvidia_driver.dkms",
            "skip" if plan.build != DKMS or not state.locked else "pass" if state.built else "fail",
            f"for the kernel {state.kernel.get('release', 'unknown')}, which boots next: {', '.join(builds) or 'nothing was built'}",
            "install the kernel's headers; `dkms autoinstall` builds, /var/lib/dkms/nvidia*/*/build/make.log has the reason if it fails",
        ),
    ]
    return found + findings(state, None, reboot)


def nvidia_smi(outcome: tuple[int, str, str] | None, reboot: t.Sequence[str]) -> Finding:
    """Return the finding about the driver as an unprivileged program uses it.

    :param outcome: status and output of ``nvidia-smi``, None without a GPU.
    """
    status, output, errors = outcome or (0, "no NVIDIA GPU here", "")
    return finding(
        "nvidia_driver.nvidia_smi",
        "skip"
        if outcome is None
        else "pass"
        if status == 0
        else "warn"
        if reboot or status == DAMAGED_INFOROM
        else "fail",
        output or errors or f"nvidia-smi ended with {status} and no output",
        "apply the role gpu_health, which names the card"
        if status == DAMAGED_INFOROM
        else "reboot if that is due; then look at `journalctl --dmesg` for messages of the module",
    )
