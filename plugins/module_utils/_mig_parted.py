# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The format of nvidia-mig-parted (api/spec/v1 of its sources, 0.15), so that its configurations can be used and written. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._mig_layout import Layout, parse_name
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal

VERSION = "v1"
_KEYS = ("devices", "device-filter", "mig-enabled", "mig-devices")


@dataclasses.dataclass(frozen=True)
class Request:
    """What a configuration says of one GPU, as the module's own parameters say it."""

    mode: str
    layout: tuple[dict[str, t.Any], ...] = ()


def read(config: t.Mapping[str, t.Any], selected: str, devices: t.Mapping[int, str]) -> dict[int, Request]:
    """What is asked of each GPU that the configuration speaks of, by index.

    :param devices: index and PCI device id, as 0x233010de, of every GPU of the host.
    :raises Refusal: it is none of nvidia-mig-parted's, or says two things of one GPU.
    """
    if config.get("version") != VERSION:
        raise Refusal(f"mig_parted.config: version is {config.get('version')!r}; only {VERSION} is known")
    configs = config.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        raise Refusal("mig_parted.config: `mig-configs` has to be a mapping of names to lists")
    if selected not in configs:
        raise Refusal(f"mig_parted.selected: there is no {selected!r}; there are {', '.join(sorted(configs))}")
    if not isinstance(configs[selected], list) or not all(isinstance(spec, dict) for spec in configs[selected]):
        raise Refusal(f"mig_parted.config: mig-configs.{selected} has to be a list of mappings")
    found: dict[int, Request] = {}
    for number, spec in enumerate(configs[selected]):
        where = f"mig_parted.config: mig-configs.{selected}[{number}]"
        request = _request(spec, where)
        for index in _indices(spec, devices, where):
            if found.setdefault(index, request) != request:
                raise Refusal(f"{where}: GPU {index} is asked for something else by an entry before: leave one out")
    return found


def _request(spec: t.Mapping[str, t.Any], where: str) -> Request:
    unknown = [str(key) for key in spec if key not in _KEYS]
    if unknown:
        raise Refusal(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    enabled, instances = spec.get("mig-enabled"), spec.get("mig-devices") or {}
    if not isinstance(enabled, bool):
        raise Refusal(f"{where}.mig-enabled: has to be true or false")
    if not isinstance(instances, dict):
        raise Refusal(f"{where}.mig-devices: has to be a mapping of profiles to counts")
    if not enabled and instances:
        raise Refusal(f"{where}: mig-devices without mig-enabled; set mig-enabled: true")
    for name, count in instances.items():
        parse_name(str(name))
        if not _is_number(count) or count < 0:
            raise Refusal(f"{where}.mig-devices: {name}: {count!r} is no count")
    layout = tuple({"profile": str(name), "count": count} for name, count in instances.items() if count)
    return Request("enabled" if enabled else "disabled", layout)


def _is_number(value: object) -> bool:
    """To Python true and false are numbers as well."""
    return isinstance(value, int) and not isinstance(value, bool)


def _indices(spec: t.Mapping[str, t.Any], devices: t.Mapping[int, str], where: str) -> list[int]:
    named = spec.get("devices", "all")
    if named != "all" and not (isinstance(named, list) and all(_is_number(index) for index in named)):
        raise Refusal(f"{where}.devices: has to be `all` or a list of indices")
    unknown = [str(index) for index in named if index not in devices] if named != "all" else []
    if unknown:
        raise Refusal(f"{where}.devices: no GPU {', '.join(unknown)}; there are {', '.join(map(str, devices))}")
    filters = spec.get("device-filter") or []
    filters = filters if isinstance(filters, list) else [filters]
    try:
        # Without quotes 0x233010de is a number already to YAML.
        ids = {one if _is_number(one) else int(str(one), 16) for one in filters}
    except ValueError:
        raise Refusal(f"{where}.device-filter: ids are written as 0x233010de, device before vendor") from None
    return [
        index
        for index, device in devices.items()
        if (named == "all" or index in named) and (not ids or int(device, 16) in ids)
    ]


def write(
    gpus: t.Mapping[int, tuple[str, Layout, t.Mapping[str, int]]], hosts: int, name: str = "current"
) -> dict[str, t.Any]:
    """A configuration that says what GPUs are: by index their mode, instances, and the slices of each profile.

    GPUs that are alike share an entry. The format has no place for placements.

    :param hosts: how many GPUs the host has, since `all` means each of them.
    """
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[int]] = {}
    for index, (mode, layout, slices) in sorted(gpus.items()):
        counts = collections.Counter(
            one.profile if compute.slices == slices.get(one.profile) else f"{compute.slices}c.{one.profile}"
            for one in layout
            for compute in one.compute
        )
        alike.setdefault((mode, tuple(sorted(counts.items()))), []).append(index)
    entries = []
    for (mode, counted), indices in alike.items():
        entry: dict[str, t.Any] = {
            "devices": "all" if len(indices) == hosts else indices,
            "mig-enabled": mode == "enabled",
        }
        if mode == "enabled":
            entry["mig-devices"] = dict(counted)
        entries.append(entry)
    return {"version": VERSION, "mig-configs": {name: entries}}
