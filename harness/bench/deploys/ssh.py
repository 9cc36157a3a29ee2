"""Bring sshd to the state that the peers' bench compares, with pyinfra."""

from io import StringIO

from pyinfra.operations import apt, files, systemd

CONFIG = """\
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""

apt.packages(packages=["openssh-server"])
written = files.put(src=StringIO(CONFIG), dest="/etc/ssh/sshd_config.d/10-bench.conf", mode="600", user="root")
systemd.service(service="ssh.service", running=True, enabled=True)
systemd.service(service="ssh.service", reloaded=True, _if=written.did_change)
