# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of hosts with GPUs; the hosts are those of tests/unit/fixtures/gpu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import gather as gather_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import highest_cuda, read_secure_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import is_driver_package

from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.roots import Root

Gather = Callable[[str], dict[str, Any]]


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


def test_processes_that_hold_the_gpu(gather: Gather) -> None:
    assert gather("healthy_workstation")["holders"] == [
        {"pid": 602, "command": "nvidia-persiste", "user": "root", "devices": ["/dev/nvidia0"]},
        {"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0", "/dev/nvidiactl"]},
    ]


@pytest.mark.parametrize(
    ("name", "card", "holder"), [("recorded_h100", "NVIDIA H100 80GB HBM3", 410), ("recorded_h200", "NVIDIA H200", 417)]
)
def test_a_recorded_machine_equals_the_output_of_nvidia_smi(gather: Gather, name: str, card: str, holder: int) -> None:
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


def test_remains_of_a_run_file(gather: Gather) -> None:
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


def test_hold_of_any_package_is_read(gather: Gather) -> None:
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


def test_empty_root_has_empty_facts(tmp_path: Path) -> None:
    facts = gather_facts(Tree(str(tmp_path)), lambda _names: "")
    assert facts["gpus"] == facts["kernels"] == facts["holders"] == []
    assert facts["packages"] == {}
    assert facts["next_kernel"] == {"release": "", "evidence": "running"}


@pytest.mark.parametrize("name", gpu_hosts.NAMES)
def test_every_record_states_which_values_were_recorded(name: str, tmp_path: Path) -> None:
    assert "ecorded" in (about := gpu_hosts.lay_out(name, tmp_path)["about"]) or "omposed" in about


def test_an_absolute_link_stays_below_the_root(root: Root) -> None:
    root.write("/opt/file", "inside")
    root.link("/etc/link", "/opt/file")
    assert root.tree.text("/etc/link") == "inside"


def test_links_in_a_circle_end(root: Root) -> None:
    root.link("/a", "/b")
    root.link("/b", "/a")
    assert root.tree.text("/a") == ""


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
            id="shim configured not to check",
        ),
        pytest.param({f"{EFIVARS}/BootOrder-8be4": b"\7\0\0\0\0"}, "disabled", id="firmware without it"),
        pytest.param({"/sys/firmware/efi/systab": b""}, "unknown", id="variables not mounted"),
        pytest.param({}, "unsupported", id="no EFI"),
    ],
)
def test_state_of_secure_boot(root: Root, variables: dict[str, bytes], state: str) -> None:
    for path, content in variables.items():
        root.write(path, content)
    assert read_secure_boot(root.tree, "Debian")["state"] == state


def test_an_enrolled_key(root: Root) -> None:
    root.write(SECURE_BOOT, b"\6\0\0\0\1")
    root.write("/var/lib/shim-signed/mok/MOK.der", b"certificate")
    root.write(f"{EFIVARS}/MokListRT-{SHIM}", b"\6\0\0\0header certificate")
    found = read_secure_boot(root.tree, "Ubuntu")
    assert (found["enrolled"], found["pending"]) == (True, False)


def test_another_key_that_is_enrolled_does_not_count(root: Root) -> None:
    root.write("/var/lib/dkms/mok.pub", b"certificate")
    root.write(f"{EFIVARS}/MokListRT-{SHIM}", b"\6\0\0\0header another")
    assert read_secure_boot(root.tree, "Debian")["enrolled"] is False


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
    assert [name for name in OF_THE_DRIVER.split() if not is_driver_package(name)] == []
    assert [name for name in OF_THE_TOOLKIT.split() if is_driver_package(name)] == []


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
    assert highest_cuda(driver) == cuda
