# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of ``apt-cache policy`` with names of packages. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines

NONE = "(none)"
# What follows a version's priority is a remark, such as `(phased 20%)` of Ubuntu's updates.
_FORMS = {
    "package": r"(?P<name>\S+):",
    "candidate": r"  Candidate: (?P<version>.*)",
    "other": r"  (Installed|Package pin|Version table):.*",
    "version": r" (\*\*\*|   ) (?P<version>\S+) -?\d+( \(.*\))?",
    "source": r" +-?\d+ (?P<place>\S.*?)\s+Packages",
    "status": r" +-?\d+ /\S+",
}


@dataclasses.dataclass
class Offer:
    """The versions of a package with the sources that have them; none for one that only dpkg has."""

    candidate: str = ""
    versions: list[tuple[str, list[str]]] = dataclasses.field(default_factory=list)


def parse(text: str) -> dict[str, Offer]:
    """Return what apt offers of each package, by the name that apt prints."""
    found: dict[str, Offer] = {}
    offer = Offer()
    for form, match in lines.parse("apt-cache policy", text, _FORMS):
        if form == "package":
            offer = found.setdefault(match["name"], Offer())
        elif form == "candidate":
            offer.candidate = "" if match["version"] == NONE else match["version"]
        elif form == "version":
            offer.versions.append((match["version"], []))
        elif form == "source" and offer.versions:
            offer.versions[-1][1].append(match["place"])
    return found
