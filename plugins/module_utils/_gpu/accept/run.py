# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of gpu_accept: measure the GPUs, judge each, compare it with its baseline, and keep new baselines."""

from __future__ import annotations

import os
import pwd
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import (
    baseline,
    compare,
    machine,
    progress,
    request,
    workers,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as verdicts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import (
    CardFacts,
    Links,
    Report,
    Request,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import XidRow
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import GRAPHICS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.process import AsUser
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.state import read_card

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# The parameter `baseline`: neither read nor write one.
IGNORE = "ignore"


class Result(t.TypedDict):
    """The result of the module."""

    changed: bool
    verdict: str
    gpus: list[Report]
    links: Links
    findings: list[dict[str, str]]
    diff: dict[str, str]


class Measurement:
    """Measures GPUs, and judges each."""

    def __init__(self, module: AnsibleModule, nvml: Nvml) -> None:
        self.module, self.params, self.nvml = module, module.params, nvml
        self.request = request.parse(self.params)

    def measure(self, cards: t.Sequence[Card]) -> tuple[list[Report], Links]:
        """Measure cards; return their reports in the same order, and one report of the links between them."""
        before = {card.index: self.read_facts(card) for card in cards}
        reports: dict[int, Report] = {}
        for index, facts in before.items():
            # A desktop draws now and then; a program that computes would share the card with the test.
            pids = [row["pid"] for row in facts["processes"] or [] if row["kind"] != GRAPHICS]
            reason = verdicts.obstacle(facts, pids)
            if reason:
                reports[index] = verdicts.not_measured(facts, *reason)
        free = [card for card in cards if card.index not in reports]
        links = machine.links([], [], None)
        try:
            if free:
                measured, links = self.measure_free(free, before)
                reports.update(measured)
        except OSError as error:
            evidence = f"{self.params['python']} cannot be started: {error.strerror}"
            step = "name a Python that has PyTorch as `python`"
            reports.update({card.index: verdicts.not_measured(before[card.index], evidence, step) for card in free})
        return [reports[card.index] for card in cards], links

    def measure_free(
        self, cards: t.Sequence[Card], before: t.Mapping[int, CardFacts]
    ) -> tuple[dict[int, Report], Links]:
        """Measure cards that nothing else uses; return their reports by index, and one report of the links between them.

        :raises OSError: the interpreter cannot be started.
        """
        requests: list[tuple[Card, Request]] = [
            (card, {**self.request, "dtypes": verdicts.dtypes_of(before[card.index])}) for card in cards
        ]
        log_before, options = self.read_kernel_log(), self.process_options()
        report = progress.writer(self.params["progress_file"])
        report(progress.plan_text([card_request for _card, card_request in requests]))
        outcomes = workers.measure(self.nvml, requests, self.params["python"], report, **options)
        sound = [
            (card, card_request, outcome)
            for (card, card_request), outcome in zip(requests, outcomes)
            if verdicts.failure(outcome, self.params["python"]) is None and not outcome.lost
        ]
        pairs = None
        if len(sound) > 1:
            linked = [card for card, _request, _outcome in sound]
            pairs = workers.measure_pairs(self.nvml, linked, self.params["python"], sound[0][1], **options)
        log_after = self.read_kernel_log()
        reports = {
            card.index: self.report(
                before[card.index], card, card_request, outcome, new_xids(log_before, log_after, card)
            )
            for (card, card_request), outcome in zip(requests, outcomes)
        }
        facts = [before[card.index] for card, _request, _outcome in sound]
        return reports, machine.links(facts, [outcome for _card, _request, outcome in sound], pairs)

    def report(
        self, before: CardFacts, card: Card, card_request: Request, outcome: workers.Outcome, xids: list[XidRow] | None
    ) -> Report:
        """Return the report of one card from the outcome of its process.

        :param before: the facts of the card before the measurement.
        :param xids: new Xids of the card; None where the kernel's log cannot be read.
        """
        reason = verdicts.failure(outcome, self.params["python"])
        after = self.read_facts(card)
        # The outcome of a card that was lost during the test has this problem already.
        gone = None if outcome.lost else verdicts.problem_of_gone(after)
        if reason:
            broken = verdicts.problem_of_ended(outcome) or gone
            report = verdicts.not_measured(before, *reason)
            if broken:
                report = verdicts.not_measured(before, broken["evidence"], broken["next_step"], broken["verdict"])
            # A new Xid may be the reason.
            report["notes"] = [f"Xid {xid['code']} meanwhile: {xid['text']}" for xid in xids or ()]
            return report
        report = verdicts.report(before, after, card_request, outcome.events, outcome.samples, xids)
        report["memory_test"], memory_problems, memory_notes = machine.memory(outcome)
        report["together"], problems, notes = machine.together(before, report["tests"], outcome)
        late = [found for found in (gone, machine.later_problem(outcome)) if found]
        report["problems"] += [*memory_problems, *problems]
        report["problems"] += late or machine.unmeasured_steps(outcome, card_request)
        report["notes"] += [*memory_notes, *notes]
        return report

    def read_facts(self, card: Card) -> CardFacts:
        """Read the facts of a card, with the version of the driver."""
        return {**read_card(self.nvml, card), "driver": self.nvml.driver_version()}

    def process_options(self) -> AsUser:
        """Return the options of Popen that start a process as the user of the request."""
        if os.geteuid() != 0:
            return {}
        user = pwd.getpwnam(self.params["user"])
        groups = os.getgrouplist(user.pw_name, user.pw_gid)
        environment = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups, "env": environment}

    def read_kernel_log(self) -> str | None:
        """Read the kernel's log; None where this user is not allowed to."""
        program = self.module.get_bin_path("dmesg")
        if program is None:
            return None
        status, output, _error = self.module.run_command([program])
        return output if status == 0 else None


def new_xids(log_before: str | None, log_after: str | None, card: Card) -> list[XidRow] | None:
    """Return the Xids of a card that are new in the kernel's log; None where the log cannot be read."""
    if log_before is None or log_after is None:
        return None
    # The log is a ring: old lines may have gone, so its length says nothing.
    old = set(log_before.split("\n"))
    new = "\n".join(line for line in log_after.split("\n") if line not in old)
    address = xid_log.normal_address(card.pci_address)
    return [xid.as_result() for xid in xid_log.parse(new) if xid.pci_address == address]


def run(module: AnsibleModule, nvml: Nvml) -> Result:
    """Measure the requested GPUs, keep their baselines, and return the result of the module.

    :raises Refusal: a requested GPU does not exist, or a baseline is damaged.
    """
    params, policy = module.params, module.params["baseline"]
    cards = [nvml.find(name) for name in params["gpus"]] if params["gpus"] else nvml.cards()
    cards = list({card.index: card for card in cards}.values())
    if not cards:
        raise Refusal("`gpus`: NVML shows no GPU at all; gpu_host_info shows what is on the PCI bus")
    baselines = {
        card.index: None if policy == IGNORE else baseline.read(params["directory"], card.uuid or None)
        for card in cards
    }
    before: dict[str, baseline.Baseline | None] = {}
    after: dict[str, baseline.Baseline | None] = {}
    reports, links = Measurement(module, nvml).measure(cards)
    for card, report in zip(cards, reports):
        current = baselines[card.index]
        problems, notes = compare.against_baseline(report, current, policy)
        report["problems"] += problems
        report["notes"] += notes
        report["verdict"] = verdicts.worst(report["problems"])
        wanted = compare.plan_baseline(current, report, policy, time.strftime("%Y-%m-%d"))
        if wanted is not None and wanted != current:
            try:
                if not module.check_mode:
                    baseline.write(params["directory"], wanted)
            except OSError as error:
                # The measurement is worth more than its baseline.
                report["notes"].append(
                    f"there is no baseline of this run ({error}): run it as root, or set `directory`"
                )
            else:
                before[card.uuid], after[card.uuid] = current, wanted
    return {
        "changed": bool(after),
        "verdict": verdicts.worst([problem for report in [*reports, links] for problem in report["problems"]]),
        "gpus": reports,
        "links": links,
        "findings": [*map(verdicts.finding, reports), *machine.findings(links)],
        "diff": {
            "before": "".join(map(baseline.text_of, before.values())),
            "after": "".join(map(baseline.text_of, after.values())),
        },
    }
