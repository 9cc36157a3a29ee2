"""Bring Samba to the state that the peers' bench compares, with pyinfra."""

from io import StringIO

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import apt, files, server, systemd

CONFIG = """\
[global]
  server role = standalone server
  server min protocol = SMB2_10
  map to guest = never

[data]
  path = /srv
  valid users = owner
  read only = no
"""
PASSWORD = "not-secret-in-a-bench"  # noqa: S105 - of a container without a way out
KNOWN = "pdbedit --list 2>/dev/null | cut -d: -f1 | grep -x owner || true"

apt.packages(packages=["samba"], update=True, cache_time=86400, no_recommends=True)
server.user(user="owner")
files.directory(path="/srv", mode="755", user="owner", group="owner")
written = files.put(src=StringIO(CONFIG), dest="/etc/samba/smb.conf", mode="644", user="root")
if not host.get_fact(Command, KNOWN):
    server.shell(commands=[f"printf '%s\\n%s\\n' {PASSWORD} {PASSWORD} | smbpasswd -s -a owner"])
systemd.service(service="smbd.service", running=True, enabled=True)
systemd.service(service="smbd.service", reloaded=True, _if=written.did_change)
