# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apt's transaction that changes the driver, and its simulation."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import LOCK_TIMEOUT
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change, Run
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    bare_name,
    is_driver,
    is_on_branch,
    is_own,
)

PREFERENCES = "/etc/apt/preferences.d"
OWN_PREFERENCES = "rigwright-nvidia-driver"


class Simulation(t.NamedTuple):
    """The result of ``apt-get --simulate``. *error* is apt's reason if it finds no solution."""

    install: dict[str, str]
    remove: list[str]
    error: str = ""


# Other lines are for people.
_STEPS = {
    "install": r"Inst (?P<name>\S+) (?:\[[^\]]*\] )?\((?P<version>\S+) .*",
    "remove": r"(?:Remv|Purg) (?P<name>\S+).*",
    "text": r"(?!Inst|Remv|Purg).*",
}


def parse_simulation(rc: int, out: str, err: str) -> Simulation:
    """Return what a simulation of apt would do."""
    if rc != 0:
        errors = re.findall(r"^ [a-z].*|^E: .*", out + err, re.MULTILINE)
        return Simulation({}, [], " ".join(" ".join(errors).split()) or (out + err).strip()[-500:])
    steps = lines.parse("apt-get --simulate", out, _STEPS)
    install = {match["name"]: match["version"] for step, match in steps if step == "install"}
    return Simulation(install, [match["name"] for step, match in steps if step == "remove"])


def simulation_problem(simulation: Simulation, change: Change) -> str:
    """Return why a transaction must not be carried out, empty if it is allowed.

    It is allowed to remove only packages of the driver, and to install the driver only on its branch.
    """
    if simulation.error:
        return f"apt finds no solution: {simulation.error}"
    foreign = [name for name in simulation.remove if not is_own(name)]
    if foreign:
        return f"apt would also remove {', '.join(foreign)}"
    other = [
        f"{name} {version}"
        for name, version in simulation.install.items()
        # The simulation does not name the source of a version. A tool of another branch would be the archive's.
        if is_driver(name) and not is_on_branch(bare_name(name), version, change.branch, {data.ARCHIVE})
    ]
    return f"apt would install {', '.join(other)}" if other else ""


def apt_command(change: Change, parts: str, *options: str) -> list[str]:
    """Return the command of the transaction: the old branch goes and the new one comes, under the pins that hold afterwards."""
    return [
        *("apt-get", "install", "--yes", "--allow-downgrades", "--allow-change-held-packages"),
        *("-o", f"Dir::Etc::PreferencesParts={parts}"),
        *("-o", f"APT::Install-Recommends={'true' if change.recommends else 'false'}"),
        *("-o", "APT::Get::AutomaticRemove=false", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT}"),
        *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
        *options,
        *change.install,
        *(f"{name}-" for name in change.remove),
    ]


@contextlib.contextmanager
def preferences_parts(tree: Tree, change: Change) -> t.Iterator[str]:
    """Provide a directory with the host's preferences as they will be: the new pin replaces those of earlier branches."""
    pins = {
        path
        for name in tree.names("/var/lib/dpkg/info")
        if re.fullmatch(r"nvidia-driver-pinning-.*\.list", name)
        for path in tree.text(f"/var/lib/dpkg/info/{name}").splitlines()
    }
    with tempfile.TemporaryDirectory(prefix="rigwright_nvidia_") as parts:
        # apt reads them as another user.
        os.chmod(parts, 0o755)  # noqa: S103 - preferences are no secret
        for name in tree.names(PREFERENCES):
            if f"{PREFERENCES}/{name}" not in pins and name != OWN_PREFERENCES:
                replace_file(os.path.join(parts, name), tree.text(f"{PREFERENCES}/{name}"))
        replace_file(os.path.join(parts, OWN_PREFERENCES), change.preferences)
        yield parts


def simulate(run: Run, tree: Tree, change: Change) -> Simulation:
    """Ask apt what a change would do."""
    with preferences_parts(tree, change) as parts:
        return parse_simulation(*run(apt_command(change, parts, "--simulate")))
