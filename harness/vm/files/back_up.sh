#!/usr/bin/env bash
# Runs on the machine, by bash: backs its mount points up with restic. Arguments: the password, and the mount points.
set -euo pipefail
# Emulated processors compress slowly, and this repository is on a local disk.
export RESTIC_PASSWORD=$1 RESTIC_REPOSITORY=/mnt/backup/repository RESTIC_COMPRESSION=off
shift
restic init -q
# shellcheck disable=SC2046 # no blanks in these
restic backup -q --no-cache --one-file-system --host "$(hostname)" --tag drill $(printf -- '--exclude=%s ' /tmp/\* /var/tmp/\* /var/cache/apt/\* /var/log/journal /swapfile) "$@"
