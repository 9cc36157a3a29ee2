# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan for a request, from the facts of the host."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import missing_packages
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Packages, Pending, Plan, stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import DirectoryRow, FileRow
from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import (
    checks,
    config,
    directories,
    findings,
    user_database,
    users,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import facts as host
from ansible_collections.rigwright.workstation.plugins.module_utils._system import ports, systemd

ROOT = "/"
BEFORE = "/var/lib/rigwright_samba/before.json"
TESTPARM = "/usr/bin/testparm"
SMBD = "/usr/sbin/smbd"
PDBEDIT = "/usr/bin/pdbedit"
MODULES = "/usr/lib/*/samba/vfs"
# The smb.conf that the package installs.
PACKAGED = "/usr/share/samba/smb.conf"


def read_before(tree: Tree) -> host.Before | None:
    """Return the state of the host before the role; None where the role never ran.

    :raises Damaged: the record is damaged.
    """
    remedy = "restore it, or remove it, and what the host has now counts as its state before the role"
    shape = {"installed": bool, "units": {str: {"enabled": bool, "active": bool}}}
    return t.cast("host.Before | None", record.read(tree.at(BEFORE), remedy, shape))


class Planner:
    """One request, with the facts of the host."""

    def __init__(self, module: Runner, request: dict[str, t.Any]) -> None:
        self.module = module
        self.params = request
        self.host = host.Host(ROOT)
        self.installed = os.path.exists(TESTPARM) and os.path.exists(SMBD)
        self.planned: dict[str, t.Any] = request["planned"]
        self.coming = [row["target"] for row in self.planned.get("mounts") or []]
        self.networks = checks.networks_of(self.params)

    def run(self) -> Plan:
        present = self.params["state"] == "present"
        wrong = list(checks.problems_of_request(self.params)) if present else []
        wrong += users.problems_of_request(self.params["users"], self._uids()) if present else []
        mounts = self._mounts()
        windows = self.params["discovery"] == "wsdd" or (self.params["discovery"] == "auto" and bool(self.networks))
        macos = config.macos(self.params) and bool(self.networks)
        texts = self._texts(mounts)
        # What is wrong by itself is not tried: testparm would only say so again.
        tried = self._try("".join(texts)) if present and self.installed and not wrong else {}
        accounts_now = self._accounts()
        facts = self._facts(mounts, tried, accounts_now or {})
        wrong += [*checks.problems_on_host(self.params, facts), *self._port_problems(windows)] if present else []
        recorded = read_before(self.host)
        before = recorded or (self._before_now() if present else None)
        wanted = self._directories(mounts, facts.real) if present else []
        announces = self.host.exists(host.drop_in(self.params))
        packages = self._packages(before, windows, macos, record_due=not recorded) if present else Packages()
        return Plan(
            requirements=wrong,
            findings=findings.findings(self.params, facts),
            packages=packages,
            directories=self._folders(windows, macos),
            files=[] if wrong else self._files(windows, macos),
            checks=[f"{TESTPARM} -s --suppress-prompt {config.CONFIGURATION}"],
            units=host.units(self.params, before, windows, macos, facts.connected, announces),
            pending=Pending(
                "samba.pending",
                waits=f"still listens as before: connected are {', '.join(facts.connected)}",
                done="Samba runs with this configuration",
                remedy="run again when they are gone (`smbstatus`), or set samba_allow_disruption",
            ),
            values={
                "installed": self.installed,
                "smb_conf": texts[0],
                "listen": texts[1],
                "interfaces": self.host.interfaces(self.networks),
                "windows": windows,
                "macos": macos,
                "share_directories": wanted,
                "share_directories_due": self._directories_due(wanted) if not wrong else bool(wanted),
                **self._users(facts, wrong, accounts_now is not None, texts[0] if present else ""),
                "mounts": mounts,
            },
        )

    def _packages(self, before: host.Before | None, windows: bool, macos: bool, record_due: bool) -> Packages:
        """Return the packages. The record of the host is written before them, since `absent` restores that state."""
        missing = self._missing(windows, macos)
        # They let guests in, as their packages configure them.
        new = [] if self.installed or not missing else [host.SMBD, *host.OTHERS]
        new += [self.params["discovery_unit"]] if {*self.params["packages"]["windows"]} & {*missing} else []
        return Packages(
            directories=[{"path": os.path.dirname(BEFORE)}],
            files=[{"path": BEFORE, "content": json.dumps(before, sort_keys=True)}],
            files_due=record_due,
            install=missing,
            new_units=stopped(*new),
        )

    def _folders(self, windows: bool, macos: bool) -> list[DirectoryRow]:
        paths = ["/etc/samba", *rules.FOLDERS]
        paths += [os.path.dirname(host.drop_in(self.params))] if windows else []
        paths += ["/etc/avahi", "/etc/avahi/services"] if macos else []
        return [{"path": path} for path in paths]

    def _files(self, windows: bool, macos: bool) -> list[FileRow]:
        ports = host.ports(self.params["port"], windows, macos)
        found: list[FileRow] = [
            {"path": config.CONFIGURATION},
            {"path": config.LISTEN},
            rules.file(ports, self.params["networks"], "samba"),
        ]
        if windows:
            template = "etc/systemd/system/wsdd2.service.d/rigwright.conf.j2"
            found.append({"path": host.drop_in(self.params), "template": template})
        if macos:
            found.append({"path": "/etc/avahi/services/rigwright-samba.service"})
        return found

    def _uids(self) -> dict[str, int]:
        named = {user["name"] for user in self.params["users"]}
        named |= {share["owner"] for share in self.params["shares"] if share["owner"]}
        return accounts.uids_of(named)

    def _groups(self) -> list[str]:
        """Return the groups of the request that the host has. Each is looked up: a directory service may not list its groups."""
        named = {
            word.lstrip("@")
            for share in self.params["shares"]
            for word in (*share["valid_users"], *share["write_list"], share["group"] or "")
            if word.startswith("@") or word == share["group"]
        }
        found = [name for name in named if name in (self.planned.get("groups") or [])]
        return found + [name for name in named - {*found} if accounts.group(name)]

    def _mounts(self) -> dict[str, str]:
        points = [*self.host.mount_points(), *self.coming]
        required = config.mounts_required(self.host.text(config.CONFIGURATION))
        found = {
            share["path"]: checks.mount_for(share, os.path.realpath(share["path"]), points, required)
            for share in self.params["shares"]
        }
        return {path: mount for path, mount in found.items() if mount}

    def _texts(self, mounts: t.Mapping[str, str]) -> tuple[str, str]:
        """Return smb.conf without its first comment and its sockets, and the sockets."""
        sections = [config.text_of("global", config.global_section(self.params, self.networks))]
        sections += [
            config.text_of(share["name"], config.share_section(self.params, share, mounts.get(share["path"], "")))
            for share in self.params["shares"]
        ]
        return "\n".join(sections), config.text_of("global", config.listen_section(self.params))

    def _facts(
        self, mounts: t.Mapping[str, str], tried: dict[str, t.Any], accounts_now: dict[str, users.Account]
    ) -> checks.Facts:
        paths = {share["path"] for share in self.params["shares"]} | set(self.params["allowed_roots"])
        return checks.Facts(
            uids=self._uids(),
            groups=self._groups(),
            real={path: os.path.realpath(path) for path in paths},
            links={path: link for path in paths if (link := host.foreign_link(path))},
            directories=[path for path in paths if os.path.isdir(path)],
            mounts=mounts,
            mounted=[mount for mount in set(mounts.values()) if mount in self.coming or os.path.ismount(mount)],
            modules=self.host.vfs_modules(MODULES) if self.installed else None,
            accounts=accounts_now,
            record=user_database.read_record(self.host),
            connected=self.host.connected(self.params["port"]),
            given_up=self._given_up(),
            check=self.module.check_mode,
            planned=[*(self.planned.get("directories") or []), *self.coming],
            **tried,
        )

    def _given_up(self) -> list[str]:
        """Return the shares of the smb.conf that the role replaces, or has replaced."""
        record = Store("samba", ROOT.rstrip("/") + STORE).load().get(config.CONFIGURATION)
        text = (
            (record.original.content or b"").decode("utf-8", "replace")
            if record
            else self.host.text(config.CONFIGURATION)
        )
        names = [share["name"] for share in self.params["shares"]]
        if self.params["state"] != "present":
            return []
        return config.given_up(text, names, self.host.text(PACKAGED), self.host.usershares())

    def _try(self, text: str) -> dict[str, t.Any]:
        """Return what testparm reports about the configuration."""
        with tempfile.NamedTemporaryFile("w", prefix="rigwright_samba_", suffix=".conf", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            rc, out, err = self.module.run_command([TESTPARM, "-s", "--suppress-prompt", file.name])
        lines = [line for line in err.splitlines() if line and not line.startswith(("Load smb", "Loaded services"))]
        return {
            "unknown": config.unknown_parameters(err),
            "open_settings": config.open_settings(config.read_sections(out), lambda name: accounts.uid_of(name) == 0),
            "refused": "; ".join(lines[-5:]).replace(file.name, "smb.conf") if rc != 0 else "",
        }

    def _accounts(self) -> dict[str, users.Account] | None:
        """Return the accounts of the database that smb.conf names now; None where it cannot be read."""
        if not os.path.exists(PDBEDIT):
            return {}
        rc, out, _err = self.module.run_command([PDBEDIT, "-L", "-w"])
        return users.parse_accounts(out) if rc == 0 else None

    def _users(self, facts: checks.Facts, wrong: t.Sequence[t.Any], is_readable: bool, text: str) -> dict[str, t.Any]:
        """Return whether users change, and what samba_users then does. It looks itself where that cannot be planned.

        :param is_readable: whether the accounts of the facts are those of the database.
        :param text: the smb.conf to come.
        """
        wanted = self.params["users"] if self.params["state"] == "present" else []
        if wrong or not self.installed:
            return {"users_due": bool(wanted), "users": None}
        if not is_readable:
            return {"users_due": bool(wanted or facts.record), "users": None}
        plan = users.plan(facts.accounts, wanted, facts.record)
        # Another database than that of now may have other users.
        backend = config.backend(self.host.text(config.CONFIGURATION))
        is_same = bool(backend) and backend == (config.backend(text) or backend)
        return {"users_due": plan.is_due, "users": dataclasses.asdict(plan) if is_same else None}

    def _directories(self, mounts: t.Mapping[str, str], real: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
        return [
            {
                "path": real[share["path"]],
                "owner": share["owner"],
                "group": share["group"],
                "mode": share["mode"],
                "default_acl": share["default_acl"],
                "mount": mounts.get(share["path"], ""),
            }
            for share in self.params["shares"]
            if share["owner"] or share["group"] or share["mode"] or share["default_acl"]
        ]

    def _directories_due(self, entries: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
        record = directories.read_record(self.host)
        wanted = directories.wanted_of(entries, self.planned.get("groups") or [])
        plan = directories.plan(directories.read_all(wanted, record), wanted, record)
        return bool(plan.states) or plan.record != record

    def _port_problems(self, windows: bool) -> list[Problem]:
        listeners, unit = self.params["listeners"], self.params["discovery_unit"]
        found = ports.port_problems({"samba_port": self.params["port"]}, listeners, host.SMBD)
        if windows:
            found += ports.port_problems({"samba_discovery": host.DISCOVERY_PORT}, listeners, unit, "udp")
        return found

    def _missing(self, windows: bool, macos: bool) -> list[str]:
        packages = self.params["packages"]
        hashes = any(user.get("nt_hash") for user in self.params["users"])
        wanted = [
            *packages["server"],
            *(packages["windows"] if windows else ()),
            *(packages["macos"] if macos else ()),
            *(packages["hashes"] if hashes else ()),
        ]
        return missing_packages(self.module.run_command, wanted)

    def _before_now(self) -> host.Before:
        names = host.unit_names(self.params)
        shown = systemd.show(self.module.run_command, names, ("LoadState", "ActiveState", "UnitFileState"))
        loaded = {name: unit for name, unit in shown.items() if unit["LoadState"] == ["loaded"]}
        return {
            "installed": self.installed,
            "units": {
                name: {"enabled": unit["UnitFileState"] == ["enabled"], "active": unit["ActiveState"] == ["active"]}
                for name, unit in loaded.items()
            },
        }
