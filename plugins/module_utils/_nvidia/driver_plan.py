# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a planned driver means for the host: the transaction, what is locked, files, units, what is left to do and is proven.

Pure: the module nvidia_driver_plan reads the host and hands in what it saw. Which driver it is, ``_nvidia.driver_choice`` has decided.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package, brought_by
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import (
    DKMS,
    MODPROBE,
    OWN_PREFERENCES,
    Change,
    Failure,
    Record,
    Simulation,
    describe,
    is_driver,
    is_own,
    simulation_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import (
    Plan,
    Request,
    build_failure,
    obstacles,
    preferences,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import (
    Facts,
    branch_of,
    driver_version,
    is_driver_package,
    is_kernel_metapackage,
    is_on_branch,
    origins_now,
    version_key,
)

ARCHIVE_SOURCE = "/etc/apt/sources.list.d/rigwright-nvidia-driver.sources"
SETTLE = "rigwright-nvidia-driver.service"
PERSISTENCE, FABRIC = "nvidia-persistenced.service", "nvidia-fabricmanager.service"

PERSISTENCE_DROP_INS = f"/etc/systemd/system/{PERSISTENCE}.d"

# What unattended-upgrades leaves alone; its patterns begin at the start of a name. Holds alone would do, until somebody lifts one.
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
# Debian's own modules have names of their own, and take options by those (nvidia-kernel-support and nvidia-open-kernel-support:
# /etc/modprobe.d/nvidia.conf).
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open")

# What stands between double quotes may have blanks: the kernel reads it so. A backslash would join lines.
_OPTION_NAME, _OPTION_VALUE = r"[A-Za-z0-9_]+", r'(?:[!#-\[\]-~]|"[ !#-\[\]-~]*")+'


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was read on the host. *boot* is the identifier of this boot, *simulation* what apt would do, if it could be asked."""

    facts: Facts
    plan: Plan
    record: Record
    request: Request = dataclasses.field(default_factory=Request)
    boot: str = ""
    simulation: Simulation | None = None
    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    automatic: frozenset[str] = frozenset()
    persistence_unit: str = ""
    unfinished: t.Sequence[str] = ()

    @property
    def kernel(self) -> Facts:
        """The kernel that boots next."""
        return next((row for row in self.facts["kernels"] if row["next"]), {})

    @property
    def running(self) -> str:
        return next((row["release"] for row in self.facts["kernels"] if row["running"]), "")

    @property
    def built(self) -> bool:
        """Whether the module of the planned branch is there for the kernel that boots next."""
        if self.plan.build != DKMS:
            return bool(self.kernel.get("module"))
        builds = self.kernel.get("dkms", [])
        return any(row["state"] == "installed" and branch_of(row["version"]) == self.plan.branch for row in builds)

    @property
    def locked(self) -> list[str]:
        """The installed packages that make one unit: driver, libraries, and what would bring another kernel."""
        return sorted(name for name in self.facts["packages"] if is_driver_package(name) or is_kernel_metapackage(name))


# --- packages --------------------------------------------------------------------------------------------------------


def change_of(facts: Facts, plan: Plan, upgrade: bool = False) -> Change | None:
    """The one transaction that a plan comes to, or None when there is nothing to do."""
    if plan.refused:
        return None
    packages = facts["packages"]
    driver = [name for name in packages if is_driver_package(name) and name not in plan.remove]
    # All that stays moves along: no part of the driver is left on the branch that was.
    along = [
        name
        for name in driver
        if upgrade or not is_on_branch(name, packages[name]["version"], plan.branch, origins_now(facts, name))
    ]
    kernels = {name for name in packages if is_kernel_metapackage(name)} if upgrade else set()
    if plan.build == DKMS:
        # The new kernel is of no use without its headers, even where those of the old one came by their own name.
        kernels |= {name.replace("-image-", "-headers-") for name in kernels}
    install = list(dict.fromkeys([*plan.pinning, *plan.headers, *plan.install, *sorted(along), *sorted(kernels)]))
    if not install and not plan.remove:
        return None
    return Change(
        branch=plan.branch,
        build=plan.build,
        loads=bool(facts["gpus"]),
        install=install,
        remove=list(plan.remove),
        recommends=plan.scope == "desktop",
        preferences=preferences(plan.source, plan.branch) + _way_down(facts, plan),
    )


def _way_down(facts: Facts, plan: Plan) -> str:
    """What lets apt take the archive's driver in place of a newer one, for the transaction alone: of itself it goes only upwards.

    NVIDIA's repository has branches side by side, and the lasting pin on one of them already says as much.
    """
    if not plan.downgrade or plan.source != data.ARCHIVE:
        return ""
    return f"\nPackage: src:*nvidia*:any\nPin: release o={facts['system']['distribution']}\nPin-Priority: 1000\n"


def has_lists(facts: Facts, plan: Plan) -> bool:
    """Whether apt knows packages of the planned source, so that it can be asked what it would do."""
    return bool(plan.version) and any(
        plan.source in row["origins"] for rows in facts["available"].values() for row in rows
    )


def leaving(seen: Seen) -> list[str]:
    """What goes with the role: the packages that it brought, and of what came with them only what nothing else needs by now."""
    brought = [name for name in seen.record.brought if name in seen.packages]
    roots = [name for name in brought if is_own(name)]
    return brought_by(roots, seen.packages, seen.automatic.intersection(brought))


def transaction_lines(seen: Seen, change: Change | None) -> dict[str, str]:
    """The packages before and after, as a diff shows them."""
    packages, simulation = seen.facts["packages"], seen.simulation
    versions: dict[str, str] = {}
    removed: list[str] = []
    if change is not None and (simulation is None or simulation.error):
        versions, removed = dict.fromkeys(change.install, "(as the source has it)"), change.remove
    elif change is not None and simulation is not None:
        versions, removed = simulation.install, simulation.remove
    names = sorted({*versions, *removed})
    before = [f"{name} {packages[name]['version']}" for name in names if name in packages]
    after = [f"{name} {versions[name]}" for name in names if name in versions]
    for name in to_complete(seen, change):
        before.append(f"{name}: dpkg has not finished it")
        after.append(f"{name}: whole")
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def to_complete(seen: Seen, change: Change | None) -> list[str]:
    """What dpkg has to finish first: of the driver always, of others where apt would come to it in the same call."""
    return [name for name in seen.unfinished if change is not None or is_driver(name)]


# --- what speaks against it ------------------------------------------------------------------------------------------


def touched(seen: Seen, change: Change) -> dict[str, str]:
    """The packages that a change installs or removes, and the versions that come, as far as apt could be asked."""
    if seen.simulation is None or seen.simulation.error:
        return dict.fromkeys([*change.install, *change.remove], "")
    return {**dict.fromkeys(seen.simulation.remove, ""), **seen.simulation.install}


def new_kernels(names: t.Mapping[str, str]) -> dict[str, str]:
    """The releases of the kernels that come, and the versions of their packages."""
    found = {re.fullmatch(r"linux-image-(?:unsigned-)?(\d.*)", name): version for name, version in names.items()}
    return {match.group(1): version for match, version in found.items() if match}


def requirements(seen: Seen, change: Change | None, params: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    plan = seen.plan
    found = list(plan.requirements)
    if change is not None:
        # Dependencies count too: apt is told to change what is held.
        found += obstacles(seen.facts, seen.request, touched(seen, change)) + _build_requirements(seen, change)
    if change is not None and seen.simulation is not None:
        problem = simulation_problem(seen.simulation, change)
        found.append(
            {
                "ok": not problem,
                "variable": "nvidia_driver_branch" if params["branch"] != "auto" else params["host_name"],
                "problem": f"leads to a change of packages that is not sound: {problem}",
                "remedy": "look at `apt-mark showhold` and the preferences in /etc/apt for what stands in the way",
            }
        )
    options = params["module_options"].items()
    wrong = [repr(name) for name, value in options if not (re.fullmatch(_OPTION_NAME, name) and option_value(value))]
    if wrong:
        found.append(
            {
                "ok": False,
                "variable": "nvidia_driver_module_options",
                "problem": f"has {', '.join(wrong)}, which modprobe cannot be told",
                "remedy": "write names of letters, digits and underscores, and for each a number, true, false or a text in one line;"
                ' blanks in it stand between `"` within the text',
            }
        )
    failure = seen.record.failure
    if change is not None and failure is not None and _fails_again(seen, failure):
        found.append(
            {
                "ok": params["ignore_build_failures"],
                "variable": "nvidia_driver_branch" if params["branch"] != "auto" else params["host_name"],
                "problem": f"leads to driver {plan.version} again: {describe(failure)}",
                "remedy": "choose another branch or kernel, or `nvidia_driver_ignore_build_failures: true` to try it again",
            }
        )
    if plan.secure_boot == "enroll" and not plan.refused:
        found.append(
            {
                "ok": len(params["mok_password"]) >= 8,
                "variable": "nvidia_driver_mok_password",
                "problem": "has fewer than 8 characters, and Secure Boot wants the key that signs the module confirmed with a password",
                "remedy": "choose one; it is typed once at the console, at the next boot",
            }
        )
    return found


def _build_requirements(seen: Seen, change: Change) -> list[dict[str, t.Any]]:
    """A kernel that comes along has to go with the driver, and a driver that comes with the kernel that boots next."""
    names = touched(seen, change)
    coming = {name: version for name, version in names.items() if is_driver_package(name)}
    kernels = new_kernels(names)
    if seen.plan.build != DKMS or not (coming or kernels):
        return []
    on_branch = [driver_version(told) for told in coming.values() if branch_of(told) == seen.plan.branch]
    version = max(on_branch, key=version_key, default=seen.plan.version) or str(seen.plan.branch)
    kernels = kernels or {seen.kernel.get("release", ""): seen.kernel.get("upstream", "")}
    found = []
    for release, package in kernels.items():
        upstream = re.match(r"[\d.]*", package or release)
        failure = build_failure(
            version, upstream.group(0) if upstream else "", seen.plan.source, seen.facts["system"]["distribution"]
        )
        if failure:
            found.append(
                {
                    "ok": seen.request.ignore_build_failures,
                    "variable": seen.request.host_name,
                    "problem": f"leads to driver {version} and the kernel {release}, for which it does not build:"
                    f" {failure.reason} ({failure.source})",
                    "remedy": f"choose another nvidia_driver_branch, hold the kernel before {failure.kernels[0]},"
                    " or `nvidia_driver_ignore_build_failures: true` to try it",
                }
            )
    return found


def _fails_again(seen: Seen, failure: Failure) -> bool:
    """Whether what was taken back would only be tried once more: the same driver for the same kernel."""
    kernel = seen.kernel.get("release", "")
    return failure.at in ("build", "boot") and (failure.version, failure.kernel) == (seen.plan.version, kernel)


# --- files and units -------------------------------------------------------------------------------------------------


def source_files(components_source: str | None) -> list[dict[str, str]]:
    """The source of the archive's components: the only file that has to be there before packages change."""
    return [{"path": ARCHIVE_SOURCE, "content": components_source}] if components_source else []


def apt_files(seen: Seen, lock: bool) -> list[dict[str, str]]:
    """What apt and its helpers are told about the driver that is there. The transaction itself brings its pins along."""
    files = []
    if seen.plan.preferences:
        files.append({"path": f"/etc/apt/preferences.d/{OWN_PREFERENCES}", "content": seen.plan.preferences})
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
    """A module option's value as modprobe.d has it, empty for one that it cannot have."""
    text = str(int(value) if isinstance(value, bool) else value) if isinstance(value, (bool, int, float, str)) else ""
    return text if re.fullmatch(_OPTION_VALUE, text) else ""


def modprobe_files(seen: Seen, change: Change | None, options: t.Mapping[str, t.Any]) -> list[dict[str, str]]:
    """What modprobe is told. nouveau goes only when a module is there to take its place."""
    if not seen.built and change is None:
        return []
    lines = [
        "# nouveau would take the card before NVIDIA's module does.",
        "blacklist nouveau",
        "options nouveau modeset=0",
    ]
    if options:
        told = " ".join(f"{name}={option_value(value)}" for name, value in sorted(options.items()))
        lines += [f"options {module} {told}" for module in MODULES]
    return [{"path": MODPROBE, "content": "\n".join(lines) + "\n"}]


def persistence_files(seen: Seen) -> list[dict[str, str]]:
    """What has the daemon keep the driver loaded, where its package's unit does not."""
    start = _persistence_start(seen)
    if not start:
        return []
    content = (
        "# The package's unit starts the daemon and tells it to do nothing.\n"
        f"[Service]\nExecStart=\nExecStart={start.group(1)}{start.group(2)}\n"
    )
    return [{"path": f"{PERSISTENCE_DROP_INS}/rigwright.conf", "content": content}]


def directories(files: t.Iterable[t.Mapping[str, str]]) -> list[dict[str, str]]:
    """The directories of files which no package of the system has made."""
    own = ("/etc/needrestart", "/etc/needrestart/conf.d", PERSISTENCE_DROP_INS)
    paths = [row["path"] for row in files]
    return [{"path": path} for path in own if any(name.startswith(f"{path}/") for name in paths)]


def _persistence_start(seen: Seen) -> re.Match[str] | None:
    """How Ubuntu's unit starts the daemon: with an option that has it do nothing."""
    return re.search(r"^ExecStart=(.*) --no-persistence-mode(.*)$", seen.persistence_unit, re.MULTILINE)


def units(seen: Seen) -> list[dict[str, t.Any]]:
    """The daemons run once the driver is loaded; a driver that waits for its reboot has none to talk to."""
    found: list[dict[str, t.Any]] = [{"name": SETTLE, "enabled": True, "state": "stopped"}]
    if seen.facts["driver"]["matches"] and not seen.plan.refused:
        if seen.persistence_unit:
            found.append({"name": PERSISTENCE, "enabled": True, "restart_on": [PERSISTENCE_DROP_INS]})
        if seen.facts["nvswitch"]:
            found.append({"name": FABRIC, "enabled": True})
    return found


# --- what is left to do, and what is proven --------------------------------------------------------------------------


def reboot_reasons(seen: Seen, change: Change | None = None) -> list[str]:
    """Why a reboot is due, or will be after *change*."""
    reasons, driver, running = list(seen.plan.reboot), seen.facts["driver"], seen.running
    done, following = seen.record.change, seen.kernel.get("release", "")
    brought = new_kernels(dict.fromkeys([*seen.record.brought, *(done.new if done else ())], ""))
    # Of other kernels that wait for a reboot somebody else decides.
    if not seen.plan.changes and following != running and following in brought:
        reasons.append(f"the kernel {following} boots next, {running} runs")
    if done and not reasons and driver["loaded"] != done.version:
        reasons.append(f"driver {done.version} is installed and not loaded yet")
    if change is not None:
        names = touched(seen, change)
        if not seen.plan.changes and driver["loaded"] and any(map(is_driver_package, names)):
            reasons.append(f"driver {driver['loaded']} is loaded and will be replaced")
        reasons += [f"the kernel {release} comes along and boots next" for release in new_kernels(names)]
    return reasons


def findings(seen: Seen, change: Change | None, reboot: t.Sequence[str]) -> list[dict[str, str]]:
    """What a run leaves to a person."""
    boot, failure = seen.plan.secure_boot, seen.record.failure
    found = [
        _finding(
            "reboot",
            "warn" if reboot else "pass",
            "; ".join(reboot) or "no reboot is due",
            "reboot when nobody works on the host, or set `nvidia_driver_reboot: true`",
        ),
        _taken_back(failure, still_wanted=failure is not None and branch_of(failure.version) == seen.plan.branch),
    ]
    if boot in ("pending", "enroll"):
        found.append(
            _finding(
                "secure_boot",
                "warn",
                "Secure Boot is on, and the key that signs the module waits for a person at the console",
                "reboot, choose `Enroll MOK` at the blue screen and type the password of nvidia_driver_mok_password",
            )
        )
    if seen.plan.notes:
        found.append(_finding("plan", "warn", "; ".join(seen.plan.notes), "choose another nvidia_driver_branch"))
    elif change is not None:
        found.append(_finding("plan", "pass", "; ".join(seen.plan.reasons), ""))
    return found


def _taken_back(failure: Failure | None, *, still_wanted: bool) -> dict[str, str]:
    """A driver that was taken back is a fault as long as it is asked for."""
    return _finding(
        "change",
        "fail" if still_wanted else "pass",
        describe(failure) if failure else "no change of driver was taken back",
        "look at the evidence; choose another nvidia_driver_branch or kernel, and run the role again",
    )


def proofs(seen: Seen, change: Change | None, reboot: t.Sequence[str], lock: bool) -> list[dict[str, str]]:
    """What the role promises, looked at on the host as it is. Without a GPU nothing of the driver can be proven."""
    driver, plan = seen.facts["driver"], seen.plan
    has_gpu = bool(seen.facts["gpus"])
    due = "warn" if reboot else "fail"
    faults = [f"{row['variable']} {row['problem']}" for row in plan.requirements if not row["ok"]]
    faults += [f"dpkg has not finished {name}" for name in to_complete(seen, change)]
    loose = [name for name in seen.locked if name not in seen.facts["holds"]] if lock else []
    builds = [f"{row['version']} {row['state']}" for row in seen.kernel.get("dkms", [])]
    found = [
        _finding(
            "loaded",
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
        _finding(
            "matches",
            "skip" if not has_gpu else "pass" if driver["matches"] else due,
            f"module {driver['loaded'] or 'none'}, libraries {driver['library'] or 'none'}"
            if has_gpu
            else "no NVIDIA GPU here",
            "reboot: module and libraries must be of one version",
        ),
        _finding(
            "packages",
            "skip" if not has_gpu and not seen.locked else "fail" if faults or change is not None else "pass",
            "; ".join(faults)
            or (
                f"not as planned: {', '.join([*change.install, *change.remove])}" if change else "; ".join(plan.reasons)
            ),
            "run the role again",
        ),
        _finding(
            "locked",
            "skip" if not lock or not seen.locked else "fail" if loose else "pass",
            "nvidia_driver_lock is off"
            if not lock
            else f"not held: {', '.join(loose)}"
            if loose
            else f"{len(seen.locked)} packages are held as one",
            "run the role again",
        ),
        _finding(
            "dkms",
            "skip" if plan.build != DKMS or not seen.locked else "pass" if seen.built else "fail",
            f"for the kernel {seen.kernel.get('release', 'unknown')}, which boots next: {', '.join(builds) or 'nothing was built'}",
            "install the kernel's headers; `dkms autoinstall` builds, /var/lib/dkms/nvidia*/*/build/make.log tells why not",
        ),
    ]
    return found + findings(seen, None, reboot)


def _finding(what: str, status: str, evidence: str, remedy: str) -> dict[str, str]:
    return {"id": f"nvidia_driver.{what}", "status": status, "evidence": evidence, "remedy": remedy}
