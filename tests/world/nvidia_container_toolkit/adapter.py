# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand the cases to what reads and plans the toolkit for containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit, gpu_toolkit_facts

URL = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)"


def other_sources(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sources of the host that are replaced, and those that are refused."""
    replaced, refused = gpu_toolkit.other_sources(gpu_toolkit.Host(sources=files), URL)
    return {"replaced": replaced, "refused": refused}


def devices(spec: str) -> list[str]:
    return list(gpu_toolkit_facts.names_in(spec))


def settings(text: str, unit: str = "") -> dict[str, str]:
    """Return the variables of the refresh service: those of its unit, and of its file of variables."""
    return gpu_toolkit_facts.settings_of(text, unit)


def docker_options(
    version: str, daemon_json: str, runtimes: Sequence[str] = (), cdi: bool = False, part: str = ""
) -> dict[str, Any]:
    """Return the role's part of daemon.json, and whether it has to be applied."""
    running = gpu_toolkit.Docker(tuple(runtimes), cdi)
    host = gpu_toolkit.Host(
        packages={"docker-ce": Package(version)}, daemon_json=daemon_json, docker=running, part=part
    )
    plan = gpu_toolkit.Plan(mode=gpu_toolkit.choose_mode(gpu_toolkit.AUTO, gpu_toolkit.docker_version(host))[0])
    gpu_toolkit.plan_files(plan, host)
    return {"part": plan.part, "apply": plan.apply}
