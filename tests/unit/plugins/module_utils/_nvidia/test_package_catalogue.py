# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of package sources agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import is_driver_package

CHECKOUT = Path(__file__).parents[5]


def test_every_supported_system_has_both_sources() -> None:
    rows = yaml.safe_load((CHECKOUT / "roles/common/vars/main/platforms.yml").read_text())["__common_platforms"]
    supported = {(row["distribution"], row["version"]) for row in rows}
    assert {(row.distribution, row.version) for row in package_data.ARCHIVES} == supported
    assert {(row.distribution, row.version) for row in package_data.CUDA_REPOSITORIES} == supported


def test_keyring_packages_are_known_by_their_whole_checksum() -> None:
    for row in package_data.CUDA_REPOSITORIES:
        assert {"x86_64"} <= row.keyring_sha256.keys() <= set(row.architectures.values())
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in row.keyring_sha256.values())


def test_no_system_whose_apt_refuses_a_key_gets_it() -> None:
    with_sqv = [
        row
        for row in package_data.CUDA_REPOSITORIES
        if (row.distribution, row.version) in {("Debian", "13"), ("Ubuntu", "26.04")}
    ]
    assert len(with_sqv) == 2
    assert not package_data.REFUSED_KEYS.intersection(row.key for row in with_sqv)


def test_every_source_scope_and_flavour_of_a_system_has_packages() -> None:
    for source in (data.ARCHIVE, data.CUDA_REPOSITORY):
        for distribution in ("Debian", "Ubuntu"):
            found = {
                (row.scope, row.modules)
                for row in package_data.PACKAGE_SETS
                if (row.source, row.distribution) == (source, distribution)
            }
            assert len(found) == 4


def test_every_planned_package_is_one_of_a_driver() -> None:
    planned = {name for row in package_data.PACKAGE_SETS for name in (*row.packages, *row.dkms, *row.prebuilt)}
    assert [
        name for name in planned if not is_driver_package(name.format(branch=580, server="", kernel="generic"))
    ] == []
