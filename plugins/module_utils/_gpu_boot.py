# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a reboot takes away from GPUs is brought back: a unit runs the code of a module again, with what was declared.

For a module such as gpu_mig there are

* ``/usr/local/lib/rigwright/gpu_mig.pyz``: its code (:mod:`_boot_program`), so that boot and playbook cannot disagree;
* ``/var/lib/rigwright_gpu_mig/declared.json``: its parameters by UUID of the GPU, so that tasks for different GPUs do not undo each other;
* the unit ``rigwright-gpu-mig.service``, which runs the one with the other.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import sys
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _boot_program
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

UNITS = "/etc/systemd/system"
# Who needs the GPUs as they are declared. What is not installed does not matter to systemd.
_BEFORE = "nvidia-cdi-refresh.service docker.service containerd.service slurmd.service"
_AFTER = "systemd-modules-load.service nvidia-persistenced.service nvidia-fabricmanager.service"

Declared = dict[str, dict[str, t.Any]]


def unit_name(module: str) -> str:
    return f"rigwright-{module.replace('_', '-')}.service"


def declared_path(module: str) -> str:
    # A directory of its own: config_files keeps /var/lib/rigwright for itself.
    return f"/var/lib/rigwright_{module}/declared.json"


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
ExecStart={python} -B {program_path(module)}
TimeoutStartSec=480

[Install]
WantedBy=multi-user.target
"""


def read_declared(tree: Tree, module: str) -> Declared:
    """:raises Refusal: the file is damaged."""
    path = declared_path(module)
    # An empty file is what a loss of power may leave. Taking it for nothing would lose what other tasks have declared.
    if not tree.exists(path):
        return {}
    try:
        found: Declared = json.loads(tree.text(path))
        if not (isinstance(found, dict) and all(isinstance(one, dict) and "devices" in one for one in found.values())):
            raise ValueError("no parameters by GPU")
    except ValueError as error:
        raise Refusal(f"{path} is damaged ({error}): restore it, or remove it and declare all GPUs again") from None
    return found


def merge(declared: t.Mapping[str, dict[str, t.Any]], changes: t.Mapping[str, dict[str, t.Any] | None]) -> Declared:
    """Pure: what is declared after this run. None takes a GPU's away; GPUs that this run does not name keep theirs."""
    merged = {**declared, **changes}
    return {key: value for key, value in sorted(merged.items()) if value is not None}


@dataclasses.dataclass
class Declaration:
    """What boot is to do, and the files for it. ``before`` and ``after``: parameters by UUID. ``changed``: paths that are to change."""

    tree: Tree
    name: str
    before: Declared
    after: Declared
    files: dict[str, bytes | None]

    @property
    def link(self) -> str:
        return f"{UNITS}/multi-user.target.wants/{unit_name(self.name)}"

    @property
    def changed(self) -> list[str]:
        paths = [path for path, content in self.files.items() if not _is(self.tree, path, content)]
        return paths + ([self.link] if self.tree.exists(self.link) != bool(self.after) else [])

    def write(self, module: AnsibleModule) -> None:
        """Put what has changed in place."""
        changed = self.changed
        unit = f"{UNITS}/{unit_name(self.name)}"
        _write(self.tree, {path: self.files[path] for path in changed if path in self.files})
        if self.link in changed:
            _enable(self.tree, self.link, unit if self.after else None)
        # A container, or an image that is being made, has the files and no systemd to tell.
        if {unit, self.link} & set(changed) and self.tree.exists("/run/systemd/system"):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)


def prepare(
    name: str,
    program: str,
    changes: t.Mapping[str, dict[str, t.Any] | None],
    after: t.Sequence[str] = (),
    root: str = "/",
) -> Declaration:
    """Have these parameters applied at every boot, for each GPU by UUID; None for what shall no longer be. Writes nothing yet.

    With nothing left to declare, unit and files go.

    :param name: of the calling module, such as gpu_mig.
    :param program: the private module whose ``main()`` brings about what is declared.
    :param after: modules whose units come first.
    :raises Refusal: what was declared before cannot be read.
    """
    tree = Tree(root)
    unit = f"{UNITS}/{unit_name(name)}"
    known = read_declared(tree, name)
    declared = merge(known, changes)
    files: dict[str, bytes | None] = {program_path(name): None, declared_path(name): None, unit: None}
    if declared:
        files = {
            program_path(name): _boot_program.bundle(program),
            declared_path(name): f"{json.dumps(declared, indent=1, sort_keys=True)}\n".encode(),
            unit: unit_text(name, sys.executable, after).encode(),
        }
    return Declaration(tree, name, known, declared, files)


def _is(tree: Tree, path: str, content: bytes | None) -> bool:
    return not tree.exists(path) if content is None else tree.exists(path) and tree.bytes(path) == content


def _write(tree: Tree, files: t.Mapping[str, bytes | None]) -> None:
    for path, content in files.items():
        place = tree.at(path)
        if content is None:
            if os.path.lexists(place):
                os.unlink(place)
            continue
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(f"{place}.new", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(f"{place}.new", stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH)
        os.replace(f"{place}.new", place)


def _enable(tree: Tree, link: str, unit: str | None) -> None:
    """As `systemctl enable` does, which needs no running systemd either, but its program."""
    place = tree.at(link)
    if unit is None:
        if os.path.lexists(place):
            os.unlink(place)
    elif not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(unit, place)
