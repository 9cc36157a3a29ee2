# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of sshd, from its unit and from the file with its options."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import command_line

UNIT = "/usr/lib/systemd/system/ssh.service"
DROP_IN = "/etc/systemd/system/ssh.service.d/own.conf"
OPTIONS = "/etc/default/ssh"
MAIN = "/etc/ssh/sshd_config"


@pytest.mark.parametrize(
    ("files", "options", "configs"),
    [
        ({}, [], [MAIN]),
        ({UNIT: "ExecStart=/usr/sbin/sshd -D $SSHD_OPTS"}, [("-D", "")], [MAIN]),
        ({UNIT: f"ExecStart=/usr/sbin/sshd -D -f {MAIN}"}, [("-D", ""), ("-f", MAIN)], [MAIN]),
        (
            {UNIT: "ExecStart=@/usr/sbin/sshd sshd -f /etc/own -p 22"},
            [("-f", "/etc/own"), ("-p", "22")],
            [MAIN, "/etc/own"],
        ),
        ({"/etc/default/ssh": 'SSHD_OPTS="-f /etc/own"'}, [("-f", "/etc/own")], [MAIN, "/etc/own"]),
        # A variable is the value of the option before it, and unknown.
        ({UNIT: "ExecStart=/usr/sbin/sshd -D -f $SSHD_CONFIG -p 22"}, [("-D", ""), ("-p", "22")], [MAIN]),
        ({UNIT: "ExecStart=/usr/sbin/sshd -f${CONF} $EXTRA -p 22 $SSHD_OPTS"}, [("-p", "22")], [MAIN]),
        # The file with options counts only where the unit names its variable.
        ({UNIT: "ExecStart=/usr/sbin/sshd -D", OPTIONS: "SSHD_OPTS=-f/etc/own"}, [("-D", "")], [MAIN]),
        ({UNIT: "ExecStart=/usr/sbin/sshd $SSHD_OPTS_2", OPTIONS: "SSHD_OPTS=-f/etc/own"}, [], [MAIN]),
        (
            {UNIT: "ExecStart=/usr/sbin/sshd $SSHD_OPTS", DROP_IN: "ExecStart=\nExecStart=/usr/sbin/sshd -e"}
            | {OPTIONS: "SSHD_OPTS=-f/etc/own"},
            [("-e", "")],
            [MAIN],
        ),
        (
            {UNIT: "ExecStart=/usr/sbin/sshd -D ${SSHD_OPTS}", OPTIONS: "SSHD_OPTS=-f/etc/own"},
            [("-f", "/etc/own"), ("-D", "")],
            [MAIN, "/etc/own"],
        ),
        # With an option that it does not have, sshd does not start.
        ({UNIT: "ExecStart=/usr/sbin/sshd -Z -f /etc/own"}, [], [MAIN]),
    ],
)
def test_options_and_main_files(
    tmp_path: Path, files: dict[str, str], options: list[tuple[str, str]], configs: list[str]
) -> None:
    for path, text in files.items():
        Path(f"{tmp_path}{path}").parent.mkdir(parents=True, exist_ok=True)
        Path(f"{tmp_path}{path}").write_text(f"{text}\n")
    assert command_line.options(Tree(str(tmp_path))) == options
    assert command_line.config_files(Tree(str(tmp_path))) == configs
