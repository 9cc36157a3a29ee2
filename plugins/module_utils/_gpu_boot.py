# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What a reboot takes away from GPUs is brought back: a unit runs the same module again, with what was declared.

A module that calls :func:`prepare`, and then writes what that gives, leaves below ``/var/lib/rigwright/gpu_boot/<module>``

* ``module.zip``: itself with all that it imports, as Ansible sent it, so that boot and playbook cannot disagree;
* ``declared.json``: its parameters by UUID of the GPU, so that tasks for different GPUs do not undo each other;

and the unit ``rigwright-<module>.service``, which runs the one with the other.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import stat
import sys
import typing as t
import zipfile

from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

DIRECTORY = "/var/lib/rigwright/gpu_boot"
UNITS = "/etc/systemd/system"
COLLECTION = "ansible_collections.rigwright.workstation"
# The oldest time that a zip file can say: two archives of the same files are the same.
_TIME = (1980, 1, 1, 0, 0, 0)
_PACKAGES = ("ansible/", "ansible_collections/")
# Who needs the GPUs as they are declared. What is not installed does not matter to systemd.
_BEFORE = "nvidia-cdi-refresh.service docker.service containerd.service slurmd.service"
_AFTER = "systemd-modules-load.service nvidia-persistenced.service nvidia-fabricmanager.service"

Declared = dict[str, dict[str, t.Any]]

# Each GPU in a process of its own: one that fails must not keep the others from their state.
_MAIN = '''\
"""Runs a module for each GPU with the parameters that were declared for it."""
import json
import runpy
import subprocess
import sys

MODULE = {module!r}


def run(parameters):
    from ansible.module_utils import basic

    basic._ANSIBLE_ARGS = json.dumps({{"ANSIBLE_MODULE_ARGS": parameters}}).encode()
    basic._ANSIBLE_PROFILE = "legacy"
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


with open(sys.argv[1], encoding="utf-8") as file:
    declared = json.load(file)
if len(sys.argv) > 2:
    run(declared[sys.argv[2]])
sys.exit(max(subprocess.call([sys.executable, *sys.argv, key]) for key in declared) if declared else 0)
'''


def unit_name(module: str) -> str:
    return f"rigwright-{module.replace('_', '-')}.service"


def unit_text(module: str, python: str, after: t.Sequence[str] = ()) -> str:
    """:param after: other modules whose units come first."""
    place = f"{DIRECTORY}/{module}"
    others = " ".join(unit_name(one) for one in after)
    # TimeoutStartSec is that of NVIDIA's own nvidia-mig-manager.service.
    return f"""\
# Written by {COLLECTION}.{module}; `persist: none` takes it away.
[Unit]
Description=State of the GPUs as {COLLECTION}.{module} declares it
After={_AFTER}{" " + others if others else ""}
Before={_BEFORE}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={python} {place}/module.zip {place}/declared.json
TimeoutStartSec=480

[Install]
WantedBy=multi-user.target
"""


def archive(module: str) -> bytes:
    """The module, as Ansible has sent it, as a program of its own.

    :raises Refusal: Ansible has sent it in another way.
    """
    files = _sent()
    files["__main__.py"] = _MAIN.format(module=f"{COLLECTION}.plugins.modules.{module}").encode()
    target = io.BytesIO()
    # Not compressed: every run compares it, and that has to be quick.
    with zipfile.ZipFile(target, "w") as made:
        for name in sorted(files):
            made.writestr(zipfile.ZipInfo(name, _TIME), files[name])
    return target.getvalue()


def _sent() -> dict[str, bytes]:
    path = getattr(sys.modules["__main__"], "_modlib_path", "")
    if not (path and os.path.isfile(path)):
        raise Refusal(
            "persist: this module did not come as the archive that Ansible sends (ANSIBLE_KEEP_REMOTE_FILES?), so that boot has nothing "
            "to run; use persist: none"
        )
    with zipfile.ZipFile(path) as sent:
        # Beside the packages lies what holds for this one run, such as where its temporary files are.
        return {
            name: sent.read(name) for name in sent.namelist() if name.startswith(_PACKAGES) and name.endswith(".py")
        }


def merge(declared: t.Mapping[str, dict[str, t.Any]], changes: t.Mapping[str, dict[str, t.Any] | None]) -> Declared:
    """Pure: what is declared after this run. None takes a GPU's away; GPUs that this run does not name keep theirs."""
    merged = {**declared, **changes}
    return {key: merged[key] for key in sorted(merged) if merged[key] is not None}  # type: ignore[misc]


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
    name: str, changes: t.Mapping[str, dict[str, t.Any] | None], after: t.Sequence[str] = (), root: str = "/"
) -> Declaration:
    """Have these parameters applied at every boot, for each GPU by UUID; None for what shall no longer be. Writes nothing yet.

    With nothing left to declare, unit and files go.

    :param name: of the calling module, such as gpu_mig.
    :param after: modules whose units come first.
    :raises Refusal: boot would have nothing to run.
    """
    tree = Tree(root)
    place = f"{DIRECTORY}/{name}"
    unit = f"{UNITS}/{unit_name(name)}"
    try:
        known: Declared = json.loads(tree.text(f"{place}/declared.json") or "{}")
    except ValueError:
        # Cut off while it was written: what this run declares is all that is known.
        known = {}
    declared = merge(known, changes)
    files: dict[str, bytes | None] = {f"{place}/module.zip": None, f"{place}/declared.json": None, unit: None}
    if declared:
        files = {
            f"{place}/module.zip": archive(name),
            f"{place}/declared.json": f"{json.dumps(declared, indent=1, sort_keys=True)}\n".encode(),
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
