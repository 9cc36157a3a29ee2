# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""A change of the driver's packages that ends in the new driver or in the previous one, and in nothing between.

What is there is kept as .deb files, and the change is put on record, before apt is asked for anything. Going back needs dpkg and
these files: no network, and no dependencies solved, since the previous packages fitted together. A run that was killed is found on
record by the next one. After a reboot the same code, as a program (``main``), looks whether the new driver loads: whoever
rebooted, and without Ansible.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
    sync_directory,
    sync_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as gpu

# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_nvidia_driver"
RECORD = f"{HOME}/record.json"
KEPT = f"{HOME}/kept"
LOG = f"{HOME}/make.log"
ARCHIVES = "/var/cache/apt/archives"
PREFERENCES = "/etc/apt/preferences.d"
OWN_PREFERENCES = "rigwright-nvidia-driver"
MODPROBE = "/etc/modprobe.d/rigwright-nvidia-driver.conf"
UPDATE_INITRAMFS = "/usr/sbin/update-initramfs"
BOOT_ID = "/proc/sys/kernel/random/boot_id"

BEGUN, INSTALLED = "begun", "installed"
DKMS = "dkms"
# Seconds: another apt may be at work; a module that udev loads may take a while.
LOCK_TIMEOUT = 300
DPKG_LOCKS = "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"
LOCK, LOCK_WAIT = "nvidia_driver", 3600
LOAD_TIMEOUT = 20

CONFIGURE = ("dpkg", "--force-confdef", "--force-confold")
# Between two sets of packages that each fit together nothing does.
FORCED = (*CONFIGURE, *(f"--force-{what}" for what in ("depends", "breaks", "remove-reinstreq", "hold", "overwrite")))

# No question is asked, and no service is restarted by others than the role.
ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C.UTF-8",
}

Entry = dict[str, t.Any]
Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]


class Failed(Exception):
    """The change was taken back; the text says why it had to be."""


class Stuck(Exception):
    """Not even the previous packages could be put back; the text says what dpkg said."""


# --- the record ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Change:
    """One change. *before* are the touched packages as they were, *new* those that were not there, *versions* what apt is to install.

    *loads* says whether a GPU is there, so that the module has to be loaded after a reboot; *kernel* is the one that it is for: that
    which boots next, once the packages are in place.
    """

    branch: int
    build: str = DKMS
    loads: bool = True
    install: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    recommends: bool = False
    preferences: str = ""
    before: dict[str, Entry] = dataclasses.field(default_factory=dict)
    new: list[str] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    stage: str = BEGUN
    version: str = ""
    kernel: str = ""
    boot: str = ""


@dataclasses.dataclass
class Failure:
    """Why a change was taken back. *at* is packages, build, boot or interruption."""

    at: str
    evidence: str
    version: str = ""
    kernel: str = ""
    log: str = ""
    restored: str = ""


@dataclasses.dataclass
class Record:
    """What the role has done to the packages of this host.

    *baseline* are packages as they were before the role changed them first, *brought* those that were not there.
    The baseline has all that apt changed along; what is given back of it are the driver's own packages.
    *kept* has size and SHA-256 of the files in ``KEPT``, by name.
    """

    baseline: dict[str, Entry] = dataclasses.field(default_factory=dict)
    brought: list[str] = dataclasses.field(default_factory=list)
    held: list[str] = dataclasses.field(default_factory=list)
    kept: dict[str, list[t.Any]] = dataclasses.field(default_factory=dict)
    change: Change | None = None
    failure: Failure | None = None

    @property
    def replaced(self) -> dict[str, Entry]:
        """The previous driver. Libraries and kernels that came newer stay so: their old versions lack security updates."""
        return {name: entry for name, entry in self.baseline.items() if is_own(name)}

    @classmethod
    def load(cls, tree: Tree) -> Record:
        """:raises Stuck: it is damaged."""
        text = tree.text(RECORD)
        try:
            values = json.loads(text) if text else {}
            for key, kind in (("change", Change), ("failure", Failure)):
                if values.get(key):
                    values[key] = kind(**values[key])
            return cls(**values)
        except (AttributeError, TypeError, ValueError) as error:
            raise Stuck(
                f"{RECORD}, which tells what the role has changed here, is damaged ({error}): restore it from a backup, or delete it."
                f" Without it nothing that was there before comes back by itself; its packages lie in {KEPT}"
            ) from error

    def is_unsettled(self, boot: str) -> bool:
        """Whether a change was cut short, or waits for its proof and the host has booted since."""
        return self.change is not None and (self.change.stage == BEGUN or self.change.boot != boot)


# --- what apt says and is told ---------------------------------------------------------------------------------------


class Simulation(t.NamedTuple):
    """What ``apt-get --simulate`` would do. *error* is apt's reason where it cannot."""

    install: dict[str, str]
    remove: list[str]
    error: str = ""


def parse_simulation(rc: int, out: str, err: str) -> Simulation:
    if rc != 0:
        told = re.findall(r"^ [a-z].*|^E: .*", out + err, re.MULTILINE)
        return Simulation({}, [], " ".join(" ".join(told).split()) or (out + err).strip()[-500:])
    install = dict(re.findall(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", out, re.MULTILINE))
    return Simulation(install, re.findall(r"^(?:Remv|Purg) (\S+)", out, re.MULTILINE))


def simulation_problem(simulation: Simulation, change: Change) -> str:
    """Why a transaction must not be carried out, empty when it may: only the driver's own packages go, only its branch comes."""
    if simulation.error:
        return f"apt finds no way: {simulation.error}"
    foreign = [name for name in simulation.remove if not is_own(name)]
    if foreign:
        return f"apt would also remove {', '.join(foreign)}"
    other = [
        f"{name} {version}"
        for name, version in simulation.install.items()
        # The simulation does not tell whose version it is; a tool of another branch would be the archive's.
        if is_driver(name) and not gpu.is_on_branch(_bare(name), version, change.branch, {gpu.data.ARCHIVE})
    ]
    return f"apt would install {', '.join(other)}" if other else ""


def is_driver(name: str) -> bool:
    """Whether a package is the driver's, of whichever architecture: a name as ``Host.packages`` has it."""
    return gpu.is_driver_package(_bare(name))


def is_own(name: str) -> bool:
    """Whether a package belongs to the driver, or pins it to its branch."""
    return is_driver(name) or name.startswith("nvidia-driver-pinning-")


def _bare(name: str) -> str:
    return name.partition(":")[0]


def apt_command(change: Change, parts: str, *options: str) -> list[str]:
    """The one transaction: the old branch out and the new one in, with the pins that hold afterwards."""
    return [
        *("apt-get", "install", "--yes", "--allow-downgrades", "--allow-change-held-packages"),
        *("-o", f"Dir::Etc::PreferencesParts={parts}"),
        *("-o", f"APT::Install-Recommends={'true' if change.recommends else 'false'}"),
        *("-o", "APT::Get::AutomaticRemove=false", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}"),
        *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
        *options,
        *change.install,
        *(f"{name}-" for name in change.remove),
    ]


@contextlib.contextmanager
def preferences_parts(tree: Tree, change: Change) -> t.Iterator[str]:
    """A directory with the host's preferences as they will be: the new pin instead of those of earlier branches."""
    pins = {
        path
        for name in tree.names("/var/lib/dpkg/info")
        if re.fullmatch(r"nvidia-driver-pinning-.*\.list", name)
        for path in tree.text(f"/var/lib/dpkg/info/{name}").splitlines()
    }
    with tempfile.TemporaryDirectory(prefix="rigwright_nvidia_") as parts:
        # apt reads them as a user of its own.
        os.chmod(parts, 0o755)  # noqa: S103 - preferences are no secret
        for name in tree.names(PREFERENCES):
            if f"{PREFERENCES}/{name}" not in pins and name != OWN_PREFERENCES:
                replace_file(os.path.join(parts, name), tree.text(f"{PREFERENCES}/{name}"))
        replace_file(os.path.join(parts, OWN_PREFERENCES), change.preferences)
        yield parts


def simulate(run: Run, tree: Tree, change: Change) -> Simulation:
    with preferences_parts(tree, change) as parts:
        return parse_simulation(*run(apt_command(change, parts, "--simulate")))


# --- the host --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def alone() -> t.Iterator[None]:
    """Wait until nobody else changes the driver: after a reboot a run of the role meets the host's own unit.

    Whoever is at work ends, if only after the minutes that DKMS takes; the lock of somebody who was killed is gone.

    :raises Stuck: another run does not end.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(host_lock(LOCK, LOCK_WAIT))
        except Busy as error:
            raise Stuck(str(error)) from None
        yield


class Host:
    """The packages of this host, and the record of what was done to them."""

    def __init__(self, run: Run, root: str = "/") -> None:
        self.run = run
        self.tree = Tree(root)
        self.record = Record.load(self.tree)

    @property
    def boot(self) -> str:
        return self.tree.text(BOOT_ID).strip()

    def packages(self) -> dict[str, Entry]:
        """Every package of which something is installed, by name; one of a foreign architecture is ``name:architecture``."""
        form = "${Package}\t${Architecture}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\n"
        native = self._must(["dpkg", "--print-architecture"]).strip()
        automatic = set(self._must(["apt-mark", "showauto"]).split())
        found = {}
        for line in self._must(["dpkg-query", "--show", f"--showformat={form}"]).splitlines():
            name, architecture, version, want, status = line.split("\t")
            if status not in ("not-installed", "config-files"):
                key = name if architecture in (native, "all") else f"{name}:{architecture}"
                found[key] = {
                    "version": version,
                    "architecture": architecture,
                    "automatic": key in automatic,
                    "hold": want == "hold",
                    "whole": status == "installed",
                }
        return found

    # --- forward ---

    def change(self, change: Change) -> None:
        """Carry a change out.

        :raises Failed: it did not work, and the previous packages are back.
        :raises Stuck: it did not work, and neither did going back.
        """
        # What the lists name may be gone; of a source that does not answer, what it said last stands.
        self.run(["apt-get", "update", "--quiet"])
        with self._owned_dpkg():
            # Others have ended by now what they were at.
            before = self.packages()
        simulation = simulate(self.run, self.tree, change)
        problem = simulation_problem(simulation, change)
        if problem:
            raise Failed(f"the packages would not be changed as planned: {problem}")
        touched = sorted({*simulation.install, *simulation.remove, *change.remove})
        unfinished = [name for name, entry in before.items() if not entry["whole"]]
        others = [name for name in unfinished if name not in touched or not is_driver(name)]
        if others:
            # Their faults would count as those of the new driver.
            raise Failed(
                f"no package was changed, since dpkg has not finished {', '.join(others)}:"
                " `dpkg --configure --pending` has to succeed first"
            )
        # A driver that dpkg could not finish, as one that does not build for the kernel, is none to go back to: all of it goes.
        lost = {name for name in touched if unfinished and is_driver(name)}
        change.before = {name: before[name] for name in touched if name in before and name not in lost}
        change.new = [name for name in simulation.install if name not in change.before]
        change.versions = simulation.install
        change.stage, change.boot = BEGUN, self.boot
        try:
            self._keep(change.before)
        except (OSError, Stuck) as error:
            raise Failed(f"no package was changed, since the previous ones could not be kept: {error}") from error
        self._remember(change)
        with preferences_parts(self.tree, change) as parts:
            rc, out, err = self.run(apt_command(change, parts))
        failure = self.problem(change)
        if rc != 0 and (failure is None or failure.at != "build"):
            failure = Failure("packages", _last_words(out + err))
        if failure:
            raise Failed(self._take_back(change, failure))
        self._finish(change)

    def _remember(self, change: Change) -> None:
        record = self.record
        for name, entry in change.before.items():
            if name not in record.brought:
                record.baseline.setdefault(name, entry)
        record.brought = sorted({*record.brought, *change.new} - record.baseline.keys())
        record.change, record.failure = change, None
        self.save()

    def _finish(self, change: Change) -> None:
        """The packages are in place; without a GPU there is nothing to wait for."""
        automatic = [name for name in change.install if change.before.get(name, {}).get("automatic")]
        # Its pin would hold the new branch back, and as a configuration file it outlives a removal.
        gone = [
            dpkg_name(name, entry)
            for name, entry in change.before.items()
            if name in change.remove and not is_driver(name)
        ]
        with self._owned_dpkg() as run:
            for words, names in ((["apt-mark", "auto"], automatic), (["dpkg", "--purge"], gone)):
                if names:
                    _must(run, [*words, *names])
        change.stage, change.version, change.kernel = INSTALLED, self.version(), gpu.next_kernel(self.tree)["release"]
        self.record.change = change
        self.save()
        driver = gpu.read_driver(self.tree)
        if change.loads and not driver["loaded"] and not driver["nouveau"]:
            self.run(["modprobe", "nvidia"])
        self.settle()

    def version(self) -> str:
        """The driver's version as most of its packages have it."""
        packages = gpu.read_packages(self.tree)
        found = [gpu.driver_version(row["version"]) for name, row in packages.items() if gpu.is_driver_package(name)]
        told = list(filter(None, found))
        return max(sorted(set(told)), key=told.count, default="")

    def problem(self, change: Change) -> Failure | None:
        """What is wrong with the packages after a change: the branch, or a module that was not built."""
        version, kernel = self.version(), gpu.next_kernel(self.tree)["release"]
        if gpu.branch_of(version) != change.branch:
            return Failure(
                "packages", f"apt installed driver {version or 'none'}, which is not of branch {change.branch}"
            )
        row = next(row for row in gpu.read_kernels(self.tree, {}, {}) if row["release"] == kernel)
        if change.build != DKMS:
            return None if row["module"] else Failure("build", "no module came with it", version, kernel)
        # The archive may have its module's version at another number than its libraries: the branch says enough.
        builds = [build for build in row["dkms"] if gpu.branch_of(build["version"]) == change.branch]
        if any(build["state"] == "installed" for build in builds):
            return None
        build = next((build for build in builds if build["state"] == "failed"), {"error": "", "log": ""})
        error = build["error"] or ("its log names no error" if build["log"] else "DKMS left no log of it")
        return Failure("build", error, version, kernel, build["log"])

    # --- back ---

    def _take_back(self, change: Change, failure: Failure) -> str:
        """Restore what was there, and put on record why. Returns the reason in words.

        :raises Stuck: it could not be restored; the text begins with the reason.
        """
        if failure.log:
            # The build directory goes with the package. The way back does not depend on it.
            with contextlib.suppress(OSError):
                shutil.copyfile(self.tree.at(failure.log), self.tree.at(LOG))
                failure.log = LOG
        try:
            self.restore(change.before, change.new)
        except Stuck as error:
            raise Stuck(f"{cause(failure)}; then {error}") from error
        failure.restored = self.version()
        if change.stage == INSTALLED and not failure.restored:
            self._let_nouveau()
        self.record.change, self.record.failure = None, failure
        self.save()
        return describe(failure)

    def _let_nouveau(self) -> None:
        """Without a driver the card is nouveau's again. The role's next run writes the file anew, with a driver that works."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.tree.at(MODPROBE))
        if self.tree.exists(UPDATE_INITRAMFS):
            # It has a copy of the file.
            self.run([UPDATE_INITRAMFS, "-u", "-k", gpu.next_kernel(self.tree)["release"]])

    def restore(self, before: t.Mapping[str, Entry], new: t.Collection[str]) -> None:
        """Have exactly the packages of *before* again, and none of *new*.

        :raises Stuck: dpkg is not clean afterwards.
        """
        with self._owned_dpkg() as run:
            now = self.packages()
            different = [name for name, entry in before.items() if not _same(now.get(name), entry)]
            # dpkg installs nothing at all of a list that has a file which is not there.
            debs = {name: path for name in different if self._is_kept(path := self._kept(name, before[name]))}
            # Only the driver's own go first, so that flavours and branches do not meet; others are replaced in place.
            old = [dpkg_name(name, now[name]) for name in debs if name in now and is_driver(name)]
            away = [dpkg_name(name, now[name]) for name in new if name in now]
            calls = [
                [*FORCED, verb, *names]
                for verb, names in (("--remove", old), ("--purge", away), ("--install", [*debs.values()]))
                if names
            ]
            # What one call could not do, the next may mend: the packages as they are in the end decide.
            told = [
                _last_words(out + err)
                for rc, out, err in map(run, [*calls, [*CONFIGURE, "--configure", "--pending"]])
                if rc
            ]
            now = self.packages()
            wrong = [name for name, entry in before.items() if not _same(now.get(name), entry)]
            wrong += [name for name in new if name in now]
            audit = run(["dpkg", "--audit"])[1].strip()
            if wrong or audit:
                lost = [f"{name} {before[name]['version']}" for name in different if name in wrong and name not in debs]
                but = f", but for {', '.join(lost)}: install that, and run the role again" if lost else ""
                raise Stuck(
                    f"{', '.join(wrong) or 'dpkg'} could not be put back; their packages lie in {KEPT}{but}."
                    f" {' '.join([*told, audit])}".strip()
                )
            self._mark(run, before)

    def _mark(self, run: Run, entries: t.Mapping[str, Entry]) -> None:
        for verb, wanted in (
            ("auto", [name for name, entry in entries.items() if entry["automatic"]]),
            ("manual", [name for name, entry in entries.items() if not entry["automatic"]]),
            ("hold", [name for name, entry in entries.items() if entry["hold"]]),
        ):
            if wanted:
                _must(run, ["apt-mark", verb, *wanted])

    @contextlib.contextmanager
    def _owned_dpkg(self) -> t.Iterator[Run]:
        """Programs that use dpkg, and nobody else's between them: its lock is held as apt holds it. apt-get would wait for itself.

        :raises Stuck: another one does not end.
        """
        frontend, database = map(self.tree.at, DPKG_LOCKS)
        with _locked(frontend):
            # A killed apt leaves a dpkg that goes on with what it was told.
            with _locked(database):
                pass
            yield lambda command: self.run(["env", "DPKG_FRONTEND_LOCKED=1", *command])

    # --- afterwards ---

    def complete(self, names: t.Collection[str], replaced: bool) -> None:
        """Have dpkg finish what somebody left half done, these packages among it.

        :param replaced: a change follows, which takes the place of a driver that cannot be finished.
        :raises Stuck: one of them is not whole afterwards.
        """
        if not names:
            return
        with self._owned_dpkg() as run:
            _rc, out, err = run([*CONFIGURE, "--configure", "--pending"])
            now = self.packages()
        unfinished = [name for name in names if name in now and not now[name]["whole"]]
        left = [name for name in unfinished if not (replaced and is_driver(name))]
        if left:
            raise Stuck(
                f"dpkg cannot finish {', '.join(left)}, and no package of the driver was changed: `dpkg --configure --pending`"
                f" has to succeed first, or they have to be purged. {_last_words(out + err)}".strip()
            )

    def settle(self) -> None:
        """End a change that was cut short, or that waits for its proof.

        :raises Failed: it was taken back.
        :raises Stuck: it could not be taken back.
        """
        change = self.record.change
        if change is None:
            return
        if change.stage == BEGUN:
            self._resume(change)
            return
        if change.loads and change.boot != self.boot:
            self._judge(change)
        # Under another kernel it is not proven, and what it replaced stays.
        if not change.loads or (self._is_loaded(change) and gpu.running_kernel(self.tree) == change.kernel):
            self._settled()

    def _resume(self, change: Change) -> None:
        """What dpkg had unpacked is configured; if that makes the new driver whole, it stays, otherwise the old one comes back."""
        with self._owned_dpkg() as run:
            rc, _out, _err = run([*CONFIGURE, "--configure", "--pending"])
        now = self.packages()
        there = {name: entry["version"] for name, entry in now.items() if entry["whole"]}
        arrived = there.keys() >= set(change.install) and there.items() >= change.versions.items()
        whole = rc == 0 and arrived and there.keys().isdisjoint(change.remove)
        if whole and not self.run(["dpkg", "--audit"])[1].strip() and self.problem(change) is None:
            self._finish(change)
        else:
            failure = Failure("interruption", "the change of packages was cut short", f"{change.branch}")
            raise Failed(self._take_back(change, failure))

    def _is_loaded(self, change: Change) -> bool:
        driver = gpu.read_driver(self.tree)
        return bool(driver["matches"]) and driver["loaded"] == change.version

    def _judge(self, change: Change) -> None:
        """The host has booted: the module has to be loaded now, unless its key waits for a person at the console.

        :raises Failed: it is not, and the previous driver is back.
        """
        if self._is_loaded(change):
            return
        _rc, _out, err = self.run(["modprobe", "nvidia"])
        end = time.monotonic() + LOAD_TIMEOUT
        while not self._is_loaded(change):
            if change.build == DKMS and self._key_waits():
                return
            if time.monotonic() > end:
                driver = gpu.read_driver(self.tree)
                evidence = (
                    f"after the reboot the module is {driver['loaded'] or 'not loaded'}, the libraries are of"
                    f" {driver['library'] or 'no version'}{'; modprobe: ' + _last_words(err) if err.strip() else ''}"
                )
                failure = Failure("boot", evidence, change.version, gpu.running_kernel(self.tree))
                words = self._take_back(change, failure)
                # A person's own blacklist of nouveau stands.
                self.run(["modprobe", "nvidia"] if failure.restored else ["modprobe", "--use-blacklist", "nouveau"])
                raise Failed(words)
            time.sleep(0.5)

    def _key_waits(self) -> bool:
        """Whether no module is loaded since Secure Boot does not trust yet what DKMS builds: that says nothing against a driver."""
        boot = gpu.read_secure_boot(self.tree, gpu.read_system(self.tree)["distribution"])
        return bool(boot["state"] == "enabled" and not boot["enrolled"] and not gpu.read_driver(self.tree)["loaded"])

    def _settled(self) -> None:
        """The new driver is proven: what it replaced is needed no more, but for what `absent` gives back."""
        wanted = {file_name(name, entry) for name, entry in self.record.replaced.items()}
        self.record.change = None
        self.record.kept = {name: told for name, told in self.record.kept.items() if name in wanted}
        self.save()
        for name in self.tree.names(KEPT):
            path = self.tree.at(f"{KEPT}/{name}")
            if os.path.isdir(path):
                shutil.rmtree(path)  # of a package that was being made again when the run was killed
            elif name not in wanted:
                os.unlink(path)

    def hold(self, names: t.Sequence[str]) -> None:
        """Hold these packages, and let go of what an earlier run held."""
        with self._owned_dpkg() as run:
            there = self.packages()
            loose = [name for name in self.record.held if name not in names and name in there]
            if loose:
                _must(run, ["apt-mark", "unhold", *loose])
            missing = [name for name in names if name in there and not there[name]["hold"]]
            self.record.held = sorted({*(name for name in self.record.held if name in names), *missing})
            self.save()
            if missing:
                _must(run, ["apt-mark", "hold", *missing])

    def give_back(self, going: t.Sequence[str]) -> None:
        """Be without the role: what it brought goes, the driver that it replaced comes back.

        :raises Stuck: dpkg is not clean, or packages lack what they need; the record and what was kept are still there.
        """
        self.hold([])
        self.restore(self.record.replaced, going)
        # What else was there is newer by now, and dpkg was told not to look.
        self._must(["apt-get", "check", "--quiet", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}"])
        shutil.rmtree(self.tree.at(HOME), ignore_errors=True)

    def save(self) -> None:
        os.makedirs(self.tree.at(HOME), mode=0o755, exist_ok=True)
        if self.tree.exists(KEPT):
            # Earlier versions let everybody read the packages, with what only root may read of them.
            os.chmod(self.tree.at(KEPT), 0o700)
        replace_file(self.tree.at(RECORD), json.dumps(dataclasses.asdict(self.record), indent=1) + "\n")

    # --- keeping packages ---

    def _kept(self, name: str, entry: Entry) -> str:
        return self.tree.at(f"{KEPT}/{file_name(name, entry)}")

    def _is_kept(self, path: str) -> bool:
        """Whether a kept package is as it was written. Of those that an earlier version kept, only their size is known to be none."""
        name = os.path.basename(path)
        told = self.record.kept.get(name)
        if not os.path.isfile(path) or os.path.islink(path):
            return False
        return _told_of(path) == told if told else os.path.getsize(path) > 0

    def _keep(self, entries: t.Mapping[str, Entry]) -> None:
        os.makedirs(self.tree.at(KEPT), exist_ok=True)
        os.chmod(self.tree.at(KEPT), 0o700)
        for name, entry in entries.items():
            kept, cached = self._kept(name, entry), self.tree.at(f"{ARCHIVES}/{file_name(name, entry)}")
            if self._is_kept(kept):
                continue
            unfinished = f"{kept}.part"
            # A power cut may have left a part of what apt downloaded.
            if os.path.exists(cached) and self.run(["dpkg-deb", "--info", cached])[0] == 0:
                shutil.copyfile(cached, unfinished)
            else:
                self._repack(dpkg_name(name, entry), unfinished)
            os.chmod(unfinished, 0o600)
            # The record that names it comes later, and may not outlive it.
            sync_file(unfinished)
            os.replace(unfinished, kept)
            self.record.kept[os.path.basename(kept)] = _told_of(kept)
        sync_directory(self.tree.at(KEPT))

    def _repack(self, name: str, target: str) -> None:
        """Make a package of what is installed: no source may have that version any more."""
        with tempfile.TemporaryDirectory(dir=self.tree.at(KEPT)) as root:
            os.chmod(root, 0o755)  # noqa: S103 - it becomes the package's root directory
            files = listed_files(self._must(["dpkg-query", "--listfiles", name]))
            directories = {os.path.dirname(path) for path, _place in files}
            for path, place in files:
                if path in directories:
                    _copy_directory(self.tree.at(place), root + path)
                else:
                    _copy(self.tree.at(place), root + path)
            control = os.path.join(root, "DEBIAN")
            os.mkdir(control, 0o755)
            replace_file(os.path.join(control, "control"), control_of(self._must(["dpkg-query", "--status", name])))
            for script in self._must(["dpkg-query", "--control-list", name]).split():
                if script != "md5sums":
                    path = self._must(["dpkg-query", "--control-path", name, script]).strip()
                    shutil.copy2(path, os.path.join(control, script))
            _drop_missing_conffiles(root)
            self._must(["dpkg-deb", "-Zgzip", "-z1", "--build", root, target])

    def _must(self, command: t.Sequence[str]) -> str:
        return _must(self.run, command)


# --- words and files -------------------------------------------------------------------------------------------------


def describe(failure: Failure) -> str:
    """The failure, and what the host has now, for a person."""
    back = f"driver {failure.restored} is in place again" if failure.restored else "the host has no driver, as before"
    return f"{cause(failure)}; {back}"


def cause(failure: Failure) -> str:
    """The failure in a sentence."""
    version = f" {failure.version}" if failure.version else ""
    kernel = f" for the kernel {failure.kernel}" if failure.kernel else ""
    what = {
        "build": f"the module of driver{version} was not built{kernel}: {failure.evidence}",
        "boot": f"driver{version} does not work{kernel}: {failure.evidence}",
        "packages": f"the packages could not be changed: {failure.evidence}",
        "interruption": f"{failure.evidence} on the way to driver{version}",
    }[failure.at]
    return what + (f" (log: {failure.log})" if failure.log else "")


def dpkg_name(name: str, entry: Entry) -> str:
    """A package by the only name that is never ambiguous to dpkg: one library may be there for two architectures."""
    return f"{_bare(name)}:{entry['architecture']}"


def file_name(name: str, entry: Entry) -> str:
    """As apt names the file of a package in its cache."""
    return f"{_bare(name)}_{entry['version'].replace(':', '%3a')}_{entry['architecture']}.deb"


def listed_files(text: str) -> list[tuple[str, str]]:
    """Path in the package and place on the host of what ``dpkg-query --listfiles`` lists; diversions move a file elsewhere."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        diverted = re.match(r"(?:locally diverted|diverted by \S+) to: (.+)", line)
        if diverted and found:
            found[-1] = (found[-1][0], diverted.group(1))
        elif line.startswith("/") and line != "/.":
            found.append((line, line))
    return found


def control_of(status: str) -> str:
    """A package's control file from its status: without what dpkg has added."""
    fields = re.split(r"\n(?=\S)", status.strip())
    return "".join(f"{field}\n" for field in fields if not re.match(r"(Status|Conffiles|Config-Version):", field))


def _must(run: Run, command: t.Sequence[str]) -> str:
    rc, out, err = run(command)
    if rc != 0:
        raise Stuck(f"`{' '.join(command[:3])} ...` ended with {rc}: {_last_words(out + err)}")
    return out


@contextlib.contextmanager
def _locked(path: str) -> t.Iterator[None]:
    """Hold a lock of dpkg's.

    :raises Stuck: another process held it for ``LOCK_TIMEOUT``.
    """
    end = time.monotonic() + LOCK_TIMEOUT
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640), "w", encoding="ascii") as lock:
        while True:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise Stuck(f"another dpkg is at work since {LOCK_TIMEOUT} s") from error
                time.sleep(1)
        yield


def _told_of(path: str) -> list[t.Any]:
    """Size and SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
        return [file.tell(), digest.hexdigest()]


def _same(now: Entry | None, before: Entry) -> bool:
    return now is not None and now["whole"] and now["version"] == before["version"]


def _last_words(text: str) -> str:
    told = [line for line in text.splitlines() if re.match(r"E: |dpkg: error|Error", line)] or text.splitlines()[-3:]
    return " ".join(" ".join(told).split())[-800:]


def _copy_directory(source: str, target: str) -> None:
    """A directory that has more of the package in it. On the host it may be a link to one: /lib is, where /usr is merged."""
    if os.path.isdir(source):
        os.mkdir(target)
        _copy_state(source, target)


def _copy(source: str, target: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.mkdir(target)
    elif os.path.isfile(source):
        shutil.copyfile(source, target)
    else:
        return  # removed by hand: the package has it no more
    _copy_state(source, target)


def _drop_missing_conffiles(root: str) -> None:
    """dpkg-deb makes no package of which a configuration file is missing, as one is that a person has removed."""
    tree = Tree(root)
    named = tree.text("/DEBIAN/conffiles").splitlines()
    if named:
        there = [line for line in named if tree.exists(line.split()[-1])]
        replace_file(f"{root}/DEBIAN/conffiles", "".join(f"{line}\n" for line in there))


def _copy_state(source: str, target: str) -> None:
    """Owner, mode and times. The owner first: chown clears the set-id bits of a mode."""
    is_link = os.path.islink(target)
    state = os.lstat(source) if is_link else os.stat(source)
    os.chown(target, state.st_uid, state.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=not is_link)


def main() -> int:
    """At boot: end what waits for its proof. The journal has the words."""

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        # At boot there is no module whose run_command could be used.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            command, check=False, capture_output=True, text=True, errors="replace", env={**os.environ, **ENVIRONMENT}
        )
        return done.returncode, done.stdout, done.stderr

    try:
        with alone():
            Host(run).settle()
    except (Failed, Stuck, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
