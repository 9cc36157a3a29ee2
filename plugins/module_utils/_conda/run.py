# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the steps for all requested environments, then carry them out."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import plan as conda
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import uv as conda_uv
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.prefix import processes_in
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.request import any_present
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.store import LOCK, Store


class Step(t.NamedTuple):
    """The plan for one environment: *use* is the generation to be in use, *make* the records of a new one to install as that.

    *pip_lock* locks its packages from an index, where these are known before.
    *adopt*: the packages stay, and their receipt gets the new request. *held* are generations that would be removed, with the processes
    that run from them.
    """

    wanted: conda.Wanted
    environment: conda.Environment
    use: int | None
    make: t.Any = None
    pip_lock: str = ""
    adopt: bool = False
    held: t.Mapping[int, t.Sequence[int]] = {}

    @property
    def packages(self) -> conda.Packages:
        if self.make is not None:
            lines = conda_uv.blocks(self.pip_lock) if self.pip_lock else self.wanted.spec["pip"]
            return {**rattler.packages_of(self.make), **conda_uv.requested(lines)}
        return self.environment.generations[self.use].present if self.use is not None else {}

    @property
    def surplus(self) -> list[int]:
        keep = self.wanted.keep if self.wanted.present else 0
        return [number for number in conda.surplus(self.environment, self.use, keep) if number not in self.held]

    @property
    def leftovers(self) -> list[int]:
        return [number for number in self.environment.leftovers if number not in self.held]

    @property
    def changes(self) -> bool:
        environment = self.environment
        switched = self.use != environment.in_use
        return bool(switched or self.adopt or self.leftovers or self.surplus)


class Planner:
    """The planner of steps. It solves where that is necessary, and changes nothing."""

    def __init__(self, store: Store, index: str, timeout: int, uv: conda_uv.Uv) -> None:
        self.store, self.index, self.timeout, self.uv = store, index, timeout, uv

    def plan(self, wanted: conda.Wanted, environment: conda.Environment) -> Step:
        step = self.decide(wanted, environment)
        running = {
            number: processes_in(self.store.place(wanted.name, number)) for number in (*step.surplus, *step.leftovers)
        }
        return step._replace(held={number: processes for number, processes in running.items() if processes})

    def decide(self, wanted: conda.Wanted, environment: conda.Environment) -> Step:
        if not wanted.present:
            return Step(wanted, environment, None)
        decision = conda.decide(wanted, environment)
        if decision.use is not None:
            return Step(wanted, environment, decision.use)
        fresh = environment.highest + 1
        if decision.again is not None:
            pip_lock = self.store.read_pip_lock(wanted.name, decision.again)
            return Step(wanted, environment, fresh, self.read_lock(environment, decision.again), pip_lock)
        records = self.records(wanted, environment)
        solved = rattler.packages_of(records)
        conda.check_solved(wanted, solved)
        settled = conda.settle(wanted, solved, environment)
        pip_lock = self.newer_pip_lock(wanted, environment.generations[settled.use]) if settled.use is not None else ""
        if settled.use is not None and not pip_lock:
            adopt = not conda.leads_to(wanted, environment.generations[settled.use].receipt)
            return Step(wanted, environment, settled.use, adopt=adopt)
        return Step(wanted, environment, fresh, records, pip_lock)

    def newer_pip_lock(self, wanted: conda.Wanted, generation: conda.Generation) -> str:
        """Return a new lock from the index for a generation that is otherwise unchanged; empty where it is the same."""
        if not wanted.spec["pip"] or not wanted.update:
            return ""
        prefix = self.store.place(wanted.name, generation.number)
        lock = self.uv.lock(wanted, prefix, generation.receipt.distributions)
        return "" if lock == self.store.read_pip_lock(wanted.name, generation.number) else lock

    def records(self, wanted: conda.Wanted, environment: conda.Environment) -> t.Any:
        spec = wanted.spec
        if spec["lock"]:
            records = rattler.read_lock_text(spec["lock"], f"the lock of the environment {wanted.name}")
            rattler.check_satisfied(wanted.name, spec, records)
            return records
        number = conda.stays(wanted, environment)
        locked = self.read_lock(environment, number) if number is not None else []
        return rattler.solve(wanted.name, spec, wanted.cuda, locked, self.index, self.timeout)

    def read_lock(self, environment: conda.Environment, number: int) -> t.Any:
        path = self.store.place(environment.name, f"{number}{LOCK}")
        return rattler.read_lock(path, path)


def apply(store: Store, steps: t.Sequence[Step], uv: conda_uv.Uv) -> dict[str, conda.Packages]:
    """Install new generations, then switch the links, then remove old ones. Return the packages of the installed ones."""
    installed = {}
    for step in steps:
        for number in step.leftovers:
            store.discard(step.wanted.name, number)
        if step.environment.lost is not None:
            # From now on it is a leftover, which a later run finds, however this one ends.
            store.write_receipt(step.wanted.name, step.environment.lost, conda.Receipt({}))
    if any(step.make is not None for step in steps):
        for archive in {archive for step in steps for archive in step.environment.spoiled}:
            store.forget(archive)
    for step in steps:
        name, spec = step.wanted.name, step.wanted.spec
        if step.make is not None and step.use is not None:
            try:
                installed[name] = store.install(step.wanted, step.use, step.make, step.pip_lock, uv)
            except (CondaError, OSError):
                store.discard(name, step.use)
                store.tidy(name)
                raise
        elif step.adopt and step.use is not None:
            receipt = step.environment.generations[step.use].receipt
            store.write_receipt(name, step.use, dataclasses.replace(receipt, spec=spec, cuda=step.wanted.cuda))
    for step in steps:
        if step.use is not None and step.use != step.environment.in_use:
            store.switch(step.wanted.name, step.use)
        elif step.use is None and step.environment.in_use is not None:
            store.unlink(step.wanted.name)
    for step in steps:
        for number in step.surplus:
            store.discard(step.wanted.name, number)
        store.tidy(step.wanted.name)
    store.prune_cache()
    return installed


def describe(step: Step, store: Store, packages: conda.Packages) -> dict[str, t.Any]:
    """Return the outcome for one environment."""
    environment = step.environment
    surplus = set(step.surplus)
    return {
        "prefix": store.link(step.wanted.name) if step.use is not None else "",
        "generation": step.use or 0,
        "previous": sorted(set(environment.generations) - surplus - {step.use}),
        "drift": environment.drift,
        **conda.difference(environment.packages, packages)._asdict(),
    }


def lines(generation: int | None, packages: conda.Packages) -> dict[str, t.Any]:
    """Return an environment as a diff shows it."""
    if generation is None:
        return {}
    return {"generation": generation, "packages": [f"{name} {packages[name]}" for name in sorted(packages)]}


def check_place(params: t.Mapping[str, t.Any], store: Store) -> None:
    """Refuse a root in which users other than root may write, before anything is created.

    :raises CondaError: there is such a directory.
    """
    if any_present(params):
        conda.check_place(store.open_to_others())


def unsolved(request: t.Iterable[conda.Wanted], store: Store) -> list[str]:
    """Return the environments that cannot be completed without py-rattler.

    :raises CondaError: the request is refused.
    """
    rows = list(request)
    environments = {row.name: store.read(row) for row in rows}
    conda.check(store.foreign, rows, environments)
    return [row.name for row in rows if row.present and conda.decide(row, environments[row.name]).use is None]


def run(
    request: t.Sequence[conda.Wanted], store: Store, params: t.Mapping[str, t.Any], check_mode: bool
) -> tuple[dict[str, t.Any], list[str]]:
    """Plan every environment and apply the steps, and return the result of the module with its warnings.

    :param params: the options of the module.
    :raises CondaError: the request is refused, or an environment cannot be solved or installed.
    """
    if any_present(params) and not check_mode:
        store.create()
    environments = {row.name: store.read(row) for row in request}
    conda.check(store.foreign, request, environments)
    # Not even a cache is written in check mode.
    with tempfile.TemporaryDirectory() as scratch:
        cache = (lambda name: os.path.join(scratch, name)) if check_mode else store.cache
        program = os.path.join(os.path.dirname(params["python"]), "uv")
        uv = conda_uv.Uv(program, cache("uv"), params["index_url"], params["torch_index"], store.run_command)
        planner = Planner(store, cache("index"), params["timeout"], uv)
        steps = [planner.plan(row, environments[row.name]) for row in request]
        changed = any(step.changes for step in steps)
        installed = apply(store, steps, uv) if changed and not check_mode else {}
    packages = {step.wanted.name: installed.get(step.wanted.name, step.packages) for step in steps}
    outcome = {step.wanted.name: describe(step, store, packages[step.wanted.name]) for step in steps}
    before = {step.wanted.name: lines(step.environment.in_use, step.environment.packages) for step in steps}
    after = {step.wanted.name: lines(step.use, packages[step.wanted.name]) for step in steps}
    drift = [f"{name}: {line}" for name, row in outcome.items() for line in row["drift"]]
    warnings = [
        f"{store.place(step.wanted.name, number)} stays for now: processes {', '.join(map(str, processes))} run from it."
        " A later run removes it."
        for step in steps
        for number, processes in step.held.items()
    ]
    diff = {"before": before, "after": after}
    return {"changed": changed, "environments": outcome, "drift": drift, "diff": diff}, warnings


def explain(error: CondaError | OSError, root: str) -> str:
    """Return the message for a request that is refused, or that a disk or a network prevents."""
    if isinstance(error, CondaError):
        text = str(error)
        return f"{text[0].upper()}{text[1:].rstrip('.')}. Every environment is as it was."
    return (
        f"The environments below {root} cannot be installed: {error}."
        " Correct that and run again; the environments in use are complete."
    )
