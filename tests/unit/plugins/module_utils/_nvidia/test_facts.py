# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of hosts with GPUs; the hosts are those of tests/unit/fixtures/gpu."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as host

from tests.unit.support.nvidia import hosts as gpu_hosts

Gather = Callable[[str], dict[str, Any]]


@pytest.fixture
def gather(tmp_path: Path) -> Gather:
    return lambda name: gpu_hosts.gather(name, tmp_path)


class Root:
    """A root directory to write files and links into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = Tree(str(path))

    def write(self, name: str, content: str | bytes = b"") -> None:
        file = self.path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def link(self, name: str, target: str) -> None:
        link = self.path / name.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


# --- whole hosts ---


def test_a_healthy_workstation(gather: Gather) -> None:
    facts = gather("healthy_workstation")

    assert facts["system"] == {"distribution": "Debian", "version": "12", "codename": "bookworm"}
    # Neither the card's own sound device nor another vendor's display counts.
    assert [(gpu["address"], gpu["name"], gpu["generation"]) for gpu in facts["gpus"]] == [
        ("0000:01:00.0", "NVIDIA GeForce RTX 4090", "Ada")
    ]
    assert facts["gpus"][0]["kernel_driver"] == "nvidia"
    assert facts["driver"] == {
        "loaded": "580.159.04",
        "modules": "open",
        "libraries": {"cuda": "580.159.04", "nvidia-ml": "580.159.04"},
        "library": "580.159.04",
        "matches": True,
        "nouveau": False,
    }
    (kernel,) = facts["kernels"]
    assert kernel["running"] and kernel["next"] and kernel["headers"]
    assert kernel["upstream"] == "6.1.140"
    assert kernel["module"] == "updates/dkms/nvidia.ko"
    assert [(build["version"], build["state"]) for build in kernel["dkms"]] == [("580.159.04", "installed")]
    assert facts["next_kernel"] == {"release": "6.1.0-37-amd64", "evidence": "grub.cfg"}
    assert facts["package_source"] == "cuda_repository"
    assert [row["directory"] for row in facts["repositories"]] == ["debian12"]
    assert [(pin["pin"], pin["priority"]) for pin in facts["pins"]] == [
        ("release l=NVIDIA CUDA", 600),
        ("version 580.*", 1000),
    ]
    assert facts["desktop"] == {"display_manager": "gdm", "present": True}
    assert facts["virtualization"]["kind"] == "none"
    assert facts["holds"] == []
    assert set(facts["free_bytes"]) == {"/", "/boot", "/usr", "/var"}


def test_who_holds_the_gpu(gather: Gather) -> None:
    assert gather("healthy_workstation")["holders"] == [
        {"pid": 602, "command": "nvidia-persiste", "user": "root", "devices": ["/dev/nvidia0"]},
        {"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0", "/dev/nvidiactl"]},
    ]


@pytest.mark.parametrize(
    ("name", "card", "holder"), [("recorded_h100", "NVIDIA H100 80GB HBM3", 410), ("recorded_h200", "NVIDIA H200", 417)]
)
def test_a_recorded_machine_equals_what_nvidia_smi_said(gather: Gather, name: str, card: str, holder: int) -> None:
    facts = gather(name)

    (gpu,) = facts["gpus"]
    assert (gpu["address"], gpu["name"], gpu["compute_capability"], gpu["mig"]) == ("0000:00:06.0", card, "9.0", True)
    driver = facts["driver"]
    assert (driver["loaded"], driver["modules"], driver["matches"]) == ("580.159.04", "open", True)
    assert [row["pid"] for row in facts["holders"]] == [holder]
    assert facts["virtualization"] == {"kind": "container", "name": "docker"}
    # The driver's directory of switches is there and empty.
    assert facts["nvswitch"] is False
    # cuda-compat and libxnvctrl0 are no driver, whatever their versions say.
    assert facts["package_source"] == "foreign"


def test_a_library_that_was_upgraded_under_a_loaded_module(gather: Gather) -> None:
    facts = gather("mismatch_after_upgrade")
    assert (facts["driver"]["loaded"], facts["driver"]["library"], facts["driver"]["matches"]) == (
        "580.126.09",
        "580.159.03",
        False,
    )
    assert facts["next_kernel"] == {"release": "6.8.0-63-generic", "evidence": "link"}
    assert [(row["release"], row["running"], row["next"], row["module"]) for row in facts["kernels"]] == [
        ("6.8.0-60-generic", True, False, "kernel/nvidia-580-open/nvidia.ko"),
        ("6.8.0-63-generic", False, True, "kernel/nvidia-580-open/nvidia.ko.zst"),
    ]
    assert facts["kernels"][0]["upstream"] == "6.8.12"


def test_no_headers(gather: Gather) -> None:
    (kernel,) = gather("no_headers")["kernels"]
    assert (kernel["headers"], kernel["headers_available"]) == (False, False)


def test_packages_of_two_repositories(gather: Gather) -> None:
    facts = gather("mixed_repositories")
    assert facts["package_source"] == "mixed"
    assert {name: entry["origin"] for name, entry in facts["packages"].items()} == {
        "nvidia-driver": "archive",
        "nvidia-kernel-dkms": "archive",
        "libcuda1": "cuda_repository",
        "nvidia-settings": "unknown",
    }
    assert facts["packages"]["nvidia-kernel-dkms"]["status"] == "half-configured"
    # The line of old.list is a comment.
    assert [row["file"] for row in facts["repositories"]] == ["/etc/apt/sources.list.d/cuda.sources"]


def test_what_a_run_file_left(gather: Gather) -> None:
    facts = gather("run_leftovers")
    assert facts["package_source"] == "run"
    assert facts["run_installer"] == {
        "installed": True,
        "version": "550.54.14",
        "paths": ["/usr/bin/nvidia-uninstall", "/var/log/nvidia-installer.log"],
    }
    assert facts["driver"]["modules"] == "closed"
    # Of a package that was removed only its configuration is left.
    assert "nvidia-utils-535" not in facts["packages"]


def test_a_virtual_machine_without_a_gpu(gather: Gather) -> None:
    facts = gather("vm_without_gpu")
    assert facts["gpus"] == []
    assert facts["virtualization"] == {"kind": "vm", "name": "Standard PC (Q35 + ICH9, 2009)"}
    assert facts["driver"]["matches"] is None
    assert facts["package_source"] == "none"
    assert facts["secure_boot"]["state"] == "unsupported"


def test_nouveau_and_a_kernel_that_waits_for_a_reboot(gather: Gather) -> None:
    facts = gather("nouveau_bound")
    assert [(gpu["name"], gpu["kernel_driver"]) for gpu in facts["gpus"]] == [("GB202 [GeForce RTX 5090]", "nouveau")]
    assert facts["driver"]["nouveau"] is True
    assert facts["next_kernel"] == {"release": "6.12.107+deb13-amd64", "evidence": "grub.cfg"}
    assert [row["headers_available"] for row in facts["kernels"]] == [False, True]


def test_a_key_that_waits_for_the_console(gather: Gather) -> None:
    assert gather("mok_pending")["secure_boot"] == {
        "state": "enabled",
        "certificate": "/var/lib/dkms/mok.pub",
        "enrolled": False,
        "pending": True,
    }


def test_holds(gather: Gather) -> None:
    assert gather("held_package")["holds"] == ["nvidia-headless-no-dkms-570-open", "nvidia-utils-570"]


def test_a_library_of_another_architecture_does_not_stand_for_its_twin(root: Root) -> None:
    def package(name: str, architecture: str, want: str = "install") -> str:
        return f"Package: {name}\nStatus: {want} ok installed\nArchitecture: {architecture}\nVersion: 580.95.05-1\n"

    rows = [package("dpkg", "amd64"), package("libcuda1", "amd64", "hold"), package("libcuda1", "i386")]
    root.write("/var/lib/dpkg/status", "\n".join(rows))
    assert host.read_packages(root.tree)["libcuda1"]["hold"] is True
    assert host.read_holds(root.tree) == ["libcuda1"]


def test_what_dpkg_has_not_finished(root: Root) -> None:
    def package(name: str, status: str, architecture: str = "amd64") -> str:
        return f"Package: {name}\nStatus: install ok {status}\nArchitecture: {architecture}\nVersion: 580.95.05-1\n"

    rows = [
        *(package("dpkg", "installed"), package("libcuda1", "unpacked", "i386"), package("gone", "config-files")),
        *(package("nvidia-smi", "installed"), package("libnvidia-ml1", "half-configured")),
    ]
    root.write("/var/lib/dpkg/status", "\n".join(rows))
    assert host.read_unfinished(root.tree) == ["libcuda1:i386", "libnvidia-ml1"]

    # The journal of a dpkg that was killed has the last word, and has to be merged.
    root.write("/var/lib/dpkg/updates/0000", package("nvidia-smi", "half-installed"))
    root.write("/var/lib/dpkg/updates/0001", package("nvidia-smi", "unpacked"))
    root.write("/var/lib/dpkg/updates/0002", package("libnvidia-ml1", "installed"))
    root.write("/var/lib/dpkg/updates/tmp.i", "Package: #padding\n")
    assert host.read_unfinished(root.tree) == ["libcuda1:i386", "libnvidia-ml1", "nvidia-smi"]
    assert host.read_packages(root.tree)["nvidia-smi"]["status"] == "unpacked"
    assert host.read_packages(root.tree)["libnvidia-ml1"]["status"] == "installed"


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
    (build,) = host.read_dkms(root.tree)
    assert (build["state"], build["error"]) == ("failed", error)


def test_a_hold_of_any_package_is_seen(gather: Gather) -> None:
    facts = gather("superseded_version")
    assert "libc6" in facts["holds"]
    assert "libc6" not in facts["packages"]


def test_a_version_that_its_source_has_dropped(gather: Gather) -> None:
    facts = gather("superseded_version")
    assert facts["packages"]["nvidia-utils-580"]["origin"] == "unknown"
    assert facts["package_source"] == "archive"


def test_a_driver_whose_repository_is_off(gather: Gather) -> None:
    facts = gather("repository_off")
    assert facts["packages"]["libcuda1"]["origin"] == "unknown"
    assert facts["package_source"] == "unknown"


def test_a_build_that_failed(gather: Gather) -> None:
    (kernel,) = gather("failed_build")["kernels"]
    assert kernel["module"] == ""
    assert kernel["dkms"] == [
        {
            "name": "nvidia-current-open",
            "version": "550.163.01",
            "kernel": "6.12.107+deb13-amd64",
            "state": "failed",
            "log": "/var/lib/dkms/nvidia-current-open/550.163.01/build/make.log",
            "error": "nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'",
        }
    ]


def test_an_empty_root_tells_nothing_and_fails_nowhere(tmp_path: Path) -> None:
    facts = host.gather(Tree(str(tmp_path)), lambda _names: "")
    assert facts["gpus"] == facts["kernels"] == facts["holders"] == []
    assert facts["packages"] == {}
    assert facts["next_kernel"] == {"release": "", "evidence": "running"}


@pytest.mark.parametrize("name", gpu_hosts.NAMES)
def test_every_record_says_what_of_it_was_recorded(name: str, tmp_path: Path) -> None:
    assert "ecorded" in (about := gpu_hosts.lay_out(name, tmp_path)["about"]) or "omposed" in about


# --- versions ---


@pytest.mark.parametrize(
    "in_order",
    [
        ["6.12.96+deb13-amd64", "6.12.107+deb13-amd64", "6.13"],
        ["6.1.0-9-amd64", "6.1.0-37-amd64"],
        ["6.12~rc6", "6.12", "6.12.1"],
        ["550.163.01", "580", "580.65.06", "580.126.09"],
    ],
)
def test_order_of_versions(in_order: list[str]) -> None:
    assert all(host.version_key(lower) < host.version_key(higher) for lower, higher in pairwise(in_order))


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        ("580.159.04-1", "580.159.04"),
        ("535.309.01-0+deb12u1", "535.309.01"),
        ("1:575.64-0ubuntu1", "575.64"),
        ("5.15.0-152.162+1", ""),
        ("20151021+13", ""),
        ("1.18.0-1", ""),
    ],
)
def test_driver_in_the_version_of_a_package(version: str, driver: str) -> None:
    assert host.driver_version(version) == driver
    assert host.branch_of(version) == int(driver[:3] or 0)


# --- links ---


def test_an_absolute_link_stays_below_the_root(root: Root) -> None:
    root.write("/opt/file", "inside")
    root.link("/etc/link", "/opt/file")
    assert root.tree.text("/etc/link") == "inside"


def test_links_in_a_circle_end(root: Root) -> None:
    root.link("/a", "/b")
    root.link("/b", "/a")
    assert root.tree.text("/a") == ""


# --- Secure Boot ---

EFIVARS = "/sys/firmware/efi/efivars"
SECURE_BOOT = f"{EFIVARS}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        pytest.param({SECURE_BOOT: b"\6\0\0\0\1"}, "enabled", id="on"),
        pytest.param({SECURE_BOOT: b"\6\0\0\0\0"}, "disabled", id="off"),
        pytest.param(
            {SECURE_BOOT: b"\6\0\0\0\1", f"{EFIVARS}/MokSBStateRT-{SHIM}": b"\6\0\0\0\1"},
            "disabled",
            id="shim told not to check",
        ),
        pytest.param({f"{EFIVARS}/BootOrder-8be4": b"\7\0\0\0\0"}, "disabled", id="firmware without it"),
        pytest.param({"/sys/firmware/efi/systab": b""}, "unknown", id="variables not mounted"),
        pytest.param({}, "unsupported", id="no EFI"),
    ],
)
def test_state_of_secure_boot(root: Root, variables: dict[str, bytes], state: str) -> None:
    for path, content in variables.items():
        root.write(path, content)
    assert host.read_secure_boot(root.tree, "Debian")["state"] == state


def test_an_enrolled_key(root: Root) -> None:
    root.write(SECURE_BOOT, b"\6\0\0\0\1")
    root.write("/var/lib/shim-signed/mok/MOK.der", b"certificate")
    root.write(f"{EFIVARS}/MokListRT-{SHIM}", b"\6\0\0\0header certificate")
    found = host.read_secure_boot(root.tree, "Ubuntu")
    assert (found["enrolled"], found["pending"]) == (True, False)


def test_another_key_that_is_enrolled_does_not_count(root: Root) -> None:
    root.write("/var/lib/dkms/mok.pub", b"certificate")
    root.write(f"{EFIVARS}/MokListRT-{SHIM}", b"\6\0\0\0header another")
    assert host.read_secure_boot(root.tree, "Debian")["enrolled"] is False


# --- the kernel that boots next ---

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
            {"/etc/default/grub": "GRUB_DEFAULT='Debian GNU/Linux, with Linux 6.1'\n"},
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
                "/boot/grub/grubenv": "# GRUB\nsaved_entry=gnulinux-6.1-advanced-1\n",
            },
            ("6.1", "grub.cfg"),
            id="saved",
        ),
        pytest.param({"/boot/grub/grubenv": "next_entry=gnulinux-6.1-advanced-1\n"}, ("6.1", "grub.cfg"), id="once"),
        pytest.param(
            {"/etc/default/grub": "GRUB_DEFAULT='1>2'\n", "/boot/vmlinuz-6.1": ""},
            ("6.1", "highest"),
            id="by number: a guess",
        ),
    ],
)
def test_what_grub_boots(root: Root, files: dict[str, str], expected: tuple[str, str]) -> None:
    root.write("/boot/grub/grub.cfg", GRUB)
    for path, text in files.items():
        root.write(path, text)
    assert tuple(host.next_kernel(root.tree).values()) == expected


def test_the_highest_kernel_is_a_guess(root: Root) -> None:
    for name in ("vmlinuz-6.12.96", "vmlinuz-6.12.107", "vmlinuz-6.12.200.old", "initrd.img-7"):
        root.write(f"/boot/{name}")
    assert host.next_kernel(root.tree) == {"release": "6.12.107", "evidence": "highest"}


# --- apt ---

POLICY = """\
nvidia-driver:
  Installed: (none)
  Candidate: 535.309.01-0+deb12u1
  Version table:
     580.95.05-1 600
        600 https://mirror.example/compute/cuda/repos/debian12/x86_64  Packages
     570.1.1-1 500
        500 https://ppa.example/graphics-drivers/ppa/ubuntu noble/main amd64 Packages
     535.309.01-0+deb12u1 500
        500 http://mirror.example/debian-security noble-security/non-free amd64 Packages
        100 /var/lib/dpkg/status
nvidia-old:
  Version table:
 *** 1.0-1 100
        100 /var/lib/dpkg/status
"""


SOURCES = """\
Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 https://mirror.example/nvidia/debian12/x86_64  Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=,b=amd64
     origin mirror.example
 500 http://mirror.example/debian stable/non-free amd64 Packages
     release v=12.15,o=Debian,a=stable,n=bookworm,l=Debian,c=non-free,b=amd64
 500 http://mirror.example/debian bookworm-backports/non-free amd64 Packages
     release o=Debian Backports,a=stable-backports,n=bookworm-backports,l=Debian Backports,c=non-free,b=amd64
 500 http://mirror.example/debian trixie/non-free amd64 Packages
     release v=13.1,o=Debian,a=testing,n=trixie,l=Debian,c=non-free,b=amd64
 500 https://ppa.example/ubuntu bookworm/main amd64 Packages
     release v=12,o=LP-PPA-graphics-drivers,a=bookworm,n=bookworm,l=Proprietary GPU Drivers,c=main,b=amd64
 500 https://unsigned.example/compute/cuda/repos/debian12/x86_64  Packages
     origin unsigned.example
Pinned packages:
"""


def test_a_source_is_what_its_release_file_says() -> None:
    assert host.parse_sources(SOURCES, "bookworm") == {
        "https://mirror.example/nvidia/debian12/x86_64": "cuda_repository",
        "http://mirror.example/debian stable/non-free amd64": "archive",
        "http://mirror.example/debian bookworm-backports/non-free amd64": "archive",
        # That of another release is not the system's own.
        "http://mirror.example/debian trixie/non-free amd64": "other",
        "https://ppa.example/ubuntu bookworm/main amd64": "other",
    }


def test_policy_of_apt() -> None:
    sources = {
        "https://mirror.example/compute/cuda/repos/debian12/x86_64": "cuda_repository",
        "http://mirror.example/debian-security noble-security/non-free amd64": "archive",
    }
    assert host.parse_policy(POLICY, sources) == {
        "nvidia-driver": [
            {"version": "580.95.05-1", "origins": ["cuda_repository"]},
            {"version": "570.1.1-1", "origins": ["other"]},
            {"version": "535.309.01-0+deb12u1", "origins": ["archive"]},
        ],
        "nvidia-old": [],
    }


@pytest.mark.parametrize(
    ("version", "offered", "origin"),
    [
        ("2", [{"version": "2", "origins": ["archive"]}, {"version": "3", "origins": ["other"]}], "archive"),
        ("1", [{"version": "2", "origins": ["archive"]}], "archive"),
        ("1", [{"version": "2", "origins": ["archive"]}, {"version": "3", "origins": ["other"]}], "unknown"),
        ("1", [], "unknown"),
        # Who has the name has not had this driver.
        ("580.95.05-1", [{"version": "535.309.01-1", "origins": ["archive"]}], "unknown"),
    ],
)
def test_origin_of_an_installed_version(version: str, offered: list[dict[str, Any]], origin: str) -> None:
    assert host.origin_of(version, offered) == origin


@pytest.mark.parametrize(
    ("pin", "source"),
    [
        (("src:*nvidia*:any src:cuda-drivers:any", "release l=NVIDIA CUDA", -1), "archive"),
        (("src:*nvidia*:any src:cuda-drivers:any", "version 580.*", 1000), "cuda_repository"),
        # That of the keyring package says nothing of the driver.
        (("*", "release l=NVIDIA CUDA", 600), "unknown"),
    ],
)
def test_of_a_driver_that_no_source_has_the_pins_tell(pin: tuple[str, str, int], source: str) -> None:
    packages = {"libcuda1": {"version": "580.95.05-1", "origin": "unknown"}}
    pins = [dict(zip(("packages", "pin", "priority"), pin, strict=True))]
    assert host.package_source(packages, pins, run_installed=False, library="") == source


# By the Source fields of bookworm, bookworm-security and trixie (measured 2026-11-22): the driver, and CUDA's toolkit.
OF_THE_DRIVER = (
    "libcuda1 libcudadebugger1 libegl-nvidia0 libgl1-nvidia-glvnd-glx libgles-nvidia2 libglx-nvidia0 libnvcuvid1 \
libnvidia-allocator1 libnvidia-ml1 libnvidia-nvvm4 libnvoptix1 nvidia-alternative nvidia-cuda-mps nvidia-driver nvidia-kernel-dkms \
nvidia-open-kernel-dkms nvidia-open-kernel-support nvidia-opencl-icd nvidia-powerd nvidia-smi xserver-xorg-video-nvidia"
)
OF_THE_TOOLKIT = (
    "libcudart12 libnvidia-ml-dev libnvvm4 nvidia-cuda-dev nvidia-cuda-gdb nvidia-cuda-toolkit nvidia-cuda-toolkit-gcc \
nvidia-fs-dkms nvidia-opencl-dev nvidia-openjdk-8-jre nvidia-profiler nvidia-visual-profiler"
)


def test_the_toolkit_is_no_part_of_the_driver() -> None:
    assert [name for name in OF_THE_DRIVER.split() if not host.is_driver_package(name)] == []
    assert [name for name in OF_THE_TOOLKIT.split() if host.is_driver_package(name)] == []


def test_apt_is_asked_for_what_a_plan_may_want() -> None:
    names = host.wanted_names(
        {"distribution": "Ubuntu"}, ["linux-image-generic-hwe-24.04", "nvidia-utils-570"], ["6.8.0-60-generic"]
    )
    assert {
        "linux-modules-nvidia-580-open-generic-hwe-24.04",
        "nvidia-driver-595-open",
        "nvidia-driver-pinning-580",
        "linux-headers-6.8.0-60-generic",
        "nvidia-utils-570",
        "linux-headers-generic-hwe-24.04",
    } <= set(names)


@pytest.mark.parametrize(
    ("name", "brings_the_next"),
    [
        ("linux-image-amd64", True),
        ("linux-headers-generic-hwe-24.04", True),
        ("linux-image-6.1.0-37-amd64", False),
        ("linux-base", False),
    ],
)
def test_kernel_metapackage(name: str, brings_the_next: bool) -> None:
    assert host.is_kernel_metapackage(name) is brings_the_next


def test_nvswitch_is_seen_before_any_driver(root: Root) -> None:
    for name, value in {"vendor": "0x10de", "device": "0x22a3", "class": "0x068000"}.items():
        root.write(f"/sys/bus/pci/devices/0000:07:00.0/{name}", f"{value}\n")
    assert host.has_nvswitch(root.tree) is True
    assert host.read_gpus(root.tree) == []


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("", ""),
        ("390.157", ""),
        ("535.261.03", "12.2"),
        ("560.35.03", "12.6"),
        ("580.65.05", "12.9"),
        ("580.95.05", "13.0"),
    ],
)
def test_the_newest_cuda_of_a_driver(driver: str, cuda: str) -> None:
    assert host.highest_cuda(driver) == cuda
