# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan how containers get the GPUs of a host: NVIDIA's Container Toolkit and docker's options for it. Pure: facts in, a plan out.

daemon.json belongs to the role docker. The options of this role are a part (PART), which that role merges.
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
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import source_text
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_request import (
    Params,
    Repository,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import ARCHIVE, DOCKER_CE, numbers

# One release: the runtime does not work with the library of another version.
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
# The packages that the role installed, and whether the runtime's settings came with them. Written before the packages.
RECORD = f"{FOLDER}/record.json"
# Its name before 0.1.0. The set of files that has the record removes it when it writes the new one.
FORMER_RECORD = f"{FOLDER}/brought.json"
PART = "/var/lib/rigwright_docker/parts/nvidia_container_toolkit.json"
# A script of the package writes it; no package owns it.
RUNTIME_FOLDER = "/etc/nvidia-container-runtime"

SERVICE, PATH_UNIT = "nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"
DROP_IN = f"/etc/systemd/system/{SERVICE}.d/rigwright.conf"
UDEV_RULE = "/etc/udev/rules.d/71-rigwright-nvidia.rules"
SPEC = "/var/run/cdi/nvidia.yaml"

AUTO, CDI, LEGACY = "auto", "cdi", "legacy"
# Docker's documentation on CDI: since 25.0 with `features.cdi`; enabled by default since 28.3.
CDI_SINCE, CDI_BY_ITSELF_SINCE = (25,), (28, 3)
RUNTIME = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}

# NVIDIA's present and former addresses of the toolkit. All have the same packages, and older guides use another key for each.
_UPSTREAM = re.compile(r"https?://nvidia\.github\.io/(libnvidia-container|nvidia-container-runtime|nvidia-docker)(/|$)")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(~rc\.[0-9]+)?(-[0-9]+)?")


def repository_of(params: Params) -> Repository:
    """Return the repository of a request."""
    return t.cast("Repository", params["repository"])


class Record(t.TypedDict):
    """What the role has brought: packages, holds, and whether the settings of the runtime came with them."""

    packages: list[str]
    settings: bool
    held: list[str]


@dataclasses.dataclass(frozen=True)
class Docker:
    """A running docker: what it can do for GPUs, and the containers that have one."""

    runtimes: t.Collection[str] = ()
    cdi: bool = False
    gpu_containers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Refresh:
    """The state of the CDI spec, compared with the driver.

    ``stale`` says why it has to be written again, ``problem`` why that is unknown: the error of nvidia-ctk.
    """

    stale: str = ""
    problem: str = ""
    devices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Host:
    """The facts of a host.

    ``docker`` is None where none answers. ``available`` are the versions in the repository, empty if unknown. ``put_away`` are the
    sources that an earlier run has removed, and that `absent` restores.
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
    record: Record | None = None
    # In check mode: what an earlier task would install.
    docker_comes: bool = False
    driver_comes: bool = False


@dataclasses.dataclass
class Plan:
    """The plan, as the tasks of the role take it."""

    mode: str = CDI
    reason: str = ""
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    hold: list[str] = dataclasses.field(default_factory=list)
    unhold: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    remove_paths: list[str] = dataclasses.field(default_factory=list)
    package_files: list[FileRow] = dataclasses.field(default_factory=list)
    directories: list[DirectoryRow] = dataclasses.field(default_factory=list)
    files: list[FileRow] = dataclasses.field(default_factory=list)
    units: list[UnitRow] = dataclasses.field(default_factory=list)
    part: JsonObject = dataclasses.field(default_factory=dict)
    apply: bool = False
    stale: str = ""


# --- Docker's options for GPUs ---


def docker_version(host: Host) -> tuple[int, ...]:
    """Return the installed version of docker; empty without one."""
    return next((numbers(host.packages[name].version) for name in (DOCKER_CE, ARCHIVE) if name in host.packages), ())


def choose_mode(wanted: str, version: tuple[int, ...]) -> tuple[str, str]:
    """Return the mode and its reason."""
    text = ".".join(map(str, version))
    if wanted != AUTO:
        return wanted, f"requested ({text or 'docker is not installed yet'})"
    if version and version < CDI_SINCE:
        return LEGACY, f"docker {text} does not support CDI, which needs docker {CDI_SINCE[0]}"
    return CDI, f"docker {text} supports CDI" if version else "docker is not installed yet"


def part_of(mode: str, version: tuple[int, ...], daemon_json: str = "", part: str = "") -> JsonObject:
    """Return the part for daemon.json. Where CDI is on by itself it is empty, since writing it would need a restart of docker.

    The host's own file may switch CDI off: then the part stays, as the file that docker reads no longer shows it.
    """
    if mode == LEGACY:
        return RUNTIME
    by_itself = version >= CDI_BY_ITSELF_SINCE and _cdi_of(daemon_json) is not False and not _cdi_of(part)
    return {} if by_itself else {"features": {"cdi": True}}


def _cdi_of(text: str) -> t.Any:
    """Return what a daemon.json, or a part of one, says about CDI; None for nothing."""
    try:
        return json.loads(text or "{}").get("features", {}).get("cdi")
    except (ValueError, AttributeError):
        return None


def includes(whole: t.Any, part: t.Any) -> bool:
    """Return whether a deep merge of the part would leave the whole as it is."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and includes(whole[key], part[key]) for key in part)
    return bool(whole == part)


def is_in_force(host: Host, mode: str, part: JsonObject) -> bool:
    """Return whether daemon.json and the running docker have the part; a run may have been interrupted in between.

    CDI is an option that docker reads when it starts: it stays in effect until then, also when it is removed.
    """
    try:
        options = json.loads(host.daemon_json or "{}")
        cdi = options.get("features", {}).get("cdi", docker_version(host) >= CDI_BY_ITSELF_SINCE)
    except (ValueError, AttributeError):
        return False
    loaded = host.docker is not None and host.docker.cdi == cdi and (mode == CDI or "nvidia" in host.docker.runtimes)
    return loaded and includes(options, part)


# --- Packages ---


def full_version(version: str) -> str:
    return version if re.search(r"-[0-9]+$", version) else f"{version}-1"


def is_toolkit(uri: str, wanted: str) -> bool:
    """Return whether an address is a repository of the toolkit: the requested one, or one of NVIDIA's."""
    normal = uri.replace("$(ARCH)", "amd64").rstrip("/")
    return bool(_UPSTREAM.match(uri)) or normal == wanted.replace("$(ARCH)", "amd64").rstrip("/")


def other_sources(host: Host, url: str) -> tuple[list[str], list[str]]:
    """Return the host's own source files of the toolkit: those with nothing else in them, and mixed ones."""
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
    installed = [name for name in PACKAGES if name in host.packages]
    held = [name for name in installed if host.packages[name].hold]
    record = host.record
    was_held = record["held"] if record else []
    plan.hold = [name for name in installed if params["hold"] and name not in held]
    plan.unhold = [name for name in held if not params["hold"] and name in was_held]
    memory: Record = {
        "packages": record["packages"] if record else [name for name in PACKAGES if name not in host.packages],
        "settings": record["settings"] if record else not host.settings_there,
        "held": [name for name in PACKAGES if params["hold"] and (name not in held or name in was_held)],
    }
    alone, _mixed = other_sources(host, repository_of(params)["url"])
    pin = f"Package: {' '.join(PACKAGES)}\nPin: version {version}\nPin-Priority: 1001\n"
    plan.package_files = [
        {"path": RECORD, "content": json.dumps(memory, sort_keys=True) + "\n"},
        {"path": PREFERENCES, "content": pin},
        {
            "path": SOURCE,
            "content": source_text({"URIs": repository_of(params)["url"], "Suites": "/", "Signed-By": KEY}),
        },
    ]
    plan.package_files += [{"path": path, "state": "absent"} for path in sorted({*alone, *host.put_away})]


# --- Checks ---


def input_problems(params: Params) -> t.Iterator[Problem]:
    """Check the request by itself, whatever the host is."""
    if not _VERSION.fullmatch(params["version"]):
        yield problem(
            "nvidia_container_toolkit_version", f"is not a version: {params['version']!r}", "write 1.20.1, for example"
        )
    for print_ in repository_of(params)["fingerprints"]:
        if not re.fullmatch(r"[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}", print_.replace(" ", "")):
            yield problem(
                "nvidia_container_toolkit_repository",
                f"has an invalid fingerprint: {print_!r}",
                "write all 40 hexadecimal digits",
            )


def host_problems(host: Host, params: Params, plan: Plan) -> t.Iterator[Problem]:
    """Check the request against this host. In check mode, earlier roles may be about to install docker and the driver."""
    version = docker_version(host)
    if not version and not host.docker_comes:
        yield problem(
            "nvidia_container_toolkit_state",
            "is present, and docker is not installed on this host",
            "apply the role docker first",
        )
    if not host.driver_library and not host.driver_loaded and not host.driver_comes:
        yield problem(
            "nvidia_container_toolkit_state",
            "is present, and no NVIDIA driver is installed on this host",
            "apply the role nvidia_driver first; a host without a GPU needs no toolkit",
        )
    if params["mode"] == CDI and version and version < CDI_SINCE:
        yield problem(
            "nvidia_container_toolkit_mode",
            f"is cdi, and docker {'.'.join(map(str, version))} does not support CDI, which needs docker {CDI_SINCE[0]}",
            "set it to auto, which uses the runtime here, or docker_edition to docker-ce",
        )
    wanted = full_version(params["version"])
    if plan.install and host.available and wanted not in host.available:
        newest = sorted(host.available, key=lambda version_: (numbers(version_), version_), reverse=True)[:5]
        yield problem(
            "nvidia_container_toolkit_version",
            f"is {params['version']}, which {repository_of(params)['url']} does not have for all four packages",
            f"choose one of {', '.join(newest)}",
        )
    changing = [name for name in PACKAGES if name in host.packages and host.packages[name].version != wanted]
    own_holds = host.record["held"] if host.record else []
    foreign = [name for name in changing if host.packages[name].hold and name not in own_holds]
    if foreign:
        yield problem(
            "nvidia_container_toolkit_version",
            f"asks for another version of {', '.join(foreign)}, on hold",
            "`apt-mark unhold` first",
        )
    for path in other_sources(host, repository_of(params)["url"])[1]:
        yield problem(
            path,
            "has the toolkit's repository among other sources: apt fails with two keys for one repository",
            "remove the lines of nvidia.github.io from it; the role adds them with the right key",
        )


# --- Files and units ---

_LINKS = "/usr/bin/nvidia-ctk system create-dev-char-symlinks"

DROP_IN_TEXT = f"""\
# {SERVICE} runs at boot and when the driver or the toolkit changes. Besides the CDI spec it creates links in /dev/char.
# Without them `systemctl daemon-reload` takes the GPUs away from running containers: runc does not list a device without a link
# in the unit, and NVIDIA's driver creates none (NVIDIA/nvidia-container-toolkit#48).
[Unit]
Before=docker.service

[Service]
ExecStartPost=-/bin/sh -c '{_LINKS} --create-all || {_LINKS}'
TimeoutStartSec=90s
"""

UDEV_TEXT = f"""\
# For a driver that is loaded after {SERVICE} has run at boot. Since 1.20 the package has this rule, too.
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia|nvidia_current", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{SERVICE}"
"""

# Rootless docker may not write to control groups. In the settings of the host, no-cgroups would also end the limits of root's
# containers (nvidia-container-toolkit#85). So each user's service manager names another file (api/config/v1/config.go of the toolkit).
ROOTLESS_CONFIG = f"{RUNTIME_FOLDER}/rigwright-rootless.toml"
ROOTLESS_DROP_IN = "/etc/systemd/user/docker.service.d/rigwright-nvidia.conf"
ROOTLESS: list[FileRow] = [
    {"path": ROOTLESS_CONFIG, "content": "[nvidia-container-cli]\nno-cgroups = true\n"},
    {"path": ROOTLESS_DROP_IN, "content": f"[Service]\nEnvironment=NVIDIA_CTK_CONFIG_FILE_PATH={ROOTLESS_CONFIG}\n"},
]


def plan_files(plan: Plan, host: Host) -> None:
    plan.part = part = part_of(plan.mode, docker_version(host), host.daemon_json, host.part)
    text = json.dumps(part, indent=1, sort_keys=True) + "\n" if part else ""
    plan.directories = [{"path": DROP_IN.rpartition("/")[0]}, {"path": "/etc/udev"}, {"path": "/etc/udev/rules.d"}]
    plan.files = [{"path": DROP_IN, "content": DROP_IN_TEXT}, {"path": UDEV_RULE, "content": UDEV_TEXT}]
    if part:
        plan.directories += [{"path": PART.rsplit("/", 2)[0]}, {"path": PART.rpartition("/")[0]}]
        plan.files.append({"path": PART, "content": text})
    if plan.mode == LEGACY:
        # The package installs the directory of the runtime's settings; it may have been removed since.
        folders = [RUNTIME_FOLDER] if PACKAGES[1] in host.packages else []
        plan.directories += [{"path": path} for path in (*folders, ROOTLESS_DROP_IN.rpartition("/")[0])]
        plan.files += ROOTLESS
    plan.apply = host.part != text or not is_in_force(host, plan.mode, part)


def plan_units(plan: Plan, host: Host) -> None:
    """Plan the units. The path unit notices a new driver or toolkit, but no other GPUs and no MIG: so each run compares the spec."""
    # Check mode does not know that a package which is not installed yet enables its units itself.
    plan.units = [{"name": PATH_UNIT}]
    if (host.refresh.stale or not host.service_enabled) and not host.refresh.problem:
        plan.units.append({"name": SERVICE})
    for unit in plan.units if PACKAGES[1] in host.packages else []:
        unit["enabled"] = True


def plan_findings(plan: Plan, host: Host) -> None:
    waits = "" if host.driver_loaded == host.driver_library else "reboot: the installed driver is not the loaded one"
    failure = host.refresh.problem if host.driver_loaded else "the driver is not loaded"
    plan.findings = [
        finding(
            "nvidia_container_toolkit.spec",
            "warn" if failure else "pass",
            f"no CDI spec can be written: {failure}" if failure else host.refresh.stale or f"{SPEC} matches the driver",
            waits or f"check `nvidia-smi` and `journalctl -u {SERVICE}`",
        ),
        finding("nvidia_container_toolkit.mode", "pass", f"{plan.mode}: {plan.reason}"),
    ]


def plan_present(host: Host, params: Params) -> Plan:
    plan = Plan(requirements=list(input_problems(params)))
    plan.mode, plan.reason = choose_mode(params["mode"], docker_version(host))
    plan.stale = host.refresh.problem or host.refresh.stale
    if plan.requirements:
        return plan
    plan_packages(plan, host, params)
    plan.requirements = list(host_problems(host, params, plan))
    if not plan.requirements:
        plan_files(plan, host)
        plan_units(plan, host)
        plan_findings(plan, host)
    return plan


def plan_absent(host: Host, params: Params) -> Plan:
    """Plan to restore the configuration and to remove the role's packages, but not under containers that have a GPU."""
    plan = Plan()
    record = host.record
    if record is None:
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
    plan.remove = [name for name in record["packages"] if name in host.packages]
    plan.unhold = [name for name in record["held"] if name in host.packages and host.packages[name].hold]
    if PACKAGES[1] in record["packages"]:
        plan.units = [
            {"name": PATH_UNIT, "state": "stopped", "enabled": False},
            {"name": SERVICE, "state": "stopped", "enabled": False},
        ]
        plan.remove_paths = [SPEC, *([RUNTIME_FOLDER] if record["settings"] else [])]
    plan.apply = bool(host.part) and bool(docker_version(host))
    return plan
