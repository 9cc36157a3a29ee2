#!/bin/sh
# mmdebstrap's customize hook of all systems of the drill: root comes in by ssh, and what such a machine has not is not waited for.
# Arguments: the root, a public key.
set -eu
root=$1

rm "$root/etc/apt/preferences.d/drill"
install -d -m 0700 "$root/root/.ssh"
install -m 0600 "$2" "$root/root/.ssh/authorized_keys"
# The network of qemu: to ask for an address takes seconds.
cat >"$root/etc/network/interfaces" <<'NETWORK'
auto lo eth0
iface lo inet loopback
iface eth0 inet static
  address 10.0.2.15/24
  gateway 10.0.2.2
NETWORK
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
chroot "$root" systemctl --quiet enable ssh
for unit in modprobe@configfs modprobe@drm modprobe@efi_pstore modprobe@fuse e2scrub_reap getty@tty1; do
  chroot "$root" systemctl --quiet mask "$unit.service"
done
for unit in sys-kernel-config.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount \
  apt-daily.timer apt-daily-upgrade.timer; do
  chroot "$root" systemctl --quiet mask "$unit"
done
# What is done after an update of /usr was done when its packages were installed.
touch "$root/etc/.updated" "$root/var/.updated"
