"""Bring docker to the state that the peers' bench compares, with pyinfra."""

from io import StringIO

from pyinfra.operations import apt, files, server, systemd

apt.packages(packages=["docker.io", "docker-cli"], update=True, cache_time=86400, no_recommends=True)
server.user(user="owner", groups=["docker"], append=True)
files.directory(path="/etc/docker", mode="755", user="root")
written = files.put(src=StringIO('{"log-driver": "local"}\n'), dest="/etc/docker/daemon.json", mode="644", user="root")
systemd.service(service="docker.service", running=True, enabled=True)
systemd.service(service="docker.service", restarted=True, _if=written.did_change)
