# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use sshd as a client without credentials does, ask fail2ban about its jail, and return what was found."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import SshPlan
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import Params

Outcome = tuple[int, str, str]

CLIENT_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "PreferredAuthentications=none",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
)


def client(door: str, port: int) -> list[str]:
    """Return the command that asks for the authentication methods."""
    options = [word for option in CLIENT_OPTIONS for word in ("-o", option)]
    return ["ssh", "-F", "none", *options, "-p", str(port), f"root@{door}"]


def ways_in(error: str, passwords_refused: bool) -> Finding:
    """Return the finding on the methods that sshd offers.

    :param error: what the client prints when it is refused.
    """
    methods = [
        method for found in re.findall(r"Permission denied \(([a-z,-]+)\)", error) for method in found.split(",")
    ]
    by_password = {"password", "keyboard-interactive"} & {*methods}
    good = "publickey" in methods and not (passwords_refused and by_password)
    return finding(
        "ssh.ways_in",
        "pass" if good else "fail",
        f"sshd offers a client without credentials: {', '.join(methods) or f'nothing, {error}'}",
        "run the role again; `sshd -T` prints the settings in force",
    )


def jail(wanted: bool, outcome: Outcome) -> Finding:
    """Return the finding on the jail of fail2ban."""
    status, out, err = outcome
    counts = re.findall(r"(Total failed|Currently banned):\s*(\d+)", out)
    if not wanted:
        evidence = "ssh_fail2ban is off"
    elif status == 0:
        evidence = ", ".join(map(": ".join, counts)) or f"fail2ban prints no counts: {out}"
    else:
        evidence = f"{out}{err}" or f"fail2ban-client ended with {status}"
    return finding(
        "ssh.fail2ban",
        "skip" if not wanted else "pass" if status == 0 else "fail",
        evidence,
        "see `journalctl -u fail2ban`",
    )


def findings(run: t.Callable[..., Outcome], request: Params, plan: SshPlan) -> list[Finding]:
    """Return the findings of the plan and of the clients."""
    _status, _out, error = run(client(plan["door"], plan["ports_open"][0]))
    wanted = request["fail2ban"]
    outcome = run(["fail2ban-client", "status", "sshd"]) if wanted else (0, "", "")
    return [*plan["findings"], ways_in(error, plan["passwords_refused"]), jail(wanted, outcome)]
