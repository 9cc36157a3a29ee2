# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write configurations of nvidia-mig-parted (api/spec/v1 of its sources, 0.15). Pure."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Layout, parse_name
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

VERSION = "v1"
_TOP = ("version", "mig-configs")
_KEYS = ("devices", "device-filter", "mig-enabled", "mig-devices")
_FILTER = re.compile(r"(0x[0-9a-f]{1,8})(?::(0x[0-9a-f]{1,8}))?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Request:
    """The request of a configuration for one GPU, in the terms of the module's parameters.

    ``optional``: the entry is for `all` GPUs, which means those with MIG.
    """

    mode: str
    layout: tuple[dict[str, t.Any], ...] = ()
    optional: bool = dataclasses.field(default=False, compare=False)


def read(config: t.Mapping[str, t.Any], selected: str, devices: t.Mapping[int, tuple[int, int]]) -> dict[int, Request]:
    """Read what a configuration asks of each GPU, by index.

    :param devices: index and PCI ids of every GPU of the host: device and subsystem, each with the vendor in its lower half.
    :raises Refusal: the configuration is invalid, or has two different requests for one GPU.
    """
    unknown = [str(key) for key in config if key not in _TOP]
    if unknown:
        raise Refusal(f"mig_parted.config: unknown {', '.join(unknown)}; known are {', '.join(_TOP)}")
    if config.get("version") != VERSION:
        raise Refusal(f"mig_parted.config: version is {config.get('version')!r}; only {VERSION} is known")
    configs = config.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        raise Refusal("mig_parted.config: `mig-configs` has to be a mapping of names to lists")
    numbers = [repr(name) for name in configs if not isinstance(name, str)]
    if numbers:
        raise Refusal(f"mig_parted.config: mig-configs: {', '.join(numbers)} is no text to YAML; write names in quotes")
    if selected not in configs:
        raise Refusal(f"mig_parted.selected: there is no {selected!r}; there are {', '.join(sorted(configs))}")
    requests = {name: _requests(specs, f"mig_parted.config: mig-configs.{name}") for name, specs in configs.items()}
    found: dict[int, Request] = {}
    for number, (spec, request) in enumerate(zip(configs[selected], requests[selected])):
        where = f"mig_parted.config: mig-configs.{selected}[{number}]"
        for index in _indices(spec, devices, where):
            if found.setdefault(index, request) != request:
                raise Refusal(f"{where}: an earlier entry requests something else of GPU {index}: leave one out")
    return found


def _requests(specs: t.Any, where: str) -> list[Request]:
    """Parse all configurations of the file, as nvidia-mig-parted does, also those that are not selected."""
    if not isinstance(specs, list) or not specs or not all(isinstance(spec, dict) for spec in specs):
        raise Refusal(f"{where} has to be a list of mappings, at least one")
    return [_request(spec, f"{where}[{number}]") for number, spec in enumerate(specs)]


def _request(spec: t.Mapping[str, t.Any], where: str) -> Request:
    unknown = [str(key) for key in spec if key not in _KEYS]
    if unknown:
        raise Refusal(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(_KEYS)}")
    enabled, instances = spec.get("mig-enabled"), spec.get("mig-devices")
    if not isinstance(enabled, bool):
        raise Refusal(f"{where}.mig-enabled: has to be true or false")
    if enabled and instances is None:
        raise Refusal(f"{where}.mig-devices: is missing with mig-enabled; {{}} means no instances")
    instances = {} if instances is None else instances
    if not isinstance(instances, dict):
        raise Refusal(f"{where}.mig-devices: has to be a mapping of profiles to counts")
    if not enabled and instances:
        raise Refusal(f"{where}: mig-devices without mig-enabled; set mig-enabled: true")
    for name, count in instances.items():
        parse_name(str(name))
        if not _is_number(count) or count < 0:
            raise Refusal(f"{where}.mig-devices: {name}: {count!r} is no count")
    layout = tuple({"profile": str(name), "count": count} for name, count in instances.items() if count)
    if instances and not layout:
        raise Refusal(f"{where}.mig-devices: all counts are 0; {{}} means no instances")
    return Request("enabled" if enabled else "disabled", layout, optional=spec.get("devices") == "all")


def _is_number(value: object) -> bool:
    """Return whether a value is a number. In Python, booleans are numbers too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _indices(spec: t.Mapping[str, t.Any], devices: t.Mapping[int, tuple[int, int]], where: str) -> list[int]:
    named = spec.get("devices")
    if named != "all" and not (isinstance(named, list) and all(_is_number(index) for index in named)):
        raise Refusal(f"{where}.devices: has to be `all` or a list of indices")
    unknown = [str(index) for index in named if index not in devices] if named != "all" else []
    if unknown:
        raise Refusal(f"{where}.devices: no GPU {', '.join(unknown)}; there are {', '.join(map(str, devices))}")
    filters = spec.get("device-filter")
    # 0 and false are filters with invalid ids, and not the absence of a filter.
    filters = [] if filters in (None, "") else filters
    wanted = [_filter(text, where) for text in (filters if isinstance(filters, list) else [filters])]
    return [
        index
        for index, (device, subsystem) in devices.items()
        if (named == "all" or index in named)
        and (not wanted or any(text == device and other in (None, subsystem) for text, other in wanted))
    ]


def _filter(text: t.Any, where: str) -> tuple[int, int | None]:
    """Parse the ids of a device, and of its subsystem where the filter has one."""
    # YAML reads 0x233010de without quotes as a number.
    found = _FILTER.fullmatch(f"0x{text:x}" if _is_number(text) else str(text))
    if not found or not int(found[1], 16):
        raise Refusal(
            f"{where}.device-filter: ids are written as 0x233010de, device before vendor,"
            " or with those of the subsystem as 0x233010de:0x16c110de"
        )
    return int(found[1], 16), int(found[2], 16) if found[2] else None


def write(
    gpus: t.Mapping[int, tuple[str, Layout, t.Mapping[str, int]]], hosts: int, name: str = "current"
) -> dict[str, t.Any]:
    """Return the configuration of GPUs: by index their mode, instances, and the slices of each profile.

    GPUs with the same layout share an entry. The format has no placements.

    :param hosts: how many GPUs the host has, since `all` means each of them.
    """
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[int]] = {}
    for index, (mode, layout, slices) in sorted(gpus.items()):
        counts = collections.Counter(
            instance.profile
            if compute.slices == slices.get(instance.profile)
            else f"{compute.slices}c.{instance.profile}"
            for instance in layout
            for compute in instance.compute
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
