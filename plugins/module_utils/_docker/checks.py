# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check a request for docker: why it is refused. Each problem names a variable and a remedy."""

from __future__ import annotations

import fnmatch
import ipaddress
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import NAME_REMEDY, is_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.docker_options import DockerAddressPools
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    CONFLICTS,
    DAEMON_JSON,
    REPLACED,
    Host,
    Plan,
    StoppedDaemon,
    containerd_root_of,
    data_root_of,
    flags,
    glob_of,
    held,
    in_swarm,
    pinned,
    roots,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    ENDS_CONTAINERS,
    Options,
    Params,
    Unreadable,
    changed_options,
    parse_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import can_hold_layers, same_path

_SIZE = re.compile(r"[1-9][0-9]*[bkmgBKMG]?")
_VERSION = re.compile(r"([0-9]+:)?[0-9][0-9A-Za-z.+~-]*")
_MIRROR = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(/[^\s?#]*)?")


def input_problems(params: Params) -> t.Iterator[Problem]:
    """Check the request by itself, whatever the host is."""
    for variable, path in roots(params).items():
        if not path.startswith("/") or os.path.normpath(path) != path or path.count("/") < 2 or re.search(r"\s", path):
            yield problem(variable, f"is not a directory for data: {path!r}", "write a path such as /data/docker")
    given = list(roots(params).values())
    if len(given) > 1 and any(
        f"{inner}/".startswith(f"{outer}/") for inner in given for outer in given if inner is not outer
    ):
        yield problem(
            "docker_containerd_root", "is inside docker_data_root, or contains it", "give each a directory of its own"
        )
    if params["bind_ip"] and not _is_address(params["bind_ip"]):
        yield problem(
            "docker_bind_ip", f"is not an IP address: {params['bind_ip']!r}", "write 127.0.0.1, or 0.0.0.0 for all"
        )
    for name, size in (("shm_size", params["shm_size"]), ("log_max_size", params["log_max_size"])):
        if size and not _SIZE.fullmatch(size):
            yield problem(f"docker_{name}", f"is not a size: {size!r}", "write it as 50m or 1g")
    if params["log_max_files"] < 1:
        yield problem("docker_log_max_files", "must be at least 1", "write 5, for example")
    for mirror in params["registry_mirrors"]:
        if not _MIRROR.fullmatch(mirror):
            yield problem(
                "docker_registry_mirrors",
                f"has an invalid address: {without_secrets(repr(mirror))}",
                "write https://mirror.example.org",
            )
    for variable, users in (("users", params["users"]), ("rootless_users", params["rootless_users"])):
        for user in users:
            if not is_name(user):
                yield problem(f"docker_{variable}", f"has an invalid user name: {user!r}", NAME_REMEDY)
    yield from _rootless_problems(params)
    if params["version"] and not _VERSION.fullmatch(params["version"]):
        yield problem("docker_version", f"is not a version: {params['version']!r}", "write 28.5, or 28.5.2")
    yield from _pool_problems(params["address_pools"])


def _rootless_problems(params: Params) -> t.Iterator[Problem]:
    if "root" in params["rootless_users"]:
        yield problem(
            "docker_rootless_users",
            "names root, whose docker is the one of the host",
            "list users of the host, and create them first",
        )
    both = [user for user in params["rootless_users"] if user in params["users"]]
    if both:
        yield problem(
            "docker_rootless_users",
            f"names users who are in docker_users as well, and so can become root: {', '.join(both)}",
            "name each user in only one of the two",
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _pool_problems(pools: t.Sequence[DockerAddressPools]) -> t.Iterator[Problem]:
    for pool in pools:
        try:
            base = ipaddress.ip_network(pool["base"])
        except ValueError as error:
            yield problem(
                "docker_address_pools", f"has an invalid network: {error}", "write {base: 10.250.0.0/16, size: 24}"
            )
            continue
        if not base.prefixlen <= pool["size"] <= base.max_prefixlen - 2:
            yield problem(
                "docker_address_pools",
                f"cannot cut networks of /{pool['size']} out of {base}",
                f"choose a size from {base.prefixlen} to {base.max_prefixlen - 2}",
            )


def host_problems(host: Host, params: Params, plan: Plan) -> t.Iterator[Problem]:
    """Check the request against this host."""
    if host.config_kind:
        yield problem(
            DAEMON_JSON,
            f"is a {host.config_kind}, and the role writes a regular file",
            "move its options to docker_daemon_options, or replace it with a file",
        )
    if host.snap:
        yield problem(
            "docker_edition",
            f"is {plan.edition}, and the docker of snap is installed: both use one socket, and each breaks the other",
            "keep what it stores (/var/snap/docker/common), and then `snap remove docker`",
        )
    for conflict in CONFLICTS[plan.edition]:
        if conflict in host.packages:
            yield problem(
                "docker_edition",
                f"is {plan.edition}, and {conflict} is installed, which apt would remove with its running containers",
                f"set docker_edition to the installed one, or stop the containers and `apt-get remove {conflict}` (data stays)",
            )
    replaced = REPLACED[plan.edition]
    if host.others and replaced in host.packages:
        yield problem(
            "docker_edition",
            f"is {plan.edition}, for which apt would remove {replaced}, and that runs {host.others} containers that are not docker's",
            f"end them first (of Kubernetes: `kubectl drain`), or set docker_edition to the one that keeps {replaced}",
        )
    foreign = [
        name for name in pinned(host, params, plan.edition) if host.packages[name].hold and name not in held(host)
    ]
    if foreign:
        yield problem(
            "docker_version", f"asks for another version of {', '.join(foreign)}, on hold", "`apt-mark unhold` first"
        )
    if host.available and not fnmatch.filter(host.available, glob_of(params, plan.edition)):
        yield problem(
            "docker_version",
            f"is {params['version']}, which apt does not have of {plan.edition}",
            f"choose among {', '.join(host.available)}, or `apt-get update` first",
        )
    for network, interface in host.networks.items():
        for pool in params["address_pools"]:
            if ipaddress.ip_network(network).overlaps(ipaddress.ip_network(pool["base"])):
                yield problem(
                    "docker_address_pools",
                    f"has {pool['base']}, which overlaps {network}, a network of this host ({interface})",
                    "choose private addresses that your network does not use",
                )
    if host.unknown_users:
        yield problem(
            "docker_users",
            f"names no user of this host: {', '.join(host.unknown_users)}",
            "create them first, or drop them",
        )
    if host.unknown_rootless_users:
        yield problem(
            "docker_rootless_users",
            f"names no user of this host: {', '.join(host.unknown_rootless_users)}",
            "list users of the host, and create them first",
        )
    if "hosts" in plan.options and (host.arguments is None or flags(host.arguments, "--host", "-H")):
        yield problem(
            "docker_daemon_options",
            "(or the host's daemon.json) has hosts, which docker.service passes as -H: dockerd would not start",
            f"make a drop-in for docker.service whose ExecStart has no -H (docs/docker.md), or use ssh ({DAEMON_JSON} may hold it too)",
        )
    others = [path for path in flags(host.arguments or (), "--config-file") if not same_path(path, DAEMON_JSON)]
    if others:
        yield problem(
            "docker_daemon_options",
            f"would be in {DAEMON_JSON}, and docker.service has dockerd read {others[-1]}",
            "take --config-file out of the unit or its drop-in; options of that file can be in docker_daemon_options",
        )
    if in_swarm(host) and plan.options.get("live-restore"):
        yield problem(
            "docker_daemon_options",
            "has live-restore, and this host is part of a swarm, in which dockerd does not start with it",
            "leave it out, or leave the swarm",
        )
    yield from _storage_problems(host, params)
    yield from move_problems(host, params, roots(params), plan.options)


def current_roots(host: Host) -> dict[str, str]:
    """Return the directories that docker stores its data in now, by the variables that can set them."""
    docker = host.daemon or host.stopped
    if docker is None:
        return {}
    return {
        "docker_data_root": docker.root,
        "docker_containerd_root": containerd_root_of(host.containerd_config),
    }


def _storage_problems(host: Host, params: Params) -> t.Iterator[Problem]:
    current = current_roots(host)
    for variable, path in roots(params).items():
        place = host.places[path]
        if place.file:
            yield problem(variable, f"is {path}, where a file is in the way", "choose a directory")
        elif not can_hold_layers(place.kind):
            yield problem(
                variable, f"is {path}, on {place.mount}: {place.kind}, which docker cannot use", "use ext4 or xfs"
            )
        elif place.read_only:
            yield problem(
                variable, f"is {path}, on {place.mount}, which is read-only", "see `dmesg`; mount it for writing"
            )
        elif place.no_exec:
            yield problem(variable, f"is {path}, on {place.mount}, mounted noexec", "mount it without noexec")
        elif not same_path(path, current.get(variable, "/")) and place.free_bytes < params["free_bytes"]:
            yield problem(
                variable,
                f"is {path}, on {place.mount}, which has {_mebibytes(place.free_bytes)} free"
                f" of the {_mebibytes(params['free_bytes'])} that docker_free_bytes requires",
                "free some space, or choose another disk",
            )


def move_problems(host: Host, params: Params, given: t.Mapping[str, str], options: Options) -> t.Iterator[Problem]:
    """Refuse to leave stored data behind, also where a directory is no longer named."""
    unmanaged = host.containerd_original if host.containerd_managed else host.containerd_config
    coming = {
        "docker_data_root": data_root_of(options, host.arguments),
        "docker_containerd_root": given.get("docker_containerd_root", containerd_root_of(unmanaged)),
    }
    in_docker = (host.daemon or host.stopped or StoppedDaemon()).stored
    stored = {
        "docker_data_root": f"{in_docker} containers and images" if in_docker else "",
        "docker_containerd_root": f"{host.containerd_stored} layers" if host.containerd_stored else "",
    }
    for variable, now in current_roots(host).items():
        if stored[variable] and not same_path(now, coming[variable]) and not params["allow_disruption"]:
            yield problem(
                variable,
                f"would be {coming[variable]}, and docker has {stored[variable]} in {now}, which it would no longer find",
                "move them first (docs/docker.md), or set docker_allow_disruption to leave them behind",
            )


def _mebibytes(size: int) -> str:
    return f"{size // 1048576} MiB"


def disruption(host: Host, before: Options, after: Options) -> str:
    """Return the harm that a restart of docker with other options would do; empty for none."""
    daemon = host.daemon
    if daemon is None:
        return ""
    if not daemon.answers:
        return "docker does not answer, so it is unknown what runs"
    if daemon.gpu:
        return f"containers use a GPU: {', '.join(daemon.gpu)}"
    if not daemon.running:
        return ""
    names = ", ".join(daemon.running)
    if daemon.swarm:
        return f"the host is part of a swarm, which has no live-restore: {names}"
    if not daemon.live_restore:
        return f"live-restore is not in effect yet, and these containers would end: {names}"
    ending = changed_options(before, after) & ENDS_CONTAINERS
    return f"{', '.join(sorted(ending))} would change, which these containers do not survive: {names}" if ending else ""


def unreadable_problems(host: Host) -> t.Iterator[Problem]:
    for path, text in {DAEMON_JSON: host.config, **host.parts}.items():
        try:
            parse_options(text)
        except Unreadable as error:
            yield problem(path, str(error), "fix it, or move it away: its options are kept")


def refusal_problems(message: str, params: Params) -> t.Iterator[Problem]:
    """Turn dockerd's error about the planned options into a problem of their source: the user or the host's file."""
    if not message:
        return
    unknown = re.search(r"don't match any configuration option: (.+)", message)
    names = [name for name in re.split(r"[,\s]+", unknown[1]) if name] if unknown else []
    mistyped = re.findall(r"Go struct field Config\.([\w-]+)", message)
    given = [name for name in (*names, *mistyped) if name in params["daemon_options"]]
    text = (
        f"has options that dockerd does not know: {', '.join(names)}"
        if names
        else f"is refused by dockerd: {without_secrets(message)}"
    )
    yield problem(
        "docker_daemon_options" if given or (params["daemon_options"] and not (names or mistyped)) else DAEMON_JSON,
        text,
        "see the reference of dockerd for the options of this version",
    )
