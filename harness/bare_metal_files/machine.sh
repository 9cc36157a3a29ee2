#!/bin/sh
# mmdebstrap's customize hook: a minimal Debian becomes a machine with users, a service and files that a tar would spoil.
# Arguments: its root, a public key.
set -eu
root=$1

install -d -m 0700 "$root/root/.ssh"
install -m 0600 "$2" "$root/root/.ssh/authorized_keys"
printf '[Match]\nName=e*\n[Network]\nDHCP=ipv4\n' >"$root/etc/systemd/network/20-wired.network"
chroot "$root" systemctl --quiet enable systemd-networkd ssh
chroot "$root" systemctl --quiet mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer
sed -i 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="console=ttyS0 net.ifnames=0"/; s/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' "$root/etc/default/grub"
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"

chroot "$root" useradd --create-home --shell /bin/bash alice
chroot "$root" useradd --create-home --shell /bin/bash bob
cat >"$root/etc/systemd/system/lab.service" <<'UNIT'
[Unit]
Description=A service of this machine
[Service]
ExecStart=/usr/local/bin/tool infinity
DynamicUser=true
AmbientCapabilities=CAP_NET_BIND_SERVICE
[Install]
WantedBy=multi-user.target
UNIT
cp "$root/bin/sleep" "$root/usr/local/bin/tool"
chroot "$root" setcap cap_net_bind_service=ep /usr/local/bin/tool
chroot "$root" systemctl --quiet enable lab.service

chroot "$root" sh -eu <<'FILES'
cd /home/alice
echo shared >shared && setfacl -m u:bob:rw,g:bob:r shared && chmod 640 shared
echo noted >noted && setfattr -n user.note -v "of alice" noted
echo twice >one && ln one two
ln -s nowhere dangling
mkfifo pipe
printf 'odd' >"a name with
a line"
truncate --size=64M sparse && echo end >>sparse
mkdir -p box && setfacl -d -m u:bob:rwx box
chown -R alice: .
chmod 4755 /usr/local/bin/tool
setcap cap_net_bind_service=ep /usr/local/bin/tool
FILES
