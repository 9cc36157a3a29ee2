"""Machines of qemu, for what containers lack: firmware, disks, a boot loader, a boot. They are reached by ssh over a port of loopback.

Without KVM they run about ten times slower, so a machine has no device that it would have to wait for.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.progress import say, step
from harness.sandbox.lab import ROOT, Refusal

FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
# A quarter of a minute on two idle processors without KVM; on busy ones many times that.
BOOT_S = 900
# qemu's emulation now and then lets one processor run into an instruction that the kernel, on another one, is just changing. A machine
# that cannot find its disks or its init panics with another message, and is not started again.
PANIC = "Kernel panic - not syncing: Fatal exception"
ATTEMPTS = 3
# The name of the free port of a machine.
PORT = "free"


def missing() -> list[str]:
    """Return the programs and files that have to be installed before a machine can run."""
    programs = [name for name in ("qemu-system-x86_64",) if not shutil.which(name)]
    return programs + [str(path) for path in FIRMWARE if not path.exists()]


def accelerator() -> str:
    """Return the accelerator. KVM needs a processor that virtualizes; /dev/kvm exists also on others."""
    flags = Path("/proc/cpuinfo").read_text()
    usable = any(f" {flag} " in flags for flag in ("vmx", "svm")) and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return "kvm" if usable else "tcg,thread=multi"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Disk:
    """A file as a disk with a serial number. Writes to a ``volatile`` one are discarded."""

    path: Path
    serial: str
    volatile: bool = False


def drive(disk: Disk, name: str) -> str:
    # What a machine writes need not outlive a crash of this one.
    options = f"file={disk.path},format=raw,if=none,id={name},cache=unsafe,discard=unmap"
    return f"{options},snapshot={'on' if disk.volatile else 'off'}"


def device(disk: Disk, name: str) -> str:
    return f"virtio-blk-pci,drive={name},serial={disk.serial}"


@dataclass
class Machine:
    """A machine, and the folder of its files.

    ``user`` logs in there by ``key``; ``kernel``: kernel and initramfs of a machine without boot loader.
    """

    name: str
    boot: str
    place: Path
    key: Path
    disks: Sequence[Disk]
    kernel: tuple[Path, Path] | None = None
    user: str = "root"
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def serial(self) -> Path:
        return self.place / f"{self.name}.serial"

    def command(self) -> list[str]:
        kvm = accelerator() == "kvm"
        command = ["qemu-system-x86_64", "-name", self.name, "-accel", accelerator(), "-m", "1536", "-smp", "2"]
        command += ["-display", "none", "-nodefaults", "-cpu", "host" if kvm else "max,la57=off,svm=off"]
        # Without a display adapter grub waits for ever on a BIOS.
        command += ["-machine", "q35,sata=off,usb=off,smbus=off,hpet=off,vmport=off", "-vga", "std"]
        command += ["-serial", f"file:{self.serial}", "-device", "virtio-rng-pci"]
        command += ["-netdev", f"user,id=n,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        command += ["-device", "virtio-net-pci,netdev=n,romfile="]
        if self.boot == "uefi":
            command += ["-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE[0]}"]
            command += ["-drive", f"if=pflash,format=raw,file={self.place / 'firmware'}"]
        # A port for one disk more, and the monitor through which it comes (`plug_in`).
        command += ["-device", f"pcie-root-port,id={PORT}", "-monitor", "stdio"]
        for number, disk in enumerate(self.disks):
            command += ["-drive", drive(disk, f"d{number}"), "-device", device(disk, f"d{number}")]
        if self.kernel:
            kernel, initrd = self.kernel
            # On busy processors an emulated timer does not tick while the kernel checks it, which is a panic.
            arguments = (
                "root=LABEL=live rw console=ttyS0 net.ifnames=0 quiet 8250.nr_uarts=1 mitigations=off init_on_alloc=0 "
                "no_timer_check"
            )
            command += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", arguments]
        return command

    def start(self) -> None:
        firmware = self.place / "firmware"
        if self.boot == "uefi" and not firmware.exists():
            shutil.copy(FIRMWARE[1], firmware)
        self.serial.unlink(missing_ok=True)  # what is read there is of this start
        with (self.place / f"{self.name}.log").open("wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=log, stderr=log)

    def plug_in(self, disk: Disk) -> None:
        """Plug a disk into the running machine."""
        if self.process is None or self.process.stdin is None:
            raise Refusal(f"{self.name} does not run: no disk can be plugged in")
        commands = f"drive_add 0 {drive(disk, 'late')}\ndevice_add {device(disk, 'late')},bus={PORT}\n"
        self.process.stdin.write(commands.encode())
        self.process.stdin.flush()

    def ssh_options(self) -> list[str]:
        """Return the options of ssh. All logins share a connection: a key exchange takes such a machine seconds."""
        options = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": f"{self.place / self.name}.known",
            "LogLevel": "ERROR",
            "ConnectTimeout": "20",
            "ServerAliveInterval": "30",
            "ControlMaster": "auto",
            "ControlPersist": "yes",
            # The way to a socket has to be short.
            "ControlPath": os.path.relpath(self.place / f"{self.name}.ssh", ROOT),
        }
        return ["-i", str(self.key), *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]

    def ssh(self, command: str, text: str = "", must_work: bool = True, seconds: float = 1200) -> str:
        done = subprocess.run(
            ["ssh", *self.ssh_options(), "-p", str(self.port), f"{self.user}@127.0.0.1", command],
            cwd=ROOT,
            input=text,
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

    def script(self, path: Path, *arguments: str) -> str:
        """Run a script there, by bash. It is read as a whole first, since its commands may read stdin too."""
        return self.ssh(f'bash -c "$(cat)" {shlex.join([path.name, *arguments])}', path.read_text())

    def boot_up(self) -> None:
        """Start the machine and wait for a login; start it again if the emulated kernel panics."""
        for remaining in reversed(range(ATTEMPTS)):
            self.start()
            try:
                self.wait()
                break
            except Refusal:
                self.stop()
                if PANIC not in self.console() or not remaining:
                    raise
                say(f"the kernel of {self.name} has stumbled over the emulation: it is started again")

    def wait(self) -> None:
        """Until one can log in, by ssh and at the console."""
        deadline = time.monotonic() + BOOT_S
        while time.monotonic() < deadline:
            console = self.console()
            if self.process is None or self.process.poll() is not None or "end Kernel panic" in console:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                # An earlier login would slow down the boot.
                if "login: " in console and self.ssh("echo here", must_work=False, seconds=60) == "here\n":
                    return
            time.sleep(0.5)
        raise Refusal(
            f"{self.name} did not come to a login ({BOOT_S} s at the most); its console ends so:\n{self.console()[-3000:]}"
        )

    def console(self) -> str:
        return self.serial.read_text(errors="replace") if self.serial.exists() else ""

    def shut_down(self) -> None:
        """Have the machine shut down in order, and wait until it is off."""
        self.ssh("sudo systemctl poweroff", must_work=False)
        try:
            if self.process is not None:
                self.process.wait(BOOT_S)
        except subprocess.TimeoutExpired:
            raise Refusal(
                f"{self.name} did not shut down within {BOOT_S} s; its console ends so:\n{self.console()[-3000:]}"
            ) from None
        self.stop()

    def stop(self) -> None:
        """Pull the plug: what is on the disks then is what the machine's kernel has written there."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdin:
                self.process.stdin.close()
            self.process = None


@contextlib.contextmanager
def running(machine: Machine) -> Iterator[Machine]:
    try:
        with step(f"boot the machine {machine.name} to a login"):
            machine.boot_up()
        yield machine
    finally:
        machine.stop()
