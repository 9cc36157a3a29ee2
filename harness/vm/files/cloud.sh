#!/bin/sh
# mmdebstrap's customize hook, after machine.sh: the machine becomes what a cloud image is on its first day, before Ansible has seen it.
# Argument: its root.
set -eu
root=$1

chroot "$root" useradd --create-home --shell /bin/bash debian
install -d -m 0700 "$root/home/debian/.ssh"
cp "$root/root/.ssh/authorized_keys" "$root/home/debian/.ssh/authorized_keys"
chroot "$root" chown -R debian: /home/debian/.ssh
echo "debian ALL=(ALL) NOPASSWD:ALL" >"$root/etc/sudoers.d/90-cloud-init-users"
chmod 0440 "$root/etc/sudoers.d/90-cloud-init-users"
# As cloud-init writes it where passwords are asked for.
echo "PasswordAuthentication yes" >"$root/etc/ssh/sshd_config.d/50-cloud-init.conf"
chmod 0600 "$root/etc/ssh/sshd_config.d/50-cloud-init.conf"
# A power cut has to find what dpkg syncs on every machine.
sed -i '/unsafe-io/d' "$root"/etc/dpkg/dpkg.cfg.d/*
