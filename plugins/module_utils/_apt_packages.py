# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What dpkg and apt have on record of packages, and which of them only a few others brought along.

``apt-get autoremove`` takes every package that nothing needs any more, also what a person has left there on purpose. A role
gives back what it brought, and no more.
"""

from __future__ import annotations

import re
import typing as t

STATUS = "/var/lib/dpkg/status"
EXTENDED_STATES = "/var/lib/apt/extended_states"

_NEEDS = ("Pre-Depends", "Depends", "Recommends")


class Package(t.NamedTuple):
    """An installed package. *needs* has every alternative: a package that would do is not taken away."""

    version: str
    hold: bool = False
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()


def parse_status(text: str) -> dict[str, Package]:
    """The packages of dpkg's status file that are installed, whole or in part, by name without architecture."""
    packages = {}
    for fields in _paragraphs(text):
        want, _error, status = [*fields.get("Status", "").split(), "", "", ""][:3]
        if status not in ("", "not-installed", "config-files"):
            packages[fields["Package"]] = Package(
                fields.get("Version", ""),
                want == "hold",
                frozenset(name for field in _NEEDS for name in _names(fields.get(field, ""))),
                frozenset(_names(fields.get("Provides", ""))),
            )
    return packages


def parse_automatic(text: str) -> frozenset[str]:
    """The names that apt's extended states mark as installed for another package's sake."""
    return frozenset(fields["Package"] for fields in _paragraphs(text) if fields.get("Auto-Installed") == "1")


def brought_by(roots: t.Iterable[str], packages: t.Mapping[str, Package], automatic: t.Collection[str]) -> list[str]:
    """The installed ones of *roots*, and what is there for their sake alone: what can go with them."""
    providers: dict[str, set[str]] = {}
    for name, package in packages.items():
        for provided in {name, *package.provides}:
            providers.setdefault(provided, set()).add(name)
    needs = {
        name: {provider for need in package.needs for provider in providers.get(need, ())}
        for name, package in packages.items()
    }
    leaving = {name for name in roots if name in packages}
    reached, new = set(leaving), set(leaving)
    while new:
        new = {name for one in new for name in needs[one] if name in automatic} - reached
        reached |= new
    candidates = reached - leaving
    while True:
        staying = packages.keys() - leaving - candidates
        needed = candidates & {name for one in staying for name in needs[one]}
        if not needed:
            return sorted(leaving | candidates)
        candidates -= needed


def _paragraphs(text: str) -> t.Iterator[dict[str, str]]:
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and line[0] not in " \t"]
        if lines:
            yield {name: value.strip() for name, _colon, value in (line.partition(":") for line in lines)}


def _names(relations: str) -> t.Iterator[str]:
    for relation in re.split(r"[,|]", relations):
        name = re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", relation)
        if name:
            yield name.group(1)
