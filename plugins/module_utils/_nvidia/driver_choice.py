# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choose source, branch, modules and scope of a driver.

What the user asks for decides. Otherwise what is installed and fits the GPUs stays. Otherwise the catalogue's preference decides.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import (
    AUTO,
    Choice,
    Draft,
    build_failure,
    toolkit_problem,
)


def choose(draft: Draft) -> bool:
    """Choose source, branch and modules together: the first that the GPUs, the source and the request allow."""
    found = [choice for source in _sources(draft) for choice in _offers(draft, source)]
    requested = [choice for choice in found if _is_asked_for(draft, choice)]
    wanted = [choice for choice in requested if not _goes_down(draft, choice)]
    if not draft.plan.require(bool(wanted), *_why_none(draft, requested)):
        return False
    choice = min(wanted, key=lambda choice: _preference(draft, choice))
    plan = draft.plan
    plan.source, plan.branch, plan.modules, plan.scope = choice
    branch = next(row for row in data.BRANCHES if row.number == choice.branch)
    if branch.ends and branch.ends < draft.host["month"]:
        plan.notes.append(f"branch {choice.branch} was supported until {branch.ends}, and gets no more fixes")
    for field in ("source", "branch", "modules", "scope"):
        value, requested, had = getattr(choice, field), getattr(draft.request, field), getattr(draft.installed, field)
        if requested != AUTO:
            reason = f"asked for by nvidia_driver_{field}"
        elif had == value:
            reason = "installed, and fits"
        else:
            reason = _default_reason(draft, field, value)
        plan.reasons.append(f"{field} {value}: {reason}")
    return True


def _default_reason(draft: Draft, field: str, value: t.Any) -> str:
    if field == "source":
        rows = [row for row in package_data.DEFAULT_SOURCES if row.distribution == draft.system["distribution"]]
        return rows[0].source.removeprefix("rule: ")
    if field == "branch":
        row = next(row for row in data.BRANCHES if row.number == value)
        return f"{row.kind.replace('_', ' ')} branch" + (f", supported until {row.ends}" if row.ends else "")
    if field == "modules":
        return f"what {' and '.join(draft.cards.names)} and the source have" + (
            "; recommended" if value == data.OPEN else ""
        )
    return "a desktop is installed" if value == data.DESKTOP else "no desktop is installed"


def _sources(draft: Draft) -> tuple[str, ...]:
    order = [row.sources for row in package_data.DEFAULT_SOURCES if row.distribution == draft.system["distribution"]]
    return order[0] if order else ()


def _offers(draft: Draft, source: str) -> list[Choice]:
    """Return all drivers that a source has for the GPUs of this host."""
    offered: dict[int, tuple[str, ...]] = {}
    if source == data.ARCHIVE:
        for archive in package_data.ARCHIVES:
            if (archive.distribution, archive.version) == (draft.system["distribution"], draft.system["version"]):
                offered = archive.branches
    else:
        repository = draft.cuda_repository
        if repository:
            offered = {row.number: row.modules for row in data.BRANCHES if row.number >= repository.lowest_branch}
    return [
        Choice(source, row.number, modules, scope)
        for row in data.BRANCHES
        if row.number in offered and _in_range(draft, row)
        for modules in row.modules
        if modules in offered[row.number] and modules in draft.cards.modules
        for scope in (data.COMPUTE, data.DESKTOP)
    ]


def _in_range(draft: Draft, branch: data.Branch) -> bool:
    """Return whether a branch, at least in its newest release, knows every GPU of this host."""
    return draft.cards.lowest_branch <= branch.number <= draft.cards.highest_branch


def _is_asked_for(draft: Draft, choice: Choice) -> bool:
    return all(getattr(draft.request, field) in (AUTO, str(value)) for field, value in choice._asdict().items())


def _goes_down(draft: Draft, choice: Choice) -> bool:
    """Return whether a driver that serves the GPUs would become an older branch although the user named neither source nor branch."""
    return (draft.request.source, draft.request.branch) == (AUTO, AUTO) and _is_older(draft, choice)


def _is_older(draft: Draft, choice: Choice) -> bool:
    had = draft.installed.branch
    return choice.branch < had and draft.cards.lowest_branch <= had <= draft.cards.highest_branch


def _preference(draft: Draft, choice: Choice) -> tuple[t.Any, ...]:
    """Return a sort key, smaller is better: a source, then a branch and modules; what is installed before what is preferred."""
    scope = draft.installed.scope or (data.DESKTOP if draft.host["desktop"]["present"] else data.COMPUTE)
    return (
        bool(_known_failure(draft, choice)) and not draft.request.ignore_build_failures,
        choice.source != draft.installed.source,
        _sources(draft).index(choice.source),
        any(toolkit_problem(version, f"{choice.branch}.9999", ()) for version in draft.request.toolkits),
        choice.branch != draft.installed.branch,
        _is_older(draft, choice),
        data.PREFERRED_BRANCHES.index(choice.branch),
        choice.modules != (draft.installed.modules or data.OPEN),
        choice.scope != scope,
    )


def _known_failure(draft: Draft, choice: Choice) -> data.BuildFailure | None:
    """Return why no release of a choice builds for the kernel that boots next, None if no reason is known."""
    upstream = next((kernel["upstream"] for kernel in draft.host["kernels"] if kernel["next"]), "")
    return build_failure(str(choice.branch), upstream, choice.source, draft.system["distribution"])


def _why_none(draft: Draft, older: t.Sequence[Choice]) -> tuple[str, str, str]:
    """Return variable, problem and remedy if nothing serves the request: the narrowest part of the request that causes it.

    :param older: the choices that would serve it, if they were not older than what is installed.
    """
    request, cards, together = draft.request, draft.cards, " and ".join(draft.cards.names)
    if older:
        newest = max(choice.branch for choice in older)
        return (
            "nvidia_driver_branch",
            f"is {AUTO}, which does not go down from the installed branch {draft.installed.branch} to {newest}",
            f"use {newest} if an older driver is wanted",
        )
    everywhere = [choice for source in _sources(draft) for choice in _offers(draft, source)]
    branches = sorted({choice.branch for choice in everywhere})
    if request.modules not in (AUTO, *cards.modules):
        return (
            "nvidia_driver_modules",
            f"is {request.modules}, which has no support for {together}",
            f"use {AUTO} or {' or '.join(cards.modules)}",
        )
    if request.branch != AUTO and int(request.branch) not in branches:
        if int(request.branch) > cards.highest_branch:
            problem = f"but {cards.highest_branch} is the last for {together}"
        elif int(request.branch) < cards.lowest_branch:
            problem = f"but {together} is known from driver {cards.lowest_driver} on"
        else:
            problem = f"which {draft.system['distribution']} {draft.system['version']} has no packages of"
        return (
            "nvidia_driver_branch",
            f"is {request.branch}, {problem}",
            f"use {AUTO}" + (f" or one of {', '.join(map(str, branches))}" if branches else ""),
        )
    usable = [
        f"{choice.branch} {choice.modules} from {choice.source}"
        for choice in everywhere
        if choice.scope == data.COMPUTE
    ]
    variable = "nvidia_driver_source" if request.source != AUTO else "nvidia_driver_branch"
    requested = ", ".join(
        f"{field} {getattr(request, field)}"
        for field in ("source", "branch", "modules")
        if getattr(request, field) != AUTO
    )
    return (
        variable,
        f"leaves no driver for {together} on {draft.system['distribution']} {draft.system['version']}"
        f" ({requested or 'nothing was asked for'})",
        f"use one of {'; '.join(usable) or 'the supported systems'}",
    )


def another_driver(draft: Draft) -> str:
    """Return a source and branch that are not known to fail, as the beginning of a remedy."""
    choices = [choice for source in _sources(draft) for choice in _offers(draft, source)]
    good = [
        choice
        for choice in sorted(choices, key=lambda choice: _preference(draft, choice))
        if not _known_failure(draft, choice)
    ]
    return f"`nvidia_driver_source: {good[0].source}` with `nvidia_driver_branch: {good[0].branch}`, " if good else ""
