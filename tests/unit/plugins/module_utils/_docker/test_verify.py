# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what docker and its clients print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.verify import findings

GROUP = {"id": "docker.group", "status": "warn", "evidence": "members", "remedy": "keep"}
PLAN: Any = {
    "findings": [GROUP],
    "data_root": "/data/docker",
    "containerd_root": "/data/containerd",
    "options": {"live-restore": True, "log-driver": "local", "data-root": "/data/docker", "ip": "127.0.0.1"},
}
REQUEST: Any = {
    "state": "present",
    "data_root": "/data/docker",
    "rootless_users": [],
    "registry_mirrors": ["https://mirror.example"],
}
# Of docker 26.1.5, shortened.
INFO: Any = {
    "DockerRootDir": "/data/docker",
    "LiveRestoreEnabled": True,
    "LoggingDriver": "local",
    "RegistryConfig": {"Mirrors": ["https://mirror.example/"]},
    "ServerVersion": "26.1.5+dfsg1",
}
CONTAINER = [{"Name": "/rigwright-verify-7", "NetworkSettings": {"Ports": {"9/tcp": [{"HostIp": "127.0.0.1"}]}}}]
DENIED = """\
Client: Docker Engine
permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: connect: permission denied
"""
MISSING = (127, "", "docker: No such file or directory")
OUTPUTS = {
    "docker": (0, f"{json.dumps(INFO)}\n", ""),
    "bash": (0, json.dumps(CONTAINER), "sha256:1\n"),
    "setpriv": (1, "", DENIED),
    "runuser": (0, "[name=seccomp,profile=builtin name=rootless name=cgroupns]\n", ""),
    "findmnt": (0, "/data  ext4  1.8G\n", ""),
}


def found(request: Any | None = None, plan: Any | None = None, **outputs: Any) -> dict[str, Finding]:
    answers = {**OUTPUTS, **outputs}
    rows = findings(
        lambda command, **_options: answers[next(word for word in command if word in answers)],
        REQUEST | (request or {}),
        PLAN | (plan or {}),
    )
    return {row["id"]: row for row in rows}


def answer(**changes: Any) -> dict[str, tuple[int, str, str]]:
    return {"docker": (0, json.dumps({**INFO, **changes}), "")}


def test_all_is_well() -> None:
    rows = found()
    assert rows.pop("docker.group") == GROUP
    assert {identifier: (row["status"], row["evidence"]) for identifier, row in rows.items()} == {
        "docker.run": ("pass", "a container ran"),
        "docker.options": ("pass", "docker 26.1.5+dfsg1 has the options of daemon.json"),
        "docker.published": ("pass", "a published port listens on 127.0.0.1"),
        "docker.socket": ("pass", f"a user outside the group gets: {DENIED.splitlines()[1]}"),
        "docker.storage": ("pass", "data in /data/docker, on /data ext4 1.8G free"),
    }


@pytest.mark.parametrize(
    ("outputs", "identifier", "evidence"),
    [
        ({"bash": (125, "", "x" * 400 + "no space left\n")}, "docker.run", "no space left"),
        ({"setpriv": (0, "Client:\n", "")}, "docker.socket", "everybody on this host can use docker"),
        ({"setpriv": (1, "", "Cannot connect to the Docker daemon\n")}, "docker.socket", "gets: Cannot connect"),
        ({"docker": (1, "", "Cannot connect to the Docker daemon\n")}, "docker.options", "does not answer: Cannot"),
        (answer(LiveRestoreEnabled=False, LoggingDriver="json-file"), "docker.options", "live-restore, log-driver"),
        (answer(DockerRootDir="/var/lib/docker"), "docker.options", "in force differs: data-root"),
        (answer(RegistryConfig={"Mirrors": None}), "docker.options", "in force differs: registry-mirrors"),
    ],
)
def test_what_is_wrong_fails(outputs: Any, identifier: str, evidence: str) -> None:
    row = found(**outputs)[identifier]
    assert row["status"] == "fail" and evidence in row["evidence"] and row["remedy"]
    assert len(row["evidence"]) <= 330


def test_port_for_everybody_fails_unless_it_is_asked_for() -> None:
    container = [{"NetworkSettings": {"Ports": {"9/tcp": [{"HostIp": "0.0.0.0"}]}}}]  # noqa: S104
    outputs: Any = {"bash": (0, json.dumps(container), "")}
    assert found(**outputs)["docker.published"]["status"] == "fail"
    assert found(plan={"options": {}}, **outputs)["docker.published"]["status"] == "pass"
    unpublished = found(bash=(0, json.dumps([{"NetworkSettings": {"Ports": {}}}]), ""))["docker.published"]
    assert (unpublished["status"], unpublished["evidence"]) == ("pass", "no port was published")


def test_data_on_the_root_file_system_is_a_warning() -> None:
    mount: Any = {"findmnt": (0, "/ ext4 10G\n", "")}
    assert found(**mount)["docker.storage"]["status"] == "warn"
    assert found({"data_root": ""}, **mount)["docker.storage"]["status"] == "pass"


def test_images_of_containerd_are_named_with_their_disk() -> None:
    store: Any = answer(DriverStatus=[["driver-type", "io.containerd.snapshotter.v1"]])
    both = found(**store)["docker.storage"]
    assert (both["status"], "images in /data/containerd" in both["evidence"]) == ("pass", True)
    own: Any = answer(
        DriverStatus=[["driver-type", "io.containerd.snapshotter.v1"]],
        Containerd={"Address": "/run/docker/containerd/x"},
    )
    assert "images" not in found(**own)["docker.storage"]["evidence"]


def test_missing_docker_is_reported_and_not_raised() -> None:
    rows = found({"rootless_users": ["carol"]}, docker=MISSING, bash=MISSING, setpriv=MISSING, runuser=MISSING)
    assert {identifier: row["status"] for identifier, row in rows.items() if identifier != "docker.group"} == {
        "docker.rootless": "fail",
        "docker.run": "fail",
        "docker.published": "skip",
        "docker.options": "fail",
        "docker.socket": "fail",
        "docker.storage": "skip",
    }
    assert rows["docker.storage"]["evidence"].startswith("data in an unknown place, on")


def test_docker_of_a_user_has_limited_time_and_output() -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        commands.append(command)
        return OUTPUTS[next(word for word in command if word in OUTPUTS)]

    findings(run, REQUEST | {"rootless_users": ["carol"]}, PLAN)
    (as_user,) = [command for command in commands if "carol" in command]
    assert as_user[:3] == ["timeout", "--kill-after=5", "30"]
    assert "head --bytes" in as_user[-1]


def test_users_of_rootless_docker_are_named() -> None:
    request: Any = {"rootless_users": ["carol"]}
    assert found(request)["docker.rootless"]["evidence"] == "these have a docker of their own: carol"
    lacking = found(request, runuser=(1, "", "Cannot connect\n"))["docker.rootless"]
    assert (lacking["status"], lacking["evidence"]) == ("fail", "no docker of their own: carol")
    assert "docker.rootless" not in found({**request, "state": "absent"})
