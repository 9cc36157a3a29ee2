# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a source file for further components of the distribution's own archive, such as Debian's contrib and non-free.

The ``Origin`` that the archive signed identifies the sources of the distribution, so mirrors count, and third parties that use the
same suite names do not.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import Entry, render
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines

# For `apt-get indextargets --format`, one line for each component of each suite.
FORMAT = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(SOURCESENTRY)"
COMMAND = ("apt-get", "indextargets", "--format", FORMAT, "Created-By: Packages")


class Target(t.NamedTuple):
    """A component of a suite that apt knows. *origin* is empty where apt has not fetched it yet."""

    origin: str
    uri: str
    suite: str
    component: str
    signed_by: str
    path: str


def parse_targets(text: str) -> list[Target]:
    """Parse the output of COMMAND. apt prints a field as in the format if it has no value for it."""
    targets = []
    for _form, match in lines.parse(
        "apt-get indextargets", text, {"target": r"\|".join(["([^|]*)"] * len(Target._fields))}
    ):
        target = Target._make("" if field.startswith("$(") else field for field in match.groups())
        # A source entry is named by its file and its number there.
        targets.append(target._replace(path=target.path.rpartition(":")[0]))
    return targets


def component_source(targets: t.Iterable[Target], origin: str, components: t.Sequence[str], path: str) -> str | None:
    """Return the text of a source file at *path* with which every suite of *origin* has the components; None if nothing is missing.

    The current content of the file does not count, so the result stays the same after it is written.
    """
    suites: dict[tuple[str, str, str], set[str]] = {}
    for target in targets:
        if target.origin == origin and target.path != path:
            suites.setdefault((target.uri, target.suite, target.signed_by), set()).add(target.component)
    entries = []
    for (uri, suite, key), present in suites.items():
        missing = tuple(component for component in components if component not in present)
        if missing:
            options = (("Signed-By", key),) if key else ()
            entries.append(Entry(("deb",), (uri,), (suite,), missing, options))
    return render(entries) if entries else None
