# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of GPUs that nvidia-smi prints."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts

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
