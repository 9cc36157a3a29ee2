# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change the driver's packages: a change ends in the new driver or in the previous one, and in nothing between.

Before apt is asked for anything, the previous packages are kept as .deb files and the change is put on record. Going back needs dpkg
and these files: no network, and no dependencies to solve, since the previous packages fitted together. When a run is killed, the next
run finds its change on record. After a reboot the same code, as a program (``main``), checks whether the new driver loads. That needs
no Ansible, and it does not matter who rebooted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import (
    apt_command,
    preferences_parts,
    simulate,
    simulation_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import (
    CONFIGURE,
    ENVIRONMENT,
    FORCED,
    LOCK_TIMEOUT,
    Dpkg,
    last_lines,
    must,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    BEGUN,
    DKMS,
    HOME,
    INSTALLED,
    KEPT,
    RECORD,
    Change,
    Entry,
    Failed,
    Failure,
    Record,
    Run,
    Stuck,
    cause,
    describe,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import read_driver, read_secure_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kept_packages import (
    KeptPackages,
    dpkg_name,
    file_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    next_kernel,
    read_kernels,
    running_kernel,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import (
    read_packages,
    read_system,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    branch_of,
    driver_version,
    is_driver,
    is_driver_package,
)

LOG = f"{HOME}/make.log"
MODPROBE = "/etc/modprobe.d/rigwright-nvidia-driver.conf"
UPDATE_INITRAMFS = "/usr/sbin/update-initramfs"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LOCK, LOCK_WAIT = "nvidia_driver", 3600
LOAD_TIMEOUT = 20


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
        self.dpkg = Dpkg(run, self.tree)
        self.kept = KeptPackages(self.dpkg, self.tree, self.record)

    @property
    def boot(self) -> str:
        return self.tree.text(BOOT_ID).strip()

    # --- forward ---

    def change(self, change: Change) -> None:
        """Carry a change out.

        :raises Failed: it did not work, and the previous packages are back.
        :raises Stuck: it did not work, and neither did going back.
        """
        # What the lists name may be gone; of a source that does not answer, what it said last stands.
        self.run(["apt-get", "update", "--quiet"])
        with self.dpkg.owned():
            # Others have ended by now what they were at.
            before = self.dpkg.packages()
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
            self.kept.keep(change.before)
        except (OSError, Stuck) as error:
            raise Failed(f"no package was changed, since the previous ones could not be kept: {error}") from error
        self._remember(change)
        with preferences_parts(self.tree, change) as parts:
            rc, out, err = self.run(apt_command(change, parts))
        failure = self.problem(change)
        if rc != 0 and (failure is None or failure.at != "build"):
            failure = Failure("packages", last_lines(out + err))
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
        with self.dpkg.owned() as run:
            for words, names in ((["apt-mark", "auto"], automatic), (["dpkg", "--purge"], gone)):
                if names:
                    must(run, [*words, *names])
        change.stage, change.version, change.kernel = INSTALLED, self.version(), next_kernel(self.tree)["release"]
        self.record.change = change
        self.save()
        driver = read_driver(self.tree)
        if change.loads and not driver["loaded"] and not driver["nouveau"]:
            self.run(["modprobe", "nvidia"])
        self.settle()

    def version(self) -> str:
        """The driver's version as most of its packages have it."""
        packages = read_packages(self.tree)
        found = [driver_version(row["version"]) for name, row in packages.items() if is_driver_package(name)]
        told = list(filter(None, found))
        return max(sorted(set(told)), key=told.count, default="")

    def problem(self, change: Change) -> Failure | None:
        """What is wrong with the packages after a change: the branch, or a module that was not built."""
        version, kernel = self.version(), next_kernel(self.tree)["release"]
        if branch_of(version) != change.branch:
            return Failure(
                "packages", f"apt installed driver {version or 'none'}, which is not of branch {change.branch}"
            )
        row = next(row for row in read_kernels(self.tree, {}, {}) if row["release"] == kernel)
        if change.build != DKMS:
            return None if row["module"] else Failure("build", "no module came with it", version, kernel)
        # The archive may have its module's version at another number than its libraries: the branch says enough.
        builds = [build for build in row["dkms"] if branch_of(build["version"]) == change.branch]
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
            self.run([UPDATE_INITRAMFS, "-u", "-k", next_kernel(self.tree)["release"]])

    def restore(self, before: t.Mapping[str, Entry], new: t.Collection[str]) -> None:
        """Have exactly the packages of *before* again, and none of *new*.

        :raises Stuck: dpkg is not clean afterwards.
        """
        with self.dpkg.owned() as run:
            now = self.dpkg.packages()
            different = [name for name, entry in before.items() if not _same(now.get(name), entry)]
            # dpkg installs nothing at all of a list that has a file which is not there.
            debs = {name: path for name in different if self.kept.is_whole(path := self.kept.path(name, before[name]))}
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
                last_lines(out + err)
                for rc, out, err in map(run, [*calls, [*CONFIGURE, "--configure", "--pending"]])
                if rc
            ]
            now = self.dpkg.packages()
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
                must(run, ["apt-mark", verb, *wanted])

    # --- afterwards ---

    def complete(self, names: t.Collection[str], replaced: bool) -> None:
        """Have dpkg finish what somebody left half done, these packages among it.

        :param replaced: a change follows, which takes the place of a driver that cannot be finished.
        :raises Stuck: one of them is not whole afterwards.
        """
        if not names:
            return
        with self.dpkg.owned() as run:
            _rc, out, err = run([*CONFIGURE, "--configure", "--pending"])
            now = self.dpkg.packages()
        unfinished = [name for name in names if name in now and not now[name]["whole"]]
        left = [name for name in unfinished if not (replaced and is_driver(name))]
        if left:
            raise Stuck(
                f"dpkg cannot finish {', '.join(left)}, and no package of the driver was changed: `dpkg --configure --pending`"
                f" has to succeed first, or they have to be purged. {last_lines(out + err)}".strip()
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
        if not change.loads or (self._is_loaded(change) and running_kernel(self.tree) == change.kernel):
            self._settled()

    def _resume(self, change: Change) -> None:
        """What dpkg had unpacked is configured; if that makes the new driver whole, it stays, otherwise the old one comes back."""
        with self.dpkg.owned() as run:
            rc, _out, _err = run([*CONFIGURE, "--configure", "--pending"])
        now = self.dpkg.packages()
        there = {name: entry["version"] for name, entry in now.items() if entry["whole"]}
        arrived = there.keys() >= set(change.install) and there.items() >= change.versions.items()
        whole = rc == 0 and arrived and there.keys().isdisjoint(change.remove)
        if whole and not self.run(["dpkg", "--audit"])[1].strip() and self.problem(change) is None:
            self._finish(change)
        else:
            failure = Failure("interruption", "the change of packages was cut short", f"{change.branch}")
            raise Failed(self._take_back(change, failure))

    def _is_loaded(self, change: Change) -> bool:
        driver = read_driver(self.tree)
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
                driver = read_driver(self.tree)
                evidence = (
                    f"after the reboot the module is {driver['loaded'] or 'not loaded'}, the libraries are of"
                    f" {driver['library'] or 'no version'}{'; modprobe: ' + last_lines(err) if err.strip() else ''}"
                )
                failure = Failure("boot", evidence, change.version, running_kernel(self.tree))
                words = self._take_back(change, failure)
                # A person's own blacklist of nouveau stands.
                self.run(["modprobe", "nvidia"] if failure.restored else ["modprobe", "--use-blacklist", "nouveau"])
                raise Failed(words)
            time.sleep(0.5)

    def _key_waits(self) -> bool:
        """Whether no module is loaded since Secure Boot does not trust yet what DKMS builds: that says nothing against a driver."""
        boot = read_secure_boot(self.tree, read_system(self.tree)["distribution"])
        return bool(boot["state"] == "enabled" and not boot["enrolled"] and not read_driver(self.tree)["loaded"])

    def _settled(self) -> None:
        """The new driver is proven: what it replaced is needed no more, but for what `absent` gives back."""
        wanted = {file_name(name, entry) for name, entry in self.record.replaced.items()}
        self.record.change = None
        self.record.kept = {name: told for name, told in self.record.kept.items() if name in wanted}
        self.save()
        self.kept.drop_all_but(wanted)

    def hold(self, names: t.Sequence[str]) -> None:
        """Hold these packages, and let go of what an earlier run held."""
        with self.dpkg.owned() as run:
            there = self.dpkg.packages()
            loose = [name for name in self.record.held if name not in names and name in there]
            if loose:
                must(run, ["apt-mark", "unhold", *loose])
            missing = [name for name in names if name in there and not there[name]["hold"]]
            self.record.held = sorted({*(name for name in self.record.held if name in names), *missing})
            self.save()
            if missing:
                must(run, ["apt-mark", "hold", *missing])

    def give_back(self, going: t.Sequence[str]) -> None:
        """Be without the role: what it brought goes, the driver that it replaced comes back.

        :raises Stuck: dpkg is not clean, or packages lack what they need; the record and what was kept are still there.
        """
        self.hold([])
        self.restore(self.record.replaced, going)
        # What else was there is newer by now, and dpkg was told not to look.
        self.dpkg.must(["apt-get", "check", "--quiet", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}"])
        shutil.rmtree(self.tree.at(HOME), ignore_errors=True)

    def save(self) -> None:
        os.makedirs(self.tree.at(HOME), mode=0o755, exist_ok=True)
        if self.tree.exists(KEPT):
            # Earlier versions let everybody read the packages, with what only root may read of them.
            os.chmod(self.tree.at(KEPT), 0o700)
        replace_file(self.tree.at(RECORD), json.dumps(dataclasses.asdict(self.record), indent=1) + "\n")


def _same(now: Entry | None, before: Entry) -> bool:
    return now is not None and now["whole"] and now["version"] == before["version"]


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
