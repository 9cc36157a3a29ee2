"""The targets of the molecule lab as machines with data disks: loop devices, with the names, serials and nodes that udev gives to disks.

python -m harness.fakes.disks

The kernel's part (loop devices, partitions, file systems, mounts) and all programs are the real ones. Fake is what does not run in a
container: udev (nodes of partitions, links in /dev/disk, serials), the reading of a GPT where the machine's kernel knows none, and that
systemd mounts what fstab has at boot, which it leaves out where /sys is read-only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from harness.sandbox import engine, lab
from harness.sandbox.clients import Entry, Machine

HOME = "/srv/fake_disks"
# Serial and size. XFS takes no less than 300 MiB.
DISKS = {"DATA1": "400M", "CACHE1": "200M", "OLD1": "100M", "SPARE1": "100M"}

# Runs on the host: nothing of the harness is there. As long as it runs it holds the loop devices, which end with it.
PROGRAM = r'''
import contextlib, fcntl, glob, os, subprocess, sys, time

HOME, RUN = "/srv/fake_disks", "/run/fake_disks"
MODEL = "IMITATED"  # kept: molecule/storage/vars.yml has the id of such a disk
LOOP_SET_STATUS64, LOOP_GET_STATUS64, FLAGS, AUTOCLEAR = 0x4C04, 0x4C05, 52, 4


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def attach(image):
    """Return a loop device that is detached when nobody holds it any more."""
    device = output_of("losetup", "--noheadings", "--output", "NAME", "--associated", image).split("\n")[0]
    device = device or output_of("losetup", "--find", "--show", "--partscan", image)
    device_file = open(device, "rb")
    status = bytearray(232)
    fcntl.ioctl(device_file, LOOP_GET_STATUS64, status)
    status[FLAGS] |= AUTOCLEAR
    fcntl.ioctl(device_file, LOOP_SET_STATUS64, bytes(status))
    link(device, f"{RUN}/{os.path.basename(image)[:-4]}")
    output_of("partx", "--add", device)
    return device_file


def link(target, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.symlink(target, path)


def number(name):
    with open(f"/sys/class/block/{name}/dev") as file:
        return file.read().strip()


def settle():
    """Do what udev does."""
    for path in glob.glob("/dev/disk/by-*/*"):
        os.unlink(path)
    os.makedirs("/run/udev/data", exist_ok=True)
    for mark in glob.glob(f"{RUN}/*"):
        serial, device = os.path.basename(mark), os.readlink(mark)
        disk = os.path.basename(device)
        with open(f"/run/udev/data/b{number(disk)}", "w") as file:
            file.write(f"I:1\nE:ID_SERIAL={MODEL}_{serial}\nE:ID_SERIAL_SHORT={serial}\nE:ID_MODEL={MODEL}\n")
        for node in glob.glob(f"{device}p*"):
            os.unlink(node)
        for name in [disk, *(os.path.basename(path) for path in glob.glob(f"/sys/block/{disk}/{disk}p*"))]:
            if name != disk:
                major, minor = map(int, number(name).split(":"))
                os.mknod(f"/dev/{name}", 0o60660, os.makedev(major, minor))
            part = name[len(disk) + 1 :]
            link(f"/dev/{name}", f"/dev/disk/by-id/ata-{MODEL}_{serial}" + (f"-part{part}" if part else ""))
            for line in output_of("blkid", "--probe", "--output", "export", f"/dev/{name}").splitlines():
                kind, _sign, value = line.partition("=")
                if kind in ("UUID", "LABEL") or kind == "PART_ENTRY_UUID":
                    link(f"/dev/{name}", f"/dev/disk/by-{kind.lower().replace('part_entry_', 'part')}/{value}")


if sys.argv[1:] == ["settle"]:
    settle()
else:
    held = [attach(image) for image in sorted(glob.glob(f"{HOME}/*.img"))]
    settle()
    subprocess.run(["mount", "--all"])
    subprocess.run(["systemd-notify", "--ready"])
    time.sleep(1 << 30)
'''

UDEVADM = f"#!/bin/sh\n# Fake: udev does not run in a container.\nexec python3 {HOME}/program.py settle\n"

UNIT = f"""\
[Unit]
Description=Fake disks
DefaultDependencies=no
Before=local-fs.target

[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/bin/python3 {HOME}/program.py

[Install]
WantedBy=local-fs.target
"""


def prepare(machine: Machine) -> None:
    machine.put(
        {
            HOME: Entry(None, mode=0o755),
            f"{HOME}/program.py": Entry(PROGRAM.encode()),
            "/usr/local/sbin/udevadm": Entry(UDEVADM.encode(), mode=0o755),
            "/etc/systemd/system/fake-disks.service": Entry(UNIT.encode()),
        }
    )
    for serial, size in DISKS.items():
        machine.must(f"truncate --size {size} {HOME}/{serial}.img")
    machine.must("systemctl daemon-reload && systemctl enable --now fake-disks.service")


if __name__ == "__main__":
    client = engine.connect()
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, [Machine(client, host) for host in lab.read("molecule").group("targets")]))
