# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of the host."""

from __future__ import annotations

import os

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache import host


@pytest.mark.parametrize(
    ("flags", "algorithm"),
    [
        ("flags\t\t: fpu sha_ni avx2\n", "sha256"),
        ("Features\t: fp asimd sha1 sha2\n", "sha256"),
        ("flags\t\t: fpu avx2\n", "blake2b"),
        (None, "blake2b"),
    ],
)
def test_sha256_is_chosen_where_the_processor_computes_it(monkeypatch, flags, algorithm):
    monkeypatch.setattr(host, "read_small", lambda path: flags)
    assert host.fastest_algorithm() == algorithm


def test_memory_is_unlimited_where_the_kernel_does_not_report_it(monkeypatch):
    monkeypatch.setattr(host, "read_small", lambda path: "MemTotal: 8 kB\nMemAvailable:   4 kB\n")
    assert host.memory_available() == 4096
    monkeypatch.setattr(host, "read_small", lambda path: None)
    assert host.memory_available() == 1 << 62


def test_user_without_an_entry_is_named_by_number():
    assert host.user_name(0) == "root"
    assert host.user_name(3_999_999_999) == "3999999999"


def test_disk_of_which_nothing_is_known_does_not_rotate(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "read_small", lambda path: None)
    assert not host.is_rotational(os.fspath(tmp_path))
