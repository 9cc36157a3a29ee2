#!/bin/sh
# mmdebstrap's essential hook, before packages are configured: what they would ask for, and an initramfs with what machines of qemu need,
# since one with all modules takes as long to load as the rest of the boot. Argument: the root.
set -eu
root=$1

# Nobody is asked where to put grub: there is no disk yet.
echo grub-pc grub-pc/install_devices_empty boolean true | chroot "$root" debconf-set-selections
mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/usr/share/initramfs-tools/modules.d"
printf 'MODULES=list\nCOMPRESSLEVEL=1\n' >"$root/etc/initramfs-tools/conf.d/drill"
printf '%s\n' virtio_pci virtio_blk dm_mod >"$root/usr/share/initramfs-tools/modules.d/drill"
