# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Convert the parameters of gpu_mig to a request for each GPU, and back to parameters by UUID. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import parted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import ENABLED
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.options import OPTIONS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, find_card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

ALL = "all"
UNCHANGED = "unchanged"
# The form of NVML and of declarations.
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True)
class Request:
    """The requested mode and layout of one GPU. ``layout``: None leaves the instances as they are; an empty one removes all.

    ``optional``: the request is for all GPUs, so that one without MIG is left as it is.
    """

    mode: str = UNCHANGED
    layout: tuple[t.Mapping[str, t.Any], ...] | None = None
    keep: bool = True
    allow_reset: bool = False
    optional: bool = False

    @property
    def wants_mig(self) -> bool:
        return self.mode == ENABLED or bool(self.layout)


@dataclasses.dataclass
class Requests:
    """The request for each GPU, in NVML's order. ``forgotten``: UUIDs of removed GPUs whose declaration has to go."""

    cards: list[tuple[Card, Request]]
    warnings: list[str] = dataclasses.field(default_factory=list)
    forgotten: list[str] = dataclasses.field(default_factory=list)


def resolve(cards: t.Sequence[Card], params: t.Mapping[str, t.Any]) -> Requests:
    """Resolve a request to GPUs of this host.

    :raises Refusal: a device does not exist, or parameters contradict each other.
    :raises NvmlError: a requested GPU does not answer.
    """
    warnings: list[str] = []
    devices = [ALL] if params["devices"] is None else params["devices"]
    forgotten = _gone(cards, devices) if _only_forgets(params) else []
    warnings += [f"devices: {device} is not there; no boot restores a layout for it any more" for device in forgotten]
    devices_left = [device for device in devices if device not in forgotten]
    chosen = _chosen(cards, devices_left, warnings) if devices_left or not forgotten else []
    every = devices == [ALL]
    common = {"keep": params["keep_instances"], "allow_reset": params["allow_reset"] == "gpu"}
    found: list[tuple[Card, Request]] = []
    if params["mig_parted"]:
        if params["mode"] != UNCHANGED or params["layout"] is not None:
            raise Refusal("mig_parted: its configuration says mode and layout; leave `mode` and `layout` out")
        configurations = parted.read(params["mig_parted"]["config"], params["mig_parted"]["selected"], _ids(cards))
        for card in chosen:
            if card.index in configurations:
                configuration = configurations[card.index]
                wanted = configuration.layout if configuration.mode == "enabled" else None
                found.append(
                    (card, Request(configuration.mode, wanted, optional=every and configuration.optional, **common))
                )
    else:
        layout = None if params["layout"] is None else tuple(params["layout"])
        found = [(card, Request(params["mode"], layout, optional=every, **common)) for card in chosen]
    for card, _request in found:
        if card.problem:
            raise NvmlError(card.problem.code, f"{card.problem.function} of GPU {card.index}")
    return Requests(found, warnings, forgotten)


def _only_forgets(params: t.Mapping[str, t.Any]) -> bool:
    """Return whether the request only removes declarations for boots."""
    nothing = params["mode"] == UNCHANGED and params["layout"] is None and not params["mig_parted"]
    return params.get("persist") == "none" and nothing


def _gone(cards: t.Sequence[Card], devices: t.Sequence[str]) -> list[str]:
    """Return the UUIDs of removed cards: only their declarations for boots can change."""
    present = {card.uuid for card in cards}
    return [device for device in devices if _UUID.fullmatch(device) and device not in present]


def _ids(cards: t.Sequence[Card]) -> dict[int, tuple[int, int]]:
    return {card.index: card.pci_ids or (0, 0) for card in cards}


def _chosen(cards: t.Sequence[Card], devices: t.Sequence[str], warnings: list[str]) -> list[Card]:
    if not devices:
        raise Refusal("devices: the list is empty; `all` means every GPU")
    if ALL in devices:
        if len(devices) > 1:
            raise Refusal("devices: `all` stands alone; leave it or the others out")
        if not cards:
            raise Refusal("devices: NVML shows no GPU; gpu_host_info shows the PCI devices")
        return list(cards)
    found: dict[int, Card] = {}
    for device in devices:
        try:
            card = find_card(cards, device)
        except Refusal as refusal:
            raise Refusal(f"devices: {refusal}") from None
        if device.strip().isdecimal():
            better = card.uuid or card.pci_address
            warnings.append(f"devices: index {device} may be another GPU after a change of hardware; write {better}")
        found[card.index] = card
    return [found[index] for index in sorted(found)]


def parameters(uuid: str, request: Request, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the parameters with which the module repeats the request at boot, when containers have not started yet."""
    own = {
        "devices": [uuid],
        "mig_parted": None,
        "mode": request.mode,
        "layout": None if request.layout is None else [dict(entry) for entry in request.layout],
        "keep_instances": request.keep,
        "persist": "unchanged",
        "refresh_cdi": "never",
    }
    return {**own, **{name: params[name] for name in OPTIONS.keys() - own.keys() - {"plans"}}}
