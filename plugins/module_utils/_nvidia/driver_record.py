# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record of what the role nvidia_driver has changed, and of a change that is not proven yet."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import is_own

# A directory of its own: config_files keeps /var/lib/rigwright for itself.
HOME = "/var/lib/rigwright_nvidia_driver"
RECORD = f"{HOME}/record.json"
KEPT = f"{HOME}/kept"
BEGUN, INSTALLED = "begun", "installed"
DKMS = "dkms"


Entry = dict[str, t.Any]


Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]


class Failed(Exception):
    """The change was taken back. The text is the reason."""


class Stuck(Exception):
    """Not even the previous packages could be restored. The text has the message of dpkg."""


@dataclasses.dataclass
class Change:
    """One change. *before* are the touched packages as they were, *new* those that were not installed, *versions* what apt is to install.

    *loads* says whether the host has a GPU, so that the module has to be loaded after a reboot. *kernel* is the kernel that it is for:
    the one that boots next, once the packages are in place.
    """

    branch: int
    build: str = DKMS
    loads: bool = True
    install: list[str] = dataclasses.field(default_factory=list)
    remove: list[str] = dataclasses.field(default_factory=list)
    recommends: bool = False
    preferences: str = ""
    before: dict[str, Entry] = dataclasses.field(default_factory=dict)
    new: list[str] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    stage: str = BEGUN
    version: str = ""
    kernel: str = ""
    boot: str = ""


@dataclasses.dataclass
class Failure:
    """The reason why a change was taken back. *at* is packages, build, boot or interruption."""

    at: str
    evidence: str
    version: str = ""
    kernel: str = ""
    log: str = ""
    restored: str = ""


@dataclasses.dataclass
class Record:
    """What the role has done to the packages of this host.

    *baseline* are packages as they were before the role changed them first, *installed* those that were not installed then.
    The baseline has all packages that apt changed along. Only the driver's own packages are restored from it.
    *kept* has size and SHA-256 of the files in ``KEPT``, by name.
    """

    baseline: dict[str, Entry] = dataclasses.field(default_factory=dict)
    installed: list[str] = dataclasses.field(default_factory=list)
    held: list[str] = dataclasses.field(default_factory=list)
    kept: dict[str, list[t.Any]] = dataclasses.field(default_factory=dict)
    change: Change | None = None
    failure: Failure | None = None

    @property
    def replaced(self) -> dict[str, Entry]:
        """Return the previous driver. Newer libraries and kernels stay: their old versions lack security updates."""
        return {name: entry for name, entry in self.baseline.items() if is_own(name)}

    @classmethod
    def load(cls, tree: Tree) -> Record:
        """Read the record.

        :raises Stuck: it is damaged.
        """
        try:
            values = json.loads(tree.text(RECORD)) if tree.exists(RECORD) else {}
            if "brought" in values:  # its name before 0.1.0
                values["installed"] = values.pop("brought")
            for key, kind in (("change", Change), ("failure", Failure)):
                if values.get(key):
                    values[key] = kind(**values[key])
            return cls(**values)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise Stuck(
                f"{RECORD}, which records what the role has changed here, is damaged ({error}): restore it from a backup, or delete it."
                f" Without it the role restores nothing that was there before; the previous packages are in {KEPT}"
            ) from error

    def is_unsettled(self, boot: str) -> bool:
        """Return whether a change was interrupted, or waits for its proof and the host has booted since."""
        return self.change is not None and (self.change.stage == BEGUN or self.change.boot != boot)


def describe(failure: Failure) -> str:
    """Return the failure, and what the host has now, as a text for a person."""
    back = f"driver {failure.restored} is in place again" if failure.restored else "the host has no driver, as before"
    return f"{cause(failure)}; {back}"


def cause(failure: Failure) -> str:
    """Return the failure in a sentence."""
    version = f" {failure.version}" if failure.version else ""
    kernel = f" for the kernel {failure.kernel}" if failure.kernel else ""
    sentences = {
        "build": f"the module of driver{version} was not built{kernel}: {failure.evidence}",
        "boot": f"driver{version} does not work{kernel}: {failure.evidence}",
        "packages": f"the packages could not be changed: {failure.evidence}",
        "interruption": f"{failure.evidence} on the way to driver{version}",
    }[failure.at]
    return sentences + (f" (log: {failure.log})" if failure.log else "")
