# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what containers with GPUs print."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_verify import findings

FIRST, SECOND = (f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in (41, 42))
PART = "MIG-11111111-0000-0000-0000-000000000000"
PLAN: dict[str, Any] = {
    "mode": "cdi",
    "reason": "docker 26.1.5 supports CDI",
    "requirements": [],
    "stale": "",
    "apply": False,
    "devices": ["0", "1", FIRST, SECOND, "all"],
}


def line(index: int, uuid: str) -> str:
    return f"GPU {index}: NVIDIA GeForce RTX 4090 (UUID: {uuid})\n"


HOST = line(0, FIRST) + line(1, SECOND)
DEVICES = "devices:\nfd\nnull\n"
ONE = f"{DEVICES}nvidia-uvm\nnvidia0\nnvidiactl\n{line(0, FIRST)}"
ALL = f"{DEVICES}nvidia0\nnvidia1\nnvidiactl\n{HOST}"
NO_CDI = (125, "", "docker: Error response from daemon: CDI device injection failed: unresolvable CDI devices")


class Host:
    """A host whose containers print what a test has them print."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.commands: list[list[str]] = []
        self.answers = {
            "smi": (0, HOST, ""),
            "image": (0, "sha256:1\n", ""),
            "one": (0, ONE, ""),
            "all": (0, ALL, ""),
            "none": (127, DEVICES, "sh: 1: nvidia-smi: not found\n"),
            "remove": (0, "", ""),
            **answers,
        }

    def run(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        line = " ".join(command)
        kind = (
            "smi"
            if command[0] == "nvidia-smi"
            else "image"
            if command[0] == "bash"
            else "remove"
            if "image rm" in line
            else "all"
            if "=all" in line
            else "one"
            if "GPU-" in line or "MIG-" in line
            else "none"
        )
        return self.answers[kind]


def found(plan: dict[str, Any] | None = None, **answers: tuple[int, str, str]) -> dict[str, Finding]:
    rows = findings(Host(**answers).run, {**PLAN, **(plan or {})})
    return {row["id"].partition(".")[2]: row for row in rows}


def test_all_is_well() -> None:
    assert {identifier: (row["status"], row["evidence"]) for identifier, row in found().items()} == {
        "spec": ("pass", f"the CDI spec has the devices of the driver: {', '.join(PLAN['devices'])}"),
        "docker": ("pass", "cdi: docker 26.1.5 supports CDI"),
        "one": ("pass", f"of the requested {FIRST}, a container has {FIRST}, nvidia0"),
        "all": ("pass", f"the host has {FIRST}, {SECOND}, a container that requests all has {FIRST}, {SECOND}"),
        "none": ("pass", "a container that requests no GPU has none"),
    }


@pytest.mark.parametrize(
    ("mode", "how"),
    [
        ("cdi", ["--device", f"nvidia.com/gpu={FIRST}"]),
        ("legacy", ["--runtime", "nvidia", "--env", f"NVIDIA_VISIBLE_DEVICES={FIRST}"]),
    ],
)
def test_requests_are_those_of_the_mode_and_the_image_is_removed(mode: str, how: list[str]) -> None:
    host = Host()
    rows = findings(host.run, {**PLAN, "mode": mode})
    assert " ".join(how) in " ".join(host.commands[2])
    assert host.commands[2][:2] == ["timeout", "--kill-after=5"]
    assert host.commands[-1] == ["docker", "image", "rm", "--force", "rigwright-verify-gpu"]
    assert {row["status"] for row in rows} == {"pass"}


def test_a_card_with_a_damaged_inforom_is_named_by_its_uuid() -> None:
    row = found(one=(14, f"{DEVICES}nvidia0\n{line(0, SECOND)}", ""))["one"]
    assert (row["status"], row["evidence"]) == ("fail", f"of the requested {FIRST}, a container has {SECOND}, nvidia0")


def test_part_of_a_gpu_is_listed_with_its_gpu() -> None:
    text = f"{DEVICES}nvidia0\n{line(0, FIRST)}  MIG 1g.10gb Device 0: (UUID: {PART})\n"
    assert found({"devices": ["0:0", PART, "all"]}, one=(0, text, ""))["one"]["status"] == "pass"


@pytest.mark.parametrize(
    ("plan", "answers", "identifier", "evidence"),
    [
        ({"stale": "there was no /var/run/cdi/nvidia.yaml"}, {}, "spec", "there was no /var/run/cdi/nvidia.yaml"),
        ({"apply": True}, {}, "docker", "docker does not have the options for GPUs yet"),
        ({}, {"one": (0, ALL, "")}, "one", f"a container has {FIRST}, {SECOND}, nvidia0, nvidia1"),
        ({}, {"one": NO_CDI}, "one", "unresolvable CDI devices"),
        ({"devices": []}, {}, "one", "of the requested GPU-of-none"),
        ({}, {"all": (0, ONE, "")}, "all", f"a container that requests all has {FIRST}"),
        ({}, {"all": NO_CDI}, "all", "unresolvable CDI devices"),
        ({}, {"smi": (127, "", "nvidia-smi: No such file or directory")}, "all", "the host has ,"),
        ({}, {"none": (0, ONE, "")}, "none", "a container that requests no GPU has nvidia-uvm, nvidia0"),
        ({}, {"none": (125, "", "x" * 600)}, "none", "xxx..."),
    ],
)
def test_what_is_wrong_fails(plan: dict[str, Any], answers: dict[str, Any], identifier: str, evidence: str) -> None:
    row = found(plan, **answers)[identifier]
    assert row["status"] == "fail" and evidence in row["evidence"] and row["remedy"]


def test_image_that_cannot_be_made_is_the_reason() -> None:
    missing = (127, "", "docker: No such file or directory")
    image = (1, "", "bash: line 4: docker: command not found\n")
    rows = found(image=image, one=missing, all=missing, none=missing)
    assert {rows[name]["evidence"] for name in ("one", "all", "none")} == {"bash: line 4: docker: command not found"}
