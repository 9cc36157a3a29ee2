# SPDX-License-Identifier: GPL-3.0-or-later
"""A manifest is written once, for root alone, with nothing in it that opens anything, and again only when something has changed."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import machine as manifest_machine
from ansible_collections.rigwright.workstation.plugins.modules import machine_manifest

from tests.unit.support.manifest.manifests import fixture

Run = Callable[..., dict[str, Any]]

OUTPUTS = {
    "lsblk -J -O -b": "lsblk.json",
    "sfdisk -J /dev/vdb": "sfdisk_vdb.json",
    "sfdisk -J /dev/sda": "sfdisk_sda.json",
    "sfdisk -J /dev/vdc": "sfdisk_vdc.json",
    "sfdisk -J /dev/vdd": "sfdisk_vdd.json",
    "efibootmgr -v": "efibootmgr.txt",
    "dumpe2fs -h /dev/mapper/vg0-root": "dumpe2fs_root.txt",
    "xfs_info /home": "xfs_info_home.txt",
    "mdadm --detail --export /dev/md127": "mdadm_detail.txt",
}
FILES = {
    "/etc/hostname": "ws1\n",
    "/etc/machine-id": "0123\n",
    "/etc/os-release": 'ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\n',
    "/etc/fstab": "UUID=1 / ext4 defaults 0 1\n//nas/x /mnt cifs username=alice,password=hunter2 0 0\n",
    "/etc/crypttab": "sys_crypt UUID=84b6 /etc/keys/sys luks\n",
    "/etc/keys/sys": "the key itself",
    "/etc/apt/sources.list": "deb https://lab:hunter2@mirror.example/debian trixie main\n",
    "/etc/ssh/ssh_host_ed25519_key": "the private key",
    "/etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPOVSoK6cLk33bCBOmBO/eohFDU21YP1XgyotkMP/QGX x\n",
    "/proc/cmdline": "root=/dev/mapper/vg0-root ro\n",
    "/proc/swaps": fixture("swaps"),
    "/sys/firmware/efi/fw_platform_size": "64\n",
    "/var/lib/dpkg/status": "Package: grub-efi-amd64\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.12\n",
    "/opt/conda/generations/lab/1.lock": "https://conda.example/t/ab-12/noarch/x.conda\n",
    "/opt/conda/generations/lab/1/conda-meta/history": "",
}


class Machine:
    """Files below a root, and what programs say there. No mounts: those of a test are not this machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[str] = []
        for path, text in FILES.items():
            self.write(path, text)
        (root / "opt/conda/envs").mkdir()
        (root / "opt/conda/envs/lab").symlink_to("../generations/lab/1")

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        line = " ".join(command)
        self.commands.append(line)
        if command[0] in ("pvs", "vgs", "lvs"):
            return 0, fixture(f"{command[0]}.json"), ""
        return (0, fixture(OUTPUTS[line]), "") if line in OUTPUTS else (1, "", "no such thing")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path / "root")

    def no_docker(_path: str) -> Any:
        raise OSError("no docker")

    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, command, **_options: found.run_command(command))
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name, **_options: name)
    monkeypatch.setattr(docker_api, "ask", no_docker)
    return found


@pytest.fixture
def keep(run_module: Run, machine: Machine, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(check: bool = False) -> dict[str, Any]:
        return run_module(
            machine_manifest, check=check, path=str(tmp_path / "kept/manifest.json"), root=str(machine.root)
        )

    return run


def test_a_manifest_is_written_once_and_for_root_alone(keep: Run, tmp_path: Path) -> None:
    assert keep(check=True)["changed"] and not (tmp_path / "kept").exists()
    assert keep()["changes"] == ["there was no manifest"]
    path = tmp_path / "kept/manifest.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and json.loads(path.read_text())["schema"] == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["manifest.json"]
    before = path.stat().st_ino
    assert keep()["changed"] is False and path.stat().st_ino == before


def test_changes_are_named(keep: Run, machine: Machine) -> None:
    keep()
    machine.write("/etc/hostname", "ws2\n")
    result = keep(check=True)
    assert result["changes"] == ["host.name: ws1 -> ws2"]
    assert result["diff"]["after"] == "host.name: ws1 -> ws2\n"
    assert keep()["changed"] and not keep()["changed"]


def test_the_manifest_has_the_data_for_a_rebuild(keep: Run) -> None:
    manifest = keep()["manifest"]
    assert manifest["host"] == {
        "name": "ws1", "machine_id": "0123", "distribution": "debian", "version": "13", "codename": "trixie", "architecture": "x86_64",
    }  # fmt: skip
    assert (manifest["boot"]["mode"], manifest["boot"]["loader"]) == ("uefi", "grub-efi")
    assert [row["number"] for row in manifest["disks"]["sda"]["table"]["partitions"]] == [1, 2, 5, 6]
    assert manifest["disks"]["nvme0n1"]["table"] == {}
    assert manifest["devices"]["vg0-root"]["features"]["bytes_per_inode"] == 8192
    assert manifest["devices"]["vg0-home"]["features"]["inode_size"] == 512
    assert manifest["arrays"]["md127"]["members"] == ["vdc1", "vdd1"]
    assert [swap["path"] for swap in manifest["swaps"]] == ["/dev/dm-2", "/dev/sda5", "/swapfile"]
    assert manifest["conda"]["/opt/conda/envs/lab"]["lock"].endswith("x.conda\n")
    assert manifest["host_keys"] == ["ssh-ed25519 SHA256:3IRphekBf/zd853lwkilj9MrHw7r0AjXM228j66yxgE"]


def test_an_unreadable_partition_table_is_a_warning(keep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OUTPUTS, "sfdisk -J /dev/sda")
    warnings = keep()["warnings"]
    assert warnings[0] == "sfdisk cannot read the partition table of /dev/sda (dos): it is not in the manifest."
    assert all(line.startswith("This machine cannot be built again as it is: ") for line in warnings[1:])
    monkeypatch.setattr(
        AnsibleModule, "get_bin_path", lambda _self, name, **_options: None if name == "sfdisk" else name
    )
    result = keep()
    assert result["failed"] and "install the package fdisk" in result["msg"]


def test_nothing_in_it_opens_anything(keep: Run, tmp_path: Path) -> None:
    keep()
    text = (tmp_path / "kept/manifest.json").read_text()
    assert not any(secret in text for secret in ("hunter2", "the key itself", "the private key", "ab-12"))
    assert "username=alice,password=***" in text and "https://***@mirror.example" in text


def test_a_damaged_manifest_is_reported_and_written_again(keep: Run, tmp_path: Path) -> None:
    keep()
    (tmp_path / "kept/manifest.json").write_text("{")
    result = keep()
    assert result["changed"] and "is damaged" in result["warnings"][0]
    assert not keep()["changed"]


def test_a_manifest_that_cannot_be_written_leaves_the_old_one(
    keep: Run, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep()
    path = tmp_path / "kept/manifest.json"
    before = path.read_bytes()

    def full(*_args: Any) -> None:
        raise OSError("No space left on device")

    machine.write("/etc/hostname", "ws2\n")
    monkeypatch.setattr(manifest_machine.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        keep()
    assert path.read_bytes() == before and [entry.name for entry in path.parent.iterdir()] == ["manifest.json"]


def test_without_a_path_it_is_only_returned(run_module: Run, machine: Machine) -> None:
    result = run_module(machine_manifest, root=str(machine.root))
    assert result["changed"] is False and result["manifest"]["host"]["name"] == "ws1"
