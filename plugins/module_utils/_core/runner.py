# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What code below the modules needs of a module."""

from __future__ import annotations

import typing as t


class Commands(t.Protocol):
    """What starts programs and warns: a module, the host of a role, or a program that runs without Ansible."""

    check_mode: bool

    def run_command(self, args: t.Any, *rest: t.Any, **options: t.Any) -> t.Any: ...

    def warn(self, warning: str) -> None: ...


@t.runtime_checkable
class Runner(Commands, t.Protocol):
    """The part of AnsibleModule that it uses; a role has a Host."""

    def get_bin_path(self, arg: str, required: bool = False, opt_dirs: t.Any = None) -> t.Any: ...
