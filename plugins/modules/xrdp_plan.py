#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: xrdp_plan
short_description: Plan a remote desktop that ends nobody's session
description:
  - Reads which desktop a host has, who may log in, who is logged in, and xrdp's files as its package brought them, and returns what makes
    the host as asked, for M(rigwright.workstation.require), M(rigwright.workstation.config_files),
    M(rigwright.workstation.group_members) and M(rigwright.workstation.systemd_units). Changes nothing itself.
  - The files of the package keep what a version of xrdp has of its own. The options that are asked for are set in them, and the session
    types are removed in which whoever logs in names a host that xrdp connects to.
  - A restart of xrdp ends every session, since its units are bound to each other. What can be done without one is done at once. For the
    rest the plan says whether a restart is allowed now.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.fail2ban
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description: Whether the remote desktop is to be as asked, or to go.
    type: str
    choices: [present, absent]
    default: present
  proof:
    description: Whether to ask xrdp, as a client does before it logs in, what it speaks and which certificate it shows.
    type: bool
    default: false
  backend:
    description: What serves the desktop. V(auto) is V(gnome) for a GNOME without X11 session, and V(xrdp) otherwise.
    type: str
    choices: [auto, xrdp, gnome]
    default: auto
  desktop:
    description:
      - The desktop that is served. V(host) is the one that the host starts by itself on X11, V(auto) the same where there is one, or
        its GNOME, or V(xfce).
    type: str
    default: auto
  desktops:
    description: What desktops there are, by name. RV(missing) names the C(packages) of the chosen one, RV(command) is its C(command).
    type: dict
    default: {}
  gnome_x11:
    description: Whether GNOME has an X11 session on this release. It counts where GNOME is not installed.
    type: bool
    default: true
  gnome_environment:
    description: Variables that sessions of GNOME need.
    type: dict
    default: {}
  packages:
    description: Packages that xrdp needs here.
    type: list
    elements: str
    default: []
  gnome_packages:
    description: Packages that GNOME's own remote desktop needs here.
    type: list
    elements: str
    default: []
  gnome_login:
    description: Whether GNOME of this release has a remote login that can be set up without showing its password, as from GNOME 47 on.
    type: bool
    default: true
  machine_user:
    description: User of the credential that GNOME asks for before its login screen.
    type: str
    default: workstation
  machine_password:
    description: Password of that credential.
    type: str
    default: ""
  port:
    description: TCP port.
    type: int
    default: 3389
  networks:
    description: Networks that may connect. None means this host alone.
    type: list
    elements: str
    default: []
  users:
    description: Users who may log in.
    type: list
    elements: str
    default: []
  allowed_group:
    description: The group whose members may log in.
    type: str
    default: xrdp-users
  tls_cert:
    description: Path of an own certificate.
    type: str
    default: ""
  tls_key:
    description: Path of its key.
    type: str
    default: ""
  tls_cert_content:
    description: An own certificate, as PEM.
    type: str
    default: ""
  tls_key_content:
    description: Its key, as PEM. It is only compared with the certificate.
    type: str
    default: ""
  tls_names:
    description: Names and addresses by which clients know the host.
    type: list
    elements: str
    default: []
  max_sessions:
    description: C(MaxSessions).
    type: int
    default: 10
  max_login_retry:
    description: C(MaxLoginRetry).
    type: int
    default: 4
  kill_disconnected:
    description: C(KillDisconnected).
    type: bool
    default: false
  disconnected_timeout:
    description: C(DisconnectedTimeLimit), in seconds. V(0) is never.
    type: int
    default: 0
  idle_timeout:
    description: C(IdleTimeLimit), in seconds. V(0) is never.
    type: int
    default: 0
  clipboard_in:
    description: Whether what was copied on the client can be pasted here.
    type: bool
    default: true
  clipboard_out:
    description: Whether what was copied here can be pasted on the client.
    type: bool
    default: true
  drive_redirection:
    description: Whether the client's drives appear in the session.
    type: bool
    default: false
  sound:
    description: Whether sound is sent to the client.
    type: bool
    default: true
  session_env:
    description: Variables of every session.
    type: dict
    default: {}
  ini_overrides:
    description: Further options of C(xrdp.ini), by section and name.
    type: dict
    default: {}
  sesman_overrides:
    description: Further options of C(sesman.ini), by section and name.
    type: dict
    default: {}
  allow_disruption:
    description: Whether sessions may be ended.
    type: bool
    default: false
notes:
  - Run it as root. Whether users have a password is read, the hashes are not returned.
seealso:
  - module: rigwright.workstation.config_files
  - module: rigwright.workstation.ssh_plan
"""

EXAMPLES = r"""
- name: Plan a remote desktop for the local network
  rigwright.workstation.xrdp_plan:
    networks: [192.168.1.0/24]
    users: [alice]
    tls_names: [workstation.example.org]
    packages: [xrdp, xorgxrdp]
  register: plan

- name: Refuse what would not work
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
managed:
  description: Whether an earlier run has left something here.
  returned: always
  type: bool
backend:
  description: What serves the desktop.
  returned: always
  type: str
  sample: xrdp
desktop:
  description: The desktop that is served.
  returned: always
  type: str
  sample: xfce
command:
  description: What starts the desktop. Empty for what the host starts by itself.
  returned: always
  type: str
  sample: startxfce4
missing:
  description: The packages that are not installed yet.
  returned: always
  type: list
  elements: str
  sample: [xrdp, xorgxrdp]
files:
  description: The files that are no templates, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/xrdp/xrdp.ini, content: "[Globals]\nport=tcp://127.0.0.1:3389\n"}]
listener:
  description: The options that xrdp reads only when it starts.
  returned: always
  type: list
  elements: str
  sample: ["port=tcp://127.0.0.1:3389"]
certificate:
  description: Paths of the certificate and of its key.
  returned: always
  type: list
  elements: str
  sample: [/etc/xrdp/tls/server.crt, /etc/xrdp/tls/server.key]
groups:
  description: What M(rigwright.workstation.group_members) has to do. Empty when the group is as it should be.
  returned: always
  type: list
  elements: dict
  sample: [{name: xrdp-users, system: true, members: [alice], append: false}]
units:
  description: xrdp's units, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: xrdp.service, enabled: true, restart_on: [/etc/systemd/system/xrdp.service.d/rigwright.conf], may_restart: true}]
sessions:
  description: Users who have a desktop that would end with a restart.
  returned: always
  type: list
  elements: str
  sample: [alice]
gnome_configured:
  description: Whether GNOME's remote login is told what is asked for.
  returned: always
  type: bool
gnome_managed:
  description: Whether an earlier run has set GNOME's remote login up.
  returned: always
  type: bool
shared_directory:
  description: Whether the packaged units share a runtime directory, which each of them gives to its own user.
  returned: always
  type: bool
auth_log:
  description: Whether this host has the log file that fail2ban's own jail for ssh reads.
  returned: always
  type: bool
fail2ban_idle:
  description: Whether fail2ban neither runs nor starts at boot, as one that is not installed.
  returned: always
  type: bool
requirements:
  description: What speaks against the request, as M(rigwright.workstation.require) takes it. Empty when nothing does.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: xrdp_users, problem: "names no user of this host: alcie", remedy: "make them first, or correct the name"}]
findings:
  description: What is left to do or was proven, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: xrdp.tls, status: pass, evidence: "a client that can do TLS is answered with TLS", remedy: ""}]
"""

import contextlib
import dataclasses
import datetime
import grp
import hashlib
import json
import os
import pwd
import re
import stat
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    PRINTED,
    days_left,
    parse_certificate,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop, proof
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import grdctl as xrdp_grdctl
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import plan as xrdp_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.sessions import (
    MANAGER,
    Process,
    find_sessions,
)

SESSION_MANAGER = "/usr/bin/x-session-manager"
SESMAN_UNIT = "/usr/lib/systemd/system/xrdp-sesman.service"
AUTH_LOG = "/var/log/auth.log"
DISPLAY_MANAGER = "/etc/X11/default-display-manager"
DEFAULT_TARGET = "/etc/systemd/system/default.target"
# Where the service does not see what lies there (the drop-in's ProtectHome and PrivateTmp).
HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - to refuse, not to use


def read(path: str) -> str:
    """A file's text, empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def moment() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def names_in(directory: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(name.rpartition(".")[0] for name in os.listdir(directory) if name.endswith(".desktop"))
    return []


def members(name: str) -> list[str] | None:
    try:
        return sorted(grp.getgrnam(name).gr_mem)
    except KeyError:
        return None


def primary_members(name: str) -> list[str]:
    """Users whose own group it is. The group does not list them, and xrdp lets them in."""
    try:
        number = grp.getgrnam(name).gr_gid
    except KeyError:
        return []
    return sorted(entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == number)


def password_kinds(shadow: str) -> dict[str, str]:
    """Whether users have a password by what stands in /etc/shadow."""
    kinds = {}
    for line in shadow.splitlines():
        name, password = [*line.split(":"), ""][:2]
        kinds[name] = "empty" if not password else "none" if password[0] in "!*" else "set"
    return kinds


class Host:
    """What is read on the host, and with which programs."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        # What config_files has put in place of something else.
        self.replaced = Store("xrdp").load()

    def look(self) -> xrdp_plan.Seen:
        packages = self._packages()
        record = json.loads(read(xrdp_plan.RECORD) or "{}")
        group, primary = members(self.params["allowed_group"]), primary_members(self.params["allowed_group"])
        processes = self._processes()
        return xrdp_plan.Seen(
            packages=packages,
            packaged={path: self._packaged(path, packages) for path in (xrdp_plan.XRDP_INI, xrdp_plan.SESMAN_INI)},
            users=self._users({*self.params["users"], *(group or ()), *primary}),
            members=group,
            primary_members=primary,
            former_members=members(record["group"]) if record else None,
            x_sessions=names_in("/usr/share/xsessions"),
            wayland_sessions=names_in("/usr/share/wayland-sessions"),
            manager=os.path.basename(os.path.realpath(SESSION_MANAGER)) if os.path.exists(SESSION_MANAGER) else "",
            sessions=find_sessions(processes),
            running=any(process.name == MANAGER for process in processes),
            console=self._console(),
            record=record,
            managed=bool(self.replaced),
            auth_log=os.path.exists(AUTH_LOG),
            check_mode=self.module.check_mode,
        )

    def _packages(self) -> dict[str, str]:
        shown = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package} ${Version}\n"]
        _rc, out, _err = self.module.run_command(shown, check_rc=True)
        return {
            words[1]: words[2] for words in map(str.split, out.splitlines()) if len(words) == 3 and words[0] == "ii"
        }

    def _packaged(self, path: str, packages: t.Mapping[str, str]) -> str:
        """A configuration file as the package brought it, by the checksum that dpkg keeps.

        It lies in its place, beside it after an upgrade that kept what was there, or where config_files keeps what it replaced.
        Where somebody had edited it before, that is what is built upon.
        """
        replaced = self.replaced.get(path)
        kept = (replaced.original.content or b"").decode(errors="replace") if replaced else ""
        if "xrdp" in packages:
            _rc, out, _err = self.module.run_command(["dpkg-query", "--show", "--showformat", "${Conffiles}", "xrdp"])
            found = re.search(rf"^ {re.escape(path)} ([0-9a-f]{{32}})", out, re.MULTILINE)
            texts = [read(place) for place in (path, f"{path}.dpkg-dist", f"{path}.dpkg-new")] + [kept]
            for text in texts if found else []:
                if hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() == t.cast("re.Match[str]", found)[1]:
                    return text
        return kept or read(path)

    def _users(self, names: t.Collection[str]) -> dict[str, str]:
        kinds = password_kinds(read("/etc/shadow"))
        found = {}
        for name in names:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                found[name] = "missing"
                continue
            # A directory service keeps passwords elsewhere.
            found[name] = "root" if entry.pw_uid == 0 else kinds.get(name, "set")
        return found

    def _processes(self) -> list[Process]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # The name, in brackets, may hold anything.
                name, _bracket, fields = read(f"/proc/{pid}/stat").partition("(")[2].rpartition(")")
                if fields:
                    uid = os.stat(f"/proc/{pid}").st_uid
                    with contextlib.suppress(KeyError):
                        found.append(Process(int(pid), int(fields.split()[1]), name, pwd.getpwuid(uid).pw_name))
        return found

    def _console(self) -> list[str]:
        """Users with a desktop at a seat of the machine."""
        loginctl = self.module.get_bin_path("loginctl")
        if not loginctl:
            return []
        _rc, out, _err = self.module.run_command([loginctl, "--no-legend", "--no-pager", "list-sessions"])
        ids = [line.split()[0] for line in out.splitlines() if line.split()]
        if not ids:
            return []
        # One option for each: with several in one, loginctl 257 says nothing.
        wanted = [f"--property={name}" for name in ("Name", "Seat", "Type", "Class", "State")]
        shown = [loginctl, *wanted, "show-session", *ids]
        _rc, out, _err = self.module.run_command(shown)
        blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in out.split("\n\n")]
        return [
            block["Name"]
            for block in blocks
            if block.get("Seat") and block.get("Class") == "user" and block.get("Type") in ("x11", "wayland", "mir")
        ]

    def gnome(self, backend: str) -> xrdp_gnome.Seen:
        """What GNOME's remote login is told, and whose desktops hang on it. Where it never was the backend, nobody is asked."""
        managed = xrdp_gnome.DROP_IN in self.replaced
        if backend != "gnome" and not managed:
            return xrdp_gnome.Seen()
        grdctl = xrdp_grdctl.find(self.module.run_command)
        settings = None
        if grdctl:
            with contextlib.suppress(xrdp_grdctl.GrdctlError):
                settings = grdctl.settings()
        target = os.path.basename(os.path.realpath(DEFAULT_TARGET))
        return xrdp_gnome.Seen(
            settings=settings,
            sessions=xrdp_grdctl.sessions(self.module.run_command),
            display_manager=os.path.basename(read(DISPLAY_MANAGER).strip()),
            boots_to=target if os.path.lexists(DEFAULT_TARGET) else "graphical.target",
            managed=managed,
        )

    # The user's own certificate

    def own_certificate(self, account: str) -> xrdp_plan.Certificate | None:
        """``account`` is the one that has to read it."""
        self.account = account
        params = self.params
        if params["state"] == "absent" or not (params["tls_cert"] or params["tls_cert_content"]):
            return None
        if params["tls_cert"]:
            problem = self._unreadable(params["tls_cert"], secret=False) or self._unreadable(
                params["tls_key"], secret=True
            )
            if problem:
                return xrdp_plan.Certificate(problem)
            return self._judged(read(params["tls_cert"]), read(params["tls_key"]))
        return self._judged(params["tls_cert_content"], params["tls_key_content"])

    def _judged(self, certificate: str, key: str) -> xrdp_plan.Certificate:
        """Through pipes, so that a key is written nowhere."""
        rc, out, _err = self._openssl(certificate, "x509", *PRINTED, "-startdate")
        if rc != 0:
            return xrdp_plan.Certificate("is no certificate as PEM")
        found = parse_certificate(out)
        # An empty passphrase: openssl would ask for one.
        rc, public, _err = self._openssl(key, "pkey", "-pubout", "-passin", "pass:")
        if rc != 0:
            return xrdp_plan.Certificate(
                "has no key as PEM beside it, or one with a passphrase, for which nobody is there to type"
            )
        if public.strip() != found.public_key.strip():
            return xrdp_plan.Certificate("does not belong to its key: that is another one's")
        now = moment()
        start = re.search(r"^notBefore=(.+)Z$", out, re.MULTILINE)
        begins = datetime.datetime.fromisoformat(start[1]).replace(tzinfo=datetime.timezone.utc) if start else now
        if found.not_after <= now:
            return xrdp_plan.Certificate(f"has ended on {found.not_after:%Y-%m-%d}")
        if begins > now:
            return xrdp_plan.Certificate(f"begins on {begins:%Y-%m-%d}")
        return xrdp_plan.Certificate(days=days_left(found, now), names=sorted(found.names))

    def _openssl(self, text: str, *arguments: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            [self.module.get_bin_path("openssl", required=True), *arguments], data=text, binary_data=False
        )
        return answer

    def _unreadable(self, path: str, secret: bool) -> str:
        """Why xrdp cannot use a file, or others can as well."""
        if path.startswith(HIDDEN):
            return f"lies where xrdp, which sees no homes and no temporary files, does not see it: {path}"
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            return f"cannot be read: {path}: {error.strerror}"
        if not stat.S_ISREG(mode):
            return f"is no file: {path}"
        if secret and mode & stat.S_IROTH:
            return f"has a key that every user of this host can read: {path}"
        with contextlib.suppress(KeyError):
            pwd.getpwnam(self.account)
            rc, _out, _err = self.module.run_command(["runuser", "-u", self.account, "--", "test", "-r", path])
            if rc != 0:
                return f"cannot be read by the user {self.account}: {path} (`chgrp {self.account}`, `chmod 640`, and its directories)"
        return ""

    def fingerprint(self, path: str) -> str:
        """SHA-256 of a certificate's file, empty where there is none."""
        rc, out, _err = self._openssl(read(path), "x509", *PRINTED)
        return parse_certificate(out).fingerprint if rc == 0 else ""


def texts(overrides: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Options as xrdp writes them: `true` for a boolean, a number as its digits."""

    def text(value: t.Any) -> t.Any:
        if isinstance(value, list):
            return [text(one) for one in value]
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {
        section: {str(name): text(value) for name, value in options.items()} if isinstance(options, dict) else options
        for section, options in overrides.items()
    }


def run(module: AnsibleModule) -> dict[str, t.Any]:
    params = module.params
    for name in ("ini_overrides", "sesman_overrides"):
        params[name] = texts(params[name])
    for name in ("session_env", "gnome_environment"):
        params[name] = texts({"": params[name]})[""]
    host = Host(module)
    seen = host.look()
    decision = xrdp_plan.decide(params, seen)
    account = "xrdp" if decision.backend == "xrdp" else gnome_remote_desktop.ACCOUNT
    seen = dataclasses.replace(seen, certificate=host.own_certificate(account))
    gnome = host.gnome(decision.backend)
    if decision.backend == "gnome":
        return plan_gnome(params, host, seen, gnome, decision)
    requirements = xrdp_plan.requirements(params, seen, decision) + xrdp_gnome.absence_faults(params, gnome)
    # What is wrong by itself is not built.
    files = [] if requirements else xrdp_plan.files(params, seen, decision)
    contents = {file["path"]: file["content"] for file in files}
    findings = xrdp_plan.findings(params, seen, decision)
    certificate, key = xrdp_plan.certificate_paths(params)
    if params["proof"]:
        in_force = {path: read(path) == content for path, content in contents.items()}
        findings += proof.findings(proof.ask(params["port"]), host.fingerprint(certificate), in_force)
    return {
        "managed": seen.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": xrdp_plan.command(params, decision),
        "missing": xrdp_plan.missing_packages(params, seen, decision),
        "files": files,
        "listener": xrdp_plan.listener(contents.get(xrdp_plan.XRDP_INI, "")),
        "certificate": [certificate, key],
        "groups": xrdp_plan.groups(params, seen),
        "units": xrdp_plan.units(params, seen, decision),
        "sessions": xrdp_plan.open_sessions(seen),
        "gnome_configured": False,
        "gnome_managed": gnome.managed,
        "shared_directory": "RuntimeDirectory=" in read(SESMAN_UNIT),
        "auth_log": seen.auth_log,
        "fail2ban_idle": fail2ban.is_idle(host.module.run_command),
        "requirements": requirements,
        "findings": findings,
    }


def plan_gnome(
    params: t.Mapping[str, t.Any],
    host: Host,
    seen: xrdp_plan.Seen,
    gnome: xrdp_gnome.Seen,
    decision: xrdp_plan.Decision,
) -> dict[str, t.Any]:
    """The same where GNOME serves its own desktop. What an earlier run has done for xrdp is taken back."""
    absent = {**params, "state": "absent"}
    left = bool(seen.record)
    certificate, key = xrdp_gnome.certificate_paths(params)
    requirements = xrdp_gnome.absence_faults(params, gnome) if params["state"] == "absent" else []
    units: list[dict[str, t.Any]] = []
    if left:
        requirements = requirements + xrdp_plan.requirements(absent, seen, decision)
        units += xrdp_plan.units(absent, seen, decision)
    if params["state"] == "present":
        requirements = requirements + xrdp_plan.gnome_requirements(params, seen) + xrdp_gnome.faults(params, gnome)
        units += xrdp_gnome.units(params, gnome)
    findings = xrdp_plan.gnome_findings(params, seen, decision) + xrdp_gnome.findings(params, gnome)
    if params["proof"]:
        findings += xrdp_gnome.proven(params, gnome, proof.ask_gnome(params["port"]), host.fingerprint(certificate))
    return {
        "managed": seen.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": "",
        "missing": [package for package in params["gnome_packages"] if package not in seen.packages],
        "files": [],
        "listener": [],
        "certificate": [certificate, key],
        "groups": xrdp_plan.groups(absent, seen),
        "units": units,
        "sessions": list(gnome.sessions),
        "gnome_configured": xrdp_gnome.configured(params, gnome),
        "gnome_managed": gnome.managed,
        "shared_directory": False,
        "auth_log": seen.auth_log,
        "fail2ban_idle": fail2ban.is_idle(host.module.run_command),
        "requirements": requirements,
        "findings": findings,
    }


def main() -> None:
    no, yes = {"type": "bool", "default": False}, {"type": "bool", "default": True}
    text, texts_, table = (
        {"type": "str", "default": ""},
        {"type": "list", "elements": "str", "default": []},
        {"type": "dict", "default": {}},
    )
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "proof": no,
            "backend": {"type": "str", "choices": ["auto", "xrdp", "gnome"], "default": "auto"},
            "desktop": {"type": "str", "default": "auto"},
            "desktops": table,
            "gnome_x11": yes,
            "gnome_environment": table,
            "packages": texts_,
            "gnome_packages": texts_,
            "gnome_login": yes,
            "machine_user": {"type": "str", "default": "workstation"},
            "machine_password": {**text, "no_log": True},
            "port": {"type": "int", "default": 3389},
            "networks": texts_,
            "users": texts_,
            "allowed_group": {"type": "str", "default": "xrdp-users"},
            "tls_cert": text,
            "tls_key": {**text, "no_log": False},
            "tls_cert_content": text,
            "tls_key_content": {**text, "no_log": True},
            "tls_names": texts_,
            "max_sessions": {"type": "int", "default": 10},
            "max_login_retry": {"type": "int", "default": 4},
            "kill_disconnected": no,
            "disconnected_timeout": {"type": "int", "default": 0},
            "idle_timeout": {"type": "int", "default": 0},
            "clipboard_in": yes,
            "clipboard_out": yes,
            "drive_redirection": no,
            "sound": yes,
            "session_env": table,
            "ini_overrides": table,
            "sesman_overrides": table,
            "allow_disruption": no,
            **fail2ban.OPTIONS,
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="xrdp_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **run(module))


if __name__ == "__main__":
    main()
