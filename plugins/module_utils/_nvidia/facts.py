# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a host's files tell about its GPUs, driver, kernels and packages; all of it works before any driver is there.

Everything is read below a root directory, so a recorded tree or a mounted system is read as a running one. The only
program whose words are needed is ``apt-cache policy``: its output is an argument.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

_DRIVER_VERSION = re.compile(r"(?:\d+:)?(\d{3}(?:\.\d{2,3}){1,2})(?![\d.])")
_EFI_GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
_EFIVARS = "/sys/firmware/efi/efivars"
# efivarfs puts four bytes of attributes before a variable's value.
_EFI_ATTRIBUTES = 4
STATUS, JOURNAL = "/var/lib/dpkg/status", "/var/lib/dpkg/updates"
# A source in what apt-cache policy says, after its priority: address, suite with component, architecture.
_PLACE = re.compile(r"\s+-?\d+ (\S.*?)\s+Packages$")

Facts = dict[str, t.Any]


# --- versions --------------------------------------------------------------------------------------------------------


@functools.cache
def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts versions of kernels, drivers and packages as a person would; a tilde comes before the end, as in dpkg."""
    parts = re.findall(r"\d+|~|[A-Za-z]+", version)
    return (
        *((2, int(part), "") if part.isdigit() else (0 if part == "~" else 1, 0, part) for part in parts),
        (1, 0, ""),
    )


def driver_version(version: str) -> str:
    """The driver's version in that of a package, 580.95.05 in ``580.95.05-1``; empty for a package that follows no driver."""
    found = _DRIVER_VERSION.match(version)
    return found.group(1) if found else ""


def branch_of(version: str) -> int:
    """The branch in a package's version, 0 for a package that follows no driver."""
    return int(driver_version(version).partition(".")[0] or 0)


def is_driver_package(name: str) -> bool:
    return bool(re.fullmatch(data.DRIVER_PACKAGES, name)) and not re.fullmatch(data.NOT_DRIVER_PACKAGES, name)


def is_on_branch(name: str, version: str, branch: int, origins: t.Collection[str]) -> bool:
    """Whether a version of a package, which *origins* have, goes with this branch of the driver."""
    has_own_versions = data.ARCHIVE in origins and re.fullmatch(data.ARCHIVE_TOOLS, name)
    return branch_of(version) in (0, branch) or bool(has_own_versions)


def origins_now(facts: Facts, name: str) -> set[str]:
    """Which sources have the installed version of a package at this time."""
    return _origins_of(facts["packages"][name]["version"], facts["available"].get(name, []))


# --- GPUs ------------------------------------------------------------------------------------------------------------


def find_chip(device: int) -> data.Chip:
    """The chip of a PCI device id; one that no range holds is new."""
    for row in data.PCI_RANGES:
        if row.first <= device <= row.last:
            return next(chip for chip in data.CHIPS if chip.name == row.chip)
    return data.UNKNOWN_CHIP


def lowest_driver(device: int) -> str:
    """The first driver release that knows a PCI device id, empty where that is not known."""
    later = (release for release, devices in data.LATER_CARDS.items() if device in devices)
    return next(later, find_chip(device).lowest_driver)


def has_mig(device: int) -> bool:
    return (find_chip(device).mig or device in data.MIG_DEVICES) and device not in data.NO_MIG_DEVICES


def describe_device(device: int) -> Facts:
    """Generation and abilities of a PCI device id."""
    chip = find_chip(device)
    generation = next(row for row in data.GENERATIONS if row.name == chip.generation)
    return {
        "device_id": f"{device:04x}",
        "known": chip is not data.UNKNOWN_CHIP,
        "chip": chip.name,
        "generation": chip.generation,
        "compute_capability": chip.compute_capability,
        "mig": has_mig(device),
        "bf16": generation.bf16,
    }


def read_gpus(tree: Tree) -> list[Facts]:
    names = _pci_names(tree)
    gpus = []
    for address in pci.nvidia_devices(tree, pci.DISPLAY):
        where = f"{pci.DEVICES}/{address}"
        device = int(tree.text(f"{where}/device"), 16)
        told = re.search(r"^Model:\s*(.+)$", tree.text(f"/proc/driver/nvidia/gpus/{address}/information"), re.MULTILINE)
        gpus.append(
            {
                "address": address,
                "name": told.group(1).strip() if told else names.get(device, ""),
                "kernel_driver": os.path.basename(tree.link(f"{where}/driver")),
                **describe_device(device),
            }
        )
    return gpus


def _pci_names(tree: Tree) -> dict[int, str]:
    """Names of NVIDIA's devices from pci.ids, where the host has it."""
    text = next(
        filter(None, (tree.text(path) for path in ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"))), ""
    )
    section = re.search(r"^10de .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE)
    lines = re.findall(r"^\t([0-9a-f]{4})  (.+)$", section.group(1), re.MULTILINE) if section else []
    return {int(number, 16): name for number, name in lines}


def has_nvswitch(tree: Tree) -> bool:
    """Whether NVSwitch chips are there, which need the fabric manager: bridges of NVIDIA that are no GPU."""
    return bool(tree.names("/proc/driver/nvidia-nvswitch/devices") or pci.nvidia_devices(tree, pci.SWITCH))


# --- driver ----------------------------------------------------------------------------------------------------------


def read_driver(tree: Tree) -> Facts:
    """The module that is loaded and the libraries that programs would load."""
    told = tree.text("/proc/driver/nvidia/version")
    first = told.partition("\n")[0]
    words = [driver_version(word) for word in first.split()]
    loaded = next(filter(None, words), "") or tree.text("/sys/module/nvidia/version").strip()
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
    """The newest CUDA that a driver of this version supports by itself; empty without a driver, or with one that is older than them."""
    known = [row.version for row in data.TOOLKITS if driver and version_key(row.driver) <= version_key(driver)]
    return known[-1] if known else ""


def _library_version(tree: Tree, name: str) -> str:
    """The version in the name of the file that a library's link ends in."""
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
    """Processes that have /dev/nvidia* open."""
    users = {
        line.split(":")[2]: line.split(":")[0] for line in tree.text("/etc/passwd").splitlines() if line.count(":") == 6
    }
    holders = []
    for pid in filter(str.isdigit, tree.names("/proc")):
        opened = {tree.link(f"/proc/{pid}/fd/{number}") for number in tree.names(f"/proc/{pid}/fd")}
        devices = sorted(path for path in opened if path.startswith("/dev/nvidia"))
        if devices:
            uid = re.search(r"^Uid:\s*(\d+)", tree.text(f"/proc/{pid}/status"), re.MULTILINE)
            number = uid.group(1) if uid else ""
            holders.append(
                {
                    "pid": int(pid),
                    "command": tree.text(f"/proc/{pid}/comm").strip(),
                    "user": users.get(number, number),
                    "devices": devices,
                }
            )
    return sorted(holders, key=lambda holder: holder["pid"])


# --- Secure Boot -----------------------------------------------------------------------------------------------------


def read_secure_boot(tree: Tree, distribution: str) -> Facts:
    """State of Secure Boot, and whether the key that DKMS signs with is trusted or waits at the next boot.

    The state is enabled, disabled, unsupported (no EFI) or unknown (EFI, but its variables are not mounted).
    """
    key = next((row for row in data.MOK_KEYS if row.distribution == distribution), data.MOK_KEYS[0])
    certificate = tree.bytes(key.certificate)
    enrolled = _efi(tree, f"MokListRT-{_SHIM}") or tree.bytes("/sys/firmware/efi/mok-variables/MokListRT")
    pending = _efi(tree, f"MokNew-{_SHIM}")
    return {
        "state": _secure_boot_state(tree),
        "certificate": key.certificate if certificate else "",
        "enrolled": bool(certificate) and certificate in enrolled,
        "pending": bool(pending) and (not certificate or certificate in pending),
    }


def _efi(tree: Tree, name: str) -> bytes:
    return tree.bytes(f"{_EFIVARS}/{name}")[_EFI_ATTRIBUTES:]


def _secure_boot_state(tree: Tree) -> str:
    if not tree.exists("/sys/firmware/efi"):
        return "unsupported"
    value = _efi(tree, f"SecureBoot-{_EFI_GLOBAL}")
    if not value:
        return "unknown" if not tree.names(_EFIVARS) else "disabled"
    # shim can be told not to check, although the firmware does.
    ignored = _efi(tree, f"MokSBStateRT-{_SHIM}")[:1] == b"\x01"
    return "enabled" if value[:1] == b"\x01" and not ignored else "disabled"


# --- kernels ---------------------------------------------------------------------------------------------------------


def next_kernel(tree: Tree) -> Facts:
    """The kernel that boots next, and what says so.

    *evidence*, the surest first: grub.cfg (its default entry), link (/vmlinuz), highest (of /boot), running.
    """
    for evidence, release in (
        ("grub.cfg", _grub_kernel(tree)),
        ("link", _kernel_of(tree.resolve("/vmlinuz")) or _kernel_of(tree.resolve("/boot/vmlinuz"))),
        ("highest", max(installed_kernels(tree), key=version_key, default="")),
    ):
        if release:
            return {"release": release, "evidence": evidence}
    return {"release": running_kernel(tree), "evidence": "running"}


def running_kernel(tree: Tree) -> str:
    return tree.text("/proc/sys/kernel/osrelease").strip()


def installed_kernels(tree: Tree) -> list[str]:
    releases = [_kernel_of(name) for name in tree.names("/boot") if not name.endswith((".old", ".bak"))]
    return sorted(filter(None, releases), key=version_key)


def _kernel_of(path: str) -> str:
    return os.path.basename(path)[len("vmlinuz-") :] if os.path.basename(path).startswith("vmlinuz-") else ""


def _grub_kernel(tree: Tree) -> str:
    """The kernel of grub's default entry, empty where that cannot be told."""
    entries = _grub_entries(tree.text("/boot/grub/grub.cfg"))
    environment = dict(line.partition("=")[::2] for line in tree.text("/boot/grub/grubenv").splitlines() if "=" in line)
    asked = re.search(r"""^GRUB_DEFAULT=["']?(.*?)["']?\s*$""", tree.text("/etc/default/grub"), re.MULTILINE)
    wanted = asked.group(1) if asked else "0"
    if wanted == "saved":
        wanted = environment.get("saved_entry", "0")
    wanted = environment.get("next_entry") or wanted
    # "menu>entry": the entry alone says enough, since ids and titles are unique.
    wanted = wanted.rpartition(">")[2] or "0"
    for number, (names, release) in enumerate(entries):
        if wanted in names or (wanted.isdigit() and int(wanted) == 0 and number == 0):
            return release
    return ""


def _grub_entries(text: str) -> list[tuple[set[str], str]]:
    """Title and id, and kernel, of each entry that boots Linux."""
    entries = []
    for block in re.split(r"^\s*menuentry\s", text, flags=re.MULTILINE)[1:]:
        head, _separator, body = block.partition("{")
        kernel = re.search(r"^\s*linux\S*\s+(\S*vmlinuz-\S+)", body, re.MULTILINE)
        if kernel:
            entries.append((set(re.findall(r"'([^']*)'|\"([^\"]*)\"", head)), _kernel_of(kernel.group(1))))
    return [({name for pair in pairs for name in pair if name}, release) for pairs, release in entries]


def read_kernels(tree: Tree, packages: t.Mapping[str, Facts], policy: t.Mapping[str, list[Facts]]) -> list[Facts]:
    """The running kernel and those that are installed: headers, the module that is there for each, and its DKMS state."""
    running, following = running_kernel(tree), next_kernel(tree)
    builds = read_dkms(tree)
    kernels = []
    for release in sorted({running, following["release"], *installed_kernels(tree)} - {""}, key=version_key):
        headers = f"linux-headers-{release}"
        kernels.append(
            {
                "release": release,
                "upstream": _upstream(tree, release, packages, release == running),
                "running": release == running,
                "next": release == following["release"],
                "headers": tree.exists(f"{tree.resolve(f'/lib/modules/{release}/build')}/Makefile"),
                "headers_package": headers,
                "headers_available": bool(policy.get(headers)),
                "module": _module_path(tree, release),
                "dkms": [build for build in builds if build["kernel"] == release],
            }
        )
    return kernels


def _upstream(tree: Tree, release: str, packages: t.Mapping[str, Facts], running: bool) -> str:
    """The version of kernel.org: Debian 12's release 6.1.0-37-amd64 is 6.1.140, Ubuntu's 6.8.0-60-generic is 6.8.12."""
    told = tree.text("/proc/version_signature").split()
    if running and len(told) == 3:
        return told[2]
    package = packages.get(f"linux-image-{release}") or packages.get(f"linux-image-unsigned-{release}") or {}
    told_by_kernel = re.search(r"\bDebian (\d+(?:\.\d+)+)", tree.text("/proc/version")) if running else None
    version = package.get("version", "") or (told_by_kernel.group(1) if told_by_kernel else release)
    upstream = re.match(r"\d+(?:\.\d+)+", version)
    return upstream.group(0) if upstream else version


def _module_path(tree: Tree, release: str) -> str:
    """NVIDIA's module for a kernel, as depmod found it."""
    listed = re.findall(r"^(\S+):", tree.text(f"/lib/modules/{release}/modules.dep"), re.MULTILINE)
    wanted = re.compile(r"nvidia(-current|-tesla-\d+)?(-open)?\.ko(\.\w+)?")
    return next((path for path in listed if wanted.fullmatch(os.path.basename(path))), "")


def read_dkms(tree: Tree) -> list[Facts]:
    """NVIDIA modules that DKMS knows, by kernel: installed, built, failed (with its log's first error) or added."""
    top = "/var/lib/dkms"
    builds = []
    for name in tree.names(top):
        if not re.match(r"nvidia(?!-fs)", name):
            continue
        for version in (entry for entry in tree.names(f"{top}/{name}") if not entry.startswith("kernel-")):
            where = f"{top}/{name}/{version}"
            made = {
                kernel: "installed"
                if tree.link(f"{top}/{name}/kernel-{kernel}-{arch}").startswith(version)
                else "built"
                for kernel in tree.names(where)
                for arch in tree.names(f"{where}/{kernel}")
                if tree.names(f"{where}/{kernel}/{arch}/module")
            }
            log = f"{where}/build/make.log"
            text = tree.text(log)
            tried = re.search(r"for kernel (\S+)", text)
            states = [(kernel, state, "", "") for kernel, state in made.items()]
            if tried and tried.group(1) not in made:
                states.append((tried.group(1), "failed", log, _first_error(text)))
            for kernel, state, kept, error in states or [("", "added", "", "")]:
                builds.append(
                    {"name": name, "version": version, "kernel": kernel, "state": state, "log": kept, "error": error}
                )
    return builds


def _first_error(log: str) -> str:
    """What the compiler, modpost or a script says; make itself only where they say nothing."""
    found = (re.search(rf"^.*{words}.*$", log, re.MULTILINE) for words in (r"\b(?:error|ERROR): ", r"\*\*\* "))
    return next((line.group(0).strip() for line in found if line), "")


# --- packages --------------------------------------------------------------------------------------------------------


def read_system(tree: Tree) -> Facts:
    """Name and version of the distribution in Ansible's words, codename, and the machine's architecture in dpkg's."""
    fields = {
        key: value.strip("\"'")
        for key, _separator, value in (line.partition("=") for line in tree.text("/etc/os-release").splitlines())
    }
    name = fields.get("ID", "")
    return {
        "distribution": {"debian": "Debian", "ubuntu": "Ubuntu"}.get(name, name),
        "version": fields.get("VERSION_ID", ""),
        "codename": fields.get("VERSION_CODENAME", ""),
    }


def read_packages(tree: Tree) -> dict[str, Facts]:
    """Packages of NVIDIA, CUDA and the kernel, of the host's own architecture; those of which nothing is left are left out."""
    return {
        name: entry
        for name, entry in _read_status(tree).items()
        if ":" not in name
        and (is_driver_package(name) or re.match(r"cuda-|nvidia-|linux-(image|headers|generic)", name))
    }


def read_holds(tree: Tree) -> list[str]:
    """Every package that is held, of whatever kind: a change of the driver may touch more than the driver."""
    return sorted(name for name, entry in _read_status(tree).items() if entry["hold"] and ":" not in name)


def read_unfinished(tree: Tree) -> list[str]:
    """Packages, as ``name`` or ``name:architecture``, that dpkg has begun with and not finished.

    All that its journal names is so, whatever the state: until dpkg has merged it, apt changes nothing.
    """
    named = {fields.get("Package", "") for fields in _blocks(tree, journal(tree))} - {""}
    return sorted(named | {name for name, entry in _read_status(tree).items() if entry["status"] != "installed"})


def _read_status(tree: Tree) -> dict[str, Facts]:
    """The packages of which something is installed. One of an architecture that is not dpkg's own, as Steam's, is ``name:architecture``."""
    # A dpkg that was killed leaves its last words in a journal.
    blocks = _blocks(tree, [STATUS, *journal(tree)])
    native = next((fields.get("Architecture") for fields in blocks if fields.get("Package") == "dpkg"), None)
    found = {}
    for fields in blocks:
        words, architecture = fields.get("Status", "").split(), fields.get("Architecture", "")
        suffix = f":{architecture}" if native and architecture not in (native, "all") else ""
        if len(words) == 3:
            entry = {"version": fields.get("Version", ""), "hold": words[0] == "hold", "status": words[2]}
            found[fields.get("Package", "") + suffix] = entry
    return {name: entry for name, entry in found.items() if entry["status"] not in ("not-installed", "config-files")}


def _blocks(tree: Tree, paths: t.Iterable[str]) -> list[dict[str, str]]:
    return [
        dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(" "))
        for path in paths
        for block in tree.text(path).split("\n\n")
    ]


def journal(tree: Tree) -> list[str]:
    """What dpkg has done since it wrote its status file; there is something only while it works, and after it was killed."""
    return [f"{JOURNAL}/{name}" for name in tree.names(JOURNAL) if name.isdigit()]


def wanted_names(system: Facts, packages: t.Iterable[str], kernels: t.Iterable[str]) -> list[str]:
    """The packages that apt is asked about: what is installed, what a plan may want, and headers for the kernels."""
    branches = {row.number for row in data.BRANCHES}
    flavours = kernel_flavours(packages)
    names = {*packages, *(f"linux-headers-{kernel}" for kernel in (*kernels, *flavours))}
    for row in data.PACKAGE_SETS:
        if row.distribution == system["distribution"]:
            for template in (*row.packages, *row.dkms, *row.prebuilt, *row.pinning):
                names |= {
                    template.format(branch=branch, server=server, kernel=kernel)
                    for branch in branches
                    for server in ("", "-server")
                    for kernel in flavours
                }
    return sorted(names)


def kernel_flavours(packages: t.Iterable[str]) -> list[str]:
    """Flavours whose metapackage is installed, such as generic-hwe-24.04; amd64 or generic where none is."""
    found = [name[len("linux-image-") :] for name in packages if is_kernel_metapackage(name) and "-image-" in name]
    return sorted(found) or ["generic"]


def is_kernel_metapackage(name: str) -> bool:
    """linux-image-amd64, linux-headers-generic-hwe-24.04: the packages that bring the next kernel."""
    return bool(re.match(r"linux-(image|headers|generic)", name)) and not re.search(r"\d+\.\d+\.\d+", name)


def parse_sources(text: str, codename: str) -> dict[str, str]:
    """The places that ``apt-cache policy`` lists when it is asked for no package, and what each is: archive, cuda_repository or other.

    What a source is, its signed Release file says: a mirror is what it mirrors, at whatever address.
    """
    origins: dict[str, str] = {}
    place = ""
    for line in text.splitlines():
        source = _PLACE.match(line)
        release = re.match(r"\s+release (.*)$", line)
        if source:
            place = source.group(1)
        elif release and place:
            fields = dict(word.partition("=")[::2] for word in release.group(1).split(","))
            origins[place] = _origin(fields, codename)
            place = ""
    return origins


def _origin(release: t.Mapping[str, str], codename: str) -> str:
    if release.get("l") == data.CUDA_REPOSITORY_LABEL:
        return data.CUDA_REPOSITORY
    own = bool(codename) and re.match(rf"{re.escape(codename)}(-|$)", release.get("n", ""))
    return data.ARCHIVE if own and release.get("o") in data.ARCHIVE_ORIGINS else "other"


def parse_policy(text: str, sources: t.Mapping[str, str]) -> dict[str, list[Facts]]:
    """The versions that ``apt-cache policy`` lists for each package, and where each comes from.

    *origins* are values of *sources*; a version that only dpkg knows has none.
    """
    offered: dict[str, list[Facts]] = {}
    versions: list[Facts] = []
    for line in text.splitlines():
        if re.match(r"\S+:$", line):
            versions = offered.setdefault(line[:-1], [])
            continue
        version = re.match(r" (?:\*\*\*|   ) (\S+) (-?\d+)$", line)
        place = _PLACE.match(line)
        if version:
            versions.append({"version": version.group(1), "origins": []})
        elif place and versions:
            origin = sources.get(place.group(1), "other")
            versions[-1]["origins"] = sorted({*versions[-1]["origins"], origin})
    return {name: [row for row in rows if row["origins"]] for name, rows in offered.items()}


def origin_of(version: str, offered: t.Sequence[Facts]) -> str:
    """Where an installed version comes from, unknown where that cannot be told.

    A version that is offered no more tells little: an archive keeps the newest alone, and a source may be off. It comes from
    where the others of its branch do, if that is one place; who merely has the name may have another driver.
    """
    related = [row for row in offered if branch_of(row["version"]) == branch_of(version)]
    origins = _origins_of(version, offered) or {origin for row in related for origin in row["origins"]}
    return origins.pop() if len(origins) == 1 else "unknown"


def _origins_of(version: str, offered: t.Iterable[Facts]) -> set[str]:
    return {origin for row in offered if row["version"] == version for origin in row["origins"]}


def read_run_installer(tree: Tree) -> Facts:
    """What a .run file left behind."""
    paths = [path for path in ("/usr/bin/nvidia-uninstall", "/var/log/nvidia-installer.log") if tree.exists(path)]
    told = re.search(r"^installer version:\s*(\S+)", tree.text("/var/log/nvidia-installer.log"), re.MULTILINE)
    return {
        "installed": tree.exists("/usr/bin/nvidia-uninstall"),
        "version": told.group(1) if told else "",
        "paths": paths,
    }


def package_source(packages: t.Mapping[str, Facts], pins: t.Sequence[Facts], run_installed: bool, library: str) -> str:
    """Where the driver comes from.

    none, archive, cuda_repository, other (another repository), unknown (no source has it any more, and no pin tells), run (a
    .run file), foreign (libraries that no package brought, as where a container's host lends its driver), or mixed.
    """
    origins = {
        entry["origin"] for name, entry in packages.items() if is_driver_package(name) and branch_of(entry["version"])
    }
    told = origins - {"unknown"}
    if origins and not told:
        told = {_pinned_source(pins) or "unknown"}
    if run_installed:
        return "mixed" if told else "run"
    if not told:
        return "foreign" if library else "none"
    return "mixed" if len(told) > 1 else told.pop()


def _pinned_source(pins: t.Iterable[Facts]) -> str:
    """The source whose driver the pins are made for: NVIDIA's is pinned to a version, or kept away from the archive's."""
    for pin in pins:
        if "src:*nvidia*" in pin["packages"]:
            if pin["pin"].startswith("version "):
                return data.CUDA_REPOSITORY
            if pin["pin"] == f"release l={data.CUDA_REPOSITORY_LABEL}" and pin["priority"] < 0:
                return data.ARCHIVE
    return ""


def read_repositories(tree: Tree) -> list[Facts]:
    """Sources of apt that are NVIDIA's CUDA repository, by file."""
    found = []
    files = [
        "/etc/apt/sources.list",
        *(f"/etc/apt/sources.list.d/{name}" for name in tree.names("/etc/apt/sources.list.d")),
    ]
    for path in files:
        for line in tree.text(path).splitlines():
            address = re.search(r"\S*/compute/cuda/repos/([a-z0-9]+)/\S*", line)
            if address and not line.lstrip().startswith("#") and path.endswith((".list", ".sources")):
                found.append({"file": path, "url": address.group(0), "directory": address.group(1)})
    return found


def read_pins(tree: Tree) -> list[Facts]:
    """Preferences of apt that name NVIDIA's packages or repository."""
    pins = []
    files = [
        "/etc/apt/preferences",
        *(f"/etc/apt/preferences.d/{name}" for name in tree.names("/etc/apt/preferences.d")),
    ]
    for path in files:
        text = re.sub(r"^(#|Explanation:).*\n", "", tree.text(path), flags=re.MULTILINE)
        for block in re.split(r"\n\s*\n", text):
            fields = dict(line.partition(": ")[::2] for line in block.splitlines())
            if re.search(r"nvidia|cuda", block, re.IGNORECASE) and "Pin-Priority" in fields:
                pins.append(
                    {
                        "file": path,
                        "packages": fields.get("Package", ""),
                        "pin": fields.get("Pin", ""),
                        "priority": int(fields["Pin-Priority"]),
                    }
                )
    return pins


# --- the machine -----------------------------------------------------------------------------------------------------


def read_virtualization(tree: Tree) -> Facts:
    """container or vm, with its name where it is known, or none."""
    container = tree.text("/run/systemd/container").strip() or ("docker" if tree.exists("/.dockerenv") else "")
    if container:
        return {"kind": "container", "name": container}
    if re.search(r"^flags\s*:.*\bhypervisor\b", tree.text("/proc/cpuinfo"), re.MULTILINE):
        return {"kind": "vm", "name": tree.text("/sys/class/dmi/id/product_name").strip()}
    return {"kind": "none", "name": ""}


def read_desktop(tree: Tree) -> Facts:
    """The display manager, and whether a graphical session can be chosen at all."""
    manager = os.path.basename(tree.link("/etc/systemd/system/display-manager.service"))
    sessions = [
        name
        for directory in ("/usr/share/xsessions", "/usr/share/wayland-sessions")
        for name in fnmatch.filter(tree.names(directory), "*.desktop")
    ]
    return {"display_manager": manager.partition(".")[0], "present": bool(manager or sessions)}


def read_free_bytes(tree: Tree, paths: t.Sequence[str] = ("/", "/boot", "/usr", "/var")) -> dict[str, int]:
    """For each path the bytes that root may still write. A path that is not there is left out."""
    free = {}
    for path in paths:
        if os.path.isdir(tree.at(path)):
            space = os.statvfs(tree.at(path))
            free[path] = space.f_bfree * space.f_frsize
    return free


def gather(tree: Tree, ask_policy: t.Callable[[list[str]], str]) -> Facts:
    """Everything. *ask_policy* gives what ``apt-cache policy`` says of the names, and of its sources where there are none."""
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
