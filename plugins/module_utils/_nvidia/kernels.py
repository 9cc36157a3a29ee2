# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernels of a host, their headers, and NVIDIA's module for each."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.grub import kernel_of_default
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import Facts, version_key


def next_kernel(tree: Tree) -> Facts:
    """Return the kernel that boots next, and the evidence for it.

    *evidence*, the surest first: grub.cfg (its default entry), link (/vmlinuz), highest (of /boot), running.
    """
    for evidence, release in (
        ("grub.cfg", kernel_of_default(tree)),
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


def read_kernels(tree: Tree, packages: t.Mapping[str, Facts], policy: t.Mapping[str, list[Facts]]) -> list[Facts]:
    """Return the running kernel and the installed ones: headers, the module for each, and its DKMS state."""
    running, following = running_kernel(tree), next_kernel(tree)
    builds = read_dkms(tree)
    kernels = []
    for release in sorted({running, following["release"], *installed_kernels(tree)} - {""}, key=version_key):
        named = header_packages(release)
        headers = next(filter(policy.get, named), named[0])
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


def header_packages(release: str) -> list[str]:
    """Return the packages that may have a kernel's headers."""
    owners = ("proxmox", "pve") if release.endswith("-pve") else ("linux",)
    return [f"{owner}-headers-{release}" for owner in owners]


def _upstream(tree: Tree, release: str, packages: t.Mapping[str, Facts], running: bool) -> str:
    """Return the version of kernel.org: Debian 12's release 6.1.0-37-amd64 is 6.1.140, Ubuntu's 6.8.0-60-generic is 6.8.12."""
    signature = tree.text("/proc/version_signature").split()
    if running and len(signature) == 3:
        return signature[2]
    package = packages.get(f"linux-image-{release}") or packages.get(f"linux-image-unsigned-{release}") or {}
    told_by_kernel = re.search(r"\bDebian (\d+(?:\.\d+)+)", tree.text("/proc/version")) if running else None
    version = package.get("version", "") or (told_by_kernel.group(1) if told_by_kernel else release)
    upstream = re.match(r"\d+(?:\.\d+)+", version)
    return upstream.group(0) if upstream else version


def _module_path(tree: Tree, release: str) -> str:
    """Return NVIDIA's module for a kernel, as depmod found it."""
    listed = re.findall(r"^(\S+):", tree.text(f"/lib/modules/{release}/modules.dep"), re.MULTILINE)
    wanted = re.compile(r"nvidia(-current|-tesla-\d+)?(-open)?\.ko(\.\w+)?")
    return next((path for path in listed if wanted.fullmatch(os.path.basename(path))), "")


def read_dkms(tree: Tree) -> list[Facts]:
    """Return the NVIDIA modules of DKMS, by kernel: installed, built, failed (with the first error of its log), added or broken."""
    top = "/var/lib/dkms"
    builds = []
    for name in tree.names(top):
        if not re.match(r"nvidia(?!-fs)", name):
            continue
        for version in (entry for entry in tree.names(f"{top}/{name}") if not entry.startswith("kernel-")):
            where = f"{top}/{name}/{version}"
            states_by_kernel = {
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
            states = [(kernel, state, "", "") for kernel, state in states_by_kernel.items()]
            if tried and tried.group(1) not in states_by_kernel:
                states.append((tried.group(1), "failed", log, _first_error(text)))
            # Without sources dkms(8) calls it broken: of a driver that was removed by hand.
            rest = "added" if tree.exists(f"{where}/source/dkms.conf") else "broken"
            for kernel, state, kept, error in states or [("", rest, "", "")]:
                builds.append(
                    {"name": name, "version": version, "kernel": kernel, "state": state, "log": kept, "error": error}
                )
    return builds


# "/bin/sh: 1: gcc-12: not found", and the same by bash and by make.
_NO_PROGRAM = r"^(?:/bin/sh: (?:line )?\d+: \S+: (?:command )?not found|make\S*: \S+: No such file or directory)$"


def _first_error(log: str) -> str:
    """Return the first error of a compiler, of modpost, of a script, or for the want of a program. make's own counts only without one."""
    patterns = (r"\b(?:error|ERROR): .*", r"\*\*\* .*")
    found = (re.search(rf"^.*{pattern}$|{_NO_PROGRAM}", log, re.MULTILINE) for pattern in patterns)
    return next((line.group(0).strip() for line in found if line), "")


def kernel_flavours(packages: t.Iterable[str]) -> list[str]:
    """Return the flavours whose metapackage is installed, such as generic-hwe-24.04, and generic if there is none."""
    found = [name[len("linux-image-") :] for name in packages if is_kernel_metapackage(name) and "-image-" in name]
    return sorted(found) or ["generic"]


def is_kernel_metapackage(name: str) -> bool:
    """Return whether a package installs the next kernel: linux-image-amd64, linux-headers-generic-hwe-24.04, proxmox-default-kernel."""
    of_proxmox = re.fullmatch(r"(proxmox|pve)-(default-(kernel|headers)|headers|(kernel|headers)-\d+\.\d+)", name)
    return bool(
        of_proxmox or (re.match(r"linux-(image|headers|generic)", name) and not re.search(r"\d+\.\d+\.\d+", name))
    )


def headers_along(name: str) -> str:
    """Return the headers' metapackage for that of a kernel."""
    return re.sub(r"-(image|kernel)(?=-|$)", "-headers", name)
