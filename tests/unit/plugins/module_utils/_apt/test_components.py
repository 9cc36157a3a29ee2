# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.components import (
    Target,
    component_source,
    parse_targets,
)

OWN = "/etc/apt/sources.list.d/rigwright-cuda.sources"
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"

# As `apt-get indextargets` of Debian 13 says it; the third party has Debian's suite name and is not Debian.
INDEXTARGETS = f"""\
Debian|http://mirror.example/debian/|trixie|main|{KEY}|/etc/apt/sources.list.d/debian.sources:1
Debian|http://mirror.example/debian/|trixie-updates|main|$(SIGNED_BY)|/etc/apt/sources.list:2
Docker|https://docker.example/debian/|trixie|stable|/etc/apt/keyrings/docker.asc|/etc/apt/sources.list.d/docker.sources:1
$(ORIGIN)|https://new.example/debian/|trixie|main|$(SIGNED_BY)|/etc/apt/sources.list.d/new.sources:1
"""


def test_targets_are_read():
    targets = parse_targets(INDEXTARGETS)

    assert targets[0] == Target(
        "Debian", "http://mirror.example/debian/", "trixie", "main", KEY, "/etc/apt/sources.list.d/debian.sources"
    )
    assert targets[1].signed_by == ""
    assert targets[3].origin == ""


def test_every_suite_of_the_distribution_gets_missing_components():
    text = component_source(parse_targets(INDEXTARGETS), "Debian", ["contrib", "non-free"], OWN)

    assert text == (
        "Types: deb\n"
        "URIs: http://mirror.example/debian/\n"
        "Suites: trixie\n"
        "Components: contrib non-free\n"
        f"Signed-By: {KEY}\n"
        "\n"
        "Types: deb\n"
        "URIs: http://mirror.example/debian/\n"
        "Suites: trixie-updates\n"
        "Components: contrib non-free\n"
    )


def test_the_answer_stays_once_the_file_is_there():
    targets = parse_targets(INDEXTARGETS)
    first = component_source(targets, "Debian", ["non-free"], OWN)
    own = [target._replace(component="non-free", path=OWN) for target in targets if target.origin == "Debian"]

    assert component_source([*targets, *own], "Debian", ["non-free"], OWN) == first


def test_nothing_is_missing():
    targets = parse_targets(INDEXTARGETS)
    theirs = [target._replace(component="non-free") for target in targets]

    assert component_source([*targets, *theirs], "Debian", ["main", "non-free"], OWN) is None
