# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program `rigwright-backup` on hosts: `_backup/cli.py`, whose `status --probe` also plans a rebuild of the machine."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding


def rebuild(config: Config) -> list[Finding]:
    """Return the finding on a rebuild."""
    # No other command needs the plan, and each would start more slowly.
    from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import findings

    return findings.rebuild(config)


def main() -> int:
    return cli.main(probe=rebuild)
