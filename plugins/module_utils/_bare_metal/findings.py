# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report, while a machine is well, what a rebuild from its backup would refuse."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import trial
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document

ID = "backup.rebuild"
_MOST = 5
_RUN = "make a backup: `rigwright-backup run JOB`"


def rebuild(config: Config) -> list[Finding]:
    """Return the finding on the manifest of the last run; none where no job has /, of which the plan of the role warns."""
    path = config.manifest
    if not path or "/" not in config.covered():
        return []
    try:
        manifest = record.read(path, "the next backup writes it again")
        found = trial.problems(document.check(manifest)) if manifest is not None else []
        empty = trial.left_empty(manifest) if manifest is not None else []
    except (OSError, ValueError) as error:
        return [finding(ID, "warn", f"the manifest cannot be used: {shown(str(error))}", _RUN)]
    if manifest is None:
        return [finding(ID, "skip", f"no backup has written {path} yet", _RUN)]
    if not found:
        moment = shown(str(manifest.get("made") or "an unknown time"))
        without = f"; {shown(_listed(empty))} would be left empty" if empty else ""
        return [finding(ID, "pass", f"by the manifest of {moment} this machine can be built again{without}")]
    evidence = f"this machine cannot be built again as it is: {shown(_listed(found, '; '))}"
    return [
        finding(ID, "warn", evidence, "see docs/bare_metal.md; where that is not wanted, set backup_manifest to false")
    ]


def _listed(rows: list[str], between: str = ", ") -> str:
    return between.join([*rows[:_MOST], *([f"{len(rows) - _MOST} more"] if len(rows) > _MOST else [])])
