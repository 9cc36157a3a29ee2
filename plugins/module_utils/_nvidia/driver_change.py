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
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
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
    """Wait until no other run changes the driver: after a reboot a run of the role can meet the host's own unit.

    Another run ends, if only after the minutes that DKMS takes. The kernel releases the lock of a killed one.

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
        # Sources drop old versions. For a source that does not answer, its last lists count.
        self.run(["apt-get", "update", "--quiet"])
        with self.dpkg.owned():
            # Other programs have finished by now.
            before = self.dpkg.packages()
        simulation = simulate(self.run, self.tree, change)
        problem = simulation_problem(simulation, change)
        if problem:
            raise Failed(f"the packages would not be changed as planned: {problem}")
        touched = sorted({*simulation.install, *simulation.remove, *change.remove})
        unfinished = [name for name, entry in before.items() if not entry["whole"]]
        others = [name for name in unfinished if name not in touched or not is_driver(name)]
        if others:
            # Their problems would count as those of the new driver.
            raise Failed(
                f"no package was changed, since dpkg has not finished {', '.join(others)}:"
                " `dpkg --configure --pending` has to succeed first"
            )
        # A driver that dpkg could not finish, such as one that does not build for the kernel, is no driver to go back to: all of it goes.
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
        """Put the change on record."""
        record = self.record
        for name, entry in change.before.items():
            if name not in record.installed:
                record.baseline.setdefault(name, entry)
        record.installed = sorted({*record.installed, *change.new} - record.baseline.keys())
        record.change, record.failure = change, None
        self.save()

    def _finish(self, change: Change) -> None:
        """Finish a change whose packages are in place. Without a GPU there is nothing to wait for."""
        automatic = [name for name in change.install if change.before.get(name, {}).get("automatic")]
        # Its pin would hold back the new branch, and as a configuration file it survives a removal.
        gone = [
            dpkg_name(name, entry)
            for name, entry in change.before.items()
            if name in change.remove and not is_driver(name)
        ]
        with self.dpkg.owned() as run:
            for command, names in ((["apt-mark", "auto"], automatic), (["dpkg", "--purge"], gone)):
                if names:
                    must(run, [*command, *names])
        change.stage, change.version, change.kernel = INSTALLED, self.version(), next_kernel(self.tree)["release"]
        self.record.change = change
        self.save()
        driver = read_driver(self.tree)
        if change.loads and not driver["loaded"] and not driver["nouveau"]:
            self.run(["modprobe", "nvidia"])
        self.settle()

    def version(self) -> str:
        """Return the driver's version: the one that most of its packages have."""
        packages = read_packages(self.tree)
        found = [driver_version(row["version"]) for name, row in packages.items() if is_driver_package(name)]
        versions = list(filter(None, found))
        return max(sorted(set(versions)), key=versions.count, default="")

    def problem(self, change: Change) -> Failure | None:
        """Return what is wrong with the packages after a change: another branch, or a module that was not built."""
        version, kernel = self.version(), next_kernel(self.tree)["release"]
        if branch_of(version) != change.branch:
            return Failure(
                "packages", f"apt installed driver {version or 'none'}, which is not of branch {change.branch}"
            )
        row = next(row for row in read_kernels(self.tree, {}, {}) if row["release"] == kernel)
        if change.build != DKMS:
            return None if row["module"] else Failure("build", "no module came with it", version, kernel)
        # In the archive, module and libraries can have different versions: the branch is enough.
        builds = [build for build in row["dkms"] if branch_of(build["version"]) == change.branch]
        if any(build["state"] == "installed" for build in builds):
            return None
        build = next((build for build in builds if build["state"] == "failed"), {"error": "", "log": ""})
        error = build["error"] or ("its log names no error" if build["log"] else "DKMS left no log of it")
        return Failure("build", error, version, kernel, build["log"])

    # --- back ---

    def _take_back(self, change: Change, failure: Failure) -> str:
        """Restore the previous packages, put the reason on record, and return the reason as text.

        :raises Stuck: it could not be restored; the text begins with the reason.
        """
        if failure.log:
            # The build directory goes with the package. Going back does not depend on the copy.
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
        """Let nouveau use the card again, since there is no driver. The role's next run writes the file again, with a driver that works."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.tree.at(MODPROBE))
        if self.tree.exists(UPDATE_INITRAMFS):
            # The initramfs has a copy of the file.
            self.run([UPDATE_INITRAMFS, "-u", "-k", next_kernel(self.tree)["release"]])

    def restore(self, before: t.Mapping[str, Entry], new: t.Collection[str]) -> None:
        """Restore exactly the packages of *before*, and remove those of *new*.

        :raises Stuck: dpkg is not clean afterwards.
        """
        with self.dpkg.owned() as run:
            now = self.dpkg.packages()
            different = [name for name, entry in before.items() if not _same(now.get(name), entry)]
            # dpkg installs nothing at all if one file of its list is missing.
            debs = {name: path for name in different if self.kept.is_whole(path := self.kept.path(name, before[name]))}
            # Remove only the driver's own packages first, so that kinds of modules and branches do not meet. Others are replaced in place.
            old = [dpkg_name(name, now[name]) for name in debs if name in now and is_driver(name)]
            away = [dpkg_name(name, now[name]) for name in new if name in now]
            calls = [
                [*FORCED, verb, *names]
                for verb, names in (("--remove", old), ("--purge", away), ("--install", [*debs.values()]))
                if names
            ]
            # A later call can fix what an earlier one could not do: the packages at the end decide.
            errors = [
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
                    f"{', '.join(wrong) or 'dpkg'} could not be restored; their packages are in {KEPT}{but}."
                    f" {' '.join([*errors, audit])}".strip()
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
        """Let dpkg finish the packages that another program left unfinished, these among them.

        :param replaced: a change follows, which takes the place of a driver that cannot be finished.
        :raises Stuck: one of them is not whole afterwards.
        """
        if not names:
            return
        with self.dpkg.owned() as run:
            _rc, out, err = run([*CONFIGURE, "--configure", "--pending"])
            now = self.dpkg.packages()
        unfinished = [name for name in names if name in now and not now[name]["whole"]]
        remaining = [name for name in unfinished if not (replaced and is_driver(name))]
        if remaining:
            raise Stuck(
                f"dpkg cannot finish {', '.join(remaining)}, and no package of the driver was changed: `dpkg --configure --pending`"
                f" has to succeed first, or they have to be purged. {last_lines(out + err)}".strip()
            )

    def settle(self) -> None:
        """Finish a change that was interrupted, or that waits for its proof.

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
        # Under another kernel the driver is not proven, and the previous packages stay.
        if not change.loads or (self._is_loaded(change) and running_kernel(self.tree) == change.kernel):
            self._settled()

    def _resume(self, change: Change) -> None:
        """Configure what dpkg has unpacked. If that completes the new driver, it stays. Otherwise the previous one is restored."""
        with self.dpkg.owned() as run:
            rc, _out, _err = run([*CONFIGURE, "--configure", "--pending"])
        now = self.dpkg.packages()
        installed = {name: entry["version"] for name, entry in now.items() if entry["whole"]}
        arrived = installed.keys() >= set(change.install) and installed.items() >= change.versions.items()
        whole = rc == 0 and arrived and installed.keys().isdisjoint(change.remove)
        if whole and not self.run(["dpkg", "--audit"])[1].strip() and self.problem(change) is None:
            self._finish(change)
        else:
            failure = Failure("interruption", "the change of packages was cut short", f"{change.branch}")
            raise Failed(self._take_back(change, failure))

    def _is_loaded(self, change: Change) -> bool:
        driver = read_driver(self.tree)
        return bool(driver["matches"]) and driver["loaded"] == change.version

    def _judge(self, change: Change) -> None:
        """Check after a boot that the module is loaded, unless its key waits for a person at the console.

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
                message = self._take_back(change, failure)
                # A blacklist of nouveau by a person stays effective.
                self.run(["modprobe", "nvidia"] if failure.restored else ["modprobe", "--use-blacklist", "nouveau"])
                raise Failed(message)
            time.sleep(0.5)

    def _key_waits(self) -> bool:
        """Return whether no module is loaded because Secure Boot does not trust the key of DKMS yet. That is no problem of the driver."""
        boot = read_secure_boot(self.tree, read_system(self.tree)["distribution"])
        return bool(boot["state"] == "enabled" and not boot["enrolled"] and not read_driver(self.tree)["loaded"])

    def _settled(self) -> None:
        """Accept the new driver, which is proven. Of the previous packages only those stay that `absent` restores."""
        wanted = {file_name(name, entry) for name, entry in self.record.replaced.items()}
        self.record.change = None
        self.record.kept = {name: checksum for name, checksum in self.record.kept.items() if name in wanted}
        self.save()
        self.kept.drop_all_but(wanted)

    def hold(self, names: t.Sequence[str]) -> None:
        """Hold these packages, and lift the holds that an earlier run has set on others."""
        with self.dpkg.owned() as run:
            installed = self.dpkg.packages()
            loose = [name for name in self.record.held if name not in names and name in installed]
            if loose:
                must(run, ["apt-mark", "unhold", *loose])
            missing = [name for name in names if name in installed and not installed[name]["hold"]]
            self.record.held = sorted({*(name for name in self.record.held if name in names), *missing})
            self.save()
            if missing:
                must(run, ["apt-mark", "hold", *missing])

    def give_back(self, going: t.Sequence[str]) -> None:
        """Remove what the role installed, and restore the driver that it replaced.

        :raises Stuck: dpkg is not clean, or packages lack dependencies. The record and the kept packages still exist.
        """
        self.hold([])
        self.restore(self.record.replaced, going)
        # Other packages are newer by now, and dpkg was forced to ignore dependencies.
        self.dpkg.must(["apt-get", "check", "--quiet", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}"])
        shutil.rmtree(self.tree.at(HOME), ignore_errors=True)

    def save(self) -> None:
        """Write the record."""
        make_directories(self.tree.at(HOME))
        if self.tree.exists(KEPT):
            # Earlier versions let every user read the packages, also files that only root is allowed to read.
            os.chmod(self.tree.at(KEPT), 0o700)
        replace_file(self.tree.at(RECORD), json.dumps(dataclasses.asdict(self.record), indent=1) + "\n")


def _same(now: Entry | None, before: Entry) -> bool:
    return now is not None and now["whole"] and now["version"] == before["version"]


def main() -> int:
    """Settle at boot what waits for its proof. Errors go to the journal."""

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        # At boot there is no Ansible module with a run_command.
        done = programs.run(command, {**os.environ, **ENVIRONMENT})
        return done.returncode, done.stdout, done.stderr

    try:
        with alone():
            Host(run).settle()
    except (Failed, Stuck, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
