# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use the server as its clients do, by smbclient, and return what was found."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.users import is_enabled, is_present
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing

Params = t.Mapping[str, t.Any]
Outcome = tuple[int, str, str]

# The newest protocol that is not served, by the oldest that is.
NEXT_OLDER = {"SMB2_10": "SMB2_02", "SMB3_00": "SMB2_10", "SMB3_02": "SMB3_00", "SMB3_11": "SMB3_02"}
# A closed port does not count as a refusal.
REFUSED = re.compile(
    r"NT_STATUS_(?!CONNECTION_REFUSED|IO_TIMEOUT|HOST_UNREACHABLE)|protocol negotiation failed", re.IGNORECASE
)


class Clients:
    """The clients of a server on this host."""

    def __init__(self, run: t.Callable[..., Outcome], request: Params) -> None:
        self.run = run
        self.request = request

    def findings(self) -> list[Finding]:
        return [self.anonymous(), self.old_protocols(), self.logins(), self.shares()]

    def _list_shares(self, *options: str, password: str | None = None) -> Outcome:
        """List the shares; a password, or its hash, comes by standard input."""
        command = ["smbclient", "--configfile=/dev/null", f"--port={self.request['port']}", "--timeout=10"]
        environment = {} if password is None else {"PASSWD_FD": "0"}
        return self.run([*command, *options, "--list=//127.0.0.1"], data=password, environ_update=environment)

    def anonymous(self) -> Finding:
        """Check that clients without a name are refused."""
        status, *output = self._list_shares("--no-pass")
        text = " ".join(output)
        denied = status != 0 and "NT_STATUS_ACCESS_DENIED" in text
        codes = ", ".join(sorted(set(re.findall("NT_STATUS_[A-Z_]+", text)))) or f"smbclient ended with {status}"
        return finding(
            "samba.anonymous",
            "pass" if denied else "fail",
            "an anonymous client is refused"
            if denied
            else "an anonymous client gets the list of shares"
            if status == 0
            else f"an anonymous client gets no clear answer: {codes}",
            "run the role again; `systemctl status smbd` and `journalctl -u smbd` show more",
        )

    def old_protocols(self) -> Finding:
        """Check that SMB 1 and the protocol below the oldest one are refused."""
        older = ["NT1", NEXT_OLDER[self.request["min_protocol"]]]
        served = [protocol for protocol in older if not self._refuses(protocol)]
        return finding(
            "samba.old_protocols",
            "fail" if served else "pass",
            f"not served as it should be: {', '.join(served)}" if served else f"{' and '.join(older)} are refused",
            "run the role again; `testparm -s` shows `server min protocol`",
        )

    def _refuses(self, protocol: str) -> bool:
        options = ("--no-pass", "--option=client min protocol=NT1", f"--max-protocol={protocol}")
        status, out, err = self._list_shares(*options)
        return status != 0 and "login successful" not in out + err and bool(REFUSED.search(out))

    def logins(self) -> Finding:
        """Log in as each user who can."""
        users = [user for user in self.request["users"] if is_present(user) and is_enabled(user)]
        failed = [str(user["name"]) for user in users if not self._logs_in(user)]
        names = ", ".join(str(user["name"]) for user in users)
        return finding(
            "samba.logins",
            "fail" if failed else "pass" if users else "skip",
            f"cannot log in: {', '.join(failed)}"
            if failed
            else f"logged in: {names}"
            if users
            else "nobody is declared",
            "run the role again; `pdbedit -L -v <user>` shows the account, which may be locked or expired",
        )

    def _logs_in(self, user: Params) -> bool:
        by_hash = not user.get("password")
        options = (f"--user={user['name']}", "--grepable", *(["--pw-nt-hash"] if by_hash else []))
        return self._list_shares(*options, password=user["nt_hash"] if by_hash else user["password"])[0] == 0

    def shares(self) -> Finding:
        """Check that Samba reads every share from its files."""
        names = [share["name"] for share in self.request["shares"]]
        status, text, _err = self.run(["testparm", "-s", "--suppress-prompt"])
        sections = {name.lower() for name in re.findall(r"(?m)^\[(.+)\]$", text)}
        missing = [name for name in names if name.lower() not in sections]
        return finding(
            "samba.shares",
            "fail" if status != 0 or missing else "pass" if names else "skip",
            f"not served: {', '.join(missing)}"
            if missing
            else f"served: {', '.join(names)}"
            if names
            else "none is declared",
            "run the role again; `testparm -s` shows what Samba makes of its files",
        )


def findings(run: t.Callable[..., Outcome], request: Params, plan: Params) -> list[Finding]:
    """Return the findings of the plan and of the clients."""
    confined = [sandboxing.check(run, "samba", [request["discovery_unit"]])] if plan["windows"] else []
    return [*plan["findings"], *Clients(run, request).findings(), *confined]
