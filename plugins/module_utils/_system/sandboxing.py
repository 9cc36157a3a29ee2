# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the sandboxing of units with systemd-analyze."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding

# Upper limit of the exposure of a sandboxed unit. The lines of hardening.yml in the role common give about 1.5 ("OK"), none 9.2 ("UNSAFE").
LIMIT = 2.5


def check(run: t.Callable[..., t.Any], role: str, units: t.Sequence[str]) -> Finding:
    """Return the finding on the units of a role."""
    _status, output, _error = run(["systemd-analyze", "security", "--no-pager", *units])
    exposures = re.findall(r"level for (\S+): ([0-9.]+)", output)
    sandboxed = [unit for unit, exposure in exposures if float(exposure) < LIMIT]
    shown = ", ".join(" ".join(row) for row in exposures) or "systemd-analyze reported none"
    return finding(
        f"{role}.confinement",
        "skip" if not units else "pass" if {*sandboxed} >= {*units} else "warn",
        f"exposure by systemd-analyze security: {shown}",
        "check the drop-ins under /etc/systemd/system/<unit>.d",
    )
