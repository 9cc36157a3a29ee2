#!/bin/sh
# The first program of a sandbox host: what a container manager leaves to do before systemd starts. The first argument is the number of
# loop devices that the host has nodes for.
set -eu

# A booted machine has shared mounts, and without them no unit gets its credentials.
mount --make-rshared /

# Each boot has an identifier of its own, by which `ansible.builtin.reboot` knows that a machine is back (systemd-nspawn does the same).
cat /proc/sys/kernel/random/uuid >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
rm /run/boot_id

# A container sees the cards of its machine and cannot have them: the site would install a driver for a GPU that is not its own.
if [ -d /sys/bus/pci ]; then
    mount -t tmpfs -o mode=755 pci /sys/bus/pci
    mkdir /sys/bus/pci/devices /sys/bus/pci/drivers
fi

# A machine limits its services and containers. Its control groups are the host's own: `cgroupns` is private.
while read -r _device point kind _options; do
    case $kind in cgroup | cgroup2) mount -o remount,bind,rw "$point" ;; esac
done </proc/mounts

# A machine sets up networks, for containers too. These settings are of its own network namespace; the rest of /proc/sys stays read-only.
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net

loops=$1
if [ "$loops" -gt 0 ]; then
    mknod -m 0660 /dev/loop-control c 10 237
    while [ "$loops" -gt 0 ]; do
        loops=$((loops - 1))
        mknod -m 0660 "/dev/loop$loops" b 7 "$loops"
    done
fi

exec /sbin/init
