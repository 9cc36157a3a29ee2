# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the records of dpkg and apt, and find the packages that were installed for others.

``apt-get autoremove`` removes every package that no other needs, also those that a person has kept on purpose. A role removes
only what it has installed.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import policy
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines

STATUS = "/var/lib/dpkg/status"
EXTENDED_STATES = "/var/lib/apt/extended_states"

_DEPENDS = ("Pre-Depends", "Depends")
_NEEDS = (*_DEPENDS, "Recommends")


class Package(t.NamedTuple):
    """An installed package. It is not *whole* as long as dpkg has to unpack or configure it.

    *depends* has the alternatives of each dependency, *needs* all that it depends on or recommends.
    """

    version: str
    hold: bool = False
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    depends: frozenset[frozenset[str]] = frozenset()
    whole: bool = True


def parse_status(text: str) -> dict[str, Package]:
    """Return the packages of dpkg's status file that are installed, whole or in part, by name without architecture."""
    packages = {}
    for fields in _paragraphs(text):
        want, _error, status = [*fields.get("Status", "").split(), "", "", ""][:3]
        if status not in ("", "not-installed", "config-files"):
            packages[fields["Package"]] = Package(
                fields.get("Version", ""),
                want == "hold",
                frozenset(name for field in _NEEDS for name in _names(fields.get(field, ""))),
                frozenset(_names(fields.get("Provides", ""))),
                frozenset(
                    frozenset(_names(relation))
                    for field in _DEPENDS
                    for relation in fields.get(field, "").split(",")
                    if relation
                ),
                status == "installed",
            )
    return packages


def missing_packages(run: t.Callable[..., tuple[int, str, str]], names: t.Sequence[str]) -> list[str]:
    """Return the packages that are not installed, or only in part, as dpkg-query reports them.

    :param run: ``run_command`` of the module.
    """
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Package}\n", *names]
    _status, output, _error = run(command)
    found = lines.parse("dpkg-query", output, {"package": r"(?P<state>[a-z][a-zA-Z])\S? *(?P<name>\S+)"})
    installed = {match["name"] for _form, match in found if match["state"] in ("ii", "hi")}
    return [name for name in names if name not in installed]


def parse_automatic(text: str, native: str = "") -> frozenset[str]:
    """Return the names that apt's extended states mark as installed automatically, for another package.

    :param native: the host's architecture: a package of another one is then ``name:architecture``.
    """
    return frozenset(
        fields["Package"]
        if fields.get("Architecture", native) in (native, "all") or not native
        else f"{fields['Package']}:{fields['Architecture']}"
        for fields in _paragraphs(text)
        if fields.get("Auto-Installed") == "1"
    )


def parse_policy(text: str) -> frozenset[str]:
    """Return the names that apt can install, from the output of `apt-cache policy`."""
    return frozenset(name.partition(":")[0] for name, offer in policy.parse(text).items() if offer.candidate)


def is_whole(name: str, packages: t.Mapping[str, Package]) -> bool:
    return name in packages and packages[name].whole


def unfinished(roots: t.Iterable[str], packages: t.Mapping[str, Package]) -> list[str]:
    """Return the packages that dpkg has not completed among *roots* and all that they depend on."""
    found: set[str] = set()
    new = {name for name in roots if name in packages}
    while new:
        found |= new
        new = {
            name for package in new for choice in packages[package].depends for name in choice if name in packages
        } - found
    return sorted(name for name in found if not is_whole(name, packages))


def installed_for(roots: t.Iterable[str], packages: t.Mapping[str, Package], automatic: t.Collection[str]) -> list[str]:
    """Return those of *roots* that can be removed, with the packages that were installed only for them.

    A root stays only if a package that stays cannot work without it: the driver's libegl-nvidia0 can be removed, since libegl1 has
    Mesa's. Of automatically installed packages, those stay that satisfy a dependency of one that stays, as with apt's autoremove.
    """
    providers: dict[str, set[str]] = {}
    for name, package in packages.items():
        for provided in {name, *package.provides}:
            providers.setdefault(provided, set()).add(name)

    def providing(names: t.Iterable[str]) -> frozenset[str]:
        return frozenset(provider for name in names for provider in providers.get(name, ()))

    needs = {name: providing(package.needs) for name, package in packages.items()}
    depends = {name: [providing(choice) for choice in package.depends] for name, package in packages.items()}
    requested = {name for name in roots if name in packages}
    leaving, new = set(requested), set(requested)
    while new:
        new = {name for current in new for name in needs[current] if name in automatic} - leaving
        leaving |= new
    while True:
        staying = packages.keys() - leaving
        needed = {name for current in staying for name in needs[current]} - requested
        needed |= {
            name for current in staying for choice in depends[current] if not choice & staying for name in choice
        }
        if not needed & leaving:
            return sorted(leaving)
        leaving -= needed


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
