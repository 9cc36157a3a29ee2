# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a request for modes of several GPUs: prepare it without a write, refuse it as a whole, or apply it."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import boot
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard, Declared
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.locked_clocks import NAME
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.apply import Host, NotKept, Run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.boot import PROGRAM
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import Entry, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml, find_card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Commands

ALL = "all"
# The options of one card.
OPTIONS: Spec = {
    "device": {"type": "str", "required": True},
    "persistence": {"type": "bool"},
    "compute_mode": {"type": "str", "choices": [*modes.COMPUTE_MODES]},
    "power_limit": {"type": "str"},
    "locked_gpu_clocks": {"type": "raw"},
    "locked_memory_clocks": {"type": "raw"},
    "accounting": {"type": "bool"},
    "ecc": {"type": "bool"},
    "time_slice": {"type": "str", "choices": [*modes.TIME_SLICES]},
}
_NOT_READ_BACK = ("locked_gpu_clocks", "locked_memory_clocks")


class ChangeRow(t.TypedDict):
    """A setting that changes."""

    setting: str
    before: str
    after: str


class Row(t.TypedDict):
    """A card in the result."""

    uuid: str
    name: str
    pci_address: str
    changes: list[ChangeRow]
    needs: str
    persistent: bool
    power_limit_w: float | None
    enforced_power_limit_w: float | None
    not_read_back: list[str]


def is_root() -> bool:
    return os.geteuid() == 0


def requests_of(rows: t.Sequence[Declared], cards: t.Sequence[Card]) -> dict[str, Entry]:
    """Return the user's rows, each with ``device`` and settings, by the UUID of the card.

    :raises Refusal: a row names no card, a card that does not answer, or the card of another row.
    """
    entries = []
    problems = []
    for number, row in enumerate(rows):
        where = f"gpus[{number}]"
        wanted = {name: row.get(name) for name in modes.SETTINGS}
        try:
            found = cards if row["device"] == ALL else [find_card(cards, row["device"])]
        except Refusal as error:
            problems.append(f"`{where}.device`: {error}")
            continue
        problems += [
            f"`{where}.device`: GPU {card.index}{f' at {card.pci_address}' if card.pci_address else ''} does not answer ({card.problem})"
            for card in found
            if card.problem
        ]
        entries += [Entry(where, card.uuid, wanted, row["device"] == ALL) for card in found if not card.problem]
    if problems:
        raise Refusal("; ".join(problems))
    try:
        return modes.merge_requests(entries)
    except ValueError as error:
        raise Refusal(str(error)) from error


def declare(declared: ByCard, requests: t.Mapping[str, Entry], keep: bool, exclusive: bool) -> boot.Changes:
    """Return the changes of the declaration for boots; pure.

    :param keep: declare the requested settings; without it, their declaration goes.
    :param exclusive: remove the declarations of cards without a request.
    """
    changes: dict[str, Declared | None] = dict.fromkeys(declared) if exclusive else {}
    for uuid, entry in requests.items():
        others = {name: value for name, value in declared.get(uuid, {}).items() if name not in entry.wanted}
        changes[uuid] = {**others, **(modes.to_declare(entry.wanted) if keep else {})}
    return changes


@dataclasses.dataclass
class Request:
    """The requested modes. *keep*: boots restore them; *exclusive*: boots restore nothing else."""

    entries: dict[str, Entry]
    keep: bool = True
    exclusive: bool = False

    def prepare(self, nvml: Nvml, tree: Tree, run: Run) -> Prepared:
        """Read, plan, and check. A request without cards needs no NVML.

        :raises Refusal: a part of the request is impossible; the text has all reasons.
        :raises NvmlError: a card does not answer.
        """
        host = Host(nvml, tree, run)
        cards = {card.uuid: card for card in (nvml.cards() if self.entries else []) if card.uuid in self.entries}
        plans = [
            modes.plan(host.read(cards[uuid], "time_slice" in entry.wanted), entry.wanted, entry.where)
            for uuid, entry in self.entries.items()
        ]
        before = boot.read_declared(tree, NAME)
        changes = declare(before, self.entries, self.keep, self.exclusive)
        declaration = boot.prepare(tree, NAME, PROGRAM, before, changes)
        prepared = Prepared(host, cards, plans, declaration, self.keep)
        problems = [text for plan in plans for text in plan.problems]
        if declaration.changed and declaration.after and not tree.exists(boot.SYSTEMD):
            problems.append(
                "`persist` is unit, and systemd does not run here: set `persist: none`, and run this again after each boot"
            )
        if prepared.changed and not is_root():
            problems.append("only root may change modes of GPUs: run it with `become: true`")
        if problems:
            raise Refusal("; ".join(problems))
        return prepared


@dataclasses.dataclass
class Prepared:
    """A valid request with its plans."""

    host: Host
    cards: dict[str, Card]
    plans: list[Plan]
    declaration: boot.Declaration
    keep: bool

    @property
    def changed(self) -> bool:
        return bool(self.declaration.changed) or any(plan.changes for plan in self.plans)

    @property
    def needs(self) -> str:
        return modes.worst(plan.needs for plan in self.plans)

    @property
    def warnings(self) -> list[str]:
        return [text for plan in self.plans for text in plan.warnings]

    def carry_out(self, module: Commands) -> None:
        """Write the settings, and declare them for boots.

        :raises Failed: a write failed; the settings before it are restored, and nothing is declared.
        :raises NotKept: the settings are written, but not declared.
        """
        self.host.carry_out(self.plans, self.cards)
        try:
            self.declaration.write(module)
        except OSError as error:
            raise NotKept(f"the modes are as requested, but the next boot does not restore them ({error})") from error

    def rows(self) -> list[Row]:
        return [self._row(plan) for plan in self.plans]

    def _row(self, plan: Plan) -> Row:
        state = plan.state
        set_to = plan.wanted.get("power_limit", state.power_limit)
        enforced = state.power_enforced
        if any(change.setting == "power_limit" for change in plan.changes):
            enforced = self._enforced(state.uuid, set_to)
        volatile = modes.to_declare(plan.wanted)
        return {
            "uuid": state.uuid,
            "name": state.name,
            "pci_address": state.pci_address,
            "changes": [
                {
                    "setting": change.setting,
                    "before": modes.shown(change.setting, change.before),
                    "after": modes.shown(change.setting, change.after),
                }
                for change in plan.changes
            ],
            "needs": plan.needs,
            "persistent": not volatile or self.keep,
            "power_limit_w": None if set_to is None else set_to / 1000,
            "enforced_power_limit_w": None if enforced is None else enforced / 1000,
            "not_read_back": [change.setting for change in plan.changes if change.setting in _NOT_READ_BACK],
        }

    def _enforced(self, uuid: str, wanted: int | None) -> int | None:
        """Return the enforced limit that the card reports; before the write, the requested one."""
        try:
            now = self.host.read(self.cards[uuid], time_slice=False)
        except NvmlError:
            return None
        return now.power_enforced if now.power_limit == wanted else wanted

    def diff(self) -> dict[str, dict[str, object]]:
        """Return the settings by card, and the declarations for boots."""
        before: dict[str, object] = {}
        after: dict[str, object] = {}
        for plan in self.plans:
            if plan.changes:
                key = plan.state.label
                before[key] = {row.setting: modes.shown(row.setting, row.before) for row in plan.changes}
                after[key] = {row.setting: modes.shown(row.setting, row.after) for row in plan.changes}
        if self.declaration.changed:
            before["declared for each boot"] = self.declaration.before
            after["declared for each boot"] = self.declaration.after
        return {"before": before, "after": after}
