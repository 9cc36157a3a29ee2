#!/usr/bin/python
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: systemd_units
short_description: Bring systemd units to a state and make them load their current files, in one run
description:
  - Enables, starts, stops, reloads and restarts a list of units; a C(daemon-reload) is done first when systemd asks for one, or
    does not know a drop-in that lies in C(/etc/systemd/system).
  - What a running unit has loaded is compared with what its files are now. There is no handler to lose, so a run that was killed
    between writing a file and restarting the service is completed by the next one.
  - A unit that was started has to stay up; when it does not, the task fails with the last lines of its journal.
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - A unit that does not exist yet counts as one that would be started.
      - O(units[].validate) is not run when O(changed_paths) names something, since the files are not yet what it would judge.
  diff_mode:
    support: full
    details:
      - Each unit's state before and after.
options:
  units:
    description: The units, in the order in which they are handled.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Full unit name, such as C(frps.service).
        type: str
        required: true
      state:
        description: What the unit should be. V(stopped) is also right for a unit that does not exist.
        type: str
        choices: [started, stopped]
        default: started
      enabled:
        description: Whether it starts at boot. Not touched when unset.
        type: bool
      restart_on:
        description:
          - Paths that the unit reads when it starts. The unit is restarted when one is not what it loaded.
          - A directory stands for the files in it, a symbolic link for the path that it leads to.
        type: list
        elements: path
        default: []
      reload_on:
        description: Paths that the unit reads again when it is reloaded.
        type: list
        elements: path
        default: []
      loaded:
        description:
          - Those of O(units[].restart_on) and O(units[].reload_on) that were written after the unit started and say nothing that it does
            not know. They are noted as loaded.
        type: list
        elements: path
        default: []
      may_restart:
        description: With V(false) a restart that is due is announced by a warning and in RV(pending), not done.
        type: bool
        default: true
      validate:
        description:
          - Command that is run, without a shell, before this unit is restarted or reloaded while it runs. When it fails, nothing is done to
            any unit, and the task fails with the command's words.
          - So a service that runs well is not lost for a mistake that somebody else made in its files.
        type: str
  changed_paths:
    description:
      - What earlier tasks changed, as M(rigwright.workstation.config_files), M(rigwright.workstation.release_archive) and
        M(rigwright.workstation.tls_certificate) return it.
      - Only check mode needs it, to tell which units would be restarted or reloaded for a change that was not made. Otherwise the
        paths themselves are looked at, and a file that has only another mode restarts nothing.
    type: list
    elements: path
    default: []
  secrets:
    description:
      - Words that never show in an error of this task, which has the last lines of a unit's journal.
      - What looks like a secret is masked without being named, as C(token=...) and what stands before the C(@) of an
        address.
    type: list
    elements: str
    default: []
  settle:
    description: Seconds for which a unit that was just started has to stay up.
    type: float
    default: 1.0
"""

EXAMPLES = r"""
- name: Put the configuration in place
  rigwright.workstation.config_files:
    name: frp_server
    files:
      - path: /etc/frp/frps.toml
      - path: /etc/systemd/system/frps.service
  register: __frp_server_written

- name: Run frps with its current configuration
  rigwright.workstation.systemd_units:
    changed_paths: "{{ __frp_server_written.changed_paths }}"
    units:
      - name: frps.service
        enabled: true
        restart_on:
          - /etc/systemd/system/frps.service
          - /etc/frp/frps.toml
        validate: frps verify -c /etc/frp/frps.toml
"""

RETURN = r"""
actions:
  description: What was done, or would be, per unit.
  returned: always
  type: dict
  sample: {frps.service: [enable, start]}
pending:
  description: Units that still run with older files because O(units[].may_restart) is V(false).
  returned: always
  type: list
  elements: str
  sample: []
"""

import json
import os
import shlex
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import (
    PROPERTIES,
    Status,
    Watched,
    look_at,
    needs_daemon_reload,
    note,
    parse_show,
    plan,
    stale,
)

# Notes of what each unit loaded; gone after a reboot, as the units are.
NOTES = "/run/rigwright/units"
START_SECONDS = 90
JOURNAL_LINES = 15


class Units:
    """The units of one run."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.units: list[dict[str, t.Any]] = module.params["units"]
        self.names = [unit["name"] for unit in self.units]
        # Paths that a unit would have to be restarted for, and was not.
        self.held_back: dict[str, list[str]] = {}
        self.secrets: list[str] = module.params["secrets"]

    def run(self) -> dict[str, t.Any]:
        status = self._status()
        if not self.module.check_mode and any(needs_daemon_reload(one) for one in status.values()):
            self._systemctl("daemon-reload")
            status = self._status()
        watched = {
            unit["name"]: {path: look_at(path) for path in unit["restart_on"] + unit["reload_on"]}
            for unit in self.units
        }
        actions = {unit["name"]: self._plan(unit, status[unit["name"]], watched[unit["name"]]) for unit in self.units}
        for unit in self.units:
            if status[unit["name"]].running and {"restart", "reload"} & set(actions[unit["name"]]):
                self._validate(unit)
        if not self.module.check_mode:
            for name, verbs in actions.items():
                self._act(name, verbs)
            self._settle([name for name, verbs in actions.items() if {"start", "restart"} & set(verbs)])
            self._note(self._status(), watched)
        changed = {name: verbs for name, verbs in actions.items() if verbs}
        return {
            "changed": bool(changed),
            "actions": changed,
            "pending": list(self.held_back),
            "diff": _diff(self.units, status, actions),
        }

    def _plan(self, unit: dict[str, t.Any], status: Status, watched: dict[str, Watched]) -> list[str]:
        name = unit["name"]
        if unit["state"] == "started" and status.load == "masked":
            self.module.fail_json(msg=f"{name} is masked: run `systemctl unmask {name}` if it should run here")
        if unit["state"] == "started" and status.load == "not-found" and not self.module.check_mode:
            self.module.fail_json(msg=f"there is no unit {name}: install what provides it")
        coming = self.module.params["changed_paths"] if self.module.check_mode else []
        found = stale(status, watched, self._loaded(name, status), coming)
        changed = [path for path in found if path not in unit["loaded"]]
        restart_for = [path for path in changed if path in unit["restart_on"]]
        reload_for = [path for path in changed if path in unit["reload_on"]]
        if status.running and restart_for and not unit["may_restart"]:
            self.held_back[name] = restart_for
            self.module.warn(
                f"{name} still runs with older files ({', '.join(restart_for)}): restart it when its work allows"
            )
            restart_for = []
        return plan(unit, status, restart_for, reload_for)

    def _status(self) -> dict[str, Status]:
        out = self._systemctl("show", f"--property={','.join(PROPERTIES)}", *self.names)
        return {name: Status.of(properties) for name, properties in parse_show(out, self.names).items()}

    def _validate(self, unit: dict[str, t.Any]) -> None:
        coming = self.module.check_mode and self.module.params["changed_paths"]
        if not unit["validate"] or coming:
            return
        code, out, err = self.module.run_command(shlex.split(unit["validate"]), environ_update={"LC_ALL": "C.UTF-8"})
        if code != 0:
            self.module.fail_json(
                msg=f"{unit['name']} goes on as it is: what it would load now is refused by `{unit['validate']}` "
                f"(exit status {code}): {self._shown(err.strip() or out.strip())}"
            )

    def _act(self, name: str, verbs: list[str]) -> None:
        for verb in verbs:
            if verb in ("start", "restart"):
                # A run is no loop: without this systemd refuses the fourth start of docker within a minute (StartLimitBurst=).
                self._call("reset-failed", name)
            code, _out, err = self._call(verb, name)
            if code != 0:
                self._fail(name, f"`systemctl {verb} {name}` failed: {err.strip()}")

    def _settle(self, names: list[str]) -> None:
        """Wait until started units are up, and see that they stay up: Type=simple calls a program that ends at once started, too."""
        if not names:
            return
        before = self._wait_until_up(names)
        time.sleep(self.module.params["settle"])
        after = self._status()
        for name in names:
            done = after[name].oneshot and after[name].active == "inactive"
            if not (after[name].active == "active" or done) or after[name].restarts != before[name].restarts:
                self._fail(name, f"{name} did not stay up: it is {after[name].active} ({after[name].sub})")

    def _wait_until_up(self, names: list[str]) -> dict[str, Status]:
        end = time.monotonic() + START_SECONDS
        while True:
            status = self._status()
            if all(status[name].active != "activating" or status[name].sub == "auto-restart" for name in names):
                return status
            if time.monotonic() > end:
                return status
            time.sleep(0.1)

    def _loaded(self, name: str, status: Status) -> dict[str, str]:
        """The digests noted for this invocation of the unit; none after a reboot or a restart by someone else."""
        try:
            with open(os.path.join(NOTES, f"{name}.json"), encoding="utf-8") as file:
                note = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return t.cast("dict[str, str]", note["loaded"]) if note["invocation"] == status.invocation else {}

    def _note(self, status: dict[str, Status], watched: dict[str, dict[str, Watched]]) -> None:
        os.makedirs(NOTES, mode=0o755, exist_ok=True)
        for name, paths in watched.items():
            if paths and status[name].running:
                loaded = note(paths, self._loaded(name, status[name]), self.held_back.get(name, []))
                with open(os.path.join(NOTES, f"{name}.json"), "w", encoding="utf-8") as file:
                    json.dump({"invocation": status[name].invocation, "loaded": loaded}, file)

    def _fail(self, name: str, message: str) -> None:
        _code, journal, _err = self.module.run_command(
            ["journalctl", f"--unit={name}", f"--lines={JOURNAL_LINES}", "--no-pager", "--output=cat"]
        )
        self.module.fail_json(msg=self._shown(f"{message}. Its journal ends with:\n{journal.strip()}"))

    def _shown(self, text: str) -> str:
        """What a program said, as a log may have it: services print what they were started with."""
        return without_secrets(text, self.secrets)

    def _systemctl(self, *words: str) -> str:
        code, out, err = self._call(*words)
        if code != 0:
            self.module.fail_json(msg=f"`systemctl {words[0]}` failed: {err.strip()}")
        return out

    def _call(self, *words: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            ["systemctl", *words], environ_update={"LC_ALL": "C.UTF-8", "TZ": "UTC"}
        )
        return answer


def _diff(units: list[dict[str, t.Any]], status: dict[str, Status], actions: dict[str, list[str]]) -> dict[str, str]:
    before, after = [], []
    for unit in units:
        name = unit["name"]
        if actions[name]:
            before.append(f"{name}: {status[name].active or 'missing'}, {status[name].enabled or 'no unit file'}\n")
            after.append(f"{name}: {unit['state']} ({', '.join(actions[name])})\n")
    return {"before": "".join(before), "after": "".join(after)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
                    "enabled": {"type": "bool"},
                    "restart_on": {"type": "list", "elements": "path", "default": []},
                    "reload_on": {"type": "list", "elements": "path", "default": []},
                    "loaded": {"type": "list", "elements": "path", "default": []},
                    "may_restart": {"type": "bool", "default": True},
                    "validate": {"type": "str"},
                },
            },
            "changed_paths": {"type": "list", "elements": "path", "default": []},
            "settle": {"type": "float", "default": 1.0},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
        },
        supports_check_mode=True,
    )
    with module_lock(module, "systemd_units"):
        module.exit_json(**Units(module).run())


if __name__ == "__main__":
    main()
