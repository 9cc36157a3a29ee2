# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Declared modes come back at boot: the files of the unit, and the program that it runs (:func:`main`), which needs no Ansible."""

from __future__ import annotations

import os
import subprocess
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _boot_program
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode as modes
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_mode_record as record
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu_mode_apply import NOT_THERE, Failed, Host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvml_errors import NvmlError, Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._tree import Tree

NAME = "rigwright-gpu-mode.service"
UNIT = f"/etc/systemd/system/{NAME}"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{NAME}"
PROGRAM = "/usr/local/lib/rigwright/gpu_mode.pyz"
SYSTEMD = "/run/systemd/system"
# Seconds for a driver that udev is loading.
PATIENCE = 30
_NOT_YET = ("DRIVER_NOT_LOADED", "NOT_READY")

_TEXT = """\
# Ansible managed
# Has the GPUs in the modes that are declared in {declared}, which the driver forgets when it is unloaded.

[Unit]
Description=Declared modes of NVIDIA GPUs
ConditionPathExists={declared}
After=systemd-modules-load.service nvidia-persistenced.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={python} -B {program}

[Install]
WantedBy=multi-user.target
"""


def files_for(declared: record.ByCard, python: str) -> dict[str, bytes]:
    """What has to lie where, empty for a file that has to be gone."""
    if not declared:
        return {record.DECLARED: b"", UNIT: b"", PROGRAM: b""}
    unit = _TEXT.format(declared=record.DECLARED, python=python, program=PROGRAM)
    return {
        record.DECLARED: record.declared_text(declared).encode(),
        PROGRAM: _boot_program.bundle("_gpu_mode_boot"),
        UNIT: unit.encode(),
    }


def differing(tree: Tree, files: t.Mapping[str, bytes]) -> list[str]:
    """The files that are not as they have to be, and the unit's link where it is not enabled."""
    paths = [
        path for path, content in files.items() if tree.bytes(path) != content or (not content and tree.exists(path))
    ]
    return paths + ([WANTED] if tree.exists(WANTED) != bool(files[UNIT]) else [])


def install(
    tree: Tree, files: t.Mapping[str, bytes], paths: t.Collection[str], systemctl: t.Callable[..., t.Any]
) -> None:
    """Bring about what differs."""
    if WANTED in paths and not files[UNIT]:
        systemctl("disable", NAME)
    for path in files:
        if path in paths:
            record.write(tree, path, files[path])
    if UNIT in paths:
        systemctl("daemon-reload")
    if WANTED in paths and files[UNIT]:
        systemctl("enable", NAME)


def declare(
    declared: record.ByCard, requests: t.Mapping[str, modes.Entry], keep: bool, exclusive: bool
) -> record.ByCard:
    """What a boot has to bring back, after these requests.

    :param keep: whether it has to bring back what is requested. Otherwise that is no longer declared.
    :param exclusive: whether cards without a request are no longer declared.
    """
    after = {} if exclusive else dict(declared)
    for uuid, entry in requests.items():
        others = {name: value for name, value in declared.get(uuid, {}).items() if name not in entry.wanted}
        after[uuid] = {**others, **(modes.to_declare(entry.wanted) if keep else {})}
    return {uuid: settings for uuid, settings in after.items() if settings}


def run(command: list[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # pylint: disable=ansible-bad-function
    except OSError as error:
        # A card that needs a program which is not there is no reason to leave the others.
        return NOT_THERE, "", str(error)
    return done.returncode, done.stdout, done.stderr


def wait_for_driver(seconds: float) -> None:
    """:raises NvmlError: NVML cannot be asked, also not later."""
    end = time.monotonic() + seconds
    while True:
        try:
            with Nvml():
                return
        except NvmlError as error:
            if error.name not in _NOT_YET or time.monotonic() > end:
                raise
        time.sleep(1)


def bring_back(host: Host, declared: record.ByCard) -> t.Iterator[tuple[bool, str]]:
    """Each card for itself: one that does not answer is no reason to leave the others as they are."""
    for uuid, wanted in sorted(declared.items()):
        try:
            card = host.nvml.find(uuid)
            plan = modes.plan(host.read(card, "time_slice" in wanted), wanted, uuid)
            if plan.problems:
                yield False, "; ".join(plan.problems)
                continue
            host.carry_out([plan], {uuid: card})
        except (NvmlError, Refusal, Failed) as error:
            yield False, f"{uuid}: {error}"
        else:
            changes = [f"{change.setting} {modes.shown(change.setting, change.after)}" for change in plan.changes]
            yield True, f"{plan.state.called}: {', '.join(changes) or 'is as declared'}"


def main(root: str = "/") -> int:
    """The unit's program. What it says goes to the journal."""
    tree = Tree(root)
    try:
        declared = record.read_declared(tree)
        wait_for_driver(PATIENCE)
        with Nvml() as nvml:
            told = list(bring_back(Host(nvml, tree, run), declared))
    except (NvmlError, Refusal) as error:
        told = [(False, str(error))]
    for _ok, line in told:
        os.write(1, f"{line}\n".encode())
    return 0 if all(ok for ok, _line in told) else 1
