# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of dockerd: how daemon.json is merged from layers, which part of it needs a restart, and what the role's variables say."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

# "Configuration reload behavior" of the reference page of dockerd: what is read again on SIGHUP. Of `features` dockerd
# takes all, but acts on those for the image store and CDI only when it starts, so they are not here (features: RELOADED_FEATURES).
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
# An option that is gone from the file keeps its value when dockerd reloads, so what the role takes away it sets to this first.
NEUTRAL: dict[str, t.Any] = {
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
# What containers do not survive also with live-restore: "Restrictions" of its page, and storage, which they would be parted from.
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
# `default-network-opts`, without which `ip` means the default bridge alone and no network of `docker compose`.
NETWORK_OPTIONS_SINCE = (24,)
LIMITED_LOGS = ("local", "json-file")

Params = t.Mapping[str, t.Any]
Options = dict[str, t.Any]


class Unreadable(ValueError):
    """A file that holds no options; the text says why."""


def parse_options(text: str | None) -> Options:
    """:raises Unreadable: the text is no JSON object. A file that is empty has no options, as for dockerd."""
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


def merge(*layers: t.Mapping[str, t.Any]) -> Options:
    """Deep merge, in which the later layer counts. Lists are replaced as a whole, and so are the log's options with its driver."""
    merged: Options = {}
    for layer in layers:
        if layer.get("log-driver", merged.get("log-driver")) != merged.get("log-driver"):
            # Options of one driver are errors for another.
            merged.pop("log-opts", None)
        for key, value in layer.items():
            before = merged.get(key)
            merged[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


_MISSING: t.Any = object()
_CREDENTIALS = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def own_part(own: t.Mapping[str, t.Any], written: t.Mapping[str, t.Any], now: t.Mapping[str, t.Any]) -> Options:
    """What the host has of its own: what it had before, and what others have changed in the file since the role wrote it."""
    found: Options = {}
    for key in {**own, **now, **written}:
        had, ours, is_now = (layer.get(key, _MISSING) for layer in (own, written, now))
        if is_now == ours:
            value = had
        elif isinstance(is_now, dict) and isinstance(ours, dict):
            # Nothing left in it: whoever changed the file has taken away what the host had there.
            value = own_part(had if isinstance(had, dict) else {}, ours, is_now) or _MISSING
        else:
            value = is_now
        if value is not _MISSING:
            found[key] = value
    return found


def restart_part(options: t.Mapping[str, t.Any]) -> Options:
    """The options that dockerd reads only when it starts."""
    part = {key: value for key, value in options.items() if key not in RELOADED}
    features = part.pop("features", {})
    if isinstance(features, dict):
        features = {key: value for key, value in features.items() if key not in RELOADED_FEATURES}
    return {**part, **({"features": features} if features else {})}


def has_credentials(options: t.Any) -> bool:
    """Whether an address in there has a password, as that of a proxy or a mirror may."""
    if isinstance(options, dict):
        return any(has_credentials(value) for value in options.values())
    if isinstance(options, list):
        return any(has_credentials(value) for value in options)
    return isinstance(options, str) and bool(_CREDENTIALS.search(options))


def changed_options(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> frozenset[str]:
    return frozenset(key for key in {**before, **after} if before.get(key, _MISSING) != after.get(key, _MISSING))


def default_options(params: Params, version: tuple[int, ...]) -> Options:
    """What the role's variables say. What is empty says nothing, so that the host's own option stays.

    :param version: of the docker that will read them; empty where it is not known yet.
    """
    # Asked for by name or among the options, it counts for every network.
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


def dump(options: t.Mapping[str, t.Any]) -> str:
    return json.dumps(options, indent=4, sort_keys=True) + "\n"
