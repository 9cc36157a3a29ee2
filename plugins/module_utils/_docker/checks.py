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

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    CONFLICTS,
    DAEMON_JSON,
    DATA_ROOT,
    Host,
    Left,
    Plan,
    containerd_root_of,
    glob_of,
    held,
    pinned,
    roots,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    ENDS_CONTAINERS,
    Params,
    Unreadable,
    changed_options,
    parse_options,
)

# File systems that neither overlay2 nor containerd's snapshots work on.
UNSUITABLE = frozenset({"nfs", "nfs4", "cifs", "smb3", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk", "9p"})
_SIZE = re.compile(r"[1-9][0-9]*[bkmgBKMG]?")
_VERSION = re.compile(r"([0-9]+:)?[0-9][0-9A-Za-z.+~-]*")
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?")
_MIRROR = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(/[^\s?#]*)?")


def input_faults(params: Params) -> t.Iterator[Problem]:
    """What is wrong with the request by itself."""
    for variable, path in roots(params).items():
        if not path.startswith("/") or os.path.normpath(path) != path or path.count("/") < 2 or re.search(r"\s", path):
            yield problem(variable, f"is no directory for data: {path!r}", "write a path such as /data/docker")
    given = list(roots(params).values())
    if len(given) > 1 and any(
        f"{one}/".startswith(f"{other}/") for one in given for other in given if one is not other
    ):
        yield problem(
            "docker_containerd_root", "lies in docker_data_root, or around it", "give each a directory of its own"
        )
    if params["bind_ip"] and not _is_address(params["bind_ip"]):
        yield problem(
            "docker_bind_ip", f"is no IP address: {params['bind_ip']!r}", "write 127.0.0.1, or 0.0.0.0 for all"
        )
    for name in ("shm_size", "log_max_size"):
        if params[name] and not _SIZE.fullmatch(params[name]):
            yield problem(f"docker_{name}", f"is no size: {params[name]!r}", "write it as 50m or 1g")
    if params["log_max_files"] < 1:
        yield problem("docker_log_max_files", "must be at least 1", "write 5, for example")
    for mirror in params["registry_mirrors"]:
        if not _MIRROR.fullmatch(mirror):
            yield problem(
                "docker_registry_mirrors", f"has what is no address: {mirror!r}", "write https://mirror.example.org"
            )
    for user in params["users"]:
        if not _USER.fullmatch(user):
            yield problem("docker_users", f"has what is no user name: {user!r}", "list names of users of the host")
    if params["version"] and not _VERSION.fullmatch(params["version"]):
        yield problem("docker_version", f"is no version: {params['version']!r}", "write 28.5, or 28.5.2")
    yield from _pool_faults(params["address_pools"])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _pool_faults(pools: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Problem]:
    for pool in pools:
        try:
            base = ipaddress.ip_network(pool["base"])
        except ValueError as error:
            yield problem(
                "docker_address_pools", f"has what is no network: {error}", "write {base: 10.250.0.0/16, size: 24}"
            )
            continue
        if not base.prefixlen <= pool["size"] <= base.max_prefixlen - 2:
            yield problem(
                "docker_address_pools",
                f"cannot cut networks of /{pool['size']} out of {base}",
                f"choose a size from {base.prefixlen} to {base.max_prefixlen - 2}",
            )


def host_faults(host: Host, params: Params, plan: Plan) -> t.Iterator[Problem]:
    """What speaks against the request on this host."""
    if host.config_kind:
        yield problem(
            DAEMON_JSON,
            f"is a {host.config_kind}, and the role writes a file of its own",
            "put what it says into docker_daemon_options, or a file in its place",
        )
    for conflict in CONFLICTS[plan.edition]:
        if conflict in host.packages:
            yield problem(
                "docker_edition",
                f"is {plan.edition}, and {conflict} is installed, which apt would remove with its running containers",
                f"set docker_edition to what is there, or stop the containers and `apt-get remove {conflict}` (data stays)",
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
                    "choose private addresses that are not in use at your place",
                )
    if host.unknown_users:
        yield problem(
            "docker_users",
            f"names no user of this host: {', '.join(host.unknown_users)}",
            "make them first, or drop them",
        )
    if "hosts" in plan.options:
        yield problem(
            "docker_daemon_options",
            "(or the host's daemon.json) has hosts, which docker.service gives as -H: dockerd would not start",
            f"use a drop-in for docker.service, or ssh ({DAEMON_JSON} may hold it too)",
        )
    yield from _storage_faults(host, params)
    yield from move_faults(host, params, roots(params), plan.options)


def current_roots(host: Host) -> dict[str, str]:
    """Where the data of docker lies, by the variables that can say so."""
    docker = host.daemon or host.left
    if docker is None:
        return {}
    return {
        "docker_data_root": docker.root,
        "docker_containerd_root": containerd_root_of(host.containerd_config),
    }


def _storage_faults(host: Host, params: Params) -> t.Iterator[Problem]:
    current = current_roots(host)
    for variable, path in roots(params).items():
        place = host.places[path]
        if place.file:
            yield problem(variable, f"is {path}, in the way of which lies a file", "choose a directory")
        elif place.kind in UNSUITABLE:
            yield problem(
                variable, f"is {path}, on {place.mount}: {place.kind}, which docker cannot use", "use ext4 or xfs"
            )
        elif place.read_only:
            yield problem(
                variable, f"is {path}, on {place.mount}, which is read-only", "see `dmesg`; mount it for writing"
            )
        elif place.no_exec:
            yield problem(variable, f"is {path}, on {place.mount}, mounted noexec", "mount it without noexec")
        elif path != current.get(variable) and place.free_bytes < params["free_bytes"]:
            yield problem(
                variable,
                f"is {path}, on {place.mount}, which has {_mebibytes(place.free_bytes)} left"
                f" of the {_mebibytes(params['free_bytes'])} that docker_free_bytes asks for",
                "free some room, or choose another disk",
            )


def move_faults(
    host: Host, params: Params, given: t.Mapping[str, str], options: t.Mapping[str, t.Any]
) -> t.Iterator[Problem]:
    """Stored data is not left behind unasked, be it that a directory is named or no longer named."""
    unmanaged = host.containerd_original if host.containerd_managed else host.containerd_config
    coming = {
        "docker_data_root": options.get("data-root", DATA_ROOT),
        "docker_containerd_root": given.get("docker_containerd_root", containerd_root_of(unmanaged)),
    }
    in_docker = (host.daemon or host.left or Left()).stored
    stored = {
        "docker_data_root": f"{in_docker} containers and images" if in_docker else "",
        "docker_containerd_root": f"{host.containerd_stored} layers" if host.containerd_stored else "",
    }
    for variable, now in current_roots(host).items():
        if stored[variable] and now != coming[variable] and not params["allow_disruption"]:
            yield problem(
                variable,
                f"comes to {coming[variable]}, and docker has {stored[variable]} in {now}, which it would no longer see",
                "move them first (docs/docker.md), or set docker_allow_disruption to leave them behind",
            )


def _mebibytes(size: int) -> str:
    return f"{size // 1048576} MiB"


def disruption(host: Host, before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> str:
    """What a restart of docker from some options to others would do harm to, empty when nothing."""
    daemon = host.daemon
    if daemon is None:
        return ""
    if not daemon.answers:
        return "docker does not answer, so nobody knows what runs"
    if daemon.gpu:
        return f"containers use a GPU: {', '.join(daemon.gpu)}"
    if not daemon.running:
        return ""
    names = ", ".join(daemon.running)
    if not daemon.live_restore:
        return f"live-restore is not in force yet, and these containers would end: {names}"
    if daemon.swarm:
        return f"the host is part of a swarm, which knows no live-restore: {names}"
    ending = changed_options(before, after) & ENDS_CONTAINERS
    return f"{', '.join(sorted(ending))} would change, which these containers do not survive: {names}" if ending else ""


def unreadable_faults(host: Host) -> t.Iterator[Problem]:
    for path, text in {DAEMON_JSON: host.config, **host.parts}.items():
        try:
            parse_options(text)
        except Unreadable as error:
            yield problem(path, str(error), "mend it, or move it away: what it says is kept")


def refusal_faults(words: str, params: Params) -> t.Iterator[Problem]:
    """What dockerd says of the options as they would be, by the one who gave them."""
    if not words:
        return
    unknown = re.search(r"don't match any configuration option: (.+)", words)
    names = [name for name in re.split(r"[,\s]+", unknown[1]) if name] if unknown else []
    given = [name for name in names if name in params["daemon_options"]]
    text = f"has options that dockerd does not know: {', '.join(names)}" if names else f"is refused by dockerd: {words}"
    yield problem(
        "docker_daemon_options" if given or not names else DAEMON_JSON,
        text,
        "see the reference of dockerd for the options of this version",
    )
