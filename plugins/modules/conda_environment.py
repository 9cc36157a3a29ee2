#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: conda_environment
short_description: Bring about conda environments, and go back
description:
  - An environment is a link, O(root)C(/envs/NAME), to one of its generations. What is asked for is solved once, and the outcome is kept as
    a lock beside the generation. A change makes a new generation, and the link is switched when all environments of the run are complete.
    Generations are not changed once they are linked, so there is one to go back to.
  - A run that fails or is killed leaves every environment as it was. The next run removes what that one left.
  - What others have done to a generation, such as a package that was added by hand, is found, and mended with a new generation from the
    same lock. What they did stays in the generation that is kept.
  - What this module has not made is left alone, and refused when it is in the way.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Where py-rattler is missing, it is told that environments change, and not which packages.
  diff_mode:
    support: full
requirements:
  - py-rattler 0.28 or newer, in the Python that runs the module or in O(python). It is not needed where nothing has to change.
options:
  environments:
    description:
      - The environments. Those that are not named are left alone.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - Name of the environment.
        type: str
        required: true
      state:
        description:
          - V(absent) removes the link and all generations.
        type: str
        choices: [present, absent]
        default: present
      packages:
        description:
          - What to install, as conda's match specs, such as V(python 3.12.*), V(numpy >=2,<3) or V(numpy ==2.1.0 py312_0).
          - V(numpy 2.1) is refused, since tools disagree on whether that is one version or all that begin so.
        type: list
        elements: str
        default: []
      channels:
        description:
          - Channels of this environment, instead of O(channels).
        type: list
        elements: str
      cuda:
        description:
          - Version of CUDA that the driver supports, such as V(12.8). Solving sees it as C(__cuda). Empty keeps to builds without CUDA.
        type: str
        default: ""
      pip:
        description:
          - Requirements for C(uv pip), such as V(einops >=0.8), for what no channel has. Wheels only.
          - They are locked with hashes once, or taken as they are when each has its V(--hash=).
          - What conda brought is not replaced. In check mode it is told what is asked for, not what that depends on.
        type: list
        elements: str
        default: []
      lock:
        description:
          - Text of a lock file in rattler's format, which pixi writes too. What it has is installed, and nothing is solved.
        type: str
        default: ""
      generation:
        description:
          - Number of a generation to go back to. While it is set, the rest of the request is left out of account.
          - V(0) means the generation that the request leads to. Asking again for what was asked before an upgrade goes back as well.
        type: int
        default: 0
      update:
        description:
          - Solve again, and take newer packages where the channels have them. Without it packages stay as they are.
        type: bool
        default: false
  root:
    description:
      - Directory of environments, generations and caches.
    type: path
    default: /opt/conda
  channels:
    description:
      - Channels by address, also V(file://), or by name. The first one that has a package is the only one for it.
    type: list
    elements: str
    default: [conda-forge]
  channel_alias:
    description:
      - Address below which a channel has its name. A mirror goes here. Empty means where conda-forge is at home.
    type: str
    default: ""
  keep:
    description:
      - How many generations to keep for going back, besides the one in use.
      - One that a process still runs from is kept as well.
    type: int
    default: 1
  index_url:
    description:
      - The Python package index for O(environments[].pip). Empty means what uv's own configuration on the host says.
    type: str
    default: ""
  timeout:
    description:
      - Give channels up after so many seconds.
    type: int
    default: 600
  python:
    description:
      - A Python that has py-rattler, for use when the module's own has not. Beside it lies C(uv).
    type: path
    default: /opt/rigwright/python/bin/python3
"""

EXAMPLES = r"""
- name: Bring about two environments
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        packages: [python 3.12.*, pytorch >=2.8, scikit-learn]
        cuda: "12.8"
      - name: plots
        packages: [python 3.13.*, matplotlib]

- name: Install exactly what a lock says
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        lock: "{{ lookup('ansible.builtin.file', 'research.lock') }}"

- name: Go back
  rigwright.workstation.conda_environment:
    environments:
      - name: research
        generation: 3
"""

RETURN = r"""
environments:
  description: What became of each environment; in check mode what would become of it.
  returned: success
  type: dict
  contains:
    prefix:
      description: The link, by which users name the environment. Empty when it is absent.
      type: str
    generation:
      description: The generation in use, 0 when there is none.
      type: int
    previous:
      description: The generations that are kept for going back.
      type: list
      elements: int
    added:
      description: Packages that were not in use before.
      type: list
      elements: str
    removed:
      description: Packages that are no longer in use.
      type: list
      elements: str
    replaced:
      description: Packages of which another build is in use.
      type: list
      elements: str
    drift:
      description: What others had changed since the environment was installed, now mended.
      type: list
      elements: str
  sample:
    research:
      prefix: /opt/conda/envs/research
      generation: 4
      previous: [3]
      added: []
      removed: [handwritten 1.0 0]
      replaced: [mathkit 1.0 0 -> 2.0 0]
      drift: [handwritten 1.0 0 was added]
"""

import contextlib
import dataclasses
import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import has_respawned, respawn_module
from ansible_collections.rigwright.workstation.plugins.module_utils import _conda_plan as conda
from ansible_collections.rigwright.workstation.plugins.module_utils import _rattler, _uv
from ansible_collections.rigwright.workstation.plugins.module_utils._conda_plan import CondaError

RECEIPT = ".json"
LOCK = ".lock"
PIP_LOCK = ".pip.txt"


class Store:
    """The directories of one `root`:

    envs/NAME                          link to a generation, relative
    generations/NAME/N                 its prefix
    generations/NAME/N.json, N.lock    its receipt and its lock; N.pip.txt where it has something from an index
    cache/packages, index, uv          what was downloaded
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def link(self, name: str) -> str:
        return os.path.join(self.root, "envs", name)

    def place(self, name: str, number: int | str = "") -> str:
        return os.path.join(self.root, "generations", name, str(number)).rstrip("/")

    def cache(self, what: str) -> str:
        return os.path.join(self.root, "cache", what)

    # Reading

    def read(self, name: str) -> conda.Environment:
        numbers = {
            int(stem): os.path.exists(self.place(name, stem + RECEIPT))
            for stem in {entry.partition(".")[0] for entry in _names(self.place(name))}
            if stem.isdigit()
        }
        in_use, foreign = self._read_link(name)
        generations, leftovers = {}, []
        for number in sorted(number for number, ours in numbers.items() if ours):
            receipt = self._read_receipt(name, number)
            # What the link leads to is used, whatever has become of it.
            if number == in_use or (receipt.complete and os.path.isdir(self.place(name, number))):
                generations[number] = self._read_generation(name, number, receipt)
            else:
                leftovers.append(number)
        if in_use is not None and in_use not in generations:
            in_use, foreign = None, foreign or (self.link(name) if os.path.exists(self.link(name)) else "")
        return conda.Environment(
            name=name,
            in_use=in_use,
            generations=generations,
            leftovers=leftovers,
            highest=max(numbers, default=0),
            foreign=foreign,
        )

    def _read_link(self, name: str) -> tuple[int | None, str]:
        """The generation that is linked, or what is in the way of the link."""
        path = self.link(name)
        if not os.path.lexists(path):
            return None, ""
        target = os.readlink(path) if os.path.islink(path) else ""
        base, number = os.path.split(target)
        if base == os.path.join("..", "generations", name) and number.isdigit():
            return int(number), ""
        return None, path

    def _read_receipt(self, name: str, number: int | str) -> conda.Receipt:
        path = self.place(name, f"{number}{RECEIPT}")
        try:
            with open(path, encoding="utf-8") as file:
                return conda.Receipt.from_json(json.load(file))
        except (ValueError, TypeError, KeyError) as error:
            raise CondaError(f"{path} cannot be read: {error}. Move it and {self.place(name, number)} away") from error

    def _read_generation(self, name: str, number: int, receipt: conda.Receipt) -> conda.Generation:
        prefix = self.place(name, number)
        records = read_records(prefix)
        strange = {record: read_record(prefix, record) for record in conda.unknown_records(receipt, records)}
        distributions = read_distributions(prefix)
        return conda.Generation(
            number=number,
            receipt=receipt,
            present=conda.present_packages(receipt, conda.Found(records, distributions, strange)),
            lost=sorted(set(receipt.distributions) - set(distributions)),
            has_lock=os.path.isfile(self.place(name, f"{number}{LOCK}")),
        )

    # Writing

    def write_receipt(self, name: str, number: int, receipt: conda.Receipt) -> None:
        path = self.place(name, f"{number}{RECEIPT}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        staged = os.path.join(os.path.dirname(path), f".{number}{RECEIPT}")
        with open(staged, "w", encoding="utf-8") as file:
            json.dump(receipt.to_json(), file, indent=1, sort_keys=True)
        os.replace(staged, path)

    def read_pip_lock(self, name: str, number: int) -> str:
        path = self.place(name, f"{number}{PIP_LOCK}")
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def install(self, name: str, number: int, step: Step, uv: _uv.Uv) -> conda.Packages:
        """Make a generation, and tell its packages. Until its receipt is complete, it is none."""
        spec, records = step.wanted.spec, step.make
        prefix = self.place(name, number)
        self.write_receipt(name, number, conda.Receipt(spec))
        os.makedirs(self.cache("packages"), exist_ok=True)
        _rattler.install(name, records, prefix, self.cache("packages"))
        _rattler.write_lock(self.place(name, f"{number}{LOCK}"), spec, records)
        packages, distributions = _rattler.packages_of(records), read_distributions(prefix)
        if spec["pip"]:
            lock = step.pip_lock or uv.lock(name, spec["pip"], prefix, distributions)
            uv.install(name, lock, prefix)
            with open(self.place(name, f"{number}{PIP_LOCK}"), "w", encoding="utf-8") as file:
                file.write(lock)
            new = sorted(set(read_distributions(prefix)) - set(distributions))
            packages.update({project + conda.PIP: package for project, package in map(conda.distribution, new)})
        receipt = conda.Receipt(
            spec=spec,
            complete=True,
            packages=packages,
            records=read_records(prefix),
            distributions=distributions,
        )
        # A power cut may not leave a receipt of files that never reached the disk.
        os.sync()
        self.write_receipt(name, number, receipt)
        return packages

    def switch(self, name: str, number: int) -> None:
        """Point the link elsewhere in one step."""
        path = self.link(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        staged = os.path.join(os.path.dirname(path), f".{name}.rigwright")
        if os.path.lexists(staged):
            os.unlink(staged)
        os.symlink(os.path.join("..", "generations", name, str(number)), staged)
        os.replace(staged, path)

    def discard(self, name: str, number: int) -> None:
        """The receipt goes last: a run that is killed in between leaves a leftover, and nothing without an owner."""
        path = self.place(name, number)
        receipt = self._read_receipt(name, number)
        self.write_receipt(name, number, conda.Receipt(receipt.spec))
        if os.path.lexists(path):
            shutil.rmtree(path)
        for ending in (PIP_LOCK, LOCK, RECEIPT):
            if os.path.exists(path + ending):
                os.unlink(path + ending)

    def tidy(self, name: str) -> None:
        """Leave no empty directories behind."""
        for entry in _names(self.place(name)):
            # What write_receipt was about when it was killed.
            if entry.startswith("."):
                os.unlink(self.place(name, entry))
        for path in (self.place(name), os.path.dirname(self.place(name)), os.path.dirname(self.link(name))):
            if os.path.isdir(path) and not os.listdir(path):
                os.rmdir(path)

    def prune_cache(self) -> None:
        """Keep what a generation has: that takes no room, since its files are the same ones. Without generations, keep nothing."""
        receipts = glob.glob(os.path.join(glob.escape(self.root), "generations", "*", f"*{RECEIPT}"))
        kept: set[str] = set()
        for path in receipts:
            number, name = os.path.splitext(os.path.basename(path))[0], os.path.basename(os.path.dirname(path))
            packages = self._read_receipt(name, number).packages
            kept.update(f"{package}-{build.version}-{build.build}" for package, build in packages.items())
        for entry in _names(self.cache("packages")):
            path = os.path.join(self.cache("packages"), entry)
            if os.path.isdir(path) and entry not in kept:
                shutil.rmtree(path)
                if os.path.exists(f"{path}.lock"):
                    os.unlink(f"{path}.lock")
        if not receipts:
            shutil.rmtree(self.cache(""), ignore_errors=True)
            if not os.listdir(self.root):
                os.rmdir(self.root)


def _names(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def read_records(prefix: str) -> dict[str, str]:
    """What conda says is in a prefix: its records with their SHA-256. Digests take a tenth of the time of parsing."""
    folder = os.path.join(prefix, "conda-meta")
    records = {}
    for name in _names(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), "rb") as file:
                records[name] = hashlib.sha256(file.read()).hexdigest()
    return records


def read_record(prefix: str, record: str) -> tuple[str, conda.Package]:
    path = os.path.join(prefix, "conda-meta", record)
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        return data["name"], conda.Package(data["version"], data["build"], data.get("sha256") or "")
    except (ValueError, KeyError, TypeError):
        # Whatever it is, it does not belong there.
        return record, conda.Package("unreadable")


def read_distributions(prefix: str) -> list[str]:
    """What Python's own tools know of, whoever put it there."""
    places = glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages"))
    names = {name for place in places for name in _names(place) if name.endswith((".dist-info", ".egg-info"))}
    return sorted(names)


def processes_in(prefix: str) -> list[int]:
    """The processes that run from a prefix, or have its libraries loaded."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/maps", encoding="utf-8", errors="replace") as file:
                loaded = f"{prefix}/" in file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                called = f"{prefix}/".encode() in file.read()
        except OSError:
            # It has ended.
            continue
        if (loaded or called) and int(entry) != os.getpid():
            found.append(int(entry))
    return sorted(found)


class Step(t.NamedTuple):
    """What becomes of one environment: *use* is the generation to be in use, *make* the packages of a new one to be made as that.

    *pip_lock* has what comes from an index with it, where that is known before.

    *adopt*: the packages stay, and are on record as what another request leads to. *held* are generations that would go, and the
    processes that run from them.
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
            lines = _uv.blocks(self.pip_lock) if self.pip_lock else self.wanted.spec["pip"]
            return {**_rattler.packages_of(self.make), **_uv.requested(lines)}
        return self.environment.generations[self.use].present if self.use is not None else {}

    @property
    def surplus(self) -> list[int]:
        keep = self.wanted.keep if self.wanted.present else 0
        return [number for number in conda.surplus(self.environment, self.use, keep) if number not in self.held]

    @property
    def changes(self) -> bool:
        environment = self.environment
        switched = self.use != environment.in_use
        return bool(switched or self.adopt or environment.leftovers or self.surplus)


class Planner:
    """Decides what becomes of each environment. It solves where it has to, and changes nothing."""

    def __init__(self, store: Store, index: str, timeout: int, uv: _uv.Uv) -> None:
        self.store, self.index, self.timeout, self.uv = store, index, timeout, uv

    def plan(self, wanted: conda.Wanted, environment: conda.Environment) -> Step:
        step = self.decide(wanted, environment)
        running = {number: processes_in(self.store.place(wanted.name, number)) for number in step.surplus}
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
        solved = _rattler.packages_of(records)
        conda.check_solved(wanted, solved)
        settled = conda.settle(wanted, solved, environment)
        pip_lock = self.newer_pip_lock(wanted, environment.generations[settled.use]) if settled.use is not None else ""
        if settled.use is not None and not pip_lock:
            adopt = environment.generations[settled.use].receipt.spec != wanted.spec
            return Step(wanted, environment, settled.use, adopt=adopt)
        return Step(wanted, environment, fresh, records, pip_lock)

    def newer_pip_lock(self, wanted: conda.Wanted, generation: conda.Generation) -> str:
        """What the index has now for a generation of which nothing else changes; empty where that is what it has."""
        if not wanted.spec["pip"] or not wanted.update:
            return ""
        prefix = self.store.place(wanted.name, generation.number)
        lock = self.uv.lock(wanted.name, wanted.spec["pip"], prefix, generation.receipt.distributions)
        return "" if lock == self.store.read_pip_lock(wanted.name, generation.number) else lock

    def records(self, wanted: conda.Wanted, environment: conda.Environment) -> t.Any:
        spec = wanted.spec
        if spec["lock"]:
            records = _rattler.read_lock_text(spec["lock"], f"the lock of the environment {wanted.name}")
            _rattler.check_satisfied(wanted.name, spec, records)
            return records
        number = conda.stays(wanted, environment)
        locked = self.read_lock(environment, number) if number is not None else []
        return _rattler.solve(wanted.name, spec, locked, self.index, self.timeout)

    def read_lock(self, environment: conda.Environment, number: int) -> t.Any:
        path = self.store.place(environment.name, f"{number}{LOCK}")
        return _rattler.read_lock(path, path)


def apply(store: Store, steps: t.Sequence[Step], uv: _uv.Uv) -> dict[str, conda.Packages]:
    """First every new generation, then the links, then what nobody goes back to. Tells the packages of what was made."""
    made = {}
    for step in steps:
        for number in step.environment.leftovers:
            store.discard(step.wanted.name, number)
    for step in steps:
        name, spec = step.wanted.name, step.wanted.spec
        if step.make is not None and step.use is not None:
            try:
                made[name] = store.install(name, step.use, step, uv)
            except (CondaError, OSError):
                store.discard(name, step.use)
                store.tidy(name)
                raise
        elif step.adopt and step.use is not None:
            receipt = step.environment.generations[step.use].receipt
            store.write_receipt(name, step.use, dataclasses.replace(receipt, spec=spec))
    for step in steps:
        if step.use is not None and step.use != step.environment.in_use:
            store.switch(step.wanted.name, step.use)
        elif step.use is None and step.environment.in_use is not None:
            os.unlink(store.link(step.wanted.name))
    for step in steps:
        for number in step.surplus:
            store.discard(step.wanted.name, number)
        store.tidy(step.wanted.name)
    store.prune_cache()
    return made


def drift(generation: conda.Generation | None) -> list[str]:
    """What others did to a generation, in words."""
    if generation is None or generation.intact:
        return []
    seen = conda.difference(generation.receipt.packages, generation.present)
    return [
        *(f"{row} was added" for row in seen.added),
        *(f"{row} was removed" for row in seen.removed),
        *(f"{row} was changed" for row in seen.replaced),
        *(f"{name} was removed" for name in generation.lost),
    ]


def describe(step: Step, store: Store, packages: conda.Packages) -> dict[str, t.Any]:
    """The outcome for one environment."""
    environment = step.environment
    surplus = set(step.surplus)
    return {
        "prefix": store.link(step.wanted.name) if step.use is not None else "",
        "generation": step.use or 0,
        "previous": sorted(set(environment.generations) - surplus - {step.use}),
        "drift": drift(environment.current),
        **conda.difference(environment.packages, packages)._asdict(),
    }


def lines(generation: int | None, packages: conda.Packages) -> dict[str, t.Any]:
    """An environment as a diff shows it."""
    if generation is None:
        return {}
    return {"generation": generation, "packages": [f"{name} {packages[name]}" for name in sorted(packages)]}


def read_request(params: dict[str, t.Any]) -> list[conda.Wanted]:
    return [
        conda.Wanted(
            name=row["name"],
            spec={
                "packages": sorted(" ".join(text.split()) for text in row["packages"]),
                "channels": row["channels"] or params["channels"],
                "channel_alias": params["channel_alias"],
                "cuda": row["cuda"],
                "lock": row["lock"],
                "pip": row["pip"],
            },
            present=row["state"] == "present",
            generation=row["generation"],
            update=row["update"],
            keep=params["keep"],
        )
        for row in params["environments"]
    ]


def main() -> None:
    environment_spec = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "packages": {"type": "list", "elements": "str", "default": []},
        "channels": {"type": "list", "elements": "str"},
        "cuda": {"type": "str", "default": ""},
        "lock": {"type": "str", "default": ""},
        "pip": {"type": "list", "elements": "str", "default": []},
        "generation": {"type": "int", "default": 0},
        "update": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "environments": {"type": "list", "elements": "dict", "required": True, "options": environment_spec},
            "root": {"type": "path", "default": "/opt/conda"},
            "channels": {"type": "list", "elements": "str", "default": ["conda-forge"]},
            "channel_alias": {"type": "str", "default": ""},
            "keep": {"type": "int", "default": 1},
            "index_url": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 600},
            "python": {"type": "path", "default": "/opt/rigwright/python/bin/python3"},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    try:
        run(module)
    except CondaError as error:
        module.fail_json(msg=f"{_sentence(str(error))} Every environment is as it was.")
    except OSError as error:
        module.fail_json(
            msg=f"The environments below {module.params['root']} cannot be brought about: {error}."
            " Correct that and run again; what was in use is whole."
        )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def run(module: AnsibleModule) -> None:
    params = module.params
    store = Store(params["root"])
    wanted = read_request(params)
    if not _rattler.is_there():
        # Before anything is locked: who starts again waits for the one that started it.
        respawn_where_needed(module, store, wanted)
    make_root = any(row.present for row in wanted) and not module.check_mode
    with locked(store.root, make_root):
        environments = {row.name: store.read(row.name) for row in wanted}
        conda.check(wanted, environments)
        # Not even a cache is written in check mode.
        with tempfile.TemporaryDirectory() as scratch:
            cache = (lambda what: os.path.join(scratch, what)) if module.check_mode else store.cache
            program = os.path.join(os.path.dirname(params["python"]), "uv")
            uv = _uv.Uv(program, cache("uv"), params["index_url"], module.run_command)
            planner = Planner(store, cache("index"), params["timeout"], uv)
            steps = [planner.plan(row, environments[row.name]) for row in wanted]
            changed = any(step.changes for step in steps)
            made = apply(store, steps, uv) if changed and not module.check_mode else {}
        packages = {step.wanted.name: made.get(step.wanted.name, step.packages) for step in steps}
        outcome = {step.wanted.name: describe(step, store, packages[step.wanted.name]) for step in steps}
        before = {step.wanted.name: lines(step.environment.in_use, step.environment.packages) for step in steps}
        after = {step.wanted.name: lines(step.use, packages[step.wanted.name]) for step in steps}
    for step in steps:
        for number, processes in step.held.items():
            module.warn(
                f"{store.place(step.wanted.name, number)} stays for now: processes {', '.join(map(str, processes))} run from it."
                " A later run removes it."
            )
    module.exit_json(changed=changed, environments=outcome, diff={"before": before, "after": after})


def respawn_where_needed(module: AnsibleModule, store: Store, wanted: t.Sequence[conda.Wanted]) -> None:
    """Start again in the Python that has py-rattler, unless nothing has to be solved or installed. Does not return if it does."""
    environments = {row.name: store.read(row.name) for row in wanted}
    conda.check(wanted, environments)
    names = [row.name for row in wanted if row.present and conda.decide(row, environments[row.name]).use is None]
    if not names:
        return
    python = module.params["python"]
    if os.path.exists(python) and not has_respawned():
        respawn_module(python)
    if module.check_mode:
        module.warn(
            f"{python} has no py-rattler yet: which packages {', '.join(names)} will have is known once it is there."
        )
        module.exit_json(changed=True, environments={}, diff={"before": "", "after": f"environments: {names}\n"})
    raise CondaError(f"{python} has no py-rattler: the role conda installs it; or set `python` to one that has")


@contextlib.contextmanager
def locked(root: str, make: bool) -> t.Iterator[None]:
    """One run at a time. The lock, on the directory itself, is gone when the process is, however it ended."""
    if make:
        os.makedirs(root, exist_ok=True)
    if not os.path.isdir(root):
        yield
        return
    directory = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


if __name__ == "__main__":
    main()
