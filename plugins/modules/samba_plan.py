#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_plan
short_description: Plan Samba on a host, and refuse what nobody should serve
description:
  - Reads what is on the host (packages, users, disks, Samba's modules and its database), and returns what the role C(samba) has to do, and
    why it may not. Changes nothing itself.
  - Samba's own C(testparm) is asked for the configuration to come, and not only for its exit status, as it lets pass what it does not know.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - A directory that is missing is no reason to refuse there, as an earlier role may be about to make it.
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans to give back what the role brought.
    type: str
    choices: [present, absent]
    default: present
  workgroup:
    description:
      - The workgroup under which Windows shows the host.
    type: str
    default: WORKGROUP
  server_string:
    description:
      - What clients are told of the host.
    type: str
    default: ""
  min_protocol:
    description:
      - The oldest protocol that is served, from V(SMB2_10) to V(SMB3_11).
    type: str
    default: SMB3_11
  encrypt:
    description:
      - V(required) refuses clients that do not encrypt, V(desired) encrypts with those that can, V(default) with those that ask for it.
    type: str
    choices: [default, desired, required]
    default: desired
  port:
    description:
      - TCP port of the server.
    type: int
    default: 445
  networks:
    description:
      - Networks whose hosts may come, beside the host itself.
    type: list
    elements: str
    default: []
  allowed_roots:
    description:
      - Directories in which shares may lie.
    type: list
    elements: str
    default: [/data, /srv, /home, /mnt, /media, /scratch]
  users:
    description:
      - The users of M(rigwright.workstation.samba_users) as JSON. In one text, since Ansible would take a password out of every result
        that has the same letters.
    type: json
    default: "[]"
  shares:
    description:
      - The shares.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      path:
        description: Its directory.
        type: str
        required: true
      comment:
        description: What clients are told of it.
        type: str
        default: ""
      valid_users:
        description: Users, and groups with V(@) before them, who are let in. Empty lets in all users of O(users).
        type: list
        elements: str
        default: []
      write_list:
        description: Those who may write although it is read-only.
        type: list
        elements: str
        default: []
      read_only:
        description: Whether nobody else writes.
        type: bool
        default: true
      browseable:
        description: Whether it stands in the list of shares.
        type: bool
        default: true
      guest_ok:
        description: Whether it is open to guests, which is refused.
        type: bool
        default: false
      owner:
        description: Owner of the directory.
        type: str
      group:
        description: Group of the directory and of what is put there.
        type: str
      mode:
        description: Mode of the directory in octal digits; new files and directories take their rights from it.
        type: raw
      default_acl:
        description: Whether these rights hold for what is made there without Samba, too.
        type: bool
        default: false
      encrypt:
        description: As O(encrypt), for this share.
        type: str
        choices: [default, desired, required]
      mount:
        description: Where its disk is mounted. V(auto) finds out, V(none) needs none.
        type: str
        default: auto
      time_machine:
        description: Whether Macs may put their backups there.
        type: bool
        default: false
      max_size:
        description: What these may take, such as V(2T).
        type: str
        default: ""
      vfs_objects:
        description: VFS modules.
        type: list
        elements: str
        default: []
      options:
        description: Any other parameter of smb.conf(5).
        type: dict
        default: {}
  global_options:
    description:
      - Any other parameter of the server.
    type: dict
    default: {}
  macos:
    description:
      - Whether Macs are served as such.
    type: bool
    default: false
  discovery:
    description:
      - Whether Windows finds the host. V(auto) is V(wsdd) as soon as O(networks) names one.
    type: str
    choices: [auto, wsdd, none]
    default: auto
  packages:
    description:
      - The packages on this platform by what they are for, C(server), C(windows), C(macos) and C(hashes).
    type: dict
    required: true
  discovery_unit:
    description:
      - The unit that answers Windows on this platform.
    type: str
    default: wsdd2.service
  allow_disruption:
    description:
      - Whether smbd may be restarted while clients are connected.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.samba_users
  - module: rigwright.workstation.samba_directories
"""

EXAMPLES = r"""
- name: Plan a share
  rigwright.workstation.samba_plan:
    packages: {server: [samba], windows: [wsdd2], macos: [avahi-daemon], hashes: [python3-samba]}
    users: "{{ samba_users | to_json }}"
    shares:
      - {name: datasets, path: /data/datasets, valid_users: ["@ml"]}
  register: plan

- name: Refuse a share outside of the disks of data
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
installed:
  description: Whether Samba is installed.
  returned: success
  type: bool
requirements:
  description: What is not as it has to be, as M(rigwright.workstation.require) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: samba_shares (all), problem: "shares / where the system itself lies", remedy: "share ..."}]
findings:
  description: What there is to say, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{id: samba.disks, status: pass, evidence: "every share that lies on a disk has it", remedy: "mount ..."}]
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [samba]
before:
  description: What the host was before the role, as the content of a file.
  returned: success
  type: str
  sample: '{"installed": false, "units": {}}'
before_due:
  description: Whether that file is still to be written.
  returned: success
  type: bool
smb_conf:
  description: The configuration, without its first comment.
  returned: success
  type: str
listen:
  description: The part of it that smbd reads only when it starts.
  returned: success
  type: str
ports:
  description: The ports of the network that are in use, as P(rigwright.workstation.firewall_rules#filter) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{port: 445, protocol: tcp}]
interfaces:
  description: The network interfaces whose addresses lie in O(networks).
  returned: success
  type: list
  elements: str
  sample: [eth0]
windows:
  description: Whether the host is announced to Windows.
  returned: success
  type: bool
macos:
  description: Whether it is announced to Macs.
  returned: success
  type: bool
units:
  description: What M(rigwright.workstation.systemd_units) has to bring about; with O(state=absent), once the files are given back.
  returned: success
  type: list
  elements: dict
  sample: [{name: smbd.service, enabled: true, reload_on: [/etc/samba/smb.conf]}]
stop:
  description: Units that end, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: nmbd.service, state: stopped, enabled: false}]
connected:
  description: Addresses of the clients that are connected.
  returned: success
  type: list
  elements: str
  sample: [192.168.1.20]
directories:
  description: What M(rigwright.workstation.samba_directories) has to bring about.
  returned: success
  type: list
  elements: dict
  sample: [{path: /data/datasets, group: ml, mode: "2775", default_acl: true, mount: /data}]
directories_due:
  description: Whether it has something to do.
  returned: success
  type: bool
users_due:
  description: Whether M(rigwright.workstation.samba_users) has something to do.
  returned: success
  type: bool
mounts:
  description: Where disks have to be mounted, by the path of the share.
  returned: success
  type: dict
  sample: {/data/datasets: /data}
"""

import grp
import json
import os
import pwd
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import checks as samba_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import config, directories, users
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import facts as host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_show

ROOT = "/"
BEFORE = "/var/lib/rigwright_samba/before.json"
TESTPARM = "/usr/bin/testparm"
SMBD = "/usr/sbin/smbd"
PDBEDIT = "/usr/bin/pdbedit"
MODULES = "/usr/lib/*/samba/vfs"
TEXT_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}


class Planner:
    """One request, weighed against what the host is."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        # Whoever is asked for as JSON is a list of dictionaries; the role's argument spec has seen to what stands in them.
        self.params: dict[str, t.Any] = {**module.params, "users": json.loads(module.params["users"])}
        self.host = host.Host(ROOT)
        self.installed = os.path.exists(TESTPARM) and os.path.exists(SMBD)
        self.planned: dict[str, t.Any] = module.params["planned"] if module.check_mode else {}
        self.coming = [row["target"] for row in self.planned.get("mounts") or []]
        self.networks = samba_plan.networks_of(self.params)

    def run(self) -> dict[str, t.Any]:
        present = self.params["state"] == "present"
        wrong = list(samba_plan.faults(self.params)) if present else []
        wrong += users.faults(self.params["users"], self._uids()) if present else []
        mounts = self._mounts()
        windows = self.params["discovery"] == "wsdd" or (self.params["discovery"] == "auto" and bool(self.networks))
        macos = config.macos(self.params) and bool(self.networks)
        texts = self._texts(mounts)
        # What is wrong by itself is not tried: testparm would only say so again.
        seen = self._look(mounts, "".join(texts) if not wrong else "")
        wrong += samba_plan.host_faults(self.params, seen) if present else []
        known = self._before_on_record()
        before = known or (self._before_now() if present else None)
        wanted = self._directories(mounts, seen.real) if present else []
        return {
            "installed": self.installed,
            "requirements": wrong,
            "findings": samba_plan.findings(self.params, seen),
            "install": self._missing(windows, macos) if present else [],
            "before": json.dumps(before, sort_keys=True),
            "before_due": present and not known,
            "smb_conf": texts[0],
            "listen": texts[1],
            "ports": host.ports(self.params["port"], windows, macos),
            "interfaces": self.host.interfaces(self.networks),
            "windows": windows,
            "macos": macos,
            **host.units(
                self.params, before, windows, macos, seen.connected, self.host.exists(host.drop_in(self.params))
            ),
            "connected": list(seen.connected),
            "directories": wanted,
            "directories_due": self._directories_due(wanted) if not wrong else bool(wanted),
            "users_due": self._users_due(seen, wrong),
            "mounts": mounts,
        }

    def _uids(self) -> dict[str, int]:
        named = {user["name"] for user in self.params["users"]}
        named |= {share["owner"] for share in self.params["shares"] if share["owner"]}
        found = {}
        for name in named:
            try:
                found[name] = pwd.getpwnam(name).pw_uid
            except KeyError:
                continue
        return found

    def _groups(self) -> list[str]:
        """Those of the request that the host has; asked one by one, as a directory service may not list its own."""
        named = {
            word.lstrip("@")
            for share in self.params["shares"]
            for word in (*share["valid_users"], *share["write_list"], share["group"] or "")
            if word.startswith("@") or word == share["group"]
        }
        found = [name for name in named if name in (self.planned.get("groups") or [])]
        for name in named - {*found}:
            try:
                found.append(grp.getgrnam(name).gr_name)
            except KeyError:
                continue
        return found

    def _mounts(self) -> dict[str, str]:
        points = [*self.host.mount_points(), *self.coming]
        required = config.mounts_required(self.host.text(config.CONFIGURATION))
        found = {
            share["path"]: samba_plan.mount_for(share, os.path.realpath(share["path"]), points, required)
            for share in self.params["shares"]
        }
        return {path: mount for path, mount in found.items() if mount}

    def _texts(self, mounts: t.Mapping[str, str]) -> tuple[str, str]:
        """smb.conf without its first comment and its sockets, and these."""
        sections = [config.text_of("global", config.global_section(self.params, self.networks))]
        sections += [
            config.text_of(share["name"], config.share_section(self.params, share, mounts.get(share["path"], "")))
            for share in self.params["shares"]
        ]
        return "\n".join(sections), config.text_of("global", config.listen_section(self.params))

    def _look(self, mounts: t.Mapping[str, str], text: str) -> samba_plan.Seen:
        paths = {share["path"] for share in self.params["shares"]} | set(self.params["allowed_roots"])
        tried = self._try(text) if text and self.installed and self.params["state"] == "present" else {}
        return samba_plan.Seen(
            uids=self._uids(),
            groups=self._groups(),
            real={path: os.path.realpath(path) for path in paths},
            links={path: link for path in paths if (link := host.foreign_link(path))},
            directories=[path for path in paths if os.path.isdir(path)],
            mounts=mounts,
            mounted=[mount for mount in set(mounts.values()) if mount in self.coming or os.path.ismount(mount)],
            modules=self.host.vfs_modules(MODULES) if self.installed else None,
            accounts=self._accounts(),
            record=self._record(users.RECORD) or (),
            connected=self.host.connected(self.params["port"]),
            check=self.module.check_mode,
            planned=[*(self.planned.get("directories") or []), *self.coming],
            **tried,
        )

    def _try(self, text: str) -> dict[str, t.Any]:
        """What testparm makes of the configuration."""
        with tempfile.NamedTemporaryFile("w", prefix="rigwright_samba_", suffix=".conf", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            rc, out, err = self.module.run_command(
                [TESTPARM, "-s", "--suppress-prompt", file.name], environ_update=TEXT_ENVIRONMENT
            )
        said = [line for line in err.splitlines() if line and not line.startswith(("Load smb", "Loaded services"))]
        return {
            "unknown": config.unknown_parameters(err),
            "doors": config.open_doors(config.read_sections(out)),
            "refused": "; ".join(said[-5:]).replace(file.name, "smb.conf") if rc != 0 else "",
        }

    def _accounts(self) -> dict[str, users.Account]:
        if not os.path.exists(PDBEDIT):
            return {}
        rc, out, _err = self.module.run_command([PDBEDIT, "-L", "-w"], environ_update=TEXT_ENVIRONMENT)
        return users.parse_accounts(out) if rc == 0 else {}

    def _record(self, path: str) -> t.Any:
        """What an earlier run has left; one that is damaged is for the module whose it is to refuse."""
        try:
            return json.loads(self.host.text(path) or "null")
        except ValueError:
            return None

    def _users_due(self, seen: samba_plan.Seen, wrong: t.Sequence[t.Any]) -> bool:
        wanted = self.params["users"] if self.params["state"] == "present" else []
        if wrong or not self.installed:
            return bool(wanted)
        plan = users.plan(seen.accounts, wanted, seen.record)
        return bool(plan.changes) or list(plan.record) != sorted(seen.record)

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
        try:
            record = directories.load(self._record(directories.RECORD) or {})
        except (KeyError, TypeError, ValueError):
            return True
        wanted = directories.wanted_of(entries, self.planned.get("groups") or [])
        plan = directories.plan(directories.look(wanted, record), wanted, record)
        return bool(plan.states) or plan.record != record

    def _missing(self, windows: bool, macos: bool) -> list[str]:
        packages = self.params["packages"]
        hashes = any(user.get("nt_hash") for user in self.params["users"])
        wanted = [
            *packages["server"],
            *(packages["windows"] if windows else ()),
            *(packages["macos"] if macos else ()),
            *(packages["hashes"] if hashes else ()),
        ]
        _rc, out, _err = self.module.run_command(
            ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Package}\n", *wanted],
            environ_update=TEXT_ENVIRONMENT,
        )
        there = {line.split()[1] for line in out.splitlines() if line.startswith(("ii", "hi"))}
        return [name for name in wanted if name not in there]

    def _before_on_record(self) -> host.Before | None:
        """What the host was before the role; None where the role never was."""
        known = self._record(BEFORE)
        is_whole = isinstance(known, dict) and {"installed", "units"} <= known.keys()
        return t.cast("host.Before", known) if is_whole else None

    def _before_now(self) -> host.Before:
        names = host.unit_names(self.params)
        _rc, out, _err = self.module.run_command(
            ["systemctl", "show", "--property=Id,Names,LoadState,ActiveState,UnitFileState", *names],
            environ_update=TEXT_ENVIRONMENT,
        )
        shown = parse_show(out, names)
        there = {name: one for name, one in shown.items() if one["LoadState"] == ["loaded"]}
        return {
            "installed": self.installed,
            "units": {
                name: {"enabled": one["UnitFileState"] == ["enabled"], "active": one["ActiveState"] == ["active"]}
                for name, one in there.items()
            },
        }


def main() -> None:
    grade = {"type": "str", "choices": ["default", "desired", "required"]}
    text = {"type": "str", "default": ""}
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "workgroup": {"type": "str", "default": "WORKGROUP"},
            "server_string": text,
            "min_protocol": {"type": "str", "default": "SMB3_11"},
            "encrypt": {**grade, "default": "desired"},
            "port": {"type": "int", "default": 445},
            "networks": names,
            "allowed_roots": {**names, "default": ["/data", "/srv", "/home", "/mnt", "/media", "/scratch"]},
            "users": {"type": "json", "default": "[]", "no_log": True},
            "shares": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "path": {"type": "str", "required": True},
                    "comment": text,
                    "valid_users": names,
                    "write_list": names,
                    "read_only": {"type": "bool", "default": True},
                    "browseable": {"type": "bool", "default": True},
                    "guest_ok": {"type": "bool", "default": False},
                    "owner": {"type": "str"},
                    "group": {"type": "str"},
                    "mode": {"type": "raw"},
                    "default_acl": {"type": "bool", "default": False},
                    "encrypt": grade,
                    "mount": {"type": "str", "default": "auto"},
                    "time_machine": {"type": "bool", "default": False},
                    "max_size": text,
                    "vfs_objects": names,
                    "options": {"type": "dict", "default": {}},
                },
            },
            "global_options": {"type": "dict", "default": {}},
            "macos": {"type": "bool", "default": False},
            "discovery": {"type": "str", "choices": ["auto", "wsdd", "none"], "default": "auto"},
            "packages": {"type": "dict", "required": True},
            "discovery_unit": {"type": "str", "default": "wsdd2.service"},
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="samba_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **Planner(module).run())


if __name__ == "__main__":
    main()
