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
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
[Service]
Type=oneshot
# Not -A, which makes an RSA key too: 0.4 CPU-s.
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl --quiet enable sandbox-host-keys.service

# A container has no terminal to log in at.
chroot "$root" systemctl --quiet mask getty@tty1.service console-getty.service

# Each daemon-reload runs all generators, a third of what a run of a role costs its host. Those that a container has no use for are masked.
mkdir -p "$root/etc/systemd/system-generators"
for name in cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run ssh system-update tpm2 veritysetup; do
    ln -s /dev/null "$root/etc/systemd/system-generators/systemd-$name-generator"
done
