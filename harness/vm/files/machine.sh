#!/bin/sh
# mmdebstrap's customize hook: a minimal Debian becomes a machine with users, a service and files that a tar would spoil.
# Argument: its root.
set -eu
root=$1

sed -i 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="console=ttyS0 net.ifnames=0 8250.nr_uarts=1 mitigations=off no_timer_check"/; s/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' "$root/etc/default/grub"

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
mkdir -p box && setfacl -d -m u:bob:rwx box
chown -R alice: .
chmod 4755 /usr/local/bin/tool
setcap cap_net_bind_service=ep /usr/local/bin/tool
FILES
