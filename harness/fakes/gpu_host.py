"""Fake of a machine with an NVIDIA GPU, on a sandbox host. All that is not real there is in this module.

    install_fake_gpu(machine, device_ids=["2684"])  # an RTX 4090; the host reboots
    install_fake_gpu(machine, device_ids=["2684"], refuses={"590.48.01": "NVRM: ... failed"})
    install_fake_driver(machine, gpus(["2684", "2684"]))  # the same with an installed driver; no kernel, no DKMS
    python -m harness.fakes.gpu_host molecule 2684  # the targets of a lab, side by side

A container has the kernel of the machine that it runs on, and loads no module. At each boot of the host the unit
`rigwright-fake-gpu.service` (`gpu_host_files/boot.py`) shows what a kernel would show, at the lowest level that a container
can change:

- The running kernel is the newest one in /boot, as a boot loader chooses it, until the next boot: a file mounted over
  /proc/sys/kernel/osrelease, and `uname(2)` of libc by way of /etc/ld.so.preload. The kernel package, its headers, DKMS, depmod and
  modinfo are the distribution's own.
- The devices are in /sys/bus/pci/devices. The real modprobe chooses their modules: it knows depmod's list, the blacklists and the
  options. nouveau takes the devices unless it is disabled.
- nvidia.ko "loads" when DKMS has installed one for this kernel, its version magic fits and `refuses` does not name its version:
  /proc/driver/nvidia, /sys/module/nvidia, the driver's link of each device and /dev/nvidia* are created from the output of modinfo. A
  failure is in the journal with the kernel's message (`journalctl --identifier kernel`). dmesg and /proc/modules are the machine's own.

With `install_fake_driver` a driver is installed from the beginning, for tests of other roles. Its version is in /proc and /sys, and the
device nodes have numbers without a driver on this machine. Its user-space parts are `libnvidia-ml.so.1` with a state (`nvml.py`; a reboot
resets it like a driver's), `nvidia-smi` on top of it, and an empty libcuda.so.1.

Everything above that is real, and sees no difference.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.depot.apt_repository import run
from harness.fakes import nvml as fake_nvml
from harness.progress import step
from harness.sandbox import engine, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Entry, Machine

FILES = Path(__file__).with_name("gpu_host_files")
HOME = "/usr/lib/rigwright-fake-gpu"
UNIT = "rigwright-fake-gpu.service"
VGA = "030000"
DRIVER = fake_nvml.DRIVER
CUDA = "libcuda.so.1"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
FIRMWARE = "/usr/lib/firmware/nvidia"
SLOW_S = 600  # a kernel is downloaded and its initramfs made
APT_GET = "DEBIAN_FRONTEND=noninteractive apt-get --yes --no-install-recommends"


def install_fake_gpu(
    machine: Machine,
    device_ids: Sequence[str],
    *,
    pci_class: str = VGA,
    refuses: Mapping[str, str] | None = None,
) -> None:
    """Turn a sandbox host into a machine with these GPUs, and reboot it. It gets the distribution's kernel if it has none.

    `device_ids` are PCI ids of NVIDIA's, four hexadecimal digits each; [] takes the GPUs out. `pci_class` is 030000 for a display
    controller and 030200 for a card without outputs. `refuses` names driver versions that do not load, with what the kernel says then.
    """
    install_kernel(machine)
    described = {"gpus": gpus(device_ids, pci_class), "refuses": dict(refuses or {})}
    boot_as(
        machine,
        described,
        {
            f"{HOME}/uname.so": Entry(uname_library(), mode=0o755),
            "/etc/ld.so.preload": Entry(f"{HOME}/uname.so\n".encode()),
        },
    )


def gpus(device_ids: Sequence[str], pci_class: str = VGA) -> list[dict[str, str]]:
    """Return GPUs in slots of their own, each with a UUID that contains its slot."""
    return [
        {
            "address": f"0000:{slot:02x}:00.0",
            "device": device.lower(),
            "class": pci_class,
            "uuid": f"GPU-{slot:08x}-0000-0000-0000-{slot - 0x41:012d}",
        }
        for slot, device in enumerate(device_ids, start=0x41)
    ]


def install_fake_driver(machine: Machine, cards: Sequence[Mapping[str, str]], version: str = DRIVER) -> None:
    """Turn a sandbox host into a machine with these GPUs and a loaded driver of this version, and reboot it."""
    earlier = f"{LIBRARIES}/lib{{nvidia-ml,cuda}}.so.* {FIRMWARE}"
    libcuda = Entry(compiled(None, "-shared", "-nostdlib", soname=CUDA), mode=0o755)
    files = {**user_space(version), f"{LIBRARIES}/libcuda.so.{version}": libcuda, **table(cards, version)}
    machine.must(f"rm -rf {earlier}; mkdir -p {FIRMWARE}/{version}")
    described = [{**card, "name": fake_nvml.model(model_of(card))["name"]} for card in cards]
    boot_as(machine, {"gpus": described, "refuses": {}, "driver": version}, files, then="ldconfig")


def user_space(version: str = DRIVER) -> dict[str, Entry]:
    """Return NVML and nvidia-smi, as `Machine.put` takes them. Run ldconfig afterwards."""
    return {
        f"{LIBRARIES}/{fake_nvml.SONAME.removesuffix('.1')}.{version}": Entry(
            fake_nvml.library(version).read_bytes(), mode=0o755
        ),
        "/usr/bin/nvidia-smi": Entry(fake_nvml.nvidia_smi().read_bytes(), mode=0o755),
    }


def model_of(card: Mapping[str, str]) -> str:
    """Return the fake model with this PCI id."""
    names = {f"{int(fake_nvml.model(name)['pci.device_id']) >> 16:04x}": name for name in fake_nvml.models()}
    if card["device"] not in names:
        raise ValueError(f"no fake model has the PCI id {card['device']}: {names}")
    return names[card["device"]]


def table(cards: Sequence[Mapping[str, str]], version: str = DRIVER, *, device_nodes: bool = True) -> dict[str, Entry]:
    """Return the state of an NVML with these GPUs, as `Machine.put` takes it. NVML has them at once.

    A program sees the GPUs whose device nodes it has, or without `device_nodes` all.
    """
    found = [fake_nvml.Gpu(index, model_of(card), card["uuid"], card["address"]) for index, card in enumerate(cards)]
    facts = fake_nvml.initial_state(found, version) | ({"nodes": "1"} if device_nodes else {})
    # A program reads the state again when its serial number is another.
    serial = zlib.crc32(json.dumps(facts).encode())
    return {f"{FIRMWARE}/{version}/gsp_fake.bin": Entry(fake_nvml.as_text(facts, serial).encode())}


def boot_as(machine: Machine, described: Mapping[str, object], files: Mapping[str, Entry], then: str = "true") -> None:
    """Boot a host as described, with these files."""
    machine.put(
        {
            HOME: Entry(None, mode=0o755),
            f"{HOME}/boot.py": Entry((FILES / "boot.py").read_bytes()),
            f"{HOME}/machine.json": Entry(json.dumps(described).encode()),
            f"/usr/lib/systemd/system/{UNIT}": Entry((FILES / UNIT).read_bytes()),
            **files,
        }
    )
    machine.must(f"{then} && systemctl daemon-reload && systemctl --quiet enable {UNIT}")
    sandbox.reboot(machine)


def install_kernel(machine: Machine) -> None:
    """Install the distribution's kernel, without headers, unless one is there (about a minute)."""
    # All drivers of a distribution are most of the time that an initramfs takes, and none of them is needed.
    settings = "/etc/initramfs-tools"
    folders = {path: Entry(None, mode=0o755) for path in (settings, f"{settings}/conf.d")}
    machine.put({**folders, f"{settings}/conf.d/sandbox": Entry(b"MODULES=list\n")})
    machine.must(
        f"ls /boot/vmlinuz-* || {{ apt-get update && {APT_GET} install linux-image-amd64 kmod; }}", seconds=SLOW_S
    )


def enable_all_components(machine: Machine) -> None:
    """Let a host see Debian's contrib, non-free and non-free-firmware, where the archive has NVIDIA's packages."""
    machine.must(
        "sed -i '/^deb /s/ main$/ main contrib non-free non-free-firmware/' /etc/apt/sources.list || true;"
        "sed -i '/^Components:/s/: main$/: main contrib non-free non-free-firmware/' /etc/apt/sources.list.d/debian.sources || true;"
        "apt-get update",
        seconds=SLOW_S,
    )


def share_compiler_cache(machine: Machine) -> None:
    """Let package scripts on this host use the compiler cache of all hosts: only the first build of a driver is slow.

    DKMS still builds, links, signs and installs; just the compiler answers from what it made of the same source before.
    """
    machine.put(
        {
            "/etc/ccache.conf": Entry(b"cache_dir = /var/cache/ccache\n"),
            # apt gives package scripts this search path, and no other.
            "/etc/apt/apt.conf.d/92ccache": Entry(b'DPkg::Path "/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin";\n'),
        }
    )
    machine.must(f"apt-get update && {APT_GET} install ccache", seconds=SLOW_S)


def uname_library() -> bytes:
    # Without a library of its own it goes with the libc of any host.
    return compiled("uname.c", "-shared", "-nostdlib")


def compiled(source: str | None, *options: str, soname: str = "") -> bytes:
    """Compile a file in FILES, or nothing, and return the output."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "made")
        name = [f"-Wl,-soname,{soname}"] if soname else []
        run(
            "gcc",
            "-fPIC",
            "-O2",
            *options,
            *name,
            "-o",
            str(output),
            "-x",
            "c",
            str(FILES / source) if source else "/dev/null",
        )
        return output.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description="Install fake GPUs in the targets of a lab.")
    parser.add_argument("lab", choices=lab.names())
    parser.add_argument("device_ids", nargs="+", metavar="device_id", help="PCI id of a device of NVIDIA's, as 2684")
    arguments = parser.parse_args()
    client = engine.connect()
    targets = [Machine(client, host) for host in lab.read(arguments.lab).group("targets")]
    with (
        step(f"install fake GPUs in {', '.join(machine.host.name for machine in targets)}"),
        ThreadPoolExecutor() as pool,
    ):
        list(pool.map(lambda machine: install_fake_gpu(machine, arguments.device_ids), targets))


if __name__ == "__main__":
    main()
