# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a host that the plan of its driver depends on."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import Simulation
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Plan, Request
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import DKMS, Record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import is_kernel_metapackage
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.nvidia_driver_options import (
    NvidiaDriverOptions,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    branch_of,
    is_driver_package,
)


class DriverRequest(NvidiaDriverOptions):
    """A request: the options, and what ``__nvidia_driver_context`` adds."""

    host_name: str


@dataclasses.dataclass(frozen=True)
class DriverState:
    """The facts that the plan of a driver depends on. *boot* identifies this boot. *simulation* is apt's, None if apt lacks the lists."""

    facts: Facts
    plan: Plan
    record: Record
    request: Request = dataclasses.field(default_factory=Request)
    boot: str = ""
    simulation: Simulation | None = None
    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    automatic: frozenset[str] = frozenset()
    persistence_unit: str = ""
    unfinished: t.Sequence[str] = ()

    @property
    def kernel(self) -> Facts:
        """Return the kernel that boots next."""
        return next((row for row in self.facts["kernels"] if row["next"]), {})

    @property
    def has_driver(self) -> bool:
        """Return whether a driver is installed or loaded: without one, nothing can have gone well."""
        return bool(self.locked or self.facts["driver"]["loaded"])

    @property
    def running(self) -> str:
        return next((row["release"] for row in self.facts["kernels"] if row["running"]), "")

    @property
    def built(self) -> bool:
        """Return whether the kernel that boots next has a module of the planned branch."""
        if self.plan.build != DKMS:
            return bool(self.kernel.get("module"))
        builds = self.kernel.get("dkms", [])
        return any(row["state"] == "installed" and branch_of(row["version"]) == self.plan.branch for row in builds)

    @property
    def locked(self) -> list[str]:
        """Return the installed packages that make one unit: driver, libraries, and what would install another kernel."""
        return sorted(name for name in self.facts["packages"] if is_driver_package(name) or is_kernel_metapackage(name))
