#!/usr/bin/env bash
# Runs on the live system, by bash: installs a machine from a tar onto disks, as an installer of Debian would have.
# Arguments: the layout, and bios or uefi. It shares nothing with the code that is put to the test.
set -euo pipefail
layout=$1 boot=$2
disk() { readlink -f "/dev/disk/by-id/virtio-OLD$1"; }
udevadm settle
first=$(disk 0) root=/install swap=

case $layout in
  dos)
    printf 'label: dos\nsize=2400MiB, type=83, bootable\ntype=5\nsize=256MiB, type=82\n' | sfdisk -q "$first"
    system=${first}1 swap=${first}5
    ;;
  gpt)
    printf 'label: gpt\nsize=128MiB, type=U, name="EFI System"\nsize=3500MiB, type=L, name=root\ntype=S\n' | sfdisk -q "$first"
    esp=${first}1 system=${first}2 swap=${first}3
    ;;
  two_disks)
    printf 'label: gpt\nsize=1MiB, type=21686148-6449-6E6F-744E-656564454649\nsize=2600MiB, type=L\ntype=S\n' | sfdisk -q "$first"
    printf 'label: gpt\ntype=L, name=data\n' | sfdisk -q "$(disk 1)"
    system=${first}2 swap=${first}3 data=$(disk 1)1
    ;;
  cloud)
    printf 'label: gpt\nsize=1MiB, type=21686148-6449-6E6F-744E-656564454649\nsize=512MiB, type=S\ntype=L\n' | sfdisk -q "$first"
    system=${first}3 swap=${first}2
    ;;
  lvm)
    printf 'label: gpt\nsize=128MiB, type=U\nsize=384MiB, type=L\ntype=V\n' | sfdisk -q "$first"
    udevadm settle
    esp=${first}1 start=${first}2
    pvcreate -q "${first}3" && vgcreate -q lab-vg "${first}3"
    lvcreate -q -y -L 2560M -n root lab-vg && lvcreate -q -y -L 640M -n home lab-vg && lvcreate -q -y -L 256M -n swap_1 lab-vg
    # A volume that has grown has two segments.
    lvextend -q -L 3G lab-vg/root
    system=/dev/lab-vg/root home=/dev/lab-vg/home swap=/dev/lab-vg/swap_1
    ;;
esac
udevadm settle

# As mke2fs of Debian 12 makes it: its grub reads no file system with these two, which are what a newer mke2fs adds.
mkfs.ext4 -q -O ^metadata_csum_seed,^orphan_file -L system "$system"
mkdir -p "$root" && mount "$system" "$root"
echo "UUID=$(blkid -s UUID -o value "$system") / ext4 errors=remount-ro 0 1" >/fstab
if [ -n "${start-}" ]; then
  mkfs.ext4 -q "$start"
  mkdir -p "$root/boot" && mount "$start" "$root/boot"
  # By the name of the partition, as people write it by hand: it has another one on the new machine, or belongs to another disk.
  echo "$start /boot ext4 defaults 0 2" >>/fstab
fi
if [ -n "${esp-}" ]; then
  mkfs.vfat -F 32 "$esp" >/dev/null
  mkdir -p "$root/boot/efi" && mount "$esp" "$root/boot/efi"
  echo "UUID=$(blkid -s UUID -o value "$esp") /boot/efi vfat umask=0077 0 1" >>/fstab
fi
if [ -n "${home-}" ]; then
  mkfs.xfs -q "$home"
  mkdir -p "$root/home" && mount "$home" "$root/home"
  echo "/dev/mapper/lab--vg-home /home xfs defaults 0 2" >>/fstab
fi
if [ -n "${data-}" ]; then
  mkfs.ext4 -q -L data "$data"
  mkdir -p "$root/data" && mount "$data" "$root/data"
  echo "LABEL=data /data ext4 defaults 0 2" >>/fstab
  # The backup has the files by the second name only.
  echo "/data/www /srv/www none bind 0 0" >>/fstab
  mkdir -p "$root/data/www" "$root/srv/www"
  dd if=/dev/urandom of="$root/data/www/set" bs=1M count=100 status=none
fi
mkswap "$swap" >/dev/null
echo "UUID=$(blkid -s UUID -o value "$swap") none swap sw 0 0" >>/fstab

tar -xf /dev/disk/by-id/virtio-TAR -C "$root" --numeric-owner --acls --xattrs --xattrs-include='*' --warning=no-timestamp
mv /fstab "$root/etc/fstab"
# shellcheck source=/dev/null
hostname=$(. "$root/etc/os-release" && echo "debian$VERSION_ID-$boot")
echo "$hostname" >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$hostname" >"$root/etc/hosts"
# A file with a hole, which the tar has not.
truncate --size=16M "$root/home/alice/sparse" && echo end >>"$root/home/alice/sparse"
chroot "$root" chown alice: /home/alice/sparse
echo "RESUME=$swap" >"$root/etc/initramfs-tools/conf.d/resume"
# A file of swap besides: no backup has it.
if [ "$layout" = gpt ]; then
  dd if=/dev/zero of="$root/swapfile" bs=1M count=64 status=none
  chmod 600 "$root/swapfile" && mkswap "$root/swapfile" >/dev/null
  echo "/swapfile none swap sw 0 0" >>"$root/etc/fstab"
fi

for place in dev proc sys run; do mount --rbind --make-rslave "/$place" "$root/$place"; done
if [ "$boot" = uefi ]; then
  chroot "$root" grub-install --target=x86_64-efi --efi-directory=/boot/efi
else
  chroot "$root" grub-install --target=i386-pc "$first"
fi
chroot "$root" update-grub
if [ "$layout" = lvm ]; then chroot "$root" update-initramfs -u; fi
sync
for place in run sys proc dev; do umount -R -l "$root/$place"; done
umount -R "$root"
