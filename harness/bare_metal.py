"""The bare-metal drill: a machine is made, backed up, lost, built again on other disks by the playbook, and booted to a login.

python -m harness bare-metal debian12-bios      one of the four drills; without a name, all of them

Every machine is one of qemu, without KVM where the processor has none to give. They are reached by ssh over a port of loopback.
What is expensive and does not change is kept in .cache/bare_metal: a live system, and the machines before their loss.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import engine, images
from harness.lab import CACHE, ROOT, Refusal
from harness.progress import say, step

PLACE = CACHE / "bare_metal"
FILES = ROOT / "harness" / "bare_metal_files"
KEY = PLACE / "key"
PLAYBOOKS = ROOT / "playbooks"
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
MIB = 1 << 20
# Half a minute on two idle processors without KVM; on busy ones many times that.
BOOT_S = 900
PASSWORD = "drill"  # noqa: S105 - of a repository that is thrown away

BASE = ("systemd-sysv", "libpam-systemd", "dbus", "udev", "kmod", "linux-image-cloud-amd64", "initramfs-tools", "zstd")
TOOLS = (
    "openssh-server",
    "python3",
    "iproute2",
    "procps",
    "restic",
    "fdisk",
    "e2fsprogs",
    "dosfstools",
    "xfsprogs",
    "lvm2",
)
LIVE = (*BASE, *TOOLS, "btrfs-progs", "cryptsetup-bin", "mdadm", "efibootmgr")
# What a tar loses: capabilities, lists of access, attributes.
MACHINE = (*BASE, *TOOLS, "acl", "attr", "libcap2-bin", "iputils-ping", "sudo", "efibootmgr")
LOADERS = {"bios": ("grub-pc",), "uefi": ("grub-efi-amd64", "grub-efi-amd64-signed", "shim-signed")}


@dataclass(frozen=True)
class Drill:
    """A machine and what becomes of it. ``disks``: MiB of each, before and after; ``names``: as the kernel has them before."""

    release: str
    boot: str
    layout: str
    disks: tuple[tuple[int, int], ...]
    points: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.release}-{self.boot}"


DRILLS = {
    drill.name: drill
    for drill in (
        Drill("debian12", "bios", "dos", ((3072, 4096),), ("/",)),
        Drill("debian12", "uefi", "gpt", ((4096, 3072),), ("/", "/boot/efi")),
        Drill("debian13", "bios", "two_disks", ((3072, 4096), (1024, 768)), ("/", "/data")),
        Drill("debian13", "uefi", "lvm", ((5120, 4096),), ("/", "/boot", "/boot/efi", "/home")),
    )
}

# The one that every run of script/test has. None yet: no drill has gone through to its end so far (docs/bare_metal.md, "What was run").
BY_DEFAULT = ""


# ---- Machines of qemu ----------------------------------------------------------------------------------------------------


def accelerator() -> str:
    """KVM needs a processor that virtualizes: /dev/kvm is there on some that do not."""
    flags = Path("/proc/cpuinfo").read_text()
    usable = any(f" {flag} " in flags for flag in ("vmx", "svm")) and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return "kvm" if usable else "tcg,thread=multi"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Machine:
    """A machine of qemu, with its disks as (file, serial number, whether changes are thrown away)."""

    name: str
    boot: str
    place: Path
    disks: Sequence[tuple[Path, str, bool]]
    kernel: tuple[Path, Path] | None = None
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def serial(self) -> Path:
        return self.place / f"{self.name}.serial"

    def command(self) -> list[str]:
        words = ["qemu-system-x86_64", "-name", self.name, "-accel", accelerator(), "-m", "1536", "-smp", "2"]
        words += ["-cpu", "host" if accelerator() == "kvm" else "max,la57=off", "-display", "none", "-nodefaults"]
        # Without a display adapter grub waits for ever on a BIOS.
        words += ["-machine", "q35", "-vga", "std"]
        words += ["-serial", f"file:{self.serial}", "-device", "virtio-rng-pci"]
        words += [
            "-netdev",
            f"user,id=n,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device",
            "virtio-net-pci,netdev=n,romfile=",
        ]
        if self.boot == "uefi":
            code, _variables = FIRMWARE
            words += ["-drive", f"if=pflash,format=raw,readonly=on,file={code}"]
            words += ["-drive", f"if=pflash,format=raw,file={self.place / 'firmware'}"]
        for number, (path, serial, volatile) in enumerate(self.disks):
            # What a machine of a drill writes need not outlive a crash of this one.
            options = f"file={path},format=raw,if=none,id=d{number},cache=unsafe,snapshot={'on' if volatile else 'off'}"
            words += ["-drive", options, "-device", f"virtio-blk-pci,drive=d{number},serial={serial}"]
        if self.kernel:
            kernel, initrd = self.kernel
            arguments = "root=LABEL=live rw console=ttyS0 net.ifnames=0"
            words += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", arguments]
        return words

    def start(self) -> None:
        firmware = self.place / "firmware"
        if self.boot == "uefi" and not firmware.exists():
            shutil.copy(FIRMWARE[1], firmware)
        with (self.place / f"{self.name}.log").open("wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ssh_options(self) -> list[str]:
        known = [
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={self.place / self.name}.known",
            "-o",
            "LogLevel=ERROR",
        ]
        return ["-i", str(KEY), *known, "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=30"]

    def ssh(self, command: str, text: str | None = None, must_work: bool = True, seconds: float = 1200) -> str:
        done = subprocess.run(
            ["ssh", *self.ssh_options(), "-p", str(self.port), "root@127.0.0.1", command],
            input=text if text is not None else "",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if must_work and done.returncode != 0:
            raise Refusal(
                f"{self.name}: `{command[:200]}` ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def script(self, name: str, *arguments: str) -> str:
        """Run one of the drill's scripts there. It is read as a whole first: a command in it may read what comes in, too."""
        return self.ssh(f'bash -c "$(cat)" {shlex.join([name, *arguments])}', (FILES / name).read_text())

    def wait(self) -> None:
        """Until one can log in, by ssh and at the console."""
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self.ssh("echo here", must_work=False, seconds=60).strip() == "here" and "login: " in self.console():
                    return
            time.sleep(1)
        raise Refusal(
            f"{self.name} did not come to a login within {BOOT_S} s; its console ends so:\n{self.console()[-3000:]}"
        )

    def console(self) -> str:
        return self.serial.read_text(errors="replace") if self.serial.exists() else ""

    def stop(self, power_off: bool = True) -> None:
        if self.process is None:
            return
        if power_off and self.process.poll() is None:
            self.ssh("systemctl poweroff", must_work=False)
        try:
            self.process.wait(180 if power_off else 1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@contextlib.contextmanager
def running(machine: Machine) -> Iterator[Machine]:
    machine.start()
    try:
        machine.wait()
        yield machine
    except BaseException:
        machine.stop(power_off=False)
        raise
    machine.stop()


# ---- What is kept --------------------------------------------------------------------------------------------------------


def check_tools() -> None:
    missing = [name for name in ("qemu-system-x86_64", "mmdebstrap") if not shutil.which(name)]
    missing += [str(path) for path in FIRMWARE if not path.exists()]
    if missing:
        raise Refusal(f"The drill needs {', '.join(missing)}: apt-get install qemu-system-x86 ovmf mmdebstrap")


def ensure_key() -> None:
    if not KEY.exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY)], check=True)


def recipe(release: str, packages: Sequence[str], hook: str) -> list[str]:
    """The mmdebstrap command of a system for one of these machines, without its output."""
    suite, source = images.SUITES[release], images.archive()
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(packages)}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in images.apt_options()),
        "--dpkgopt=force-unsafe-io",
        # Nobody is asked where to put grub: there is no disk yet.
        '--essential-hook=echo grub-pc grub-pc/install_devices_empty boolean true | chroot "$1" debconf-set-selections',
        f'--customize-hook={FILES / hook} "$1" {KEY}.pub',
        suite.codename,
        "-",
        *source.one_line(suite.codename).splitlines(),
    ]


def digest(*texts: str) -> str:
    week = datetime.now(UTC).strftime("%G-W%V")
    return hashlib.sha256("\n".join([*texts, week]).encode()).hexdigest()[:12]


def make_tar(path: Path, command: Sequence[str]) -> None:
    """Have mmdebstrap make a tar, of as many whole MiB as a disk has."""
    unfinished, log_path = path.with_suffix(".unfinished"), path.with_suffix(".log")
    with unfinished.open("wb") as output, log_path.open("wb") as log:
        done = subprocess.run(command, stdout=output, stderr=log, check=False)
    if done.returncode != 0:
        raise Refusal("mmdebstrap failed:\n" + "\n".join(log_path.read_text(errors="replace").splitlines()[-15:]))
    with unfinished.open("ab") as file:
        file.truncate((unfinished.stat().st_size // MIB + 1) * MIB)
    unfinished.rename(path)


def live_system() -> tuple[Path, Path, Path]:
    """Root file system, kernel and initramfs of the live system, which is Debian 13."""
    command = recipe("debian13", LIVE, "live.sh")
    name = PLACE / f"live-{digest(*command, (FILES / 'live.sh').read_text())}"
    made = name.with_suffix(".img"), name.with_suffix(".vmlinuz"), name.with_suffix(".initrd")
    if not all(path.exists() for path in made):
        remove_older("live-*")
        with step("make the live system with mmdebstrap"), tempfile.TemporaryDirectory(dir=PLACE) as temporary:
            tar, tree = Path(temporary, "live.tar"), Path(temporary, "tree")
            make_tar(tar, command)
            tree.mkdir()
            subprocess.run(
                ["tar", "-xf", tar, "-C", tree, "--numeric-owner", "--xattrs", "--xattrs-include=*"], check=True
            )
            for kind, path in (("vmlinuz", made[1]), ("initrd.img", made[2])):
                shutil.copy(next(tree.glob(f"boot/{kind}-*")), path)
            image = Path(temporary, "live.img")
            subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "live", "-d", tree, image, "2G"], check=True)
            image.rename(made[0])
    return made


def remove_older(pattern: str) -> None:
    for path in PLACE.glob(pattern):
        path.unlink()


def blank(path: Path, mib: int) -> Path:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(mib * MIB)
    return path


def live_machine(name: str, boot: str, place: Path, disks: Sequence[tuple[Path, str, bool]]) -> Machine:
    image, kernel, initrd = live_system()
    return Machine(name, boot, place, [*disks, (image, "LIVE", True)], (kernel, initrd))


def lost_machine(drill: Drill) -> list[Path]:
    """The disks of the machine that a drill is about, with the firmware's variables beside them; made once."""
    command = recipe(drill.release, (*MACHINE, *LOADERS[drill.boot]), "machine.sh")
    texts = [(FILES / name).read_text() for name in ("machine.sh", "install.sh")]
    tar = PLACE / f"{drill.name}-{digest(*command, texts[0])}.tar"
    name = PLACE / f"{drill.name}-{digest(*command, *texts, repr(drill))}"
    disks = [Path(f"{name}.disk{number}") for number in range(len(drill.disks))]
    if not disks[-1].exists():
        remove_older(f"{drill.name}-*.disk*")
        if not tar.exists():
            remove_older(f"{drill.name}-*.tar")
            with step(f"make the files of {drill.name} with mmdebstrap"):
                make_tar(tar, command)
        with step(f"install the machine {drill.name}"), tempfile.TemporaryDirectory(dir=PLACE) as temporary:
            place = Path(temporary)
            new = [blank(place / f"disk{number}", before) for number, (before, _after) in enumerate(drill.disks)]
            attached = [(path, f"OLD{number}", False) for number, path in enumerate(new)]
            with running(live_machine("install", drill.boot, place, [*attached, (tar, "TAR", True)])) as live:
                live.script("install.sh", drill.layout, drill.boot)
            if drill.boot == "uefi":
                shutil.move(place / "firmware", f"{name}.firmware")
            for path, made in zip(new, disks, strict=True):
                path.rename(made)
    return disks


# ---- The drill -----------------------------------------------------------------------------------------------------------


def ansible(machine: Machine, *words: str, variables: dict[str, Any] | None = None, must_work: bool = True) -> str:
    """Run ansible-playbook against a machine, as a person would from here."""
    place = machine.place
    (place / "variables.json").write_text(json.dumps(variables or {}))
    inventory = {
        "bare_metal": {
            "hosts": {
                machine.name: {
                    "ansible_host": "127.0.0.1",
                    "ansible_port": machine.port,
                    "ansible_user": "root",
                    "ansible_ssh_common_args": shlex.join(machine.ssh_options()),
                    "ansible_python_interpreter": "/usr/bin/python3",
                }
            }
        }
    }
    (place / "inventory.json").write_text(json.dumps(inventory))
    done = subprocess.run(
        ["ansible-playbook", "-i", place / "inventory.json", "-e", f"@{place / 'variables.json'}", *words],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_TIMEOUT": "120",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    with (place / "ansible.log").open("a") as log:
        log.write(f"$ ansible-playbook {shlex.join(map(str, words))}\n{output}\n")
    if must_work and done.returncode != 0:
        raise Refusal(f"ansible-playbook {' '.join(words)} failed:\n{output[-4000:]}")
    return output


def back_up(drill: Drill, machine: Machine) -> dict[str, Any]:
    """Back the machine up onto a disk of its own, and return what it is made of."""
    machine.ssh(
        "mkfs.ext4 -q -L backup /dev/disk/by-id/virtio-BACKUP && mkdir -p /mnt/backup && mount LABEL=backup /mnt/backup"
    )
    ansible(machine, str(FILES / "manifest.yml"))
    before: dict[str, Any] = json.loads(machine.ssh("python3 -", (FILES / "fingerprint.py").read_text()))
    machine.script("back_up.sh", PASSWORD, *drill.points)
    machine.ssh("umount /mnt/backup")
    return before


def request(drill: Drill, **more: Any) -> dict[str, Any]:
    """The variables of the playbook. The backup's own disk is named as one that is not made again."""
    letters = "abcdefgh"
    return {
        "bare_metal_confirm": drill.name,
        "bare_metal_disks": {
            f"vd{letters[number]}": f"/dev/disk/by-id/virtio-NEW{number}" for number in range(len(drill.disks))
        },
        "bare_metal_keep": [f"vd{letters[len(drill.disks)]}"],
        "bare_metal_repository": {"url": "/mnt/backup/repository", "password": PASSWORD},
        **more,
    }


def refuse(live: Machine, said: str, variables: dict[str, Any]) -> None:
    """A request that has to be refused, before anything is written."""
    output = ansible(live, str(PLAYBOOKS / "bare_metal_restore.yml"), variables=variables, must_work=False)
    if said not in output or "failed=1" not in output:
        raise Refusal(f"The playbook was to refuse with {said!r}, and said:\n{output[-3000:]}")


def rebuild(drill: Drill, live: Machine, new: Sequence[Path]) -> None:
    """Refusals first, then the plan, then the rebuild itself."""
    playbook = str(PLAYBOOKS / "bare_metal_restore.yml")
    live.ssh("mkdir -p /mnt/backup && mount -o ro LABEL=backup /mnt/backup")
    with step("refuse what must be refused, and show the plan"):
        refuse(live, "and the manifest is of", request(drill, bare_metal_confirm="another"))
        backup = request(
            drill, bare_metal_disks={**request(drill)["bare_metal_disks"], "vda": "/dev/disk/by-id/virtio-BACKUP"}
        )
        refuse(live, "which is in use", backup)
        ansible(live, playbook, "--check", variables=request(drill))
        if any(path.stat().st_blocks for path in new):
            raise Refusal("--check has written to a disk")
    with step("build the machine again"):
        ansible(live, playbook, variables=request(drill))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, a line each."""
    lines = []
    for name in sorted(before["files"].keys() | after["files"].keys()):
        old, new = before["files"].get(name), after["files"].get(name)
        if old != new:
            lines.append(f"{name}: {old} -> {new}")
    lines += [
        f"{name}: {before[name]} -> {after[name]}" for name in before if name != "files" and before[name] != after[name]
    ]
    return lines


def carry_out(drill: Drill, place: Path) -> dict[str, float]:
    """The whole drill; seconds by what was done. Raises Refusal where something is not as it was."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(what: str) -> Iterator[None]:
        start = time.monotonic()
        with step(f"{drill.name}: {what}"):
            yield
        seconds[what] = time.monotonic() - start

    originals = lost_machine(drill)
    live_system()
    old = [copy(path, place / f"old{number}") for number, path in enumerate(originals)]
    new = [blank(place / f"new{number}", after) for number, (_before, after) in enumerate(drill.disks)]
    backup = blank(place / "backup", 4096)
    firmware = Path(f"{str(originals[0]).rpartition('.')[0]}.firmware")
    if drill.boot == "uefi":
        shutil.copy(firmware, place / "firmware")
    disks = [(path, f"OLD{number}", False) for number, path in enumerate(old)]
    with (
        timed("boot it, and back it up"),
        running(Machine("old", drill.boot, place, [*disks, (backup, "BACKUP", False)])) as machine,
    ):
        before = back_up(drill, machine)
    for path in old:
        path.unlink()
    if drill.boot == "uefi":
        # Another machine knows nothing of the old one's entries.
        shutil.copy(FIRMWARE[1], place / "firmware")
    disks = [(path, f"NEW{number}", False) for number, path in enumerate(new)]
    with (
        timed("from empty disks to a machine"),
        running(live_machine("live", drill.boot, place, [*disks, (backup, "BACKUP", False)])) as live,
    ):
        rebuild(drill, live, new)
    with timed("boot it to a login, and compare"), running(Machine("new", drill.boot, place, disks)) as machine:
        found = differences(before, json.loads(machine.ssh("python3 -", (FILES / "fingerprint.py").read_text())))
        verdict = json.loads(
            machine.ssh(
                "until [ -e /var/lib/rigwright/first_boot.json ]; do sleep 1; done; cat /var/lib/rigwright/first_boot.json",
                seconds=300,
            )
        )
        if not verdict["passed"]:
            found += verdict["faults"]
        say("\n".join(["the machine has", machine.ssh("lsblk -o NAME,SIZE,FSTYPE,UUID,MOUNTPOINTS")]))
    if found:
        raise Refusal(f"{drill.name} is not what it was:\n" + "\n".join(found[:40]))
    return seconds


def copy(source: Path, target: Path) -> Path:
    """A copy that has the holes of its original."""
    subprocess.run(["cp", "--sparse=always", source, target], check=True)
    return target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "drills", nargs="*", choices=[*DRILLS, []], metavar="DRILL", help=f"one of {', '.join(DRILLS)}; all by default"
    )
    parser.add_argument("--keep", action="store_true", help="leave disks and logs behind, in .cache/bare_metal")


def main(args: argparse.Namespace) -> int:
    check_tools()
    with engine.making("bare_metal"):
        ensure_key()
        for name in args.drills or DRILLS:
            place = Path(tempfile.mkdtemp(prefix=f"drill-{name}-", dir=PLACE))
            try:
                seconds = carry_out(DRILLS[name], place)
            finally:
                if not args.keep:
                    shutil.rmtree(place, ignore_errors=True)
            say(f"{name}: " + ", ".join(f"{what} {spent:.0f} s" for what, spent in seconds.items()))
    return 0
