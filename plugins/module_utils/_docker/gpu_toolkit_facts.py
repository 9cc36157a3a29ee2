# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read how containers get the GPUs of a host: packages, sources, the running docker, and the CDI spec."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import stat
import tempfile
import urllib.error

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import SOURCES_LIST, SOURCES_PARTS
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import read_url
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Planned
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask, running_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.apt_source import read_records
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.facts import RunCommand, describe_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import DAEMON_JSON
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import show

ROOT = "/"
# Of the index, which has a few hundred KiB.
LIMIT, DEADLINE = 64 << 20, 120
PACKAGE_SET = "nvidia_container_toolkit_packages"
CTK = "/usr/bin/nvidia-ctk"
SETTINGS = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
OUTPUT = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
# Containers do not get the nodes of nvidia-fs and of NVLink switches.
NODE = re.compile(r"nvidia([0-9]+|ctl|-modeset|-uvm(-tools)?)")


def read_docker() -> toolkit.Docker | None:
    """Read what a running docker can do for GPUs; None when none answers."""
    try:
        info = ask("/info")
        _running, gpu = describe_containers(running_containers())
    except (OSError, ValueError):
        return None
    return toolkit.Docker(tuple(info.get("Runtimes") or ()), bool(info.get("CDISpecDirs")), gpu)


def settings_of(text: str, unit: str = "") -> dict[str, str]:
    """Return the variables of the refresh service: those of its unit, and of its environment file, which win (systemd.exec(5)).

    :param unit: the property Environment, as systemctl prints it.
    """
    found = dict(word.partition("=")[::2] for word in shlex.split(unit))
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            # systemd takes no line with a quote that does not end.
            with contextlib.suppress(ValueError):
                found[name] = " ".join(shlex.split(value))
    return found


def missing_links(tree: Tree) -> list[str]:
    """Return the device nodes of GPUs to which /dev/char has no link."""
    found = []
    for name in tree.names("/dev"):
        if NODE.fullmatch(name):
            about = os.stat(tree.at(f"/dev/{name}"))
            number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
            if stat.S_ISCHR(about.st_mode) and not tree.exists(f"/dev/char/{number}"):
                found.append(f"/dev/{name}")
    return found


def names_in(spec: str) -> tuple[str, ...]:
    """Return the devices of a CDI spec, in YAML as nvidia-ctk writes it in any version, or in JSON."""
    if spec.lstrip().startswith("{"):
        return tuple(str(device["name"]) for device in json.loads(spec).get("devices") or [])
    devices = re.search(r"^devices:\n((?:[ -].*\n?)*)", spec, re.MULTILINE)
    first = re.search(r"^( *)- ", devices[1], re.MULTILINE) if devices else None
    if not devices or not first:
        return ()
    return tuple(re.findall(rf"""^{first[1]}(?:- |  )name: ["']?([^"'\n]+)""", devices[1], re.MULTILINE))


def read_refresh(run: RunCommand, tree: Tree, loaded: bool) -> toolkit.Refresh:
    """Compare the CDI spec with a new one that nvidia-ctk generates from the driver."""
    if not tree.exists(CTK):
        return toolkit.Refresh(stale="there is no CDI spec yet")
    if not loaded:
        return toolkit.Refresh(problem="the driver is not loaded")
    unit = show(run, [toolkit.SERVICE], ["Environment"])[toolkit.SERVICE].get("Environment", [""])[0]
    settings = settings_of(tree.text(SETTINGS), unit)
    path = settings.get(OUTPUT, toolkit.SPEC)
    with tempfile.TemporaryDirectory() as folder:
        generated = os.path.join(folder, os.path.basename(path))
        rc, _out, err = run([CTK, "cdi", "generate"], environ_update={**settings, OUTPUT: generated})
        if rc != 0 or not os.path.exists(generated):
            return toolkit.Refresh(problem=(err.strip().splitlines() or [f"nvidia-ctk ended with {rc}"])[-1])
        now = Tree("/").text(generated)
    links = missing_links(tree)
    stale = ""
    if tree.text(path) != now:
        stale = f"{path} did not match the driver" if tree.exists(path) else f"there was no {path}"
    elif links:
        stale = f"/dev/char had no links to {', '.join(links)}"
    return toolkit.Refresh(stale=stale, devices=names_in(now))


def read_available(url: str, architecture: str) -> list[str]:
    """Return the versions of all four packages in the repository; none when it is unreachable, which apt will report."""
    address = f"{url.replace('$(ARCH)', architecture).rstrip('/')}/Packages"
    try:
        text = read_url(address, LIMIT, DEADLINE).decode("utf-8", errors="replace")
    except (urllib.error.URLError, OSError, ValueError):
        return []
    versions: dict[str, set[str]] = {}
    for block in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(" "))
        versions.setdefault(fields.get("Package", ""), set()).add(fields.get("Version", ""))
    return sorted(set.intersection(*(versions.get(name, set()) for name in toolkit.PACKAGES)))


def read_record(tree: Tree) -> toolkit.Record | None:
    """Return what the role has installed; None before its first run.

    :raises Damaged: the record is damaged.
    """
    remedy = "the role wrote it itself: restore it, or remove it, and the packages that are there count as your own"
    shape = {"packages": [str], "settings": bool, "held": [str]}
    for path in (toolkit.RECORD, toolkit.FORMER_RECORD):
        found: toolkit.Record | None = record.read(tree.at(path), remedy, shape)
        if found is not None:
            return found
    return None


def read_host(run: RunCommand, driver: JsonObject, planned: Planned) -> toolkit.Host:
    """Read the host.

    :param driver: facts of the driver (``_nvidia.facts.read_driver``).
    :param planned: in check mode, what earlier tasks of the run would have installed.
    :raises Damaged: a record of the role is damaged.
    """
    tree = Tree(ROOT)
    paths = [SOURCES_LIST, *(f"{SOURCES_PARTS}/{name}" for name in tree.names(SOURCES_PARTS))]
    return toolkit.Host(
        packages=parse_status(tree.text(STATUS)),
        sources={path: tree.text(path) for path in paths if path.endswith((".list", ".sources"))},
        put_away=[
            path
            for path, record in read_records(tree, PACKAGE_SET).items()
            if path.startswith(SOURCES_PARTS) and not record.written
        ],
        driver_loaded=driver["loaded"],
        driver_library=driver["library"],
        daemon_json=tree.text(DAEMON_JSON),
        part=tree.text(toolkit.PART),
        docker=read_docker(),
        refresh=read_refresh(run, tree, bool(driver["loaded"])),
        service_enabled=tree.exists(f"/etc/systemd/system/multi-user.target.wants/{toolkit.SERVICE}"),
        settings_there=tree.exists(toolkit.RUNTIME_FOLDER),
        record=read_record(tree),
        docker_comes=bool(planned.get("docker")),
        driver_comes=bool(planned.get("driver")),
    )
