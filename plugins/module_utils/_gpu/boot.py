# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a reboot takes away from GPUs is brought back: a unit runs the code of a module again, with what was declared.

For a module such as gpu_mig there are

* ``/usr/local/lib/rigwright/gpu_mig.pyz``: its code (:mod:`_core.bundle`), so that boot and playbook cannot disagree;
* ``/var/lib/rigwright_gpu_mig/declared.json``: its parameters by UUID of the GPU, so that tasks for different GPUs do not undo each other;
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
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

SYSTEMD = "/run/systemd/system"
_UNITS = "/etc/systemd/system"
# Who needs the GPUs as they are declared. What is not installed does not matter to systemd.
_BEFORE = "nvidia-cdi-refresh.service docker.service containerd.service slurmd.service"
_AFTER = "systemd-modules-load.service nvidia-persistenced.service nvidia-fabricmanager.service"

# By the UUID of the card; None for one that shall no longer be declared.
Changes = t.Mapping[str, t.Optional[dict[str, t.Any]]]


def unit_name(module: str) -> str:
    return f"rigwright-{module.replace('_', '-')}.service"


def unit_path(module: str) -> str:
    return f"{_UNITS}/{unit_name(module)}"


def link_path(module: str) -> str:
    return f"{_UNITS}/multi-user.target.wants/{unit_name(module)}"


def declared_path(module: str) -> str:
    return f"{gpu_files.home(module)}/declared.json"


def program_path(module: str) -> str:
    return f"/usr/local/lib/rigwright/{module}.pyz"


def unit_text(module: str, python: str, after: t.Sequence[str] = ()) -> str:
    """:param after: other modules whose units come first."""
    others = "".join(f" {unit_name(one)}" for one in after)
    # TimeoutStartSec is that of NVIDIA's own nvidia-mig-manager.service.
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
    """:raises Refusal: the file is damaged."""
    declared: ByCard = gpu_files.read(tree, declared_path(module))["gpus"]
    return declared


@dataclasses.dataclass
class Declaration:
    """What boot is to do, and the files for it. ``before`` and ``after``: parameters by UUID. ``changed``: paths that are to change."""

    tree: Tree
    name: str
    before: ByCard
    after: ByCard
    files: dict[str, bytes | None]
    changed: list[str]

    def write(self, module: AnsibleModule) -> None:
        """Put what has changed in place."""
        unit, link = unit_path(self.name), link_path(self.name)
        for path in self.changed:
            if path in self.files:
                self.tree.replace(path, self.files[path])
        if link in self.changed:
            _enable(self.tree, link, unit if self.after else None)
        # A container, or an image that is being made, has the files and no systemd to tell.
        if {unit, link} & set(self.changed) and self.tree.exists(SYSTEMD):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)


def prepare(
    tree: Tree, name: str, program: str, before: ByCard, changes: Changes, after: t.Sequence[str] = ()
) -> Declaration:
    """Have these parameters applied at every boot. GPUs that *changes* does not name keep theirs. Writes nothing yet.

    With nothing left to declare, unit and files go.

    :param name: of the calling module, such as gpu_mig.
    :param program: the private module whose ``main()`` brings about what is declared.
    :param before: what :func:`read_declared` has found.
    :param after: modules whose units come first.
    """
    declared = {uuid: one for uuid, one in sorted({**before, **changes}.items()) if one}
    files: dict[str, bytes | None] = dict.fromkeys([program_path(name), declared_path(name), unit_path(name)])
    if declared:
        files = {
            program_path(name): bundle.bundle(program),
            declared_path(name): gpu_files.text(declared),
            unit_path(name): unit_text(name, sys.executable, after).encode(),
        }
    changed = [path for path, content in files.items() if not _is(tree, path, content)]
    if tree.exists(link_path(name)) != bool(declared):
        changed.append(link_path(name))
    return Declaration(tree, name, before, declared, files, changed)


def _is(tree: Tree, path: str, content: bytes | None) -> bool:
    return tree.bytes(path) == content if content else not tree.exists(path)


def _enable(tree: Tree, link: str, unit: str | None) -> None:
    """As `systemctl enable` does, which needs no running systemd either, but its program."""
    place = tree.at(link)
    if unit is None:
        if os.path.lexists(place):
            os.unlink(place)
    elif not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(unit, place)
