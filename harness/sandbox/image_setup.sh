#!/bin/sh
# mmdebstrap's customize hook: a minimal Debian becomes a sandbox host. The first argument is the root of the new system.
set -eu
root=$1

chroot "$root" useradd --create-home --shell /bin/bash owner
echo "owner ALL=(ALL:ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/owner"
chmod 0440 "$root/etc/sudoers.d/owner"

# As on a cloud image, every host makes its own identity at its first start.
: >"$root/etc/machine-id"
rm -f "$root"/etc/ssh/ssh_host_*
cat >"$root/etc/systemd/system/sandbox-host-keys.service" <<'UNIT'
[Unit]
Description=Make the ssh host keys of this sandbox host
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A
[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl --quiet enable sandbox-host-keys.service

# A container has no terminal to log in at.
chroot "$root" systemctl --quiet mask getty@tty1.service console-getty.service
