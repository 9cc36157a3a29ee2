# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units that restore the declared state of GPUs at boot: each runs the code of a module again, with the declared parameters.

For a module such as gpu_mig there are

* ``/usr/local/lib/rigwright/gpu_mig.pyz``: its code (:mod:`_core.bundle`);
* ``/var/lib/rigwright_gpu_mig/declared.json``: its parameters by UUID of the GPU;
* the unit ``rigwright-gpu-mig.service``, which runs the one with the other.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import files as gpu_files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard, Declared

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Commands

SYSTEMD = "/run/systemd/system"
_UNITS = "/etc/systemd/system"
# Units that need the GPUs in their declared state. systemd ignores those that are not installed.
_BEFORE = "nvidia-cdi-refresh.service docker.service containerd.service slurmd.service"
_AFTER = "systemd-modules-load.service nvidia-persistenced.service nvidia-fabricmanager.service"

# By the UUID of the card; None for a card that is no longer declared.
Changes = t.Mapping[str, t.Optional[Declared]]


def unit_name(module: str) -> str:
    """Return the name of a module's unit."""
    return f"rigwright-{module.replace('_', '-')}.service"


def unit_path(module: str) -> str:
    """Return the path of a module's unit file."""
    return f"{_UNITS}/{unit_name(module)}"


def link_path(module: str) -> str:
    """Return the path of the link that enables a module's unit."""
    return f"{_UNITS}/multi-user.target.wants/{unit_name(module)}"


def declared_path(module: str) -> str:
    """Return the path of a module's declared parameters."""
    return f"{gpu_files.home(module)}/declared.json"


def program_path(module: str) -> str:
    """Return the path of a module's bundled code."""
    return f"/usr/local/lib/rigwright/{module}.pyz"


def unit_text(module: str, python: str, after: t.Sequence[str] = ()) -> str:
    """Return the content of a module's unit file.

    :param after: modules whose units start earlier.
    """
    others = "".join(f" {unit_name(name)}" for name in after)
    # TimeoutStartSec is the value of NVIDIA's own nvidia-mig-manager.service.
    return f"""\
# Ansible managed
# Brings GPUs to the state that is declared in {declared_path(module)}, which they lose at a reboot.

[Unit]
Description=Declared state of NVIDIA GPUs ({module})
ConditionPathExists={declared_path(module)}
After={_AFTER}{others}
Before={_BEFORE}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={python} -I -B {program_path(module)}
TimeoutStartSec=480

[Install]
WantedBy=multi-user.target
"""


def read_declared(tree: Tree, module: str) -> ByCard:
    """Read the declared parameters of a module by the UUID of the card.

    :raises Refusal: the file is damaged.
    """
    return gpu_files.read(tree, declared_path(module))["gpus"]


@dataclasses.dataclass
class Declaration:
    """The declared parameters by UUID, before and after, and the files for them. ``changed`` lists the paths to write."""

    tree: Tree
    name: str
    before: ByCard
    after: ByCard
    files: dict[str, bytes | None]
    changed: list[str]

    def write(self, module: Commands) -> None:
        """Write the files that change."""
        unit, link = unit_path(self.name), link_path(self.name)
        for path in self.changed:
            if path in self.files:
                self.tree.replace(path, self.files[path])
        if link in self.changed:
            _enable(self.tree, link, unit if self.after else None)
        # In a container, or an image that is being built, no systemd runs.
        if {unit, link} & set(self.changed) and self.tree.exists(SYSTEMD):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)


def prepare(
    tree: Tree, name: str, program: str, before: ByCard, changes: Changes, after: t.Sequence[str] = ()
) -> Declaration:
    """Plan the files that apply these parameters at every boot. GPUs that *changes* does not name keep theirs.

    Without any declaration, unit and files are removed.

    :param name: the calling module, such as gpu_mig.
    :param program: the file of module_utils whose ``main()`` applies the declared parameters.
    :param before: the result of :func:`read_declared`.
    :param after: modules whose units start earlier.
    """
    declared = {uuid: params for uuid, params in sorted({**before, **changes}.items()) if params}
    files: dict[str, bytes | None] = dict.fromkeys([program_path(name), declared_path(name), unit_path(name)])
    if declared:
        files = {
            program_path(name): bundle.bundle(program),
            declared_path(name): gpu_files.text(declared),
            unit_path(name): unit_text(name, sys.executable, after).encode(),
        }
    changed = [path for path, content in files.items() if not _has_content(tree, path, content)]
    if tree.exists(link_path(name)) != bool(declared):
        changed.append(link_path(name))
    return Declaration(tree, name, before, declared, files, changed)


def _has_content(tree: Tree, path: str, content: bytes | None) -> bool:
    return tree.bytes(path) == content if content else not tree.exists(path)


def _enable(tree: Tree, link: str, unit: str | None) -> None:
    """Create or remove the link, as `systemctl enable` does. That program may be missing."""
    place = tree.at(link)
    if unit is None:
        if os.path.lexists(place):
            os.unlink(place)
    elif not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(unit, place)
