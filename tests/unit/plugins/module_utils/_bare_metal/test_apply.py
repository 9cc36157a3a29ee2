# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps are carried out as they stand; how far a rebuild has come is on record; and restic gets its password in silence."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import apply as running
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.apply import Failed, Live
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle


class Host:
    """Commands that ran, with what they were given; ``answers`` by the first words of a command."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.inputs: list[str | None] = []
        self.environments: list[dict[str, str]] = []
        self.answers: dict[str, tuple[int, str, str]] = {}

    def __call__(
        self,
        command: list[str],
        data: str | None = None,
        binary_data: bool = False,
        environ_update: Any = None,
        handle_exceptions: bool = True,
    ) -> tuple[int, str, str]:
        # As Ansible's run_command does.
        data = data if data is None or binary_data else f"{data}\n"
        # A program that is missing would end the module without a word of what to do.
        assert not handle_exceptions
        self.commands.append(command)
        self.inputs.append(data)
        self.environments.append(dict(environ_update or {}))
        line = " ".join(command)
        return next((answer for start, answer in self.answers.items() if line.startswith(start)), (0, "", ""))

    @property
    def lines(self) -> list[str]:
        return [" ".join(command) for command in self.commands]


@pytest.fixture
def host() -> Host:
    return Host()


def run_step(host: Host, **step: Any) -> Live:
    live = Live(host, passphrase="open sesame")
    live.carry_out([step])
    return live


def test_a_command_gets_its_input_or_the_passphrase(host: Host) -> None:
    run_step(host, do="run", command=["sfdisk", "/dev/vda"], input="label: gpt\n")
    run_step(host, do="run", command=["cryptsetup", "open"], secret=True)
    assert host.inputs == ["label: gpt\n\n", "open sesame"]
    assert "sesame" not in str(host.commands) + str(host.environments)


def test_a_failed_command_ends_the_run_with_its_output(host: Host) -> None:
    host.answers["mkswap"] = (1, "", "no such device\n")
    with pytest.raises(Failed, match="`mkswap /dev/x` ended with status 1: no such device"):
        run_step(host, do="run", command=["mkswap", "/dev/x"])


def test_a_fallback_command_runs_with_a_warning(host: Host) -> None:
    otherwise = {"command": ["grub-install", "--no-nvram"], "warning": "the firmware took no entry"}
    assert run_step(host, do="run", command=["grub-install"], otherwise=otherwise).warnings == []
    host.answers["grub-install -u"] = (1, "", "EFI variables are not supported\n")
    live = run_step(host, do="run", command=["grub-install", "-u"], otherwise=otherwise)
    assert host.lines == ["grub-install", "grub-install -u", "grub-install --no-nvram"]
    assert live.warnings == ["the firmware took no entry: EFI variables are not supported"]
    host.answers["grub-install --no-nvram"] = (1, "", "no room\n")
    with pytest.raises(Failed, match="no room"):
        run_step(host, do="run", command=["grub-install", "-u"], otherwise=otherwise)


def test_two_rebuilds_do_not_work_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOCK", str(tmp_path / "run/lock"))
    with running.alone(), pytest.raises(Failed, match="running here already"), running.alone():
        pass
    with running.alone():
        pass


def test_a_missing_program_is_reported_with_the_remedy() -> None:
    def missing(*_args: Any, **_options: Any) -> tuple[int, str, str]:
        raise OSError("No such file or directory: 'mkfs.xfs'")

    with pytest.raises(Failed, match=r"mkfs\.xfs.*install it in the live system"):
        Live(missing).carry_out([{"do": "run", "command": ["mkfs.xfs", "/dev/x"]}])


def test_a_directory_has_its_mode_or_that_of_the_backup(host: Host, tmp_path: Path) -> None:
    run_step(host, do="directory", path=str(tmp_path / "tmp"), mode="1777")
    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) == 0o1777
    (tmp_path / "home").mkdir(mode=0o711)
    run_step(host, do="directory", path=str(tmp_path / "home"), mode="")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o711


def test_nothing_is_put_where_no_disk_is_mounted_any_more(host: Host, tmp_path: Path) -> None:
    run_step(host, do="mounted", path="/proc")
    with pytest.raises(Failed, match="is no mount point any more"):
        run_step(host, do="mounted", path=str(tmp_path))


def test_a_bind_mount_is_made_once(host: Host, tmp_path: Path) -> None:
    run_step(host, do="bind", source="/dev", path="/proc")
    run_step(host, do="bind", source="/dev", path=str(tmp_path))
    assert host.lines == [f"mount --rbind --make-rslave /dev {tmp_path}"]


def test_a_file_is_edited_in_its_place_with_its_mode(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "crypttab"
    path.write_text("sys /dev/sda3 none luks\n")
    path.chmod(0o600)
    references = {"sda3": {"uuid": "u-3", "partuuid": "", "lasting_names": [], "targets": [], "names": ["/dev/sda3"]}}
    step = {"do": "edit", "path": str(path), "kind": "crypttab", "references": references, "absent": []}
    run_step(host, **step)
    assert path.read_text() == "sys UUID=u-3 none luks\n" and stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_ino
    run_step(host, **step)
    assert path.stat().st_ino == before and os.listdir(tmp_path) == ["crypttab"]


def test_every_file_of_a_directory_is_edited(host: Host, tmp_path: Path) -> None:
    for name in ("10.cfg", "20.cfg", "30.txt"):
        (tmp_path / name).write_text('GRUB_CMDLINE_LINUX="resume=/dev/sda3"\n')
    references = {"sda3": {"uuid": "u-3", "partuuid": "", "lasting_names": [], "targets": [], "names": ["/dev/sda3"]}}
    run_step(host, do="edit", path=str(tmp_path / "*.cfg"), kind="grub", references=references, absent=[])
    assert [path.name for path in sorted(tmp_path.iterdir()) if "UUID=u-3" in path.read_text()] == ["10.cfg", "20.cfg"]


def test_a_file_that_the_backup_does_not_have_is_not_made(host: Host, tmp_path: Path) -> None:
    run_step(host, do="edit", path=str(tmp_path / "resume"), kind="resume", references={}, absent=[])
    run_step(host, do="remove", path=str(tmp_path / "device.map"))
    assert os.listdir(tmp_path) == []


def test_a_swap_file_is_for_root_alone(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "swapfile"
    run_step(host, do="swap_file", path=str(path), size=4096)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # All blocks are there, on any file system: swapon takes no file with holes.
    assert path.stat().st_size == 4096 and path.stat().st_blocks * 512 >= 4096
    assert host.lines == [f"chattr +C {path}", f"mkswap {path}"]


def kernel(root: Path, release: str, modules: bool = True) -> None:
    for path in ("boot", *([f"lib/modules/{release}/kernel"] if modules else [])):
        (root / path).mkdir(parents=True, exist_ok=True)
    (root / f"boot/vmlinuz-{release}").touch()
    (root / f"boot/initrd.img-{release}").touch()


def test_every_kernel_that_has_its_modules_gets_a_new_initramfs(host: Host, tmp_path: Path) -> None:
    kernel(tmp_path, "6.1")
    kernel(tmp_path, "6.2", modules=False)
    (tmp_path / "lib/modules/6.1/modules.dep").touch()
    live = run_step(host, do="kernels", root=str(tmp_path))
    assert host.lines == [f"chroot {tmp_path} update-initramfs -c -k 6.1"]
    # update-initramfs does not make what is there already.
    assert not (tmp_path / "boot/initrd.img-6.1").exists()
    assert live.warnings == ["the kernel 6.2 came back without its modules in /lib/modules: do not boot it"]


def test_dracut_makes_the_initramfs_where_it_is_what_is_there(host: Host, tmp_path: Path) -> None:
    kernel(tmp_path, "6.1")
    for path in ("lib/modules/6.1/modules.dep", "usr/bin/dracut"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    run_step(host, do="kernels", root=str(tmp_path))
    assert host.lines == [f"chroot {tmp_path} dracut --force --no-hostonly /boot/initrd.img-6.1 6.1"]


def test_dkms_modules_are_built_and_failures_are_warnings(host: Host, tmp_path: Path) -> None:
    kernel(tmp_path, "6.1")
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/dkms").touch()
    (tmp_path / "var/lib/dkms/nvidia").mkdir(parents=True)
    host.answers[f"chroot {tmp_path} dkms"] = (1, "", "no headers")
    live = run_step(host, do="kernels", root=str(tmp_path))
    assert host.lines[:2] == [f"chroot {tmp_path} depmod 6.1", f"chroot {tmp_path} dkms autoinstall -k 6.1"]
    assert live.warnings == ["DKMS built not all modules for 6.1: no headers"]


def test_without_any_kernel_nothing_would_boot(host: Host, tmp_path: Path) -> None:
    kernel(tmp_path, "6.2", modules=False)
    with pytest.raises(Failed, match="no kernel with its modules came back"):
        run_step(host, do="kernels", root=str(tmp_path))


def test_the_check_of_the_first_boot_is_left_behind(host: Host, tmp_path: Path) -> None:
    for _time in range(2):
        run_step(host, do="first_boot", root=str(tmp_path), expected={"host": "ws1"})
    unit = tmp_path / "etc/systemd/system/default.target.wants/rigwright-first-boot.service"
    assert unit.is_symlink() and "ExecStart" in unit.read_text()
    assert bundle.bundle("_bare_metal.first_boot") == (tmp_path / "var/lib/rigwright/first_boot").read_bytes()


def test_snapshots_are_restored_in_order(host: Host) -> None:
    calls: list[tuple[Any, ...]] = []

    class Backup:
        def restore(self, *arguments: Any) -> list[str]:
            calls.append(arguments)
            return ["/data/x"] if arguments[-1] else []

    step = {"do": "restore", "target": "/target", "exclude": ["/data"]}
    snapshots = [{"id": "aa", "filters": []}, {"id": "latest", "filters": ["--tag=home"]}]
    Live(host, backup=Backup(), snapshots=snapshots).carry_out([step])  # type: ignore[arg-type]
    assert calls == [("aa", [], "/target", ["/data"], False), ("latest", ["--tag=home"], "/target", ["/data"], False)]
    live = Live(host, backup=Backup(), snapshots=snapshots[:1], accept_losses=True)  # type: ignore[arg-type]
    live.carry_out([step])
    assert live.lost == ["/data/x"] and live.warnings[0].endswith("what is there of them has holes: /data/x")
    with pytest.raises(Failed, match="no repository"):
        Live(host).carry_out([step])


def test_a_rebuild_is_completed_by_the_same_request_only(tmp_path: Path) -> None:
    path = str(tmp_path / "run/state.json")
    name = running.identity({"host": 1}, {"disks": {"sda": "/dev/vda"}})
    other = running.identity({"host": 1}, {"disks": {"sda": "/dev/vdb"}})
    state = running.read_state(name, path)
    assert state == {"plan": name, "begun": {}, "done": []}
    running.write_state({**state, "begun": {"/dev/vda": {}}}, path)
    assert running.read_state(name, path)["begun"] == {"/dev/vda": {}}
    assert running.read_state(other, path)["begun"] == {}
    for damaged in ("{", "null", "[1]"):
        Path(path).write_text(damaged)
        assert running.read_state(name, path)["begun"] == {}


def test_open_devices_are_closed_before_disks_are_made(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == "/target")
    host.answers["vgchange"] = (5, "", "not found")
    Live(host).release(["vg0"], ["sys_crypt"])
    assert host.lines[0] == "umount --recursive /target"
    assert host.lines[2:4] == ["vgchange --activate n vg0", "cryptsetup close sys_crypt"]
