#!/usr/bin/env bash
# What the depot's container runs: the package cache and the download server. When one ends, so does the container.
chown proxy: /var/cache/squid
squid -f /srv/depot/squid.conf --foreground -z
squid -f /srv/depot/squid.conf --foreground &
python3 /srv/depot/server.py &
wait -n
