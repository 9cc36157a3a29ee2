# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of GNOME Remote Desktop's settings by grdctl, each read back."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.grdctl import Grdctl, GrdctlError


class Result(t.TypedDict):
    """The result of the module. ``settings`` are those after it, without the password."""

    changed: bool
    changes: list[str]
    settings: JsonObject
    diff: Diff


NONE = remote.Settings(enabled=False)


def result(changes: list[str], before: remote.Settings, after: remote.Settings) -> Result:
    settings = dataclasses.asdict(after)
    del settings["password"]
    return {
        "changed": bool(changes),
        "changes": changes,
        "settings": settings,
        "diff": {"before": remote.shown(before), "after": remote.shown(after)},
    }


def configure(grdctl: Grdctl, wanted: remote.Settings, check_mode: bool) -> Result:
    """Apply the wanted settings and read them back.

    :raises GrdctlError: grdctl failed, or did not keep a setting.
    """
    found = grdctl.settings()
    differ = remote.differences(found, wanted)
    for name in ("certificate", "key"):
        path = getattr(wanted, name)
        if name in differ and not check_mode and not grdctl.reads(path):
            raise GrdctlError(
                f"`{name}` is {path}, which is not a file that {remote.ACCOUNT} can read: "
                "create it with this group and mode 0640."
            )
    commands = remote.plan(found, wanted)
    after = dataclasses.replace(found, **{name: getattr(wanted, name) for name in differ})
    if commands and not check_mode:
        for command in commands:
            grdctl.call(*command.arguments, data=command.data)
        lost = remote.differences(grdctl.settings(), after)
        if lost:
            raise not_kept(grdctl, lost)
    return result([command.change for command in commands], found, after)


def remove(grdctl: Grdctl, check_mode: bool) -> Result:
    """Disable RDP, clear the credential and remove all settings.

    :raises GrdctlError: grdctl failed, or kept a setting.
    """
    found = grdctl.settings()
    commands = remote.plan_absent(found)
    changes = [command.change for command in commands] + (["settings removed"] if remote.has_settings(found) else [])
    if changes and not check_mode:
        for command in commands:
            grdctl.call(*command.arguments)
        # `disable` has written settings as well.
        grdctl.forget()
        kept = grdctl.settings()
        if kept != remote.defaults():
            raise not_kept(grdctl, ["the removal of its settings"])
    return result(changes, found, remote.defaults() if changes else found)


def not_kept(grdctl: Grdctl, names: list[str]) -> GrdctlError:
    return GrdctlError(
        f"grdctl did not keep {', '.join(names)}: "
        f"make sure that {remote.ACCOUNT} can write to /etc/{remote.ACCOUNT} and its home {grdctl.home}, then run again."
    )
