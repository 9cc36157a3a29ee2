# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``grdctl``, run as the account of GNOME Remote Desktop's system daemon, and the users with sessions of that daemon."""

from __future__ import annotations

import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote

INSTALL = "install the package gnome-remote-desktop, 47 or later"
SESSION = ("Name", "Remote", "Service", "Type", "Class")

# As AnsibleModule.run_command.
Run = t.Callable[..., "tuple[int, str, str]"]


class GrdctlError(Exception):
    """An error of grdctl, with a remedy."""


class Grdctl:
    """The program ``grdctl``. ``home``: the home of the daemon's account."""

    def __init__(self, run: Run, home: str) -> None:
        self.run = run
        self.home = home

    def call(self, *arguments: str, data: str | None = None) -> str:
        """Run grdctl and return its output.

        :raises GrdctlError: it failed.
        """
        # With binary_data, run_command adds no line break of its own.
        rc, out, err = self.run(remote.as_account(self.home, "grdctl", *arguments), data=data, binary_data=True)
        if rc:
            # Never stdout: it may be the status with the password.
            message = err.strip() or "nothing"
            raise GrdctlError(
                f"`grdctl {' '.join(arguments)}` as {remote.ACCOUNT} ended with {rc} and printed: {message}. "
                "See `journalctl -u polkit -u gnome-remote-desktop`, then run again."
            )
        return out

    def settings(self) -> remote.Settings:
        """Return the present settings.

        :raises GrdctlError: grdctl does not print them.
        """
        try:
            return remote.parse_status(self.call("status", "--show-credentials"))
        except ValueError as error:
            raise GrdctlError(f"the output of `grdctl status` was not understood ({error}): {INSTALL}") from None

    def forget(self) -> None:
        """Remove the settings of grdctl, but not the credential. The account does it: a link in its folders cannot redirect root.

        :raises GrdctlError: it failed.
        """
        paths = [remote.CONFIGURATION, f"{self.home}/{remote.STATE}"]
        rc, _out, err = self.run(remote.as_account(self.home, "rm", "-f", "--", *paths))
        if rc:
            raise GrdctlError(
                f"`rm` as {remote.ACCOUNT} printed: {err.strip()}. Remove {' and '.join(paths)}, then run again."
            )

    def reads(self, path: str) -> bool:
        """Return whether the daemon's account can read a file."""
        rc, _out, _err = self.run(remote.as_account(self.home, "test", "-f", path, "-a", "-r", path))
        return rc == 0


def find(run: Run) -> Grdctl | None:
    """Return the program; None where GNOME Remote Desktop is not installed."""
    account = accounts.user(remote.ACCOUNT)
    return Grdctl(run, account.pw_dir) if account and shutil.which("grdctl") else None


def sessions(run: Run) -> list[str]:
    """Return the users with a graphical session that began by remote login."""
    rc, listed, _err = run(["loginctl", "list-sessions", "--no-legend"])
    ids = [line.split()[0] for line in listed.splitlines() if line.strip()]
    if rc or not ids:
        return []
    # One option for each property: with several in one, loginctl 257 prints nothing. A session that has ended by now is missing.
    _rc, shown, _err = run(["loginctl", "show-session", *(f"--property={name}" for name in SESSION), *ids])
    return remote.parse_sessions(shown)
