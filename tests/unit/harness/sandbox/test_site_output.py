# SPDX-License-Identifier: GPL-3.0-or-later
"""What `script/demo` shows of a run of the site."""

from __future__ import annotations

import re

from harness.sandbox import site_output

OUTPUT = """
PLAY [Prepare every host] ******
TASK [rigwright.workstation.common : Gather facts and check the host] ***
ok: [workstation]
TASK [rigwright.workstation.ssh : Configure sshd] ***
changed: [gateway]
changed: [workstation]
TASK [rigwright.workstation.common : Rate the units] ***
TASK [rigwright.workstation.ssh : Run sshd] ***
changed: [workstation] => (item=ssh)
still: ssh : Run sshd (workstation, 20 s)
TASK [rigwright.workstation.frp_client : Configure frpc] ***
ok: [laptop]
PLAY [Verify the roles of the hosts] ***
TASK [rigwright.workstation.ssh : Log in] ***
TASK [rigwright.workstation.frp_client : Ask the server] ***
PLAY RECAP ****
"""


def test_a_role_is_one_line_when_it_ends():
    steps = site_output.Steps()
    shown = [re.sub(r" +\d+\.\d s", "", line).split() for line in map(steps.take, OUTPUT.splitlines()) if line]
    assert [" ".join(lines) for lines in shown] == [
        "still: ssh : Run sshd (workstation, 20 s)",
        "ssh changed gateway (1), workstation (2)",
        "frp_client nothing to change",
        "proofs see the findings",
    ]


def finding(id_: str, status: str = "pass") -> dict[str, str]:
    return {"id": id_, "status": status, "evidence": "seen\n twice", "remedy": "" if status == "pass" else "do this"}


def test_passed_findings_are_counted_and_others_shown():
    hosts = {
        "gateway": {"findings": [finding("ssh.config"), finding("frp_server.tls", "skip")]},
        "workstation": {"findings": [finding("ssh.config"), finding("ssh.jail", "fail")]},
    }
    assert list(site_output.findings(hosts)) == [
        "    ssh         2 pass, 1 fail",
        "      fail: ssh.jail on workstation: seen twice; do this",
        "    frp_server  1 skip",
    ]
