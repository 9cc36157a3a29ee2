# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt_packages import (
    Package,
    brought_by,
    parse_automatic,
    parse_status,
)

STATUS = """\
Package: cuda-toolkit-13-0
Status: install ok installed
Version: 13.0.2-1
Depends: cuda-nvcc-13-0 (>= 13.0.88), cuda-libraries-13-0 | cuda-old
Description: CUDA
 Depends: not-a-field

Package: cuda-nvcc-13-0
Status: hold ok installed
Version: 13.0.88-1
Provides: nvcc (= 13), cuda-compiler:any

Package: gone
Status: deinstall ok config-files
Version: 1

Package: half
Status: install reinstreq half-configured
Version: 2
"""


def test_status_has_what_is_installed_in_whole_or_in_part():
    packages = parse_status(STATUS)

    assert packages == {
        "cuda-toolkit-13-0": Package(
            "13.0.2-1", False, frozenset({"cuda-nvcc-13-0", "cuda-libraries-13-0", "cuda-old"})
        ),
        "cuda-nvcc-13-0": Package("13.0.88-1", True, provides=frozenset({"nvcc", "cuda-compiler"})),
        "half": Package("2"),
    }


def test_extended_states_tell_what_apt_brought_by_itself():
    text = "Package: a\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: b\nAuto-Installed: 0\n\n"
    assert parse_automatic(text) == {"a"}


def package(*needs: str, provides: tuple[str, ...] = ()) -> Package:
    return Package("1", False, frozenset(needs), frozenset(provides))


HOST = {
    "toolkit": package("nvcc", "libraries"),
    "nvcc": package("gcc"),
    "libraries": package("shared"),
    "other-toolkit": package("shared"),
    "shared": package(),
    "gcc": package(),
    "orphan": package(),
}
AUTOMATIC = {"nvcc", "libraries", "shared", "orphan"}


@pytest.mark.parametrize(
    ("roots", "leaving"),
    [
        # gcc was asked for by a person, `shared` is needed by another toolkit, and `orphan` has nothing to do with it.
        (["toolkit"], ["libraries", "nvcc", "toolkit"]),
        (["toolkit", "other-toolkit"], ["libraries", "nvcc", "other-toolkit", "shared", "toolkit"]),
        (["not-there"], []),
        ([], []),
    ],
)
def test_what_goes_with_a_package(roots, leaving):
    assert brought_by(roots, HOST, AUTOMATIC) == leaving


def test_what_one_needs_by_another_name_stays():
    host = {"a": package("lib-a"), "lib-a": package(provides=("lib",)), "b": package("lib")}
    assert brought_by(["a"], host, {"lib-a"}) == ["a"]


def test_a_circle_that_only_needs_itself_goes():
    host = {"a": package("x"), "x": package("y"), "y": package("x")}
    assert brought_by(["a"], host, {"x", "y"}) == ["a", "x", "y"]
