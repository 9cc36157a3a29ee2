# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Note the state in which ``config_files`` left a set, so that a plan knows that the same request has nothing to change.

A note has the digest of the request, and the state of all that the set consists of. It is gone after a reboot. The digest
of a request with a secret has a salt and takes long to compute, since a reader of the plan could guess the secret by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import State, Wanted
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import (
    RECOVERY_UNIT,
    STORE,
    manifest_of,
    open_sets,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import SetRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import (
    PROPERTIES,
    Status,
    Watched,
    needs_daemon_reload,
    read_watched,
    show,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import (
    plan as due_verbs,
)

NOTES = "/run/rigwright/configured"


class SetState(t.TypedDict):
    """The state of all that a set consists of, as JSON has it."""

    set: str | None
    paths: dict[str, list[str | int | None]]
    owners: dict[str, int | None]
    groups: dict[str, int | None]
    units: dict[str, list[str | bool]]
    watched: dict[str, str]


def note(
    root: str,
    params: SetRequest,
    digest: str,
    wanted: t.Iterable[Wanted],
    units: t.Mapping[str, Status],
    watched: t.Mapping[str, Watched],
) -> None:
    """Note the state that a request has reached: as it was decided by, so that what changed since differs from it.

    :param root: the directory of the records of sets.
    :param params: those of ``config_files``.
    :param watched: paths that the units load.
    """
    # A person may have stopped a unit since, or changed its files.
    due = [due_verbs(unit, units[unit["name"]], [], []) for unit in params["units"]]
    if any(due) or any(map(needs_daemon_reload, units.values())):
        return
    items = [*params["directories"], *params["files"]]
    state = _state(
        manifest_of(params["name"], root),
        {item.path: item.state for item in wanted if not item.released},
        {item["owner"] for item in items},
        {item["group"] for item in items},
        units,
        watched,
    )
    os.makedirs(NOTES, mode=0o700, exist_ok=True)
    replace_file(_path(params["name"]), json.dumps({"digest": digest, "state": state}), mode=0o600)


def forget(name: str) -> None:
    """Remove the note of a set, before anything of it changes."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(name))


def forget_all() -> None:
    """Remove all notes: a unit that was reloaded keeps its invocation, and other sets may use it too."""
    for name in _notes():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(NOTES, name))


def configured_sets(run: t.Callable[..., t.Any], role: str, root: str = STORE) -> dict[str, str]:
    """Return the digest of the request that each set of a role was configured by, if its state is still the same.

    :param run: ``run_command`` of the module.
    """
    names = [name[: -len(".json")] for name in _notes() if name == f"{role}.json" or name.startswith(f"{role}_")]
    # The run after an interrupted one has work to do, and removes the unit that was to recover its files at boot.
    if not names or open_sets(root) or os.path.lexists(RECOVERY_UNIT):
        return {}
    found = {}
    for name in names:
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            with open(_path(name), encoding="utf-8") as file:
                content = json.load(file)
            if content["state"] == _current(manifest_of(name, root), content["state"], run):
                found[name] = content["digest"]
    return found


def _current(manifest: str, noted: SetState, run: t.Callable[..., t.Any]) -> SetState:
    """Return the state now of what a note is about."""
    return _state(
        manifest,
        {path: read_state(path) for path in noted["paths"]},
        noted["owners"],
        noted["groups"],
        {name: Status.of(properties) for name, properties in show(run, list(noted["units"]), PROPERTIES).items()},
        {path: read_watched(path) for path in noted["watched"]},
    )


def _state(
    manifest: str,
    paths: t.Mapping[str, State],
    owners: t.Iterable[str],
    groups: t.Iterable[str],
    units: t.Mapping[str, Status],
    watched: t.Mapping[str, Watched],
) -> SetState:
    """Return a state as JSON has it."""
    return {
        "set": read_state(manifest).digest,
        "paths": {path: [found.kind, found.mode, found.uid, found.gid, found.digest] for path, found in paths.items()},
        "owners": {name: accounts.uid_of(name) for name in owners},
        "groups": {name: accounts.gid_of(name) for name in groups},
        "units": {
            name: [status.load, status.active, status.enabled, needs_daemon_reload(status), status.invocation]
            for name, status in units.items()
        },
        "watched": {path: found.digest for path, found in watched.items()},
    }


def _notes() -> list[str]:
    try:
        return sorted(os.listdir(NOTES))
    except FileNotFoundError:
        return []


def _path(name: str) -> str:
    return os.path.join(NOTES, f"{name}.json")
