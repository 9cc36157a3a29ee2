# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    Package,
    installed_for,
    missing_packages,
    parse_automatic,
    parse_policy,
    parse_status,
    unfinished,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines

STATUS = """\
Package: cuda-toolkit-13-0
Status: install ok installed
Version: 13.0.2-1
Depends: cuda-nvcc-13-0 (>= 13.0.88), cuda-libraries-13-0 | cuda-old
Recommends: cuda-documentation-13-0
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


def test_status_has_fully_and_partly_installed_packages():
    packages = parse_status(STATUS)

    assert packages == {
        "cuda-toolkit-13-0": Package(
            "13.0.2-1",
            needs=frozenset({"cuda-nvcc-13-0", "cuda-libraries-13-0", "cuda-old", "cuda-documentation-13-0"}),
            depends=frozenset({frozenset({"cuda-nvcc-13-0"}), frozenset({"cuda-libraries-13-0", "cuda-old"})}),
        ),
        "cuda-nvcc-13-0": Package("13.0.88-1", True, provides=frozenset({"nvcc", "cuda-compiler"})),
        "half": Package("2", whole=False),
    }


def test_extended_states_list_automatic_packages():
    text = "Package: a\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: b\nAuto-Installed: 0\n\n"
    assert parse_automatic(text) == {"a"}


def test_foreign_automatic_package_has_its_architecture():
    text = "".join(f"Package: a\nArchitecture: {name}\nAuto-Installed: 1\n\n" for name in ("amd64", "i386"))
    assert parse_automatic(text, "amd64") == {"a", "a:i386"}


POLICY = """\
cuda-toolkit-13-0:
  Installed: (none)
  Candidate: 13.0.2-1
  Version table:
     13.0.2-1 600
        600 https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64  Packages
cuda-toolkit-12-6:
  Installed: (none)
  Candidate: (none)
  Version table:
g++:
  Installed: 4:14.2.0-1
  Candidate: 4:14.2.0-1
  Version table:
 *** 4:14.2.0-1 500
"""


def test_policy_lists_installable_packages():
    assert parse_policy(POLICY) == {"cuda-toolkit-13-0", "g++"}


@pytest.mark.parametrize("state", ["half-installed", "unpacked", "half-configured", "triggers-pending"])
def test_unfinished_package_is_found_at_any_distance(state):
    text = STATUS.replace("Provides: nvcc", "Depends: half\nProvides: nvcc").replace("half-configured", state)
    packages = parse_status(text + "\nPackage: another\nStatus: install ok unpacked\n")

    assert unfinished(["cuda-toolkit-13-0", "not-there"], packages) == ["half"]
    assert unfinished(["cuda-toolkit-13-0"], parse_status(STATUS)) == []


def package(*depends: str, recommends: tuple[str, ...] = (), provides: tuple[str, ...] = ()) -> Package:
    """Return a package. Each of *depends* is one dependency: alternatives with a bar between them."""
    choices = frozenset(frozenset(fields.split(" | ")) for fields in depends)
    return Package("1", needs=frozenset().union(recommends, *choices), provides=frozenset(provides), depends=choices)


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
def test_dependencies_that_are_removed_with_a_package(roots, leaving):
    assert installed_for(roots, HOST, AUTOMATIC) == leaving


def test_package_needed_by_a_provided_name_stays():
    host = {"a": package("lib-a"), "lib-a": package(provides=("lib",)), "b": package("lib")}
    assert installed_for(["a"], host, {"lib-a"}) == ["a"]


def test_a_circle_that_only_needs_itself_goes():
    host = {"a": package("x"), "x": package("y"), "y": package("x")}
    assert installed_for(["a"], host, {"x", "y"}) == ["a", "x", "y"]


# The driver next to what a desktop and the archive's toolkit have: both recommend more of it than they depend on.
DRIVER = {
    "libcuda1": package("libnvidia-ptxjitcompiler1", recommends=("nvidia-kernel-dkms",)),
    "libnvidia-ptxjitcompiler1": package(),
    "nvidia-kernel-dkms": package("dkms"),
    "libegl-nvidia0": package(provides=("libegl-vendor",)),
    "dkms": package("gcc"),
    "gcc": package(),
    "libegl1": package("libegl-mesa0 | libegl-vendor"),
    "libegl-mesa0": package(),
    "desktop": package("libegl1", recommends=("libcuda1",)),
}
ROOTS = {"libcuda1", "libnvidia-ptxjitcompiler1", "nvidia-kernel-dkms", "libegl-nvidia0"}


@pytest.mark.parametrize(
    ("more", "staying"),
    [
        ({}, set()),
        ({"nvidia-cuda-toolkit": package("libcuda1 | libcuda.so.1")}, {"libcuda1", "libnvidia-ptxjitcompiler1"}),
        ({"own-module": package("nvidia-kernel-dkms")}, {"nvidia-kernel-dkms"}),
    ],
)
def test_a_root_stays_where_something_would_be_left_without_it(more, staying):
    assert installed_for(ROOTS, {**DRIVER, **more}, ()) == sorted(ROOTS - staying)


def test_dependency_of_a_kept_package_is_not_removed():
    host = {"toolkit": package("nvcc"), "nvcc": package("libraries"), "libraries": package(), "own": package("toolkit")}
    assert installed_for(["toolkit"], host, {"nvcc", "libraries"}) == []


def test_packages_in_part_are_missing_and_known_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(lines, "_warn", warned.append)
    states = {
        "whole": "ii ",
        "kept": "hi ",
        "unpacked": "iU ",
        "failed": "iF ",
        "half": "iHR",
        "pending": "iW ",
        "gone": "rc ",
    }
    shown = "".join(f"{state}{name}\n" for name, state in states.items())
    assert missing_packages(lambda _command: (0, shown, ""), [*states, "new"]) == [*list(states)[2:], "new"]
    assert warned == []
