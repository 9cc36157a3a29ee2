#!/usr/bin/env bash
# What the depot's container runs: the package cache and the download server. When one ends, so does the container.
chown -R apt-cacher-ng: /var/cache/apt-cacher-ng
runuser -u apt-cacher-ng -- apt-cacher-ng -c /srv/depot/apt-cacher-ng &
python3 /srv/depot/server.py &
wait -n
