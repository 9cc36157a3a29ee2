# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of GPUs that nvidia-smi prints."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts

from tests.world.nvidia.adapter import pci_files, tree

ONE, TWO = (f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
PART = "MIG-11111111-2222-3333-4444-555555555555"


def test_uuids_are_read_from_nvidia_smi():
    text = f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})\n"
    assert facts.read_listing(text) == ((ONE, TWO), False)


def test_parts_of_a_divided_gpu_are_read():
    text = (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})\n  MIG 1g.10gb     Device  0: (UUID: {PART})\n"
        f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})\n"
    )
    assert facts.read_listing(text) == ((PART, TWO), True)


LISTED = f"GPU 0: NVIDIA H100 (UUID: {ONE})\n  MIG 1g.10gb     Device  0: (UUID: {PART})\n"


def test_gpu_of_the_driver_that_is_not_listed_is_missing():
    cards = [{"address": f"0000:0{number}:00.0", "device": "2331", "driver": "nvidia"} for number in (1, 2)]
    others = [
        {"address": "0000:03:00.0", "device": "2331", "driver": "vfio-pci"},
        {"address": "0000:04:00.0", "device": "2331"},
    ]
    files, bound = pci_files([*cards, *others])
    host = tree(files, {**bound, "/proc/self/ns/pid": "pid:[4026531836]"})
    assert (
        facts.missing_of(host, f"{LISTED}Unable to determine the device handle for gpu 0000:02:00.0: Unknown Error\n")
        == 1
    )
    # A container has the bus of the host.
    assert facts.missing_of(tree(files, bound), LISTED) == 0
