# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carry out the steps of a rebuild on a live system. The plan has made all decisions."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import files, first_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.backup import Backup, Failed, summarize
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import IDENTITY
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.steps import ROOT, WORK
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.locale import LOCALE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

Run = t.Callable[..., tuple[int, str, str]]

STATE = f"{WORK}/state.json"
LOCK = f"{WORK}/lock"
# The environment of commands of the live system and of the restored one.
ENVIRONMENT = {
    **LOCALE,
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
}
_SHOWN = 2000


def identity(manifest: Facts, request: Facts) -> str:
    """Return the identity of a rebuild: a run that was cut short is completed only by the same one."""
    return hashlib.sha256(json.dumps([manifest, request], sort_keys=True).encode()).hexdigest()


def read_state(name: str, path: str = STATE) -> Facts:
    """Return the progress of the rebuild with this name in this live session."""
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except (OSError, ValueError):
        state = None
    return state if isinstance(state, dict) and state.get("plan") == name else {"plan": name, "begun": {}, "done": []}


def write_state(state: Facts, path: str = STATE) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, json.dumps(state), 0o600)


@contextlib.contextmanager
def alone() -> t.Iterator[None]:
    """Lock the rebuild: after a cut connection the first run goes on, and the user may start another one.

    :raises Failed: another rebuild is running.
    """
    os.makedirs(os.path.dirname(LOCK), mode=0o700, exist_ok=True)
    with open(LOCK, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(
                "A rebuild is running here already: wait until it has ended (`pgrep -a restic` shows it)"
            ) from None
        yield


def parse_identity(text: str) -> Facts:
    """Return serial number, WWN and size of one disk from lsblk; empty for other output."""
    try:
        (row,) = json.loads(text)["blockdevices"]
        return {"serial": (row["serial"] or "").strip(), "wwn": row["wwn"] or "", "size": int(row["size"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


class Live:
    """A live system on which steps are carried out."""

    def __init__(
        self,
        run: Run,
        passphrase: str = "",
        backup: Backup | None = None,
        snapshots: t.Sequence[Facts] = (),
        accept_losses: bool = False,
    ) -> None:
        self.run_command, self.passphrase, self.backup, self.snapshots = run, passphrase, backup, snapshots
        self.accept_losses = accept_losses
        self.warnings: list[str] = []
        self.lost: list[str] = []

    def carry_out(self, steps: t.Iterable[Facts]) -> None:
        """Carry out steps."""
        for step in steps:
            getattr(self, f"do_{step['do']}")(step)

    def run(
        self, command: t.Sequence[str], text: str | None = None, must_work: bool = True, exact: bool = False
    ) -> tuple[int, str]:
        """Run a command; return its exit status and output."""
        try:
            rc, out, err = self.run_command(
                list(command), data=text, binary_data=exact, environ_update=ENVIRONMENT, handle_exceptions=False
            )
        except OSError as error:
            rc, out, err = 127, "", f"{error}: install it in the live system"
        if rc != 0 and must_work:
            raise Failed(f"`{' '.join(command)}` ended with status {rc}: {(err.strip() or out.strip())[-_SHOWN:]}")
        return rc, out + err

    def release(self, groups: t.Iterable[str], mapped: t.Iterable[str]) -> None:
        """Close what a run that was cut short has left open on the disks that it had begun."""
        if os.path.ismount(ROOT):
            self.run(["umount", "--recursive", ROOT])
        self.run(["umount", f"{WORK}/btrfs"], must_work=False)
        for group in groups:
            self.run(["vgchange", "--activate", "n", group], must_work=False)
        for name in mapped:
            self.run(["cryptsetup", "close", name], must_work=False)
        self.run(["udevadm", "settle"], must_work=False)

    def check_disk(self, path: str, facts: Facts, exclusive: bool) -> None:
        """Check that a disk is that of the plan, right before the first write.

        :param facts: the device that the path led to, and the identity of the disk.
        :param exclusive: nobody else may have it open.
        :raises Failed: it is another one, or in use.
        """
        again = "Nothing was written to it. Run the playbook from its beginning"
        if os.path.realpath(path) != facts["device"]:
            raise Failed(f"{path} leads to {os.path.realpath(path)}, and was {facts['device']} in the plan. {again}")
        try:
            # As long as it is open no other disk gets its device.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_EXCL if exclusive else 0))
        except OSError as error:
            raise Failed(f"{path} is in use or gone ({error.strerror}). {again}") from None
        try:
            columns = ",".join(IDENTITY).upper()
            _rc, out = self.run(["lsblk", "--json", "--bytes", "--nodeps", "--output", columns, path])
            found = parse_identity(out)
        finally:
            os.close(handle)
        wanted = {key: facts[key] for key in IDENTITY}
        if found != wanted:
            raise Failed(f"{path} is another disk than in the plan ({found}, not {wanted}). {again}")

    def do_run(self, step: Facts) -> None:
        # A line break would be one more character of the passphrase, which nobody types at boot.
        secret = bool(step.get("secret"))
        text, otherwise = self.passphrase if secret else step.get("input"), step.get("otherwise")
        rc, output = self.run(step["command"], text, exact=secret, must_work=not otherwise)
        if rc != 0 and otherwise:
            self.run(otherwise["command"])
            self.warnings.append(f"{otherwise['warning']}: {output.strip()[-_SHOWN:]}")

    def do_directory(self, step: Facts) -> None:
        make_directories(step["path"])
        if step["mode"]:
            os.chmod(step["path"], int(step["mode"], 8))

    def do_mounted(self, step: Facts) -> None:
        if not os.path.ismount(step["path"]):
            raise Failed(f"{step['path']} is no mount point any more: what follows would land in the live system")

    def do_bind(self, step: Facts) -> None:
        """Show a part of the live system in the restored one; a run that was cut short may have done so."""
        if not os.path.ismount(step["path"]):
            self.run(["mount", "--rbind", "--make-rslave", step["source"], step["path"]])

    def do_remove(self, step: Facts) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(step["path"])

    def do_swap_file(self, step: Facts) -> None:
        path = step["path"]
        make_directories(os.path.dirname(path))
        # On btrfs a swap file is neither copied on write nor compressed.
        with open(path, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            self.run(["chattr", "+C", path], must_work=False)
            # Where the file system cannot do so at once, as ext3, the C library writes the blocks.
            os.posix_fallocate(file.fileno(), 0, step["size"])
        self.run(["mkswap", path])

    def do_edit(self, step: Facts) -> None:
        for path in sorted(glob.glob(step["path"])):
            self._edit(path, step)

    def _edit(self, path: str, step: Facts) -> None:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            before = file.read()
        after = files.EDITS[step["kind"]](before, step["references"], step["absent"])
        if after == before:
            return
        info = os.stat(path)
        replace_file(path, after, info.st_mode & 0o7777, (info.st_uid, info.st_gid))

    def do_restore(self, step: Facts) -> None:
        if self.backup is None:
            raise Failed("no repository to restore from is named: set `repository`")
        for snapshot in self.snapshots:
            self.lost += self.backup.restore(
                snapshot["id"], snapshot["filters"], step["target"], step["exclude"], self.accept_losses
            )
        if self.lost:
            self.warnings.append(
                f"the backup no longer had all of these, and what is there of them has holes: {summarize(self.lost)}"
            )

    def do_kernels(self, step: Facts) -> None:
        """Build the modules of DKMS and a new initramfs for every kernel that has its modules."""
        root = step["root"]
        releases = sorted(name[len("vmlinuz-") :] for name in _names(f"{root}/boot") if name.startswith("vmlinuz-"))
        whole = [release for release in releases if os.path.isdir(f"{root}/lib/modules/{release}/kernel")]
        for release in sorted(set(releases) - set(whole)):
            self.warnings.append(f"the kernel {release} came back without its modules in /lib/modules: do not boot it")
        if not whole:
            raise Failed(
                "no kernel with its modules came back: /boot and /lib/modules have to be in the backup. "
                f"Install one now: chroot {root} apt-get install --reinstall linux-image-..."
            )
        for release in whole:
            if not os.path.exists(f"{root}/lib/modules/{release}/modules.dep"):
                self.run(["chroot", root, "depmod", release])
            if os.path.exists(f"{root}/usr/sbin/dkms") and _names(f"{root}/var/lib/dkms"):
                rc, output = self.run(["chroot", root, "dkms", "autoinstall", "-k", release], must_work=False)
                if rc != 0:
                    self.warnings.append(f"DKMS built not all modules for {release}: {output.strip()[-_SHOWN:]}")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{root}/boot/initrd.img-{release}")
            self.run(["chroot", root, *_initramfs(root, release)])

    def do_first_boot(self, step: Facts) -> None:
        """Leave the check of the first boot behind."""
        root = step["root"]
        make_directories(f"{root}{first_boot.DIRECTORY}")
        with open(f"{root}{first_boot.PLACE}", "wb") as program:
            program.write(bundle.bundle(first_boot.PROGRAM))
        with open(f"{root}{first_boot.EXPECTED}", "w", encoding="utf-8") as file:
            json.dump(step["expected"], file, indent=1)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{root}{first_boot.FOUND}")
        units = f"{root}/etc/systemd/system"
        wants = f"{units}/default.target.wants"
        make_directories(wants)
        with open(f"{units}/{first_boot.UNIT}", "w", encoding="utf-8") as file:
            file.write(first_boot.UNIT_TEXT)
        if not os.path.lexists(f"{wants}/{first_boot.UNIT}"):
            os.symlink(f"../{first_boot.UNIT}", f"{wants}/{first_boot.UNIT}")


def _initramfs(root: str, release: str) -> list[str]:
    """Return the command that makes the initramfs of a kernel, by what the restored system has."""
    if not os.path.exists(f"{root}/usr/sbin/update-initramfs") and os.path.exists(f"{root}/usr/bin/dracut"):
        # With the drivers of all hardware: what it would find is that of the live system.
        return ["dracut", "--force", "--no-hostonly", f"/boot/initrd.img-{release}", release]
    return ["update-initramfs", "-c", "-k", release]


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
