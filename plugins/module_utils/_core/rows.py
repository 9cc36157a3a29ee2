# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of rows that a plan hands to ``config_files``, and of what a module is asked and says."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem

# An object of JSON that others write, whose keys its reader alone knows: options of programs, and what programs print.
JsonObject = dict[str, t.Any]


class _Path(t.TypedDict):
    path: str


class _Access(t.TypedDict, total=False):
    mode: str
    owner: str
    group: str


class DirectoryRow(_Path, _Access, total=False):
    """A row of ``directories``. One without a mode is 0755 and root's."""


class FileOptions(_Access, total=False):
    """What a row of ``files`` may have besides its path."""

    template: str
    content: str
    data: t.Any
    format: str
    program: str
    state: str
    merged: bool
    secret: bool
    validate: str | None


class FileRow(_Path, FileOptions, total=False):
    """A row of ``files``. Without a source its template is ``templates/<path>.j2`` of the role.

    No plan has a secret: ``secret_files`` of the role returns files with secrets, and the action ``plan`` adds them.
    """


class _Name(t.TypedDict):
    name: str


class UnitRow(_Name, total=False):
    """A row of ``units``. Its state is started unless it says stopped."""

    state: str
    enabled: bool | None
    restart_on: t.Sequence[str]
    reload_on: t.Sequence[str]
    loaded: t.Sequence[str]
    may_restart: bool
    validate: str | None


class SetRequest(t.TypedDict):
    """The parameters of the module, as the action hands them on."""

    name: str
    state: str
    directories: list[DirectoryRow]
    files: list[FileRow]
    units: list[UnitRow]


class Call(t.TypedDict):
    """What a role is asked: to plan or to verify, for this request."""

    role: str
    kind: str
    request: JsonObject


class Option(t.TypedDict, total=False):
    """An option of an argument spec."""

    type: str
    elements: str
    default: t.Any
    required: bool
    choices: t.Sequence[str]
    no_log: bool
    options: t.Mapping[str, Option]


Spec = t.Mapping[str, Option]


class Release(t.TypedDict):
    """A release for ``release_archive``, as the filter ``release`` chooses it."""

    version: str
    url: str
    checksum: str
    requirements: list[Problem]


class Listener(t.TypedDict):
    """A socket that waits for peers. The last three are None where the process cannot be seen."""

    protocol: str
    address: str
    port: int
    process: str | None
    pid: int | None
    unit: str | None


class PlannedMount(t.TypedDict, total=False):
    """A mount that an earlier task would make in check mode."""

    target: str
    source: str
    fstype: str
    bytes: int


class Planned(t.TypedDict, total=False):
    """What earlier roles would have made in check mode (plugin_utils/_check_mode.py)."""

    mounts: list[PlannedMount]
    unmounts: list[str]
    directories: list[str]
    groups: list[str]
    docker: bool
    driver: bool


class Diff(t.TypedDict, total=False):
    """A change as Ansible shows it."""

    before: t.Any
    after: t.Any
    before_header: str
    after_header: str
