#!/bin/sh
# mmdebstrap's customize hook: a minimal Debian becomes a live system. Argument: its root.
set -eu
root=$1

echo live >"$root/etc/hostname"
# Nobody sits in front of it, and no disk is to be activated by itself.
for unit in systemd-logind.service lvm2-monitor.service blk-availability.service systemd-journal-flush.service; do
  chroot "$root" systemctl --quiet mask "$unit"
done
