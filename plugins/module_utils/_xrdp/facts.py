# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the host for the plan of the remote desktop: packages, users, sessions, files and certificates."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import pwd
import re
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    PRINTED,
    days_left,
    parse_certificate,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import port_owner
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import grdctl as xrdp_grdctl
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.sessions import (
    MANAGER,
    Login,
    Process,
    find_sessions,
)

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

ROOT = "/"
SESSION_MANAGER = "/usr/bin/x-session-manager"

AUTH_LOG = "/var/log/auth.log"

# What is read of a session of logind.
LOGIN = ("Name", "Seat", "Type", "Class", "Service", "Leader", "State")

DISPLAY_MANAGER = "/etc/X11/default-display-manager"

DEFAULT_TARGET = "/etc/systemd/system/default.target"

# Directories that the service does not see (the drop-in's ProtectHome and PrivateTmp).
HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - to refuse, not to use


def read(path: str) -> str:
    """Return the text of a file, empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def parse_logins(shown: str) -> list[dict[str, str]]:
    """Return the sessions of users from ``loginctl show-session``.

    One that is closing has ended by a logout, and only programs such as tmux, which the user left behind, still run in it.
    """
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n")]
    return [
        block
        for block in blocks
        if block.get("Name") and block.get("Class") == "user" and block.get("State") != "closing"
    ]


def _login(block: t.Mapping[str, str]) -> Login:
    return Login(block["Name"], int(block.get("Leader") or 0), block.get("Service", ""))


def _is_at_a_seat(block: t.Mapping[str, str]) -> bool:
    """Return whether a session is a desktop at a seat of the machine."""
    return bool(block.get("Seat")) and block.get("Type") in ("x11", "wayland", "mir")


def moment() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def names_in(directory: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(name.rpartition(".")[0] for name in os.listdir(directory) if name.endswith(".desktop"))
    return []


def members(name: str) -> list[str] | None:
    """Return the users that a group lists; None without the group."""
    return accounts.members_of(name) if accounts.group(name) else None


def primary_members(name: str) -> list[str]:
    """Return the users whose primary group it is. The group does not list them, and xrdp lets them in."""
    gid = accounts.gid_of(name)
    return [] if gid is None else sorted(entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid)


def password_kinds(shadow: str) -> dict[str, str]:
    """Return by user whether the password in /etc/shadow is empty, none or set."""
    kinds = {}
    for line in shadow.splitlines():
        name, password = [*line.split(":"), ""][:2]
        kinds[name] = "empty" if not password else "none" if password[0] in "!*" else "set"
    return kinds


def read_record(tree: Tree) -> plan.Record | None:
    """Return what `absent` has to undo in addition to files; None before the first run.

    :raises Damaged: the record is damaged.
    """
    remedy = "restore it, or remove it, and the group and its members stay as they are when the role is removed"
    shape = {"group": str, "made": bool, "added": [str]}
    return t.cast("plan.Record | None", record.read(tree.at(plan.RECORD), remedy, shape))


class HostReader:
    """The host, read with files and programs."""

    def __init__(self, module: Runner, params: Params) -> None:
        self.module = module
        self.params = params
        self.tree = Tree(ROOT)
        # The files that config_files has replaced.
        self.replaced = Store("xrdp").load()

    def read(self) -> plan.Facts:
        """Read everything except certificates and GNOME's remote login."""
        packages = self._packages()
        found = read_record(self.tree)
        files = {path: self._packaged(path, packages) for path in (plan.XRDP_INI, plan.SESMAN_INI)}
        group, primary = members(self.params["allowed_group"]), primary_members(self.params["allowed_group"])
        processes, logins = self._processes(), self._logins()
        return plan.Facts(
            packages=packages,
            packaged={path: packaged for path, (packaged, _edited) in files.items()},
            edited={path: edited for path, (_packaged, edited) in files.items()},
            users=self._users({*self.params["users"], *(group or ()), *primary}),
            members=group,
            primary_members=primary,
            former_members=members(found["group"]) if found else None,
            x_sessions=names_in("/usr/share/xsessions"),
            wayland_sessions=names_in("/usr/share/wayland-sessions"),
            manager=os.path.basename(os.path.realpath(SESSION_MANAGER)) if os.path.exists(SESSION_MANAGER) else "",
            sessions=find_sessions(processes, [_login(login) for login in logins]),
            running=any(process.name == MANAGER for process in processes),
            console=[login["Name"] for login in logins if _is_at_a_seat(login)],
            record=found,
            managed=bool(self.replaced),
            auth_log=os.path.exists(AUTH_LOG),
            check_mode=self.module.check_mode,
        )

    def _packages(self) -> dict[str, str]:
        packages = parse_status(read(STATUS))
        return {name: package.version for name, package in packages.items() if package.whole and not package.hold}

    def _packaged(self, path: str, packages: t.Mapping[str, str]) -> tuple[str, str]:
        """Return a configuration file as the package installed it, by the checksum that dpkg keeps; and as a user has edited it.

        It is at its own path, next to it after an upgrade that kept the old file, or among the originals of config_files.
        Where a user had edited the file before, and no other has that checksum, the plan starts from that version.
        """
        original, pristine = self._original(path), ""
        if "xrdp" in packages:
            _rc, out, _err = self.module.run_command(["dpkg-query", "--show", "--showformat", "${Conffiles}", "xrdp"])
            found = re.search(rf"^ {re.escape(path)} ([0-9a-f]{{32}})", out, re.MULTILINE)
            texts = [*(read(place) for place in (path, f"{path}.dpkg-dist", f"{path}.dpkg-new")), original]
            sums = {hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(): text for text in texts if text}
            pristine = sums.get(found[1], "") if found else ""
        return pristine or original or read(path), "" if original == pristine else original

    def _original(self, path: str) -> str:
        replaced = self.replaced.get(path)
        return (replaced.original.content or b"").decode(errors="replace") if replaced else read(path)

    def _users(self, names: t.Collection[str]) -> dict[str, str]:
        kinds = password_kinds(read("/etc/shadow"))
        uids = accounts.uids_of(names)
        # A directory service keeps passwords elsewhere.
        return {
            name: "missing" if name not in uids else "root" if uids[name] == 0 else kinds.get(name, "set")
            for name in names
        }

    def _processes(self) -> list[Process]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # The name, in brackets, may hold anything.
                name, _bracket, fields = read(f"/proc/{pid}/stat").partition("(")[2].rpartition(")")
                if fields:
                    uid = os.stat(f"/proc/{pid}").st_uid
                    found.append(Process(int(pid), int(fields.split()[1]), name, _user(uid)))
        return found

    def _logins(self) -> list[dict[str, str]]:
        """Return the sessions of logind."""
        loginctl = self.module.get_bin_path("loginctl")
        if not loginctl:
            return []
        _rc, out, _err = self.module.run_command([loginctl, "--no-legend", "--no-pager", "list-sessions"])
        ids = [line.split()[0] for line in out.splitlines() if line.split()]
        if not ids:
            return []
        # One option for each property: with several in one, loginctl 257 prints nothing.
        wanted = [f"--property={name}" for name in LOGIN]
        shown = [loginctl, *wanted, "show-session", *ids]
        _rc, out, _err = self.module.run_command(shown)
        return parse_logins(out)

    def gnome(self, backend: str) -> xrdp_gnome.Facts:
        """Read the settings and sessions of GNOME's remote login. Nothing is read where it never was the backend."""
        managed = xrdp_gnome.DROP_IN in self.replaced
        if backend != "gnome" and not managed:
            return xrdp_gnome.Facts()
        grdctl = xrdp_grdctl.find(self.module.run_command)
        settings = None
        if grdctl:
            with contextlib.suppress(xrdp_grdctl.GrdctlError):
                settings = grdctl.settings()
        target = os.path.basename(os.path.realpath(DEFAULT_TARGET))
        return xrdp_gnome.Facts(
            settings=settings,
            sessions=xrdp_grdctl.sessions(self.module.run_command),
            display_manager=os.path.basename(read(DISPLAY_MANAGER).strip()),
            boots_to=target if os.path.lexists(DEFAULT_TARGET) else "graphical.target",
            managed=managed,
        )

    # The user's own certificate

    def own_certificate(self, account: str) -> plan.Certificate | None:
        """Check the user's own certificate; None without one.

        :param account: the user that has to read it.
        """
        self.account = account
        params = self.params
        if params["state"] == "absent" or not (params["tls_cert"] or params["tls_cert_content"]):
            return None
        if params["tls_cert"]:
            problem = self._unreadable(params["tls_cert"], secret=False) or self._unreadable(
                params["tls_key"], secret=True
            )
            if problem:
                return plan.Certificate(problem)
            return self._checked(read(params["tls_cert"]), read(params["tls_key"]))
        return self._checked(params["tls_cert_content"], params["tls_key_content"])

    def _checked(self, certificate: str, key: str) -> plan.Certificate:
        """Check a certificate and its key by openssl, through pipes: a key is never written to a file."""
        rc, out, _err = self._openssl(certificate, "x509", *PRINTED, "-startdate")
        if rc != 0:
            return plan.Certificate("is not a certificate in PEM format")
        found = parse_certificate(out)
        # With an empty passphrase, openssl does not ask for one.
        rc, public, _err = self._openssl(key, "pkey", "-pubout", "-passin", "pass:")
        if rc != 0:
            return plan.Certificate(
                "has no key in PEM format, or one with a passphrase, which nobody can type when xrdp starts"
            )
        if public.strip() != found.public_key.strip():
            return plan.Certificate("does not belong to its key")
        now = moment()
        start = re.search(r"^notBefore=(.+)Z$", out, re.MULTILINE)
        begins = datetime.datetime.fromisoformat(start[1]).replace(tzinfo=datetime.timezone.utc) if start else now
        if found.not_after <= now:
            return plan.Certificate(f"has ended on {found.not_after:%Y-%m-%d}")
        if begins > now:
            return plan.Certificate(f"begins on {begins:%Y-%m-%d}")
        return plan.Certificate(days=days_left(found, now), names=sorted(found.names))

    def _openssl(self, text: str, *arguments: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            [self.module.get_bin_path("openssl", required=True), *arguments], data=text, binary_data=False
        )
        return answer

    def _unreadable(self, path: str, secret: bool) -> str:
        """Return why the account cannot use a file, or that every user can read a secret one; empty when it is right."""
        if path.startswith(HIDDEN):
            return f"is in a directory that xrdp's sandbox hides (homes and temporary files): {path}"
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            return f"cannot be read: {path}: {error.strerror}"
        if not stat.S_ISREG(mode):
            return f"is not a file: {path}"
        if secret and mode & stat.S_IROTH:
            return f"has a key that every user of this host can read: {path}"
        with contextlib.suppress(KeyError):
            pwd.getpwnam(self.account)
            rc, _out, _err = self.module.run_command(["runuser", "-u", self.account, "--", "test", "-r", path])
            if rc != 0:
                return f"cannot be read by the user {self.account}: {path} (`chgrp {self.account}`, `chmod 640`, and its directories)"
        return ""

    def foreign_owner(self, unit: str) -> port_owner.ForeignOwner:
        """Return the check that the unit, and not another user's program, listens on a port."""
        return port_owner.foreign_owner_of(self.module.run_command, unit)

    def fingerprint(self, path: str) -> str:
        """Return the SHA-256 of the certificate in a file, empty where there is none."""
        rc, out, _err = self._openssl(read(path), "x509", *PRINTED)
        return parse_certificate(out).fingerprint if rc == 0 else ""
