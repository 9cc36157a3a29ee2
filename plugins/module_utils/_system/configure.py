# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put a set of files in place and bring the units that use them to their state, as one transaction."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Transaction
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import Step
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_run import (
    CheckFailed,
    ConfigFiles,
    SetResult,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._system import configured
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import refuse_repeated
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd_run import (
    UNTOUCHED,
    UnitFailed,
    Units,
)

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

LOCK = "systemd_units"


class ConfiguredResult(SetResult):
    """What files and units became."""

    actions: dict[str, list[str]]
    pending: list[str]


class Configure(ConfigFiles):
    """One run. Units end before their files change, and start with the new files before the old ones are given up."""

    def __init__(self, module: AnsibleModule) -> None:
        super().__init__(module)
        refuse_repeated(self.params["units"])
        self.stopping = self._units("stopped")
        self.starting = self._units("started")
        self.stopped = self.started = UNTOUCHED
        # Units that do not run with the old files either.
        self.lost: list[str] = []

    def run(self) -> SetResult:
        """Change files and units.

        :raises UnitFailed: files and units are as they were before, files of an interrupted run as before that one.
        """
        with contextlib.ExitStack() as held:
            if self.params["units"] and not self.module.check_mode:
                held.enter_context(host_lock(LOCK))
            try:
                return super().run()
            except (UnitFailed, CheckFailed, Refused) as error:
                if not isinstance(error, UnitFailed) and not self.lost and not self.recovered:
                    raise
                before = (
                    "Files are as they were before the interrupted run, and units as before this one"
                    if self.recovered
                    else "Files and units are as they were before"
                )
                lost = f", but these do not run with the old files either: {', '.join(self.lost)}" if self.lost else ""
                raise UnitFailed(f"{error}\n{before}{lost}.") from None

    def _units(self, state: str, coming: t.Sequence[str] = ()) -> Units:
        units = [unit for unit in self.params["units"] if unit["state"] == state]
        return Units(self.module, units, self.params["settle"], self.secrets, coming)

    def _recover_and_plan(self) -> Transaction:
        configured.forget(self.store.name)
        return super()._recover_and_plan()

    def _make_way(self) -> None:
        if self.stopped is UNTOUCHED:
            self.stopped = self.stopping.run()

    def _use(self) -> None:
        self._make_way()
        self.starting.must_reload = self.recovered
        self.started = self.starting.run()

    def _use_old(self) -> None:
        self.lost = [*self.starting.restore(), *self.stopping.restore()]

    def _result(self, steps: t.Sequence[Step]) -> ConfiguredResult:
        files = super()._result(steps)
        if self.module.check_mode:
            coming = [*files["changed_paths"], *self.params["changed_paths"]]
            self.stopped = self.stopping.run()
            self.started = self._units("started", coming).run()
        elif self.digest and not self.started["pending"]:
            # Without the note, the next run has one module more.
            with contextlib.suppress(OSError):
                configured.note(
                    self.store.root,
                    self.params,
                    self.digest,
                    self.wanted,
                    {**self.stopping.after, **self.starting.after},
                    {**self.stopping.watched, **self.starting.watched},
                )
        shown = [result["diff"] for result in (self.stopped, self.started) if result["actions"]]
        return {
            **files,
            "changed": files["changed"] or self.stopped["changed"] or self.started["changed"],
            "actions": {**self.stopped["actions"], **self.started["actions"]},
            "pending": self.started["pending"],
            "diff": [*files["diff"], *shown],
        }


def run(module: AnsibleModule) -> None:
    """Configure the host, or say why not, and end the module."""
    try:
        module.exit_json(**Configure(module).run())
    except (Refused, CheckFailed, Busy) as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    except UnitFailed as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or ''}: {error.strerror}. Every file is as it was before.")
