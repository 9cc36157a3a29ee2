# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a host: the file system of a directory, networks, and containers that use a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.facts import (
    describe_containers,
    is_shim,
    parse_routes,
    place_of,
    read_place,
    read_stopped_daemon,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import parse_mountinfo


def test_containers_that_use_a_gpu() -> None:
    inspected = [
        {"Name": "/cdi", "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}},
        {"Name": "/runtime", "HostConfig": {"Runtime": "nvidia", "DeviceRequests": None}},
        {"Name": "/nodes", "HostConfig": {"Devices": [{"PathOnHost": "/dev/nvidia0"}]}},
        {"Name": "/web", "HostConfig": {"Runtime": "runc", "Devices": [{"PathOnHost": "/dev/fuse"}]}},
    ]
    assert describe_containers(inspected) == (("cdi", "nodes", "runtime", "web"), ("cdi", "nodes", "runtime"))


@pytest.mark.parametrize(
    ("arguments", "docker", "others"),
    [
        ("-namespace moby -id 1 -address /run/containerd/containerd.sock", True, False),
        ("-namespace k8s.io -id 1 -address /run/containerd/containerd.sock", False, True),
        ("-namespace k8s.io -id 1 -address /run/k3s/containerd/containerd.sock", False, False),
        ("-namespace plugins.moby -id 1 -address /run/containerd/containerd.sock", False, False),
    ],
)
def test_containers_of_docker_and_of_others_in_its_containerd(arguments: str, docker: bool, others: bool) -> None:
    process = ["/usr/bin/containerd-shim-runc-v2", *arguments.split(), ""]
    assert (is_shim(process), is_shim(process, others=True)) == (docker, others)
    assert not is_shim(["/usr/bin/kubelet", *arguments.split(), ""], others=True)


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 8:2 / /data rw - xfs /dev/sdb1 rw
23 21 8:3 / /data/with\\040space rw - vfat /dev/sdc1 rw
24 21 8:4 / /database rw - nfs4 server:/x rw
25 21 8:5 / /data rw - ext4 /dev/sdd1 rw
"""


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/srv", "/", "ext4"),
        ("/data/docker", "/data", "ext4"),
        ("/data", "/data", "ext4"),
        ("/data/with space/x", "/data/with space", "vfat"),
    ],
)
def test_the_file_system_of_a_path(path: str, mount: str, kind: str) -> None:
    found = place_of(path, parse_mountinfo(MOUNTS))
    assert (found.mount, found.kind) == (mount, kind)


def test_routes_are_read_without_dockers_own() -> None:
    text = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n"
        "eth0\t0000FA0A\t00000000\t0001\t0\t0\t0\t0000FFFF\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n"
    )
    assert parse_routes(text) == {"10.250.0.0/16": "eth0"}


def test_planned_mount_is_the_disk_of_a_directory() -> None:
    coming: Any = [{"target": "/data", "source": "/dev/sdb1", "fstype": "xfs", "bytes": 10**12}]
    place = read_place("/data/docker", [], coming)
    assert (place.mount, place.kind, place.free_bytes) == ("/data", "xfs", 10**12)
    assert read_place("/", [], coming).mount == "/"


def test_what_a_docker_with_remapped_users_stored(tmp_path: Path) -> None:
    root = tmp_path / "var/lib/docker"
    for place in (
        "containers/a",
        "165536.165536/containers/b",
        "165536.165536/image/overlay2/imagedb/content/sha256/c",
    ):
        (root / place).mkdir(parents=True)
    (root / "165536.165536/swarm").mkdir()
    (root / "165536.165536/swarm/docker-state.json").touch()
    stopped = read_stopped_daemon(Tree(str(tmp_path)), ["docker.io"], '{"userns-remap": "default"}')
    assert stopped
    assert (stopped.root, stopped.stored, stopped.swarm) == ("/var/lib/docker", 3, True)
