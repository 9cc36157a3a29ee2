# SPDX-License-Identifier: GPL-3.0-or-later
"""Places from the parameters of the module."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import request

TORCH = request.Place(request.ENVIRONMENT, "torch", "/opt/conda/envs/torch/bin/python")
LAB = request.Place(request.IMAGE, "lab/pytorch:2.9", "python3", "lab/pytorch:2.9")


def test_places_have_names_devices_and_findings():
    found = request.places(
        [{"name": "torch", "python": "/opt/conda/envs/torch/bin/python", "device": "auto"}],
        [
            {"image": "lab/pytorch:2.9", "name": "", "python": "python3", "device": "cpu"},
            {"image": "sha256:abc", "name": "digits", "python": "python3", "device": "auto"},
        ],
        "cuda",
    )
    assert [(place.title, place.image, place.device, place.finding) for place in found] == [
        ("environment torch", "", "cuda", "smoke_test.environment.torch"),
        ("image lab/pytorch:2.9", "lab/pytorch:2.9", "cpu", "smoke_test.image.lab-pytorch-2-9"),
        ("image digits", "sha256:abc", "cuda", "smoke_test.image.digits"),
    ]


def test_places_with_the_same_finding_are_named():
    other = request.Place(request.IMAGE, "lab/pytorch-2.9", "python3", "lab/pytorch-2.9")
    assert request.duplicates([TORCH, LAB, other]) == ["image lab/pytorch-2.9", "image lab/pytorch:2.9"]
    assert request.duplicates([TORCH, LAB]) == []
