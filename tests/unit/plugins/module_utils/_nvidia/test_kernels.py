# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels, headers and builds of DKMS."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    headers_along,
    is_kernel_metapackage,
    next_kernel,
    read_dkms,
)

from tests.unit.support.nvidia.roots import Root


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("  CC a.o\na.c:1:9: error: too few\nmake: *** [a.o] Error 1\n", "a.c:1:9: error: too few"),
        ("make[1]: *** No rule to make target 'x'.  Stop.\n", "make[1]: *** No rule to make target 'x'.  Stop."),
        (
            "make: *** waiting\nERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'\n",
            "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'",
        ),
        ("  CC a.o\n", ""),
    ],
)
def test_the_error_in_a_log_of_dkms(root: Root, log: str, error: str) -> None:
    top = "DKMS make.log for nvidia-580.95.05 for kernel 6.12.1 (x86_64)\n"
    root.write("/var/lib/dkms/nvidia/580.95.05/build/make.log", top + log)
    (build,) = read_dkms(root.tree)
    assert (build["state"], build["error"]) == ("failed", error)


GRUB = """\
menuentry 'Debian GNU/Linux' $menuentry_id_option 'gnulinux-simple-1' {
        linux   /boot/vmlinuz-6.2 root=x
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {
        menuentry 'Debian GNU/Linux, with Linux 6.1' $menuentry_id_option 'gnulinux-6.1-advanced-1' {
                linux   /vmlinuz-6.1 root=x
        }
}
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, ("6.2", "grub.cfg"), id="first entry"),
        pytest.param(
            {"/etc/default/grub": "GRUB_DEFAULT='Advanced options>Debian GNU/Linux, with Linux 6.1'\n"},
            ("6.1", "grub.cfg"),
            id="by title",
        ),
        pytest.param(
            {"/etc/default/grub": 'GRUB_DEFAULT="gnulinux-advanced-1>gnulinux-6.1-advanced-1"\n'},
            ("6.1", "grub.cfg"),
            id="by id",
        ),
        pytest.param(
            {
                "/etc/default/grub": "GRUB_DEFAULT=saved\n",
                "/boot/grub/grubenv": "# GRUB\nsaved_entry=1>0\n",
            },
            ("6.1", "grub.cfg"),
            id="saved",
        ),
        pytest.param(
            {"/boot/grub/grubenv": "next_entry=gnulinux-advanced-1>gnulinux-6.1-advanced-1\n"},
            ("6.1", "grub.cfg"),
            id="once",
        ),
        pytest.param(
            {"/etc/default/grub": "GRUB_DEFAULT='gnulinux-6.1-advanced-1'\n"},
            ("6.2", "grub.cfg"),
            id="an entry of a submenu without its submenu: not found",
        ),
        pytest.param({"/etc/default/grub": "GRUB_DEFAULT=1\n"}, ("6.1", "grub.cfg"), id="a submenu: its first entry"),
        pytest.param(
            {
                "/etc/default/grub": "GRUB_DEFAULT=0\n",
                "/etc/default/grub.d/50-pin.cfg": 'GRUB_DEFAULT="1>0" # pinned\n',
            },
            ("6.1", "grub.cfg"),
            id="a drop-in",
        ),
        pytest.param(
            {"/boot/grub/grub.cfg": GRUB + 'set default="${other}"\n', "/boot/vmlinuz-6.3": ""},
            ("6.3", "highest"),
            id="a variable: a guess",
        ),
        pytest.param(
            {"/etc/default/grub": "GRUB_DEFAULT=0\n", "/boot/grub/grub.cfg": GRUB + 'set default="1>0"\n'},
            ("6.1", "grub.cfg"),
            id="what update-grub has written",
        ),
        pytest.param(
            {"/etc/default/grub": "GRUB_DEFAULT='1>2'\n", "/boot/vmlinuz-6.1": ""},
            ("6.1", "grub.cfg"),
            id="a number that the submenu lacks: its first",
        ),
    ],
)
def test_kernel_that_grub_boots(root: Root, files: dict[str, str], expected: tuple[str, str]) -> None:
    root.write("/boot/grub/grub.cfg", GRUB)
    for path, text in files.items():
        root.write(path, text)
    assert tuple(next_kernel(root.tree).values()) == expected


def test_the_highest_kernel_is_a_guess(root: Root) -> None:
    for name in ("vmlinuz-6.12.96", "vmlinuz-6.12.107", "vmlinuz-6.12.200.old", "initrd.img-7"):
        root.write(f"/boot/{name}")
    assert next_kernel(root.tree) == {"release": "6.12.107", "evidence": "highest"}


@pytest.mark.parametrize(
    ("name", "brings_the_next"),
    [
        ("linux-image-amd64", True),
        ("linux-headers-generic-hwe-24.04", True),
        ("linux-image-6.1.0-37-amd64", False),
        ("linux-base", False),
        ("proxmox-default-kernel", True),
        ("proxmox-kernel-6.14", True),
        ("pve-headers", True),
        ("proxmox-kernel-6.14.11-2-pve-signed", False),
        ("proxmox-kernel-helper", False),
    ],
)
def test_kernel_metapackage(name: str, brings_the_next: bool) -> None:
    assert is_kernel_metapackage(name) is brings_the_next


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("linux-image-amd64", "linux-headers-amd64"),
        ("linux-image-generic-hwe-24.04", "linux-headers-generic-hwe-24.04"),
        ("linux-generic", "linux-generic"),
        ("linux-headers-amd64", "linux-headers-amd64"),
        ("proxmox-default-kernel", "proxmox-default-headers"),
        ("proxmox-kernel-6.14", "proxmox-headers-6.14"),
    ],
)
def test_headers_come_along_with_the_kernels(name: str, headers: str) -> None:
    assert headers_along(name) == headers
