# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``grdctl`` as the account of GNOME Remote Desktop's system daemon, and whose sessions hang on that daemon."""

from __future__ import annotations

import pwd
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote

INSTALL = "install the package gnome-remote-desktop, 47 or later"
SESSION = ("Name", "Remote", "Service", "Type", "Class")

# As AnsibleModule.run_command.
Run = t.Callable[..., "tuple[int, str, str]"]


class GrdctlError(Exception):
    """What went wrong, and what to do."""


class Grdctl:
    """The program. ``home`` is that of the account."""

    def __init__(self, run: Run, home: str) -> None:
        self.run = run
        self.home = home

    def call(self, *words: str, data: str | None = None) -> str:
        """:raises GrdctlError: it failed."""
        # With binary_data, run_command adds no line break of its own.
        rc, out, err = self.run(remote.as_account(self.home, "grdctl", *words), data=data, binary_data=True)
        if rc:
            # Of stdout nothing: it may be the status, with the password.
            said = err.strip() or "nothing"
            raise GrdctlError(
                f"`grdctl {' '.join(words)}` as {remote.ACCOUNT} ended with {rc} and said: {said}. "
                "See `journalctl -u polkit -u gnome-remote-desktop`, then run again."
            )
        return out

    def settings(self) -> remote.Settings:
        """:raises GrdctlError: it does not tell them."""
        try:
            return remote.parse_status(self.call("status", "--show-credentials"))
        except ValueError as error:
            raise GrdctlError(f"the answer of `grdctl status` was not understood ({error}): {INSTALL}") from None

    def forget(self) -> None:
        """Remove what grdctl keeps beside the credential, as its account: the folders are its own, so a link there leads no further.

        :raises GrdctlError: it failed.
        """
        paths = [remote.CONFIGURATION, f"{self.home}/{remote.STATE}"]
        rc, _out, err = self.run(remote.as_account(self.home, "rm", "-f", "--", *paths))
        if rc:
            raise GrdctlError(
                f"`rm` as {remote.ACCOUNT} said: {err.strip()}. Remove {' and '.join(paths)}, then run again."
            )

    def reads(self, path: str) -> bool:
        """Whether the daemon's account can read a file."""
        rc, _out, _err = self.run(remote.as_account(self.home, "test", "-f", path, "-a", "-r", path))
        return rc == 0


def find(run: Run) -> Grdctl | None:
    """None where GNOME Remote Desktop is not installed."""
    try:
        home = pwd.getpwnam(remote.ACCOUNT).pw_dir
    except KeyError:
        return None
    return Grdctl(run, home) if shutil.which("grdctl") else None


def sessions(run: Run) -> list[str]:
    """The users with a graphical session that began by remote login."""
    rc, listed, _err = run(["loginctl", "list-sessions", "--no-legend"])
    ids = [line.split()[0] for line in listed.splitlines() if line.strip()]
    if rc or not ids:
        return []
    # One option for each: with several in one, loginctl 257 says nothing. A session that ends in between is left out.
    _rc, shown, _err = run(["loginctl", "show-session", *(f"--property={name}" for name in SESSION), *ids])
    return remote.parse_sessions(shown)
