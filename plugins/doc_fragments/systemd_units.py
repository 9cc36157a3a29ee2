# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Units, as systemd_units and config_files take them."""

    DOCUMENTATION = r"""
options:
  units:
    description: The units, in the order in which they are handled. A unit that is listed twice is refused.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Full unit name, such as C(frps.service).
        type: str
        required: true
      state:
        description:
          - Desired state of the unit. A unit that does not exist counts as V(stopped).
          - A unit with C(Type=oneshot) and without C(RemainAfterExit) ends, and is never active. With O(units[].restart_on) it is started
            again when one of these paths changed, or when it has not succeeded since the boot. Without any path, each run starts it.
        type: str
        choices: [started, stopped]
        default: started
      enabled:
        description: Whether it starts at boot. Not touched when unset.
        type: bool
      restart_on:
        description:
          - Paths that the unit reads when it starts. The unit is restarted when one is not what it loaded.
          - A directory stands for the files in it, a symbolic link for the path that it leads to.
        type: list
        elements: path
        default: []
      reload_on:
        description: Paths that the unit reads again when it is reloaded.
        type: list
        elements: path
        default: []
      loaded:
        description:
          - Those of O(units[].restart_on) and O(units[].reload_on) that were written after the unit started and say nothing that it does
            not know. They are noted as loaded.
        type: list
        elements: path
        default: []
      may_restart:
        description: With V(false) a restart that is due is announced by a warning and in C(pending) of the result, not done.
        type: bool
        default: true
      validate:
        description:
          - Command that is run, without a shell, before this unit is restarted or reloaded while it runs. When it fails, nothing is done to
            any unit, and the task fails with the output of the command.
          - It protects a running service from a mistake that somebody else made in its files.
        type: str
  changed_paths:
    description:
      - Paths that earlier tasks changed, as M(rigwright.workstation.release_archive) and
        M(rigwright.workstation.tls_certificate) return it.
      - Only check mode needs it, to report which units would be restarted or reloaded for a change that was not made. Otherwise the
        module reads the paths themselves, and a file with only another mode restarts nothing.
    type: list
    elements: path
    default: []
  settle:
    description: Seconds for which a unit that was just started has to stay up.
    type: float
    default: 1.0
"""
