# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of dockerd: how daemon.json is merged from layers, which of them need a restart, and the role's defaults."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Planned
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.docker_options import DockerOptions

# Options that dockerd reads again on SIGHUP ("Configuration reload behavior" in the reference page of dockerd). It also reads all
# `features` again, but those for the image store and CDI only take effect when it starts. So RELOADED_FEATURES lists the others.
RELOADED = frozenset(
    {
        "allow-nondistributable-artifacts",
        "authorization-plugins",
        "debug",
        "default-runtime",
        "insecure-registries",
        "labels",
        "live-restore",
        "max-concurrent-downloads",
        "max-concurrent-uploads",
        "max-download-attempts",
        "registry-mirrors",
        "runtimes",
        "shutdown-timeout",
    }
)
RELOADED_FEATURES = frozenset({"buildkit"})
# An option that is removed from the file keeps its value when dockerd reloads. So the role sets it to this value first.
NEUTRAL: JsonObject = {
    "allow-nondistributable-artifacts": [],
    "authorization-plugins": [],
    "debug": False,
    "default-runtime": "runc",
    "insecure-registries": [],
    "labels": [],
    "live-restore": False,
    "registry-mirrors": [],
    "runtimes": {},
    "shutdown-timeout": 15,
}
# Options whose change ends containers in spite of live-restore: "Restrictions" of its page, and options that move the storage.
ENDS_CONTAINERS = frozenset(
    {
        "bip",
        "bridge",
        "containerd",
        "data-root",
        "exec-root",
        "features",
        "fixed-cidr",
        "fixed-cidr-v6",
        "storage-driver",
        "storage-opts",
        "userns-remap",
    }
)
# `default-network-opts`. Without it `ip` applies to the default bridge alone, and to no network of `docker compose`.
NETWORK_OPTIONS_SINCE = (24,)
LIMITED_LOGS = ("local", "json-file")

# Of dockerd, by its own names: whatever a user and other roles write into daemon.json.
Options = JsonObject


class Params(DockerOptions):
    """A request: the options, and what ``__docker_context`` adds. There, ``repository`` is complete."""

    packages: dict[str, list[str]]
    coming_parts: dict[str, JsonObject]
    planned: Planned


class Unreadable(ValueError):
    """A file without valid options; the text says why."""


def parse_options(text: str | None) -> Options:
    """Return the options of a text; an empty one has none, as for dockerd.

    :raises Unreadable: the text is not a JSON object.
    """
    text = (text or "").lstrip("\ufeff")
    if not text.strip():
        return {}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from error
    if not isinstance(options, dict):
        raise Unreadable("is JSON, but no object of options")
    return options


def merge(*layers: Options) -> Options:
    """Merge layers deeply; a later one wins. A list replaces a list, and another log driver drops the log options."""
    merged: Options = {}
    for layer in layers:
        if layer.get("log-driver", merged.get("log-driver")) != merged.get("log-driver"):
            # A driver rejects options of another one.
            merged.pop("log-opts", None)
        for key, value in layer.items():
            before = merged.get(key)
            merged[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


_MISSING: t.Any = object()
_CREDENTIALS = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def own_part(own: Options, written: Options, now: Options) -> Options:
    """Return the host's own options: those that it had before, and changes of the file since the role wrote it."""
    found: Options = {}
    for key in {**own, **now, **written}:
        had, ours, is_now = (layer.get(key, _MISSING) for layer in (own, written, now))
        if is_now == ours:
            value = had
        elif isinstance(is_now, dict) and isinstance(ours, dict):
            # Empty: the user has also removed the host's own suboptions.
            value = own_part(had if isinstance(had, dict) else {}, ours, is_now) or _MISSING
        else:
            value = is_now
        if value is not _MISSING:
            found[key] = value
    return found


def restart_part(options: Options) -> Options:
    """Return the options that dockerd reads only when it starts."""
    part = {key: value for key, value in options.items() if key not in RELOADED}
    features = part.pop("features", {})
    if isinstance(features, dict):
        features = {key: value for key, value in features.items() if key not in RELOADED_FEATURES}
    return {**part, **({"features": features} if features else {})}


def has_credentials(options: t.Any) -> bool:
    """Return whether an address in the options has a password, such as that of a proxy or a mirror."""
    if isinstance(options, dict):
        return any(has_credentials(value) for value in options.values())
    if isinstance(options, list):
        return any(has_credentials(value) for value in options)
    return isinstance(options, str) and bool(_CREDENTIALS.search(options))


def changed_options(before: Options, after: Options) -> frozenset[str]:
    return frozenset(key for key in {**before, **after} if before.get(key, _MISSING) != after.get(key, _MISSING))


def default_options(params: Params, version: tuple[int, ...]) -> Options:
    """Return the options of the role's variables. An empty variable has none, so that the host's own option stays.

    :param version: of the docker that will read the options; empty where it is not known yet.
    """
    # The address applies to every network, whether it comes from bind_ip or from the options.
    address = params["daemon_options"].get("ip", params["bind_ip"])
    options: Options = {
        "data-root": params["data_root"],
        "default-address-pools": [dict(pool) for pool in params["address_pools"]],
        "default-shm-size": params["shm_size"],
        "ip": address,
        "log-driver": params["log_driver"],
        "registry-mirrors": list(params["registry_mirrors"]),
    }
    if params["log_driver"] in LIMITED_LOGS:
        options["log-opts"] = {"max-size": params["log_max_size"], "max-file": str(params["log_max_files"])}
    if address and version >= NETWORK_OPTIONS_SINCE:
        options["default-network-opts"] = {
            "bridge": {f"com.docker.network.bridge.host_binding_ipv{_version_of(address)}": address}
        }
    return {**{key: value for key, value in options.items() if value}, "live-restore": params["live_restore"]}


def _version_of(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 4


def dump(options: Options) -> str:
    return json.dumps(options, indent=4, sort_keys=True) + "\n"
