# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bring systemd units to a state and make them load their current files."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import time
import typing as t
from secrets import token_hex

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff, UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._system import configured
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import (
    PROPERTIES,
    Status,
    Watched,
    needs_daemon_reload,
    note,
    plan,
    read_watched,
    refuse_repeated,
    show,
    stale,
)

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# Notes of what each unit loaded; gone after a reboot, as the units are.
NOTES = "/run/rigwright/units"
START_SECONDS = 90
JOURNAL_LINES = 15


class UnitFailed(Exception):
    """A unit cannot be brought to its state."""


class UnitsResult(t.TypedDict):
    """What the units of one run became."""

    changed: bool
    actions: dict[str, list[str]]
    pending: list[str]
    diff: Diff


UNTOUCHED: UnitsResult = {"changed": False, "actions": {}, "pending": [], "diff": {"before": "", "after": ""}}


class Units:
    """The units of one run.

    :param coming: paths that check mode did not change.
    """

    def __init__(
        self,
        module: AnsibleModule,
        units: list[UnitRow],
        settle: float = 1.0,
        secrets: t.Sequence[str] = (),
        coming: t.Sequence[str] = (),
    ) -> None:
        self.module = module
        self.units = units
        self.names = [unit["name"] for unit in units]
        self.settle = settle
        self.secrets = secrets
        self.coming = coming if module.check_mode else []
        # Paths that a unit would have to be restarted for, and was not.
        self.held_back: dict[str, list[str]] = {}
        # The status before the run and the verbs that were called, which `restore` reverts.
        self.before: dict[str, Status] = {}
        self.called: dict[str, list[str]] = {}
        # The status after the run, and what the verbs were decided by.
        self.after: dict[str, Status] = {}
        self.watched: dict[str, Watched] = {}
        self.reloaded = False
        # Whether systemd may have unit files of an interrupted run, which NeedDaemonReload does not say (see `restore`).
        self.must_reload = False

    def run(self) -> UnitsResult:
        """Bring the units to their state.

        :raises UnitFailed: a unit cannot be brought to it; call ``restore`` once the files are as before.
        """
        if not self.units:
            return UNTOUCHED
        status = self.before = self._reloaded_status()
        watched = _read_all(self.units)
        self.watched = {path: found for paths in watched.values() for path, found in paths.items()}
        actions = {unit["name"]: self._plan(unit, status[unit["name"]], watched[unit["name"]]) for unit in self.units}
        for unit in self.units:
            if status[unit["name"]].running and {"restart", "reload"} & set(actions[unit["name"]]):
                self._validate(unit)
        if not self.module.check_mode:
            for name, verbs in actions.items():
                self._act(name, verbs)
            self._settle([name for name, verbs in actions.items() if {"start", "restart"} & set(verbs)])
            self.after = self._status()
            self._note(self.after, watched, self.held_back)
        changed = {name: verbs for name, verbs in actions.items() if verbs}
        return {
            "changed": bool(changed),
            "actions": changed,
            "pending": list(self.held_back),
            "diff": _diff(self.units, status, actions),
        }

    def restore(self) -> list[str]:
        """Bring the units to the status before the run, with the files of that time; return those that do not run again."""
        if not self.called and not self.reloaded:
            return []
        watched = _read_all(self.units)
        # Always: NeedDaemonReload is `no` for a restored unit file, whose mtime is older than that of the loaded one.
        self._call("daemon-reload")
        for name, verbs in reversed(self.called.items()):
            self._call("reset-failed", name)
            if {"enable", "disable"} & set(verbs):
                self._call("disable" if "enable" in verbs else "enable", name)
            if {"start", "restart", "reload", "stop"} & set(verbs):
                self._call(self._restoring_verb(name, verbs), name)
        running = [name for name in self.called if self.before[name].running]
        if not running:
            return []
        status = self._wait_until_up(running)
        again = [name for name in running if {"start", "restart", "reload", "stop"} & set(self.called[name])]
        self._note(status, {name: watched[name] for name in again}, {})
        return [name for name in running if not status[name].running]

    def _restoring_verb(self, name: str, verbs: t.Collection[str]) -> str:
        if not self.before[name].running:
            return "stop"
        # A restart would end what a reload spares: containers, sessions.
        kept = not {"start", "restart", "stop"} & set(verbs) and self._status()[name].running
        return "reload" if kept else "restart"

    def _reloaded_status(self) -> dict[str, Status]:
        status = self._status()
        if not self.module.check_mode and (self.must_reload or any(map(needs_daemon_reload, status.values()))):
            self.reloaded = True
            self._systemctl("daemon-reload")
            status = self._status()
        return status

    def _plan(self, unit: UnitRow, status: Status, watched: dict[str, Watched]) -> list[str]:
        name = unit["name"]
        if unit["state"] == "started" and status.load == "masked":
            raise UnitFailed(f"{name} is masked: run `systemctl unmask {name}` if it should run here")
        if unit["state"] == "started" and status.load == "not-found" and not self.module.check_mode:
            raise UnitFailed(f"there is no unit {name}: install what provides it")
        salt, loaded = self._loaded(name, status)
        found = stale(status, _salted(salt, watched), loaded, self.coming)
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
        shown = show(self.module.run_command, self.names, PROPERTIES)
        return {name: Status.of(properties) for name, properties in shown.items()}

    def _validate(self, unit: UnitRow) -> None:
        if not unit["validate"] or self.coming:
            return
        code, out, err = self.module.run_command(shlex.split(unit["validate"]))
        if code != 0:
            raise UnitFailed(
                f"{unit['name']} goes on as it is: what it would load now is refused by `{unit['validate']}` "
                f"(exit status {code}): {self._shown(err.strip() or out.strip())}"
            )

    def _act(self, name: str, verbs: list[str]) -> None:
        for verb in verbs:
            self.called.setdefault(name, []).append(verb)
            if verb in ("start", "restart"):
                # Without this, systemd refuses the fourth start of docker within a minute (StartLimitBurst=).
                self._call("reset-failed", name)
            code, _out, err = self._call(verb, name)
            if code != 0:
                self._fail(name, f"`systemctl {verb} {name}` failed: {err.strip()}")
            if verb == "reload":
                configured.forget_all()

    def _settle(self, names: list[str]) -> None:
        """Wait until started units are up and stay up: with Type=simple, a program that ends at once counts as started, too."""
        if not names:
            return
        before = self._wait_until_up(names)
        time.sleep(self.settle)
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

    def _loaded(self, name: str, status: Status) -> tuple[str, dict[str, str]]:
        """Return the salt and the digests noted for this invocation of a unit; none after a restart outside of this module."""
        salt = token_hex(16)
        # A damaged note is none: the unit is judged by times.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            with open(os.path.join(NOTES, f"{name}.json"), encoding="utf-8") as file:
                found = json.load(file)
            if found["invocation"] == status.invocation:
                loaded = {str(path): str(digest) for path, digest in found["loaded"].items()}
                # An earlier release noted plain digests.
                return (str(found["salt"]), loaded) if "salt" in found else (salt, _salted_all(salt, loaded))
        return salt, {}

    def _note(
        self,
        status: t.Mapping[str, Status],
        watched: t.Mapping[str, t.Mapping[str, Watched]],
        held_back: t.Mapping[str, t.Sequence[str]],
    ) -> None:
        """Note what each running unit has loaded, for root alone: secret files are among it."""
        os.makedirs(NOTES, mode=0o700, exist_ok=True)
        # An earlier release left it open.
        os.chmod(NOTES, 0o700)
        for unit in self.units:
            name = unit["name"]
            paths = watched.get(name)
            if paths and (status[name].running or (status[name].ran and unit["state"] == "started")):
                salt, loaded = self._loaded(name, status[name])
                loaded = note(_salted(salt, paths), loaded, held_back.get(name, []))
                content = {"invocation": status[name].invocation, "salt": salt, "loaded": loaded}
                replace_file(os.path.join(NOTES, f"{name}.json"), json.dumps(content), mode=0o600)

    def _fail(self, name: str, message: str) -> t.NoReturn:
        _code, journal, _err = self.module.run_command(
            ["journalctl", f"--unit={name}", f"--lines={JOURNAL_LINES}", "--no-pager", "--output=cat"]
        )
        raise UnitFailed(self._shown(f"{message.rstrip('.')}. Its journal ends with:\n{journal.strip()}"))

    def _shown(self, text: str) -> str:
        """Return output of a program without secrets: services print their arguments and settings."""
        return without_secrets(text, self.secrets)

    def _systemctl(self, *arguments: str) -> str:
        code, out, err = self._call(*arguments)
        if code != 0:
            raise UnitFailed(f"`systemctl {arguments[0]}` failed: {err.strip()}")
        return out

    def _call(self, *arguments: str) -> tuple[int, str, str]:
        outcome: tuple[int, str, str] = self.module.run_command(["systemctl", *arguments], environ_update={"TZ": "UTC"})
        return outcome


def _read_all(units: t.Sequence[UnitRow]) -> dict[str, dict[str, Watched]]:
    """Read the paths that each unit loads."""
    return {
        unit["name"]: {path: read_watched(path) for path in [*unit["restart_on"], *unit["reload_on"]]} for unit in units
    }


def _salted(salt: str, watched: t.Mapping[str, Watched]) -> dict[str, Watched]:
    """Return paths with digests from which nobody can look up the content."""
    digests = _salted_all(salt, {path: entry.digest for path, entry in watched.items()})
    return {path: dataclasses.replace(entry, digest=digests[path]) for path, entry in watched.items()}


def _salted_all(salt: str, digests: t.Mapping[str, str]) -> dict[str, str]:
    return {path: hashlib.sha256(f"{salt} {digest}".encode()).hexdigest() for path, digest in digests.items()}


def _diff(units: list[UnitRow], status: dict[str, Status], actions: dict[str, list[str]]) -> Diff:
    before, after = [], []
    for unit in units:
        name = unit["name"]
        if actions[name]:
            before.append(f"{name}: {status[name].active or 'missing'}, {status[name].enabled or 'no unit file'}\n")
            after.append(f"{name}: {unit['state']} ({', '.join(actions[name])})\n")
    return {"before": "".join(before), "after": "".join(after)}


def run(module: AnsibleModule) -> None:
    """Bring the units to their state and end the module."""
    params = module.params
    units = Units(module, params["units"], params["settle"], params["secrets"], params["changed_paths"])
    with module_lock(module, "systemd_units"):
        try:
            refuse_repeated(params["units"])
            module.exit_json(**units.run())
        except Refused as error:
            module.fail_json(msg=f"{error}. Nothing was changed.")
        except UnitFailed as error:
            module.fail_json(msg=str(error))
