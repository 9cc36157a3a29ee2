#!/usr/bin/env bash
# Runs on the machine, by bash: backs its mount points up with restic. Arguments: the mount points.
set -euo pipefail
export RESTIC_PASSWORD=PASSWORD RESTIC_REPOSITORY=/mnt/backup/repository
restic init -q
# shellcheck disable=SC2046 # no blanks in these
restic backup -q --one-file-system --host "$(hostname)" --tag drill $(printf -- '--exclude=%s ' /tmp/\* /var/tmp/\* /var/cache/apt/\* /var/log/journal /swapfile) "$@"
restic check -q
