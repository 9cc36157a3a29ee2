# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of docker and the root of containerd."""

from __future__ import annotations

import fnmatch

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import containerd_root_of

from tests.unit.plugins.module_utils._docker.test_plan import request_of


def test_the_root_of_a_table_is_not_that_of_containerd() -> None:
    assert containerd_root_of('version = 2\n[proxy]\nroot = "/other"\n') == "/var/lib/containerd"


@pytest.mark.parametrize(
    ("version", "installed", "meant"),
    [
        ("28.5", "5:28.5.1-1~debian.13~trixie", True),
        ("28.5", "5:28.50.0-1~debian.13~trixie", False),
        ("28", "5:28.5.1-1~debian.13~trixie", True),
        ("2", "5:28.5.1-1~debian.13~trixie", False),
        ("28.5.1-1~debian.13~trixie", "5:28.5.1-1~debian.13~trixie", True),
    ],
)
def test_a_version_means_whole_numbers(version: str, installed: str, meant: bool) -> None:
    request = request_of(edition="docker-ce", version=version)
    assert fnmatch.fnmatchcase(installed, docker.glob_of(request, "docker-ce")) is meant


@pytest.mark.parametrize(
    ("root", "security", "named"),
    [
        ("/data/docker/100000.100000", ["name=seccomp,profile=builtin", "name=userns"], "/data/docker"),
        ("/data/docker", ["name=userns"], "/data/docker"),
        ("/data/docker/100000.100000", None, "/data/docker/100000.100000"),
    ],
)
def test_data_root_by_its_name(root: str, security: list[str] | None, named: str) -> None:
    assert docker.named_root({"DockerRootDir": root, "SecurityOptions": security}) == named
