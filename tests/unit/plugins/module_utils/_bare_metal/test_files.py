# SPDX-License-Identifier: GPL-3.0-or-later
"""Restored files name disks by what does not change, and what is not there does not hold up the boot."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import files
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.steps import device_references

from tests.unit.support.manifest.manifests import recorded

REFERENCES = device_references(recorded())
BOOT, ROOT = "d27b1301-c71a-4109-a1e1-50acf8d5c1fe", "87171525-9f26-4222-8eda-27a0baffb8d1"
LUKS, SWAP = "84b6d8ee-f8e7-4a02-94a9-462ef1c4ecab", "58ecfea5-16d6-4bbf-8d29-3025d1a4a434"
FSTAB = f"""\
# <file system> <mount point> <type> <options>
/dev/mapper/vg0-root /     ext4  errors=remount-ro 0 1
/dev/vdb2            /boot ext4  defaults          0 2
UUID=EE43-3006\t/boot/efi\tvfat\tumask=0077\t0\t1
/dev/disk/by-id/old-sda-part5 none swap sw 0 0

/dev/md127 /store ext4 defaults 0 2
LABEL=store /store2 ext4
nas:/export /mnt/nas nfs defaults 0 0
/swapfile none swap sw 0 0
UUID={ROOT} /again ext4 noauto 0 0
"""


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_partitions_become_uuids_and_the_rest_stays() -> None:
    edited = files.edit_fstab(FSTAB, REFERENCES, ())
    assert edited.splitlines()[2] == f"UUID={BOOT}            /boot ext4  defaults          0 2"
    assert edited.splitlines()[4] == f"UUID={SWAP} none swap sw 0 0"
    same = [number for number, line in enumerate(FSTAB.splitlines()) if edited.splitlines()[number] == line]
    assert same == [0, 1, 3, 5, 7, 8, 9, 10]


def test_an_absent_disk_delays_the_boot_ten_seconds() -> None:
    edited = lines(files.edit_fstab(FSTAB, REFERENCES, ("md127",)))
    assert edited[6][3] == "defaults,nofail,x-systemd.device-timeout=10s"
    assert edited[7][3] == "defaults,nofail,x-systemd.device-timeout=10s"
    assert edited[8][3] == "defaults"


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("PARTUUID=066E07C4-3c5a-4c69-b797-95f4fbffc9ff", ""),
        ("PARTUUID=29b0f6da-06", ""),
        ("/dev/disk/by-partuuid/29b0f6da-06", ""),
        ("PARTLABEL=EFI\\040of\\040old", ""),
        (r"/dev/disk/by-partlabel/EFI\x20of\x20old", ""),
        ("/dev/disk/by-label/EFI", ""),
        ('LABEL="EFI"', ""),
        ("/dev/disk/by-path/pci-0000:00:1f.2-ata-1-part1", "EE43-3006"),
        ("/dev/disk/by-uuid/EE43-3006", ""),
    ],
)
def test_an_absent_disk_is_known_by_all_its_names(word: str, becomes: str) -> None:
    manifest = recorded()
    manifest["disks"]["vdb"]["by_path"] = ["/dev/disk/by-path/pci-0000:00:1f.2-ata-1"]
    manifest["disks"]["vdb"]["table"]["partitions"][0]["label"] = "EFI of old"
    manifest["disks"]["sda"]["table"]["id"] = "0x29b0f6da"
    references = device_references(manifest)
    absent = ("sda6",) if "29b0f6da" in word else ("vdb1",)
    edited = files.edit_fstab(f"{word} /x auto defaults 0 2\n", references, absent)
    assert (
        edited == f"{f'UUID={becomes}' if becomes else word} /x auto defaults,nofail,x-systemd.device-timeout=10s 0 2\n"
    )
    assert files.edit_fstab(f"{word} /x auto defaults 0 2\n", references, ()).split()[3] == "defaults"


def test_an_unknown_name_is_found_by_its_mount_point() -> None:
    line = "/dev/disk/by-path/pci-0-part2 /boot ext4 defaults 0 2\n"
    assert files.edit_fstab(line, REFERENCES, ()) == f"UUID={BOOT} /boot ext4 defaults 0 2\n"
    assert files.edit_fstab(line, REFERENCES, ("vdb2",)).split()[3].startswith("defaults,nofail")
    shared = "nas:/boot /boot nfs defaults 0 0\n"
    assert files.edit_fstab(shared, REFERENCES, ("vdb2",)) == shared


def test_editing_twice_changes_nothing_more() -> None:
    once = files.edit_fstab(FSTAB, REFERENCES, ("md127",))
    assert files.edit_fstab(once, REFERENCES, ("md127",)) == once


def test_encrypted_devices_go_by_uuid_too() -> None:
    text = "# none\nsys_crypt /dev/vdb3 none luks,discard\n"
    assert files.edit_crypttab(text, REFERENCES, ()) == f"# none\nsys_crypt UUID={LUKS} none luks,discard\n"
    assert files.edit_crypttab("sys_crypt /dev/vdb3\n", REFERENCES, ("vdb3",)) == (
        f"sys_crypt UUID={LUKS} none nofail,x-systemd.device-timeout=10s\n"
    )
    assert files.edit_crypttab("sys_crypt /dev/vdb3 none luks\n", REFERENCES, ("vdb3",)) == (
        f"sys_crypt UUID={LUKS} none luks,nofail,x-systemd.device-timeout=10s\n"
    )


@pytest.mark.parametrize(
    ("text", "absent", "edited"),
    [
        ("RESUME=/dev/sda5\n", (), f"RESUME=UUID={SWAP}\n"),
        ("RESUME=/dev/mapper/vg0-swap_1\n", (), "RESUME=/dev/mapper/vg0-swap_1\n"),
        (f"RESUME=UUID={SWAP}\n", (), f"RESUME=UUID={SWAP}\n"),
        (f"RESUME=UUID={SWAP}\n", ("sda5",), "RESUME=none\n"),
        ("RESUME=none\n", ("sda5",), "RESUME=none\n"),
        ("# RESUME=/dev/sda5\n", (), "# RESUME=/dev/sda5\n"),
    ],
)
def test_the_initramfs_waits_for_no_swap_that_is_not_there(text: str, absent: tuple[str, ...], edited: str) -> None:
    assert files.edit_resume(text, REFERENCES, absent) == edited


def test_the_kernels_command_line_names_no_disk() -> None:
    text = 'GRUB_CMDLINE_LINUX="quiet resume=/dev/sda5 root=/dev/mapper/vg0-root"\n'
    assert (
        files.edit_grub(text, REFERENCES, ())
        == f'GRUB_CMDLINE_LINUX="quiet resume=UUID={SWAP} root=/dev/mapper/vg0-root"\n'
    )
    assert files.edit_grub(text, REFERENCES, ("sda5",)) == 'GRUB_CMDLINE_LINUX="quiet  root=/dev/mapper/vg0-root"\n'


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "one\n", "   \n"])
def test_a_table_with_nothing_in_it_stays(text: str) -> None:
    assert files.edit_fstab(text, REFERENCES, ("md127",)) == text


# ---- Names of the old machine ----

LVM_ID = "/dev/disk/by-id/dm-uuid-LVM-" + "a" * 64
BTRFS_UUID = recorded()["devices"]["sda1"]["content"]["uuid"]


def references_with(name: str, **changes: object) -> dict[str, dict[str, object]]:
    return {**REFERENCES, name: {**REFERENCES[name], **changes}}


def test_a_volume_by_its_id_goes_by_its_uuid() -> None:
    assert files.edit_fstab(f"{LVM_ID} / ext4 defaults 0 1\n", REFERENCES, ()).startswith(f"UUID={ROOT} / ")
    linked = references_with("vg0-root", names=[*REFERENCES["vg0-root"]["names"], LVM_ID])
    assert files.edit_fstab(f"{LVM_ID} /mnt ext4 noauto 0 1\n", linked, ()).startswith(f"UUID={ROOT} /mnt ")
    by_name = "/dev/disk/by-id/dm-name-vg0-root / ext4 defaults 0 1\n"
    assert files.edit_fstab(by_name, REFERENCES, ()) == by_name


def test_hardware_ids_and_devices_in_options_become_lasting() -> None:
    names = {"sda5": {**REFERENCES["sda5"], "names": ["/dev/disk/by-id/wwn-0x5-part5", "/dev/sda5"]}}
    line = "ID=wwn-0x5-part5 /x ext4 journal_path=/dev/sda5,noatime 0 2\n"
    edited = f"UUID={SWAP} /x ext4 journal_path=/dev/disk/by-uuid/{SWAP},noatime 0 2\n"
    assert files.edit_fstab(line, names, ()) == edited
    assert files.edit_fstab("LABEL=x /x btrfs device=/dev/sda5 0 2\n", names, ()) == "LABEL=x /x btrfs defaults 0 2\n"
    label = "/dev/disk/by-partlabel/a=b"
    lasting = {"sda5": {**REFERENCES["sda5"], "names": [label], "lasting_names": [label]}}
    line = f"UUID=x /x xfs logdev={label} 0 2\n"
    assert files.edit_fstab(line, lasting, ()) == line


def test_the_only_swap_is_found_behind_an_unknown_name() -> None:
    swaps = [name for name, reference in REFERENCES.items() if reference["swap"]]
    references = {name: {**facts, "swap": name == swaps[0]} for name, facts in REFERENCES.items()}
    line = f"{LVM_ID} none swap sw 0 0\n"
    assert files.edit_fstab(line, references, ()) == f"UUID={REFERENCES[swaps[0]]['uuid']} none swap sw 0 0\n"
    two = {name: {**facts, "swap": True} for name, facts in REFERENCES.items()}
    assert files.edit_fstab(line, two, ()) == line


@pytest.mark.parametrize(
    "key", ["/dev/urandom swap", "/dev/random cipher=aes-xts-plain64", "none plain", "/key tmp=ext4"]
)
def test_what_each_boot_encrypts_goes_by_its_partition(key: str) -> None:
    partition = f"PARTUUID={REFERENCES['vdb3']['partuuid']}"
    assert files.edit_crypttab(f"swap /dev/vdb3 {key}\n", REFERENCES, ()) == f"swap {partition} {key}\n"
    assert files.edit_crypttab(f"swap {partition} {key}\n", REFERENCES, ()) == f"swap {partition} {key}\n"
    unknown = files.edit_crypttab(f"swap /dev/sdz9 {key}\n", REFERENCES, ())
    assert unknown.startswith("# a name of the old machine") and unknown.count("\n") == 1
    volume = f"swap /dev/vg0/root {key}\n"
    assert files.edit_crypttab(volume, REFERENCES, ()) == volume


def test_a_subvolume_goes_by_its_path() -> None:
    references = references_with("sda1", subvolumes={"/data": "/@data"}, targets=["/data"])

    def options(given: str, target: str = "/data") -> str:
        line = f"UUID={BTRFS_UUID} {target} btrfs {given} 0 0\n"
        return files.edit_fstab(line, references, ()).split()[3]

    assert options("rw,subvolid=271,subvol=/@data") == "rw,subvol=/@data"
    assert options("subvolid=271") == "subvol=/@data"
    assert options("defaults") == "defaults,subvol=/@data"
    assert options("subvolid=5") == "subvolid=5"
    assert options("noauto,subvolid=300", "/elsewhere") == "noauto,nofail"
    assert options("subvol=@snapshots", "/elsewhere") == "subvol=@snapshots"


def test_the_command_line_names_a_subvolume_by_its_path() -> None:
    references = references_with("sda1", subvolumes={"/": "/@"}, targets=["/"])
    references["vg0-root"] = {**REFERENCES["vg0-root"], "targets": []}
    for flags, edited in (
        ("subvolid=271,subvol=@", "subvol=@"),
        ("subvolid=271", "subvol=/@"),
        ("subvol=@", "subvol=@"),
    ):
        text = f'GRUB_CMDLINE_LINUX="quiet rootflags={flags}"\n'
        assert files.edit_grub(text, references, ()) == f'GRUB_CMDLINE_LINUX="quiet rootflags={edited}"\n'
    assert files.edit_grub('X="rootflags=data=journal"\n', REFERENCES, ()) == 'X="rootflags=data=journal"\n'


def test_the_boot_waits_for_nothing_of_an_absent_disk() -> None:
    text = (
        f"UUID={BOOT} /store ext4 defaults 0 2\n"
        "/store/export /srv/nfs none bind 0 0\n"
        "/srv/nfs/a /deep none rbind\n"
        "/store/image.img /mnt/image ext4 loop 0 0\n"
        "/mnt/disk1:/store* /pool fuse.mergerfs defaults 0 0\n"
        "overlay /merged overlay lowerdir=/usr,upperdir=/store/up,workdir=/store/work 0 0\n"
        "/store/swap none swap sw 0 0\n"
        "/storage/a /other none bind 0 0\n"
        "nas:/store /mnt/nas nfs defaults 0 0\n"
    )
    edited = lines(files.edit_fstab(text, REFERENCES, ("vdb2",)))
    assert [entry[1] for entry in edited if "nofail" in entry[3]] == [
        "/store", "/srv/nfs", "/deep", "/mnt/image", "/pool", "/merged", "none",
    ]  # fmt: skip
    assert files.edit_fstab(text, REFERENCES, ()) == text


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        ("mergerfs#/data/a:/data/b", False),
        ("bindfs#/data/a", False),
        ("sshfs#me@server.example.org:/data/a", True),
        ("/data/a#1", False),
        ("LABEL=a#/data/b", True),
        ("/srv/a,/data/b", True),
    ],
)
def test_a_program_may_be_in_front_of_what_a_line_needs(source: str, waits: bool) -> None:
    name = next(name for name, reference in REFERENCES.items() if reference["uuid"] == BOOT)
    text = f"UUID={BOOT} /data ext4 defaults 0 2\n{source} /pool fuse allow_other 0 0\n"
    last = files.edit_fstab(text, REFERENCES, [name]).splitlines()[-1]
    assert ("nofail" not in last) is waits
