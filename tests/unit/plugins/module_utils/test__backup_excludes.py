# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_excludes as excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_excludes import excluded

ALL = excludes.patterns(excludes.SETS, ["/"])


def test_caches_packages_models_and_layers_are_left_out_and_work_is_not() -> None:
    for path in (
        "/home/a/.cache/huggingface/hub/models--x",
        "/home/a/miniforge3/pkgs/numpy",
        "/opt/miniforge3/pkgs",
        "/var/lib/docker/overlay2/abc",
        "/home/a/project/__pycache__",
        "/data/huggingface/hub/models--x",
        "/proc/1",
    ):
        assert excluded(path, ALL), path
    for path in (
        "/proc",
        "/home/a/project/train.py",
        "/var/lib/docker/volumes/db",
        "/home/a/miniforge3/envs/x",
        "/etc/fstab",
    ):
        assert not excluded(path, ALL), path


def test_what_a_job_names_itself_is_not_left_out_by_a_set() -> None:
    assert "/mnt/*" not in excludes.patterns(["system"], ["/mnt/data"])
    assert "/proc/*" in excludes.patterns(["system"], ["/mnt/data"])


def test_every_pattern_has_its_reason() -> None:
    assert all(reason for rows in excludes.SETS.values() for reason in rows.values())


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("/mnt/usb", "/mnt/*", True),
        ("/mnt", "/mnt/*", False),
        ("/mnt/usb/deep", "/mnt/*", True),
        ("/home/a/.cache/pip", ".cache", True),
        ("/home/a/conda/pkgs", "conda/pkgs", True),
        ("/home/a/x/y/sets", "/home/**/sets", True),
        ("/home/a", "/home/ab", False),
        ("/home/a", "!/home/a", False),
    ],
)
def test_patterns_fit_as_restics_do(path: str, pattern: str, fits: bool) -> None:
    assert excluded(path, [pattern]) is fits
