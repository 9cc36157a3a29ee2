# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How containers get the GPUs of a host: NVIDIA's Container Toolkit, and what docker is told of it. Pure: facts in, a plan out.

daemon.json belongs to the role docker. What this role has to say there is a part (PART), which that role merges.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import parse
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import source_text
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import ARCHIVE, DOCKER_CE, numbers

# They are one release: of different versions the runtime and the library behind it do not go together.
PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
PREFERENCES = "/etc/apt/preferences.d/rigwright-nvidia-container-toolkit"
SOURCE = "/etc/apt/sources.list.d/rigwright-nvidia-container-toolkit.sources"
KEY = "/etc/apt/keyrings/rigwright-nvidia-container-toolkit.asc"
FOLDER = "/var/lib/rigwright_nvidia_container_toolkit"
# The packages that came with the role, and whether the runtime's settings did; written before the packages, which change the answer.
BROUGHT = f"{FOLDER}/brought.json"
PART = "/var/lib/rigwright_docker/parts/nvidia_container_toolkit.json"
# Written by the package's script, and by no package owned.
RUNTIME_FOLDER = "/etc/nvidia-container-runtime"

SERVICE, PATH_UNIT = "nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"
DROP_IN = f"/etc/systemd/system/{SERVICE}.d/rigwright.conf"
UDEV_RULE = "/etc/udev/rules.d/71-rigwright-nvidia.rules"
SPEC = "/var/run/cdi/nvidia.yaml"

AUTO, CDI, LEGACY = "auto", "cdi", "legacy"
# Docker's documentation on CDI: there since 25.0, where `features.cdi` is on; on by itself since 28.3.
CDI_SINCE, CDI_BY_ITSELF_SINCE = (25,), (28, 3)
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}

# The places that NVIDIA has had the toolkit in; all have the same packages, and older guides give each of them a key of its own.
_UPSTREAM = re.compile(r"https?://nvidia\.github\.io/(libnvidia-container|nvidia-container-runtime|nvidia-docker)(/|$)")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(~rc\.[0-9]+)?(-[0-9]+)?")

Params = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Docker:
    """The running docker: what it can do for GPUs, and the containers that have one."""

    runtimes: t.Collection[str] = ()
    cdi: bool = False
    gpu_containers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Refresh:
    """The CDI spec beside what the driver says now.

    ``stale`` says why it has to be written again, ``problem`` why that cannot be known: the words of nvidia-ctk.
    """

    stale: str = ""
    problem: str = ""
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Host:
    """What was read.

    ``docker`` is None where none answers; ``available`` are the versions that the repository has, empty if unknown; ``put_away`` are the
    sources that an earlier run has taken away, and that come back with `absent`.
    """

    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    sources: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    put_away: t.Collection[str] = ()
    available: t.Collection[str] = ()
    driver_loaded: str = ""
    driver_library: str = ""
    daemon_json: str = ""
    part: str = ""
    docker: Docker | None = None
    refresh: Refresh = Refresh()
    service_enabled: bool = False
    settings_there: bool = False
    brought: t.Mapping[str, t.Any] | None = None
    # In check mode: what an earlier task would bring.
    docker_comes: bool = False
    driver_comes: bool = False


@dataclasses.dataclass
class Plan:
    """What the role does, as its tasks take it."""

    mode: str = CDI
    reason: str = ""
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    hold: list[str] = dataclasses.field(default_factory=list)
    unhold: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    remove_paths: list[str] = dataclasses.field(default_factory=list)
    package_files: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    directories: list[dict[str, str]] = dataclasses.field(default_factory=list)
    files: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    units: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    part: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    apply: bool = False
    stale: str = ""


# --- How docker gives GPUs to containers ---


def docker_version(host: Host) -> tuple[int, ...]:
    """The version of docker that is installed, empty when there is none."""
    return next((numbers(host.packages[name].version) for name in (DOCKER_CE, ARCHIVE) if name in host.packages), ())


def choose_mode(wanted: str, version: tuple[int, ...]) -> tuple[str, str]:
    """The mode, and why it is this one."""
    text = ".".join(map(str, version))
    if wanted != AUTO:
        return wanted, f"asked for ({text or 'docker is not there yet'})"
    if version and version < CDI_SINCE:
        return LEGACY, f"docker {text} knows no CDI, which is there since {CDI_SINCE[0]}"
    return CDI, f"docker {text} knows CDI" if version else "docker is not there yet"


def part_of(mode: str, version: tuple[int, ...]) -> dict[str, t.Any]:
    """What daemon.json has to say. Where CDI is on by itself nothing is written, since a restart of docker would be due for it."""
    if mode == LEGACY:
        return RUNTIME
    return {} if version >= CDI_BY_ITSELF_SINCE else {"features": {"cdi": True}}


def contains(whole: t.Any, part: t.Any) -> bool:
    """Whether a deep merge of the part would leave the whole as it is."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    return bool(whole == part)


def is_in_force(host: Host, mode: str, part: t.Mapping[str, t.Any]) -> bool:
    """Whether daemon.json and the docker that runs have what the part says; a run may have been cut short in between.

    CDI is an option that docker reads when it starts: also one that is to end is in force until then.
    """
    try:
        options = json.loads(host.daemon_json or "{}")
        cdi = options.get("features", {}).get("cdi", docker_version(host) >= CDI_BY_ITSELF_SINCE)
    except (ValueError, AttributeError):
        return False
    loaded = host.docker is not None and host.docker.cdi == cdi and (mode == CDI or "nvidia" in host.docker.runtimes)
    return loaded and contains(options, part)


# --- Packages ---


def full_version(version: str) -> str:
    return version if re.search(r"-[0-9]+$", version) else f"{version}-1"


def is_toolkit(uri: str, wanted: str) -> bool:
    """Whether an address is a repository of the toolkit: the one that is wanted, or one of NVIDIA's."""
    normal = uri.replace("$(ARCH)", "amd64").rstrip("/")
    return bool(_UPSTREAM.match(uri)) or normal == wanted.replace("$(ARCH)", "amd64").rstrip("/")


def other_sources(host: Host, url: str) -> tuple[list[str], list[str]]:
    """The host's own files that give apt the toolkit: those that say nothing else, and those that do."""
    alone: list[str] = []
    mixed: list[str] = []
    for path, text in host.sources.items():
        entries = [block.entry for block in parse(path, text) if block.entry]
        ours = [entry for entry in entries if any(is_toolkit(uri, url) for uri in entry.uris)]
        if ours and path != SOURCE:
            (alone if len(ours) == len(entries) and path.startswith("/etc/apt/sources.list.d/") else mixed).append(path)
    return alone, mixed


def plan_packages(plan: Plan, host: Host, params: Params) -> None:
    version = full_version(params["version"])
    wrong = [name for name in PACKAGES if name not in host.packages or not host.packages[name].whole]
    wrong += [name for name in PACKAGES if name not in wrong and host.packages[name].version != version]
    plan.install = [f"{name}={version}" for name in PACKAGES] if wrong else []
    there = [name for name in PACKAGES if name in host.packages]
    held = [name for name in there if host.packages[name].hold]
    brought = host.brought or {}
    plan.hold = [name for name in there if params["hold"] and name not in held]
    plan.unhold = [name for name in held if not params["hold"] and name in brought.get("held", ())]
    memory = {
        "packages": brought.get("packages", [name for name in PACKAGES if name not in host.packages]),
        "settings": brought.get("settings", not host.settings_there),
        "held": [name for name in PACKAGES if params["hold"] and (name not in held or name in brought.get("held", ()))],
    }
    alone, _mixed = other_sources(host, params["repository"]["url"])
    pin = f"Package: {' '.join(PACKAGES)}\nPin: version {version}\nPin-Priority: 1001\n"
    plan.package_files = [
        {"path": BROUGHT, "content": json.dumps(memory, sort_keys=True) + "\n"},
        {"path": PREFERENCES, "content": pin},
        {
            "path": SOURCE,
            "content": source_text({"URIs": params["repository"]["url"], "Suites": "/", "Signed-By": KEY}),
        },
        *({"path": path, "state": "absent"} for path in sorted({*alone, *host.put_away})),
    ]


# --- Why it may have to be refused ---


def input_faults(params: Params) -> t.Iterator[Problem]:
    """What is wrong with the request by itself."""
    if not _VERSION.fullmatch(params["version"]):
        yield problem(
            "nvidia_container_toolkit_version", f"is no version: {params['version']!r}", "write 1.20.1, for example"
        )
    for print_ in params["repository"]["fingerprints"]:
        if not re.fullmatch(r"[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}", print_.replace(" ", "")):
            yield problem(
                "nvidia_container_toolkit_repository",
                f"has what is no full fingerprint: {print_!r}",
                "write all 40 hexadecimal digits",
            )


def host_faults(host: Host, params: Params, plan: Plan) -> t.Iterator[Problem]:
    """What speaks against the request on this host. In check mode docker and driver may be what earlier roles would have brought."""
    version = docker_version(host)
    if not version and not host.docker_comes:
        yield problem(
            "nvidia_container_toolkit_state",
            "is present, and there is no docker on this host",
            "apply the role docker first",
        )
    if not host.driver_library and not host.driver_loaded and not host.driver_comes:
        yield problem(
            "nvidia_container_toolkit_state",
            "is present, and there is no NVIDIA driver on this host",
            "apply the role nvidia_driver first; a host without a GPU needs no toolkit",
        )
    if params["mode"] == CDI and version and version < CDI_SINCE:
        yield problem(
            "nvidia_container_toolkit_mode",
            f"is cdi, and docker {'.'.join(map(str, version))} knows no CDI, which is there since {CDI_SINCE[0]}",
            "set it to auto, which takes the runtime here, or docker_edition to docker-ce",
        )
    wanted = full_version(params["version"])
    if plan.install and host.available and wanted not in host.available:
        newest = sorted(host.available, key=lambda one: (numbers(one), one), reverse=True)[:5]
        yield problem(
            "nvidia_container_toolkit_version",
            f"is {params['version']}, which {params['repository']['url']} does not have for all four packages",
            f"choose one of {', '.join(newest)}",
        )
    changing = [name for name in PACKAGES if name in host.packages and host.packages[name].version != wanted]
    foreign = [
        name for name in changing if host.packages[name].hold and name not in (host.brought or {}).get("held", ())
    ]
    if foreign:
        yield problem(
            "nvidia_container_toolkit_version",
            f"asks for another version of {', '.join(foreign)}, on hold",
            "`apt-mark unhold` first",
        )
    for path in other_sources(host, params["repository"]["url"])[1]:
        yield problem(
            path,
            "gives apt the toolkit's repository beside other things: with two keys for one repository apt ends",
            "take the lines of nvidia.github.io out of it; the role brings them with the right key",
        )


# --- Files and units ---

_LINKS = "/usr/bin/nvidia-ctk system create-dev-char-symlinks"

DROP_IN_TEXT = f"""\
# {SERVICE} runs at boot and when the driver or the toolkit changes. Beside the CDI spec it makes what keeps
# `systemctl daemon-reload` from taking the GPUs away from running containers: runc leaves a device out of what it tells systemd
# when /dev/char has no link to it, and NVIDIA's driver makes none (NVIDIA/nvidia-container-toolkit#48).
[Unit]
Before=docker.service

[Service]
ExecStartPost=-/bin/sh -c '{_LINKS} --create-all || {_LINKS}'
TimeoutStartSec=90s
"""

UDEV_TEXT = f"""\
# When the driver is loaded later than {SERVICE} has run at boot. From 1.20 on the package has this rule, too.
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia|nvidia_current", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{SERVICE}"
"""

# A user's own docker may not write to control groups. In the settings of the host it would end the limits of root's containers, too
# (nvidia-container-toolkit#85): each user's service manager names another file (api/config/v1/config.go of the toolkit).
ROOTLESS_CONFIG = f"{RUNTIME_FOLDER}/rigwright-rootless.toml"
ROOTLESS_DROP_IN = "/etc/systemd/user/docker.service.d/rigwright-nvidia.conf"
ROOTLESS = [
    {"path": ROOTLESS_CONFIG, "content": "[nvidia-container-cli]\nno-cgroups = true\n"},
    {"path": ROOTLESS_DROP_IN, "content": f"[Service]\nEnvironment=NVIDIA_CTK_CONFIG_FILE_PATH={ROOTLESS_CONFIG}\n"},
]


def plan_files(plan: Plan, host: Host) -> None:
    plan.part = part = part_of(plan.mode, docker_version(host))
    text = json.dumps(part, indent=1, sort_keys=True) + "\n" if part else ""
    plan.directories = [{"path": DROP_IN.rpartition("/")[0]}, {"path": "/etc/udev"}, {"path": "/etc/udev/rules.d"}]
    plan.files = [{"path": DROP_IN, "content": DROP_IN_TEXT}, {"path": UDEV_RULE, "content": UDEV_TEXT}]
    if part:
        plan.directories += [{"path": PART.rsplit("/", 2)[0]}, {"path": PART.rpartition("/")[0]}]
        plan.files.append({"path": PART, "content": text})
    if plan.mode == LEGACY:
        # The package brings the folder of the runtime's settings; it may have been removed since.
        folders = [RUNTIME_FOLDER] if PACKAGES[1] in host.packages else []
        plan.directories += [{"path": path} for path in (*folders, ROOTLESS_DROP_IN.rpartition("/")[0])]
        plan.files += ROOTLESS
    plan.apply = host.part != text or not is_in_force(host, plan.mode, part)


def plan_units(plan: Plan, host: Host) -> None:
    """The path unit sees a new driver or toolkit, but neither another set of GPUs nor MIG: what the spec says is compared at each run."""
    # Of a package that is not there yet, check mode does not know that it enables its units itself.
    enabled = {"enabled": True} if PACKAGES[1] in host.packages else {}
    plan.units = [{"name": PATH_UNIT, **enabled}]
    if (host.refresh.stale or not host.service_enabled) and not host.refresh.problem:
        plan.units.append({"name": SERVICE, **enabled})


def plan_findings(plan: Plan, host: Host) -> None:
    waits = (
        ""
        if host.driver_loaded == host.driver_library
        else "reboot: the driver that is installed is not the one that runs"
    )
    failure = host.refresh.problem if host.driver_loaded else "the driver is not loaded"
    plan.findings = [
        finding(
            "nvidia_container_toolkit.spec",
            "warn" if failure else "pass",
            f"no CDI spec can be written: {failure}"
            if failure
            else host.refresh.stale or f"{SPEC} is as the driver says",
            waits or f"look at `nvidia-smi` and `journalctl -u {SERVICE}`",
        ),
        finding("nvidia_container_toolkit.mode", "pass", f"{plan.mode}: {plan.reason}"),
    ]


def plan_present(host: Host, params: Params) -> Plan:
    plan = Plan(requirements=list(input_faults(params)))
    plan.mode, plan.reason = choose_mode(params["mode"], docker_version(host))
    plan.stale = host.refresh.problem or host.refresh.stale
    if plan.requirements:
        return plan
    plan_packages(plan, host, params)
    plan.requirements = list(host_faults(host, params, plan))
    if not plan.requirements:
        plan_files(plan, host)
        plan_units(plan, host)
        plan_findings(plan, host)
    return plan


def plan_absent(host: Host, params: Params) -> Plan:
    """Give back what was there, and remove what the role brought; not under containers that have a GPU."""
    plan = Plan()
    brought = host.brought
    if brought is None:
        return plan
    containers = host.docker.gpu_containers if host.docker else ()
    if containers and not params["allow_disruption"]:
        plan.requirements = [
            problem(
                "nvidia_container_toolkit_state",
                f"is absent, and these containers use a GPU: {', '.join(containers)}",
                "stop them first, or set docker_allow_disruption",
            )
        ]
    plan.remove = [name for name in brought["packages"] if name in host.packages]
    plan.unhold = [name for name in brought["held"] if name in host.packages and host.packages[name].hold]
    if PACKAGES[1] in brought["packages"]:
        plan.units = [
            {"name": PATH_UNIT, "state": "stopped", "enabled": False},
            {"name": SERVICE, "state": "stopped", "enabled": False},
        ]
        plan.remove_paths = [SPEC, *([RUNTIME_FOLDER] if brought["settings"] else [])]
    plan.apply = bool(host.part) and bool(docker_version(host))
    return plan
