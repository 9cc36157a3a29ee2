# SPDX-License-Identifier: GPL-3.0-or-later
"""A root directory as a machine, with programs that change it as dpkg, apt, DKMS and modprobe would."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import MODPROBE, Host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change

KERNEL = "6.12.117+deb13-amd64"


OLD, NEW = "580.159.04", "590.48.01"


PARTS = ("libcuda1", "libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms")

# A program that holds a lock until its standard input ends.
LOCK = (
    "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB);"
    "print('mine', flush=True); sys.stdin.read()"
)


class Machine:
    """A root directory, and programs that change it as dpkg, apt, DKMS and modprobe would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages: dict[str, str] = {"bash": "5.2"}
        self.held: set[str] = set()
        self.broken: set[str] = set()
        self.removes_also: list[str] = []
        self.comes_along: dict[str, str] = {}
        self.fails: set[str] = set()
        self.dies_after: int | None = None
        self.files: list[str] = []
        self.built: dict[str, str] = {}
        self.owned = False
        self.kernel = KERNEL
        self.commands: list[list[str]] = []
        for path, text in {
            "/proc/sys/kernel/osrelease": KERNEL,
            "/proc/sys/kernel/random/boot_id": "first",
            f"/boot/vmlinuz-{KERNEL}": "",
            "/var/lib/dpkg/lock": "",
            "/var/lib/apt/extended_states": "Package: libcuda1\nArchitecture: amd64\nAuto-Installed: 1\n",
            "/etc/apt/preferences.d/mine": "Package: vim\nPin: version 1\nPin-Priority: 1\n",
        }.items():
            self.write(path, text)
        self.save()

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def keep(self, name: str, version: str) -> None:
        """Install a package, with its file as apt's cache has it."""
        self.packages[name] = version
        bare, _colon, architecture = name.partition(":")
        self.write(f"/var/cache/apt/archives/{bare}_{version}_{architecture or 'amd64'}.deb", "deb")
        self.save()

    def save(self) -> None:
        blocks = [
            f"Package: {name.partition(':')[0]}\nStatus: {'hold' if name in self.held else 'install'} ok "
            f"{'half-configured' if name in self.broken else 'installed'}\nVersion: {version}\n"
            f"Architecture: {name.partition(':')[2] or 'amd64'}\n"
            for name, version in self.packages.items()
        ]
        self.write("/var/lib/dpkg/status", "\n".join(blocks))

    def install(self, branch: str) -> None:
        """Install the packages of a branch as apt's cache and dpkg have them, and its module."""
        for name in PARTS:
            self.keep(name, f"{branch}-1")
        self.build(branch)
        self.save()

    def build(self, version: str) -> None:
        self.clear("/var/lib/dkms/nvidia")
        top = f"/var/lib/dkms/nvidia/{version}"
        if "build" in self.fails and version == NEW:
            self.write(
                f"{top}/build/make.log",
                f"DKMS make.log for nvidia-{NEW} for kernel {self.kernel} (x86_64)\na.c:1: error: too few\n",
            )
            self.broken.add("nvidia-kernel-open-dkms")
            return
        self.write(f"{top}/{self.kernel}/x86_64/module/nvidia.ko", "")
        (self.root / f"var/lib/dkms/nvidia/kernel-{self.kernel}-x86_64").symlink_to(f"{version}/{self.kernel}/x86_64")

    def clear(self, path: str) -> None:
        shutil.rmtree(self.root / path.lstrip("/"), ignore_errors=True)

    def boot(self, loads: bool = True) -> None:
        self.write("/proc/sys/kernel/random/boot_id", f"{id(object())}-again")
        self.clear("/sys/module/nvidia")
        if loads:
            self.load()

    def load(self) -> None:
        version = self.packages.get("libnvidia-ml1", "-1").removesuffix("-1")
        self.clear("/usr/lib/x86_64-linux-gnu")
        if version and not (version == NEW and "load" in self.fails):
            self.write("/sys/module/nvidia/version", version)
        if version:
            self.write(f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", "")
            (self.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{version}")

    # --- programs ---

    def run(self, command: Sequence[str]) -> tuple[int, str, str]:
        self.commands.append(list(command))
        self.owned = command[:2] == ["env", "DPKG_FRONTEND_LOCKED=1"]
        command = command[2:] if self.owned else command
        name = Path(command[0]).name.replace("-", "_")
        result: tuple[int, str, str] = getattr(self, name)(list(command[1:]))
        self.save()
        return result

    def apt_get(self, arguments: list[str]) -> tuple[int, str, str]:
        assert not self.owned
        if arguments[0] == "update":
            return 0, "", ""
        if arguments[0] == "check":
            return (100, "", "E: Unmet dependencies.\n") if "check" in self.fails else (0, "", "")
        names = [word for word in arguments if word in PARTS]
        going = [word[:-1] for word in arguments if word.endswith("-")]
        if "--simulate" in arguments:
            if "solve" in self.fails:
                return (
                    100,
                    " nvidia-driver-cuda : Depends: libcuda1 but it is not going to be installed\n",
                    "E: broken\n",
                )
            versions = dict.fromkeys(names, f"{NEW}-1") | self.comes_along
            lines = [f"Inst {part} ({version} NVIDIA CUDA [amd64])\n" for part, version in versions.items()]
            return 0, "".join([*lines, *(f"Remv {part} [1]\n" for part in [*going, *self.removes_also])]), ""
        if "download" in self.fails:
            return 100, "", "E: Failed to fetch http://depot/x.deb  404  Not Found\n"
        for part in names[: self.dies_after]:
            self.packages[part] = f"{NEW}-1"
            self.broken.add(part)
            self.save()
        if self.dies_after is not None:
            raise KeyboardInterrupt
        self.packages |= self.comes_along
        self.broken.clear()
        self.build(NEW)
        self.load()
        return (100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)\n") if self.broken else (0, "", "")

    def dpkg(self, arguments: list[str]) -> tuple[int, str, str]:
        if "--print-architecture" in arguments:
            return 0, "amd64\n", ""
        if "--audit" in arguments:
            return 0, "".join(f"{name}\n" for name in self.broken), ""
        assert self.owned
        if {"--remove", "--purge"} & set(arguments):
            names = [word for word in arguments if not word.startswith("--")]
            if not all(":" in name for name in names):
                return 2, "", "dpkg: error: ambiguous package name\n"
            for name in (name.removesuffix(":amd64") for name in names):
                self.packages.pop(name, None)
                self.broken.discard(name)
        if "--install" in arguments and "restore" not in self.fails:
            for path in (word for word in arguments if word.endswith(".deb")):
                assert Path(path).exists()
                name, version, architecture = Path(path).name.removesuffix(".deb").split("_")
                name += "" if architecture == "amd64" else f":{architecture}"
                self.packages[name] = version
                self.broken.discard(name)
                if name == "nvidia-kernel-open-dkms":
                    self.build(version.removesuffix("-1"))
        if "--configure" in arguments and "configure" not in self.fails:
            unbuilt = "nvidia-kernel-open-dkms" in self.broken
            self.broken.clear()
            if unbuilt:
                self.build(self.packages["nvidia-kernel-open-dkms"].removesuffix("-1"))
        return 0, "", ""

    def dpkg_query(self, arguments: list[str]) -> tuple[int, str, str]:
        if "--show" not in arguments and ":" not in arguments[1]:
            return 2, "", "dpkg-query: error: ambiguous package name\n"
        if "--control-path" in arguments:
            return 0, f"{self.root}/var/lib/dpkg/info/{arguments[-1]}\n", ""
        if "--show" not in arguments:
            answers = {
                "--listfiles": ["/.", *self.files],
                "--status": [f"Package: {arguments[1]}", "Description: x"],
                "--control-list": ["conffiles", "md5sums"],
            }
            return 0, "".join(f"{line}\n" for line in answers[arguments[0]]), ""
        lines = [
            f"{name.partition(':')[0]}\t{name.partition(':')[2] or 'amd64'}\t{version}\t{'hold' if name in self.held else 'install'}\t"
            f"{'half-configured' if name in self.broken else 'installed'}\n"
            for name, version in self.packages.items()
        ]
        return 0, "".join(lines), ""

    def dpkg_deb(self, arguments: list[str]) -> tuple[int, str, str]:
        """Read the package's tree, which is removed afterwards."""
        if arguments[0] == "--info":
            return (0, "", "") if Path(arguments[1]).read_text() == "deb" else (2, "", "dpkg-deb: error: no archive")
        root = Path(arguments[-2])
        self.built = {
            f"/{path.relative_to(root)}": str(path.readlink())
            if path.is_symlink()
            else stat.filemode(path.lstat().st_mode)
            for path in root.rglob("*")
        }
        self.built["conffiles"] = (root / "DEBIAN/conffiles").read_text()
        Path(arguments[-1]).write_text("deb")
        return 0, "", ""

    def apt_mark(self, arguments: list[str]) -> tuple[int, str, str]:
        verb, names = arguments[0], set(arguments[1:])
        assert self.owned
        if verb == "hold":
            self.held |= names
        if verb == "unhold":
            self.held -= names
        return 0, "", ""

    def update_initramfs(self, _words: list[str]) -> tuple[int, str, str]:
        assert not (self.root / MODPROBE.lstrip("/")).exists()
        return 0, "", ""

    def modprobe(self, _words: list[str]) -> tuple[int, str, str]:
        self.load()
        return (
            (1, "", "modprobe: ERROR: could not insert 'nvidia': No such device\n")
            if "load" in self.fails
            else (0, "", "")
        )


def change() -> Change:
    return Change(branch=590, install=list(PARTS))


def host(machine: Machine) -> Host:
    return Host(machine.run, str(machine.root))
