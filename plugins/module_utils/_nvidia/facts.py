# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about the GPUs, driver, kernels and packages of a host. No driver is needed to read them.

Everything is read below a root directory, so a recorded tree or a mounted system is read like a running one. The output of
``apt-cache policy`` is an argument."""

from __future__ import annotations

import fnmatch
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import owners
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import (
    has_nvswitch,
    of_driver,
    read_gpus,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    next_kernel,
    read_kernels,
    running_kernel,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.module_loading import read_obstacles
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import (
    origin_of,
    package_source,
    parse_policy,
    parse_sources,
    read_holds,
    read_packages,
    read_pins,
    read_repositories,
    read_run_installer,
    read_system,
    wanted_names,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    driver_version,
    version_key,
)

_EFI_GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
_EFI_SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
# bash reads these files.
_MOK_CERTIFICATE = re.compile(r"^\s*mok_certificate=(?:\"([^\"]*)\"|'([^']*)'|([^\s#;]*))", re.MULTILINE)
_EFIVARS, _MOK = "/sys/firmware/efi/efivars", "/sys/firmware/efi/mok-variables"
# efivarfs writes four bytes of attributes before a variable's value.
_EFI_ATTRIBUTES = 4


def read_driver(tree: Tree) -> Facts:
    """Return the module that is loaded and the libraries that programs would load."""
    text = tree.text("/proc/driver/nvidia/version")
    first = text.partition("\n")[0]
    versions = [driver_version(word) for word in first.split()]
    loaded = next(filter(None, versions), "") or tree.text("/sys/module/nvidia/version").strip()
    libraries = {name: _library_version(tree, f"lib{name}.so") for name in ("cuda", "nvidia-ml")}
    library = libraries["nvidia-ml"] or libraries["cuda"]
    flavour = data.OPEN if "Open Kernel Module" in first else data.CLOSED
    return {
        "loaded": loaded,
        "modules": flavour if first else "",
        "libraries": libraries,
        "library": library,
        "matches": loaded == library if loaded and library else None,
        "nouveau": tree.exists("/sys/module/nouveau"),
    }


def highest_cuda(driver: str) -> str:
    """Return the newest CUDA that a driver of this version supports by itself, empty without a driver or with an older one."""
    supported = [row.version for row in data.TOOLKITS if driver and version_key(row.driver) <= version_key(driver)]
    return supported[-1] if supported else ""


class HostCuda(t.NamedTuple):
    """The versions of CUDA that packages of an environment may be for: the highest, and the lowest with kernels for the GPUs."""

    highest: str
    lowest: str = ""


def host_cuda(tree: Tree) -> HostCuda:
    """Return the versions of CUDA that both the driver and the GPUs of this host support. See :func:`cuda_conflict` for others."""
    return _host_cuda(tree)[0]


def cuda_conflict(tree: Tree) -> str:
    """Return which GPUs have no kernels in the versions of :func:`host_cuda`, empty if all have."""
    return _host_cuda(tree)[1]


def _host_cuda(tree: Tree) -> tuple[HostCuda, str]:
    driver = highest_cuda(read_driver(tree)["libraries"]["cuda"])
    generations = {gpu["generation"] for gpu in of_driver(read_gpus(tree))}
    last = {row.generation: row.torch_cuda for row in data.LAST_LIBRARIES if row.generation in generations}
    first = {row.name: row.lowest_cuda for row in data.GENERATIONS if row.name in generations and row.lowest_cuda}
    highest = min(driver, *last.values(), key=version_key) if driver and last else driver
    lowest = max(first.values(), key=version_key, default="")
    if not driver or not lowest or version_key(lowest) <= version_key(highest):
        return HostCuda(highest, lowest), ""
    newest = " and ".join(name for name, version in first.items() if version == lowest)
    if version_key(lowest) > version_key(driver):
        return HostCuda(
            highest
        ), f"the driver supports CUDA {driver}, and {lowest} is the first with kernels for {newest}"
    older = " and ".join(name for name, version in last.items() if version_key(version) < version_key(lowest))
    return HostCuda(driver, lowest), f"environments are for {newest}: no PyTorch has kernels for {older} as well"


def _library_version(tree: Tree, name: str) -> str:
    """Return the version in the name of the file that a library's link leads to."""
    for directory in _library_directories(tree):
        if tree.exists(f"{directory}/{name}.1"):
            return driver_version(tree.resolve(f"{directory}/{name}.1").rpartition(".so.")[2])
    return ""


def _library_directories(tree: Tree) -> list[str]:
    configured = [
        line.strip()
        for name in tree.names("/etc/ld.so.conf.d")
        for line in tree.text(f"/etc/ld.so.conf.d/{name}").splitlines()
        if line.startswith("/")
    ]
    multiarch = [
        f"/usr/lib/{name}" for name in tree.names("/usr/lib") if name in ("x86_64-linux-gnu", "aarch64-linux-gnu")
    ]
    return [*configured, *multiarch, "/usr/lib64", "/usr/lib"]


def read_holders(tree: Tree) -> list[Facts]:
    """Return the processes that have /dev/nvidia* open."""
    users = owners.user_names(tree)
    holders = []
    for pid in filter(str.isdigit, tree.names("/proc")):
        opened = {tree.link(f"/proc/{pid}/fd/{number}") for number in tree.names(f"/proc/{pid}/fd")}
        devices = sorted(path for path in opened if path.startswith("/dev/nvidia"))
        if devices:
            uid = owners.owner_of(tree, int(pid))
            holders.append(
                {
                    "pid": int(pid),
                    "command": tree.text(f"/proc/{pid}/comm").strip(),
                    "user": "" if uid is None else users.get(uid, str(uid)),
                    "devices": devices,
                }
            )
    return sorted(holders, key=lambda holder: holder["pid"])


def read_secure_boot(tree: Tree, distribution: str) -> Facts:
    """Return the state of Secure Boot, and whether the key that DKMS signs with is trusted or waits for the next boot.

    The state is enabled, disabled, unsupported (no EFI) or unknown (EFI, but its variables are not mounted).
    """
    path = _dkms_certificate(tree, distribution)
    certificate = tree.bytes(path)
    enrolled = _mok_list(tree)
    if distribution == "Debian":
        # Debian's kernels trust the firmware's list for modules as well (patch db-mok-keyring of src:linux); Ubuntu's are not known to.
        enrolled += _efi(tree, f"db-{_EFI_SECURITY}")
    pending = _efi(tree, f"MokNew-{_SHIM}")
    return {
        "state": _secure_boot_state(tree),
        "certificate": path if certificate else "",
        "enrolled": bool(certificate) and certificate in enrolled,
        "pending": bool(pending) and (not certificate or certificate in pending),
    }


def _dkms_certificate(tree: Tree, distribution: str) -> str:
    """Return the certificate of the key that DKMS signs with: its configuration names one, or the distribution does."""
    folder = "/etc/dkms/framework.conf"
    drop_ins = [f"{folder}.d/{name}" for name in sorted(tree.names(f"{folder}.d")) if name.endswith(".conf")]
    named = [
        next(filter(None, values), "")
        for path in (folder, *drop_ins)
        for values in _MOK_CERTIFICATE.findall(tree.text(path))
    ]
    key = next((row for row in package_data.MOK_KEYS if row.distribution == distribution), package_data.MOK_KEYS[0])
    return next(filter(None, reversed(named)), key.certificate)


def _mok_list(tree: Tree) -> bytes:
    """Return shim's list of keys. It may go on in MokListRT1."""
    found = [_efi(tree, name) for name in tree.names(_EFIVARS) if name.startswith("MokListRT")]
    found += [tree.bytes(f"{_MOK}/{name}") for name in tree.names(_MOK) if name.startswith("MokListRT")]
    return b"".join(found)


def _efi(tree: Tree, name: str) -> bytes:
    return tree.bytes(f"{_EFIVARS}/{name}")[_EFI_ATTRIBUTES:]


def _secure_boot_state(tree: Tree) -> str:
    if not tree.exists("/sys/firmware/efi"):
        return "unsupported"
    value = _efi(tree, f"SecureBoot-{_EFI_GLOBAL}")
    if not value:
        return "unknown" if not tree.names(_EFIVARS) else "disabled"
    # shim can be configured not to check, although the firmware does.
    ignored = _efi(tree, f"MokSBStateRT-{_SHIM}")[:1] == b"\x01"
    return "enabled" if value[:1] == b"\x01" and not ignored else "disabled"


def read_virtualization(tree: Tree) -> Facts:
    """Return container, vm or none, with its name if it is known."""
    container = tree.text("/run/systemd/container").strip() or ("docker" if tree.exists("/.dockerenv") else "")
    if container:
        return {"kind": "container", "name": container}
    if re.search(r"^flags\s*:.*\bhypervisor\b", tree.text("/proc/cpuinfo"), re.MULTILINE):
        return {"kind": "vm", "name": tree.text("/sys/class/dmi/id/product_name").strip()}
    return {"kind": "none", "name": ""}


def read_desktop(tree: Tree) -> Facts:
    """Return the display manager, and whether a graphical session is installed at all."""
    manager = os.path.basename(tree.link("/etc/systemd/system/display-manager.service"))
    sessions = [
        name
        for directory in ("/usr/share/xsessions", "/usr/share/wayland-sessions")
        for name in fnmatch.filter(tree.names(directory), "*.desktop")
    ]
    return {"display_manager": manager.partition(".")[0], "present": bool(manager or sessions)}


def read_free_bytes(tree: Tree, paths: t.Sequence[str] = ("/", "/boot", "/usr", "/var")) -> dict[str, int]:
    """Return for each path the bytes that root can still write. A path that does not exist is left out."""
    free = {}
    for path in paths:
        place = tree.at(tree.resolve(path))
        if os.path.isdir(place):
            space = os.statvfs(place)
            free[path] = space.f_bfree * space.f_frsize
    return free


def gather(tree: Tree, ask_policy: t.Callable[[list[str]], str]) -> Facts:
    """Return all facts. *ask_policy* returns the output of ``apt-cache policy`` for names, and for its sources without names."""
    system = read_system(tree)
    packages = read_packages(tree)
    kernels = {running_kernel(tree), next_kernel(tree)["release"]} - {""}
    sources = parse_sources(ask_policy([]), system["codename"])
    policy = parse_policy(ask_policy(wanted_names(system, packages, kernels)), sources)
    for name, entry in packages.items():
        entry["origin"] = origin_of(entry["version"], policy.get(name, []))
    run_installer = read_run_installer(tree)
    driver = read_driver(tree)
    pins = read_pins(tree)
    return {
        "month": time.strftime("%Y-%m"),
        "system": system,
        "gpus": read_gpus(tree),
        "nvswitch": has_nvswitch(tree),
        "driver": driver,
        "holders": read_holders(tree),
        "secure_boot": read_secure_boot(tree, system["distribution"]),
        "module_obstacles": [row._asdict() for row in read_obstacles(tree)],
        "next_kernel": next_kernel(tree),
        "kernels": read_kernels(tree, packages, policy),
        "packages": packages,
        "package_source": package_source(packages, pins, run_installer["installed"], driver["library"]),
        "available": {name: rows for name, rows in sorted(policy.items()) if rows},
        "holds": read_holds(tree),
        "pins": pins,
        "repositories": read_repositories(tree),
        "run_installer": run_installer,
        "virtualization": read_virtualization(tree),
        "desktop": read_desktop(tree),
        "free_bytes": read_free_bytes(tree),
    }
