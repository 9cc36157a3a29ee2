# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of sshd from its files, and the clients that are allowed."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import parse_networks
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.ssh_ports import lets_in, ports

CONFIG = "etc/ssh/sshd_config"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, [22]),
        ({CONFIG: "#Port 22\nUsePAM yes\n"}, [22]),
        ({CONFIG: "Port 2222\n"}, [2222]),
        ({CONFIG: "port=2222 # ours\nPort 22\n"}, [22, 2222]),
        ({CONFIG: "Include /etc/ssh/sshd_config.d/*.conf\n", f"{CONFIG}.d/a.conf": "Port 2200\n"}, [2200]),
        (
            {CONFIG: "ListenAddress 10.0.0.1:2201\nListenAddress [::]:2202\nListenAddress host:2203\n"},
            [2201, 2202, 2203],
        ),
        ({CONFIG: "ListenAddress 10.0.0.1\nListenAddress fe80::1\nListenAddress ::\n"}, [22]),
        ({CONFIG: "ListenAddress 10.0.0.1:2201\nListenAddress 10.0.0.2\n"}, [22, 2201]),
        ({CONFIG: "Port 2200\nListenAddress 10.0.0.1:2201\nListenAddress 10.0.0.2\n"}, [2200, 2201]),
        ({CONFIG: "Port nonsense\nPort 99999\n"}, [22]),
        (
            {
                "etc/systemd/system/ssh.socket.d/a.conf": "[Socket]\nListenStream=\nListenStream=2204\nListenStream = [::]:2205\n"
            },
            [2204, 2205],
        ),
        ({"run/systemd/generator/ssh.socket.d/addresses.conf": "ListenStream=0.0.0.0:2206\n"}, [2206]),
        ({"etc/systemd/system/ssh.socket": "[Socket]\nListenStream=2222\n"}, [2222]),
        ({"usr/lib/systemd/system/ssh.socket": "[Socket]\nListenStream=22\n", CONFIG: "Port 2222\n"}, [2222]),
        (
            {"etc/default/ssh": "SSHD_OPTS='-4 -p 2207 -p2208'\n", CONFIG: "Port 2222\nListenAddress ::\n"},
            [2207, 2208, 2222],
        ),
        ({"etc/default/ssh": 'SSHD_OPTS="-oPort=2209 -o ListenAddress=::"\n', CONFIG: "Port 2222\n"}, [2209, 2222]),
        ({"etc/default/ssh": "# SSHD_OPTS=-p 2207\nSSHD_OPTS=\n"}, [22]),
        ({"etc/default/ssh": "SSHD_OPTS='-4 -p'\n"}, [22]),
        (
            {
                "usr/lib/systemd/system/ssh.service": "ExecStart=/usr/sbin/sshd -D $SSHD_OPTS\n",
                "etc/systemd/system/ssh.service.d/a.conf": "ExecStart=\nExecStart=/usr/sbin/sshd -D -p 2210\n",
            },
            [2210],
        ),
        (
            {CONFIG: "Port 2222\n", "etc/systemd/system/ssh.service": "ExecStart=-/usr/sbin/sshd -p 2211\n"},
            [2211, 2222],
        ),
        ({"etc/systemd/system/ssh.service": "ExecStart=@-/usr/sbin/sshd sshd -D -p 2212\n"}, [2212]),
        ({"etc/systemd/system/ssh.service": "ExecStart=/usr/sbin/sshd -f /etc/ssh/mine -p 2213\n"}, [2213]),
        (
            {
                "usr/lib/systemd/system/ssh.service": "ExecStart=/usr/sbin/sshd -D $SSHD_OPTS\n",
                "etc/systemd/system/sshd.service.d/a.conf": "ExecStart=\nExecStart=/usr/sbin/sshd -D -p 2214\n",
            },
            [2214],
        ),
    ],
)
def test_the_ports_are_those_of_the_files(tmp_path, files, found):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert ports(Tree(str(tmp_path))) == found


@pytest.mark.parametrize(
    ("client", "networks", "passes"),
    [
        ("192.168.1.7", ["192.168.1.0/24"], True),
        ("192.168.2.7", ["192.168.1.0/24"], False),
        ("192.168.2.7", ["0.0.0.0/0"], True),
        ("192.168.2.7", ["::/0"], False),
        ("fd00::7", ["fd00::/64"], True),
        ("::ffff:192.168.1.7", ["192.168.1.0/24"], True),
        ("fe80::1%eth0", ["fe80::/10"], True),
        ("127.0.0.1", [], True),
        ("::1", [], True),
        ("192.168.1.7", [], False),
    ],
)
def test_allowed_clients(client, networks, passes):
    assert lets_in(client, parse_networks(networks)) is passes
