"""Show what the kernel of a machine with an NVIDIA GPU would show, at each boot of a sandbox host. See harness/fakes/gpu_host.py.

Runs on the host as the unit rigwright-fake-gpu.service, with Python's standard library. It prints messages of the kernel.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import struct
import subprocess
from pathlib import Path

HOME = Path(__file__).parent
STATE = Path("/run/rigwright-fake-gpu")
PCI = Path("/sys/bus/pci")
MODULES = Path("/sys/module")
PROC = Path("/proc/driver")
OPEN = "NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@fake)  Thu Jan  1 00:00:00 UTC 2026"
CLOSED = "NVIDIA UNIX x86_64 Kernel Module  {}  Thu Jan  1 00:00:00 UTC 2026"

# The numbers of /dev/null: with others no process could hold a device open, since no driver answers.
NULL = (1, 3)
# The devices of an installed driver are distinct, also for control groups. These majors are for local use, so no driver of this machine
# answers them (Documentation/admin-guide/devices.txt); NVIDIA's own are 195 and one that the kernel chooses.
MAJORS = {"nvidia": 60, "nvidia-uvm": 61, "nvidia-caps": 62}
CONTROL = {
    "nvidiactl": ("nvidia", 255),
    "nvidia-modeset": ("nvidia", 254),
    "nvidia-uvm": ("nvidia-uvm", 0),
    "nvidia-uvm-tools": ("nvidia-uvm", 1),
}


def run(*command: str) -> str:
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout


def mount(*arguments: str) -> None:
    subprocess.run(("mount", *arguments), check=True)


def write(folder: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


def add_layer(target: Path) -> None:
    """Let files be added to a folder of sysfs. They are in memory."""
    upper, work = (STATE / target.name / part for part in ("upper", "work"))
    upper.mkdir(parents=True)
    work.mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={target},upperdir={upper},workdir={work}", str(target))


def boot_kernel() -> str | None:
    """Choose the newest installed kernel, as a boot loader does. None if there is none: then the container's own keeps running."""
    versions = run("sh", "-c", "linux-version list | linux-version sort").split()
    if not versions:
        return None
    write(STATE, {"osrelease": versions[-1]})
    mount("--bind", str(STATE / "osrelease"), "/proc/sys/kernel/osrelease")  # programs see it by uname.so
    return versions[-1]


def modalias(gpu: dict[str, str]) -> str:
    vendor, device, kind = "000010DE", f"0000{gpu['device']}".upper(), gpu["class"].upper()
    return f"pci:v{vendor}d{device}sv{vendor}sd00001234bc{kind[:2]}sc{kind[2:4]}i{kind[4:]}"


def add_device(gpu: dict[str, str]) -> None:
    kind, device = gpu["class"], gpu["device"]
    # lspci reads the first 64 bytes of the configuration space.
    config = struct.pack("<HHHHBBBB", 0x10DE, int(device, 16), 0, 0, 0, *reversed(bytes.fromhex(kind))).ljust(64, b"\0")
    described = {
        "vendor": "0x10de",
        "device": f"0x{device}",
        "class": f"0x{kind}",
        "subsystem_vendor": "0x10de",
        "subsystem_device": "0x1234",
        "revision": "0xa1",
        "numa_node": -1,
        "irq": 0,
        "boot_vga": 0,
        "modalias": modalias(gpu),
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13),
        "config": config,
    }
    write(PCI / "devices" / gpu["address"], described)


def matching_modules(kernel: str, gpu: dict[str, str]) -> dict[str, list[str]]:
    """Return the modules that udev would load for this device: `{name: [path, option, ...]}`. modprobe knows the blacklists and options."""
    lines = run("modprobe", "--set-version", kernel, "--use-blacklist", "--show-depends", modalias(gpu)).splitlines()
    loads = [line.split()[1:] for line in lines if line.startswith("insmod ")]
    return {Path(load[0]).name.split(".")[0]: load for load in loads}


def why_not(kernel: str, about: dict[str, str], refuses: dict[str, str]) -> str | None:
    """Return the kernel's message when a module would not load."""
    magic = about["vermagic"].split()[0]
    if magic != kernel:
        return f"nvidia: version magic '{magic}' should be '{kernel}'"
    return refuses.get(about["version"])


def null_nodes(gpus: list[dict[str, str]]) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(["nvidiactl", *(f"nvidia{minor}" for minor in range(len(gpus)))], NULL)


def load(
    gpus: list[dict[str, str]],
    about: dict[str, str],
    options: list[str],
    nodes: dict[str, tuple[int, int]] | None = None,
) -> None:
    is_open = about["license"] != "NVIDIA"
    banner = (OPEN if is_open else CLOSED).format(about["version"])
    compiler = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) "
    set_options = [option.replace("NVreg_", "").replace("=", ": ") for option in options]
    write(PROC / "nvidia", {"version": f"NVRM version: {banner}\n{compiler}", "params": "\n".join(set_options)})
    taint = "OE" if is_open else "POE"
    shown = {
        "version": about["version"],
        "srcversion": about["srcversion"],
        "refcnt": 0,
        "initstate": "live",
        "taint": taint,
    }
    write(MODULES / "nvidia", shown)
    for option in options:
        name, _separator, value = option.partition("=")
        write(MODULES / "nvidia/parameters", {name: value})
    for minor, gpu in enumerate(gpus):
        information = {
            "Model": gpu.get("name", f"NVIDIA fake {gpu['device']}"),
            "IRQ": "  0",
            "GPU UUID": gpu.get("uuid", f"GPU-00000000-0000-0000-0000-{minor:012d}"),
            "Bus Type": "PCIe",
            "Bus Location": gpu["address"],
            "Device Minor": minor,
            "GPU Firmware": about["version"],
            "GPU Excluded": "No",
        }
        lines = (f"{name + ':':16} {value}" for name, value in information.items())
        write(PROC / "nvidia/gpus" / gpu["address"], {"information": "\n".join(lines)})
    os.umask(0)  # every user is allowed to open a GPU
    for name, numbers in (nodes or null_nodes(gpus)).items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(*numbers))
    print(f"NVRM: loading {banner}")


def bind(gpus: list[dict[str, str]], driver: str) -> None:
    (PCI / "drivers" / driver).mkdir()
    for gpu in gpus:
        (PCI / "devices" / gpu["address"] / "driver").symlink_to(PCI / "drivers" / driver)
        (PCI / "drivers" / driver / gpu["address"]).symlink_to(PCI / "devices" / gpu["address"])


def mig_minors(count: int) -> dict[str, int]:
    """Return the numbers of MIG's capabilities, which the driver gives to all instances that these GPUs could have."""
    names = ["config", "monitor"]
    for gpu in range(count):
        for instance in range(15):
            inside = f"gpu{gpu}/gi{instance}"
            names += [f"{inside}/access", *(f"{inside}/ci{compute}/access" for compute in range(8))]
    return {name: minor for minor, name in enumerate(names, start=1)}


def load_driver(gpus: list[dict[str, str]], version: str) -> None:
    """Show an installed driver: nothing was built for it, and its devices have numbers of their own."""
    devices = Path("/proc/devices").read_text()
    majors = "".join(f"{major:3} {name}\n" for name, major in MAJORS.items())
    write(STATE, {"devices": devices.replace("Character devices:\n", f"Character devices:\n{majors}").rstrip("\n")})
    mount("--bind", str(STATE / "devices"), "/proc/devices")
    write(Path("/lib/modules") / os.uname().release, {"modules.dep": "updates/dkms/nvidia.ko:"})
    nodes = {name: (MAJORS[kind], minor) for name, (kind, minor) in CONTROL.items()}
    nodes |= {f"nvidia{minor}": (MAJORS["nvidia"], minor) for minor in range(len(gpus))}
    # The real nodes come and go with the instances.
    minors = mig_minors(len(gpus))
    Path("/dev/nvidia-caps").mkdir()
    nodes |= {f"nvidia-caps/nvidia-cap{minor}": (MAJORS["nvidia-caps"], minor) for minor in minors.values()}
    write(PROC / "nvidia-caps", {"mig-minors": "\n".join(f"{name} {minor}" for name, minor in minors.items())})
    load(gpus, {"version": version, "license": "Dual MIT/GPL", "srcversion": "0" * 24}, [], nodes)
    bind(gpus, "nvidia")
    # A driver that is loaded again forgets modes, locked clocks and the division of GPUs.
    ctypes.CDLL("libnvidia-ml.so.1").rigwright_load_driver(1)


def main() -> None:
    wanted = json.loads((HOME / "machine.json").read_text())
    gpus = wanted["gpus"]
    STATE.mkdir()
    kernel = boot_kernel()
    for folder in (PCI, MODULES):
        add_layer(folder)
    mount("-t", "tmpfs", "tmpfs", str(PROC))
    for gpu in gpus:
        add_device(gpu)
    if wanted.get("driver"):
        load_driver(gpus, wanted["driver"])
        return
    matching = matching_modules(kernel, gpus[0]) if kernel and gpus else {}
    ours = next((name for name in matching if name in ("nvidia", "nvidia-current")), None)
    if "nouveau" in matching:
        write(MODULES / "nouveau", {"initstate": "live", "refcnt": 0})
        bind(gpus, "nouveau")
        if ours:
            print(f"NVRM: GPU {gpus[0]['address']} is already bound to nouveau.")
    elif kernel and ours:
        path, *options = matching[ours]
        about = dict(line.split(":", 1) for line in reversed(run("modinfo", path).splitlines()) if ":" in line)
        about = {name: value.strip() for name, value in about.items()}
        problem = why_not(kernel, about, wanted["refuses"])
        if problem:
            print(problem)
        else:
            load(gpus, about, options)
            bind(gpus, "nvidia")


if __name__ == "__main__":
    main()
