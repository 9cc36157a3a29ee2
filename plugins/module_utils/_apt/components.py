# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Further components of the distribution's own archive, such as Debian's contrib and non-free.

apt itself says which of its sources are the distribution's (the ``Origin`` that the archive signed), so mirrors count and a
third party that uses the same suite names does not.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import Entry, render

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
    """The lines of COMMAND. apt leaves a field as it is written in the format where it has nothing to say."""
    targets = []
    for line in text.splitlines():
        fields = ["" if field.startswith("$(") else field for field in line.split("|")]
        if len(fields) == len(Target._fields):
            target = Target._make(fields)
            # A source entry is named by its file and its number there.
            targets.append(target._replace(path=target.path.rpartition(":")[0]))
    return targets


def component_source(targets: t.Iterable[Target], origin: str, components: t.Sequence[str], path: str) -> str | None:
    """What a source file at *path* has to say so that every suite of *origin* has the components; None: nothing is missing.

    What the file says already does not count, so that the answer stays the same once it is there.
    """
    known: dict[tuple[str, str, str], set[str]] = {}
    for target in targets:
        if target.origin == origin and target.path != path:
            known.setdefault((target.uri, target.suite, target.signed_by), set()).add(target.component)
    entries = []
    for (uri, suite, key), present in known.items():
        missing = tuple(component for component in components if component not in present)
        if missing:
            options = (("Signed-By", key),) if key else ()
            entries.append(Entry(("deb",), (uri,), (suite,), missing, options))
    return render(entries) if entries else None
