"""The machines of the bare-metal drill and the live system: their packages, and how they are built.

Expensive parts that do not change within a week are kept in .cache/bare_metal.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.progress import step
from harness.sandbox import images
from harness.sandbox.lab import CACHE, ROOT, Refusal
from harness.vm import qemu
from harness.vm.qemu import Disk, Machine, running

PLACE = CACHE / "bare_metal"
FILES = ROOT / "harness/vm/files"
KEY = PLACE / "key"
MIB = 1 << 20

BASE = (
    "systemd-sysv",
    "udev",
    "kmod",
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "zstd",
    "openssh-server",
    "python3",
)
TOOLS = ("ifupdown", "iproute2", "procps", "restic", "fdisk", "e2fsprogs", "dosfstools")
LIVE = (*BASE, *TOOLS, "xfsprogs", "lvm2", "btrfs-progs", "cryptsetup-bin", "mdadm", "efibootmgr")
# With tools for what a tar loses: capabilities, ACLs, attributes.
MACHINE = (*BASE, *TOOLS, "dbus", "acl", "attr", "libcap2-bin", "iputils-ping", "sudo")
# xfsprogs brings a new initramfs when it is installed, which takes an emulated machine minutes.
LAYOUTS = {"lvm": ("lvm2", "xfsprogs"), "cloud": ("apparmor", "ca-certificates", "python3-apt", "xfsprogs")}
# Hooks of a layout in addition to machine.sh.
HOOKS = {"cloud": ("cloud.sh",)}
LOADERS = {
    "bios": ("grub-pc",),
    "uefi": ("grub-efi-amd64", "grub-efi-amd64-signed", "shim-signed", "efibootmgr"),
}
# Thousands of files that no machine here opens. As patterns of dpkg, whose stars stand for slashes too.
UNREAD = (
    *(f"/usr/share/{name}/*" for name in ("man", "doc", "info", "locale", "zoneinfo")),
    "*/udev/hwdb.d/*",
    *(f"*/kernel/drivers/{name}/*" for name in ("comedi", "hid", "infiniband", "scsi", "target", "watchdog")),
    *(f"*/kernel/fs/{name}/*" for name in ("ceph", "gfs2", "nfs", "nfsd", "ocfs2", "smb")),
)


@dataclass(frozen=True)
class Drill:
    """A machine of a drill. ``disks``: MiB of each, before and after; ``points``: its mount points."""

    release: str
    boot: str
    layout: str
    disks: tuple[tuple[int, int], ...]
    points: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{'cloud-' if self.layout == 'cloud' else ''}{self.release}-{self.boot}"

    @property
    def hooks(self) -> tuple[str, ...]:
        return ("machine.sh", *HOOKS.get(self.layout, ()))

    @property
    def packages(self) -> tuple[str, ...]:
        return (*MACHINE, *LOADERS[self.boot], *LAYOUTS.get(self.layout, ()))


def check_tools() -> None:
    missing = [*qemu.missing(), *(["mmdebstrap"] if not shutil.which("mmdebstrap") else [])]
    if missing:
        raise Refusal(f"The drill needs {', '.join(missing)}: apt-get install qemu-system-x86 ovmf mmdebstrap")


def ensure_key() -> None:
    if not KEY.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY)], check=True)


def prepare(drill: Drill) -> list[Path]:
    """Make the sources of a drill in parallel, and return the disks of its machine."""
    ensure_key()
    with ThreadPoolExecutor() as pool:
        live, files = pool.submit(live_system), pool.submit(files_of, drill)
        live.result()
        files.result()
    return lost_machine(drill)


def recipe(release: str, packages: Sequence[str], hooks: Sequence[str]) -> list[str]:
    """Return the mmdebstrap command of a system for these machines, without its output."""
    suite, source = images.SUITES[release], images.archive()
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(packages)}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in images.apt_options()),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in UNREAD),
        f'--setup-hook={FILES / "setup.sh"} "$1"',
        f'--essential-hook={FILES / "prepare.sh"} "$1"',
        f'--customize-hook={FILES / "system.sh"} "$1" {KEY}.pub',
        *(f'--customize-hook={FILES / hook} "$1"' for hook in hooks),
        suite.codename,
        "-",
        *source.one_line(suite.codename).splitlines(),
    ]


def digest(*texts: str) -> str:
    """Return the identity of a recipe; the archive of another week has other packages."""
    scripts = [(FILES / name).read_text() for name in ("setup.sh", "prepare.sh", "system.sh")]
    return hashlib.sha256(
        "\n".join([*texts, *scripts, KEY.with_suffix(".pub").read_text(), images.week()]).encode()
    ).hexdigest()[:12]


def make_tar(path: Path, command: Sequence[str]) -> None:
    """Make a tar with mmdebstrap, padded to whole MiB as a disk needs."""
    unfinished, log_path = path.with_suffix(".unfinished"), path.with_suffix(".log")
    with unfinished.open("wb") as output, log_path.open("wb") as log:
        done = subprocess.run(command, stdout=output, stderr=log, check=False)
    if done.returncode != 0:
        raise Refusal("mmdebstrap failed:\n" + "\n".join(log_path.read_text(errors="replace").splitlines()[-15:]))
    with unfinished.open("ab") as file:
        file.truncate((unfinished.stat().st_size // MIB + 1) * MIB)
    unfinished.rename(path)


def live_system() -> tuple[Path, Path, Path]:
    """Return root file system, kernel and initramfs of the live system, which is Debian 13; make them if needed."""
    command = recipe("debian13", LIVE, ["live.sh"])
    name = PLACE / f"live-{digest(*command, (FILES / 'live.sh').read_text())}"
    files = name.with_suffix(".img"), name.with_suffix(".vmlinuz"), name.with_suffix(".initrd")
    if not all(path.exists() for path in files):
        remove("live-*")
        with step("make the live system with mmdebstrap"), tempfile.TemporaryDirectory(dir=PLACE) as temporary:
            tar, tree = Path(temporary, "live.tar"), Path(temporary, "tree")
            make_tar(tar, command)
            tree.mkdir()
            extended = ("--xattrs", "--xattrs-include=*")
            subprocess.run(["tar", "-xf", tar, "-C", tree, "--numeric-owner", *extended], check=True)
            for kind, path in (("vmlinuz", files[1]), ("initrd.img", files[2])):
                shutil.copy(next(tree.glob(f"boot/{kind}-*")), path)
            image = Path(temporary, "live.img")
            subprocess.run(
                ["mkfs.ext4", "-q", "-F", "-L", "live", "-d", tree, image, "2G"], check=True, stdout=subprocess.DEVNULL
            )
            image.rename(files[0])
    return files


def files_of(drill: Drill) -> Path:
    """Return the files of a drill's machine, as a tar; make it if needed."""
    command = recipe(drill.release, drill.packages, drill.hooks)
    tar = PLACE / f"{drill.name}-{digest(*command, *((FILES / hook).read_text() for hook in drill.hooks))}.tar"
    if not tar.exists():
        remove(f"{drill.name}-*.tar")
        with step(f"make the files of {drill.name} with mmdebstrap"):
            make_tar(tar, command)
    return tar


def lost_machine(drill: Drill) -> list[Path]:
    """Return the disks of a drill's machine, with the firmware's variables next to them; install it if needed."""
    tar = files_of(drill)
    name = PLACE / f"{drill.name}-{digest(tar.name, (FILES / 'install.sh').read_text(), repr(drill))}"
    disks = [Path(f"{name}.disk{number}") for number in range(len(drill.disks))]
    if not disks[-1].exists():
        remove(f"{drill.name}-*.disk?")
        remove(f"{drill.name}-*.firmware")
        with step(f"install the machine {drill.name}"), tempfile.TemporaryDirectory(dir=PLACE) as temporary:
            place = Path(temporary)
            new = [blank(place / f"disk{number}", before) for number, (before, _after) in enumerate(drill.disks)]
            attached = [Disk(path, f"OLD{number}") for number, path in enumerate(new)]
            with running(live_machine("install", drill.boot, place, [*attached, Disk(tar, "TAR", True)])) as live:
                live.script(FILES / "install.sh", drill.layout, drill.boot)
            if drill.boot == "uefi":
                shutil.move(place / "firmware", f"{name}.firmware")
            for path, disk in zip(new, disks, strict=True):
                path.rename(disk)
    return disks


def firmware_of(disks: Sequence[Path]) -> Path:
    return disks[0].with_suffix(".firmware")


def live_machine(name: str, boot: str, place: Path, disks: Sequence[Disk]) -> Machine:
    image, kernel, initrd = live_system()
    return Machine(name, boot, place, KEY, [*disks, Disk(image, "LIVE", True)], (kernel, initrd))


def remove(pattern: str) -> None:
    for path in PLACE.glob(pattern):
        path.unlink()


def blank(path: Path, mib: int) -> Path:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(mib * MIB)
    return path


def formatted(path: Path, mib: int) -> Path:
    """Make a disk that is not empty."""
    subprocess.run(["mkfs.ext4", "-q", blank(path, mib)], check=True)
    return path


def content(path: Path) -> str:
    """Return a digest of a disk's content; for a large one that was never written to, a constant."""
    if not path.stat().st_blocks:
        return "never written to"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy(source: Path, target: Path) -> Path:
    """Copy a file with its holes."""
    subprocess.run(["cp", "--sparse=always", source, target], check=True)
    return target
