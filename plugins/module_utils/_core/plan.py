# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a role decides before anything changes: problems, findings, and the packages, files and units that its tasks then apply."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import DirectoryRow, FileRow, UnitRow

STOPPED: t.Final = "stopped"


def stopped(*names: str) -> list[UnitRow]:
    """Return units to be stopped and disabled."""
    return [{"name": name, "state": STOPPED, "enabled": False} for name in names]


@dataclasses.dataclass(frozen=True)
class Packages:
    """What roles/common/tasks/packages.yml does, in this order. Packages are named as apt takes them: name, or name=version.

    :param key: of a package source, to be downloaded into a file of the set: ``url``, ``fingerprints``, and ``path``.
    :param directories: with ``files`` and ``checks``, the set ``<role>_packages``: package sources, pins, and records of what is to
        be installed. It is there before the packages, so that an interrupted run leaves a record.
    :param files_due: whether this set is to be written.
    :param unhold: packages whose hold goes before the installation.
    :param downgrade: whether a requested version may be older than the installed one.
    :param new_units: units that the packages start by themselves, with a configuration that is not the role's.
    :param hold: packages that are held after the installation.
    """

    key: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    directories: t.Sequence[DirectoryRow] = ()
    files: t.Sequence[FileRow] = ()
    checks: t.Sequence[str] = ()
    files_due: bool = False
    unhold: t.Sequence[str] = ()
    install: t.Sequence[str] = ()
    downgrade: bool = False
    new_units: t.Sequence[UnitRow] = ()
    hold: t.Sequence[str] = ()

    @property
    def due(self) -> bool:
        return bool(self.files_due or self.unhold or self.install or self.hold)


@dataclasses.dataclass(frozen=True)
class Pending:
    """The finding on units that still run with older files, because a restart would end what users do.

    :param waits: what they have until then, and why: "still has older options: 2 containers run".
    :param done: the evidence when no unit waits.
    """

    id: str
    waits: str
    done: str
    remedy: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """What ``plan`` of a role returns.

    :param requirements: problems, which refuse the request.
    :param findings: what a person is shown once the role is applied.
    :param directories: with ``files``, ``checks`` and ``units``, the set of config_files that has the name of the role.
    :param values: what only the tasks and templates of this role know.
    """

    requirements: t.Sequence[Problem] = ()
    findings: t.Sequence[Finding] = ()
    packages: Packages = Packages()
    directories: t.Sequence[DirectoryRow] = ()
    files: t.Sequence[FileRow] = ()
    checks: t.Sequence[str] = ()
    units: t.Sequence[UnitRow] = ()
    pending: Pending | None = None
    values: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = {field.name for field in dataclasses.fields(self)} & self.values.keys()
        if taken:
            raise ValueError(f"values: {', '.join(sorted(taken))} must be given as the field of this name")

    def result(self) -> dict[str, t.Any]:
        """Return the plan as the result of the action ``plan`` has it: the values of the role beside the fields."""
        found = dataclasses.asdict(self)
        values = found.pop("values")
        return {**found, "packages": {**found["packages"], "due": self.packages.due}, **values}
