# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_environment import set_environment
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import (
    Host,
    Plan,
    Request,
    plan_absent,
    plan_present,
)

GIB = 1024**3
ROOM = {"/usr/local": 100 * GIB}
BARE = Host("Debian", "13", "x86_64", free_bytes=ROOM)


# Toolkit 13.0 as the only one.
LINKED: dict[str, Any] = {
    "alternatives": {"cuda": "/usr/local/cuda-13.0", "cuda-13": "/usr/local/cuda-13.0"},
    "roots": {"cuda": "/etc/alternatives/cuda", "cuda-13": "/etc/alternatives/cuda-13", "cuda-13.0": ""},
}


def refusals(plan: Plan) -> list[str]:
    return [f"{row['variable']} {row['problem']}: {row['remedy']}" for row in plan.requirements]


def having(host: Host, *names: str, **changes: Any) -> Host:
    return dataclasses.replace(host, packages={name: Package("1") for name in names}, **changes)


def test_two_toolkits_on_a_bare_host():
    plan = plan_present(BARE, Request(toolkits=("13.0", "12.9"), default="12.9"))

    assert refusals(plan) == []
    assert plan.source == "cuda_repository"
    assert plan.install == ["cuda-toolkit-13-0", "cuda-toolkit-12-9", "g++"]
    assert plan.alternatives == {
        "cuda": "/usr/local/cuda-12.9",
        "cuda-12": "/usr/local/cuda-12.9",
        "cuda-13": "/usr/local/cuda-13.0",
    }


def test_no_metapackage_that_pulls_a_driver():
    plan = plan_present(BARE, Request(toolkits=("13.0",)))
    assert not {"cuda", "cuda-13-0", "cuda-drivers"} & {*plan.install}


def test_existing_toolkit_is_neither_installed_nor_managed():
    host = having(BARE, "cuda-toolkit-12-9", "g++")
    plan = plan_present(host, Request(toolkits=("12.9", "13.0")))

    assert plan.install == plan.installed == ["cuda-toolkit-13-0"]
    assert plan.remove == []


@pytest.mark.parametrize("state", ["toolkit", "nvcc", "journal"])
def test_interrupted_installation_is_completed(state):
    packages = {
        "cuda-toolkit-13-0": Package("1", depends=frozenset({frozenset({"cuda-nvcc-13-0"})}), whole=state != "toolkit"),
        "cuda-nvcc-13-0": Package("1", whole=state != "nvcc"),
        "g++": Package("1"),
        "another": Package("1", whole=False),
    }
    host = dataclasses.replace(BARE, packages=packages, interrupted=state == "journal")

    plan = plan_present(host, Request(toolkits=("13.0",)))

    assert plan.unfinished
    assert plan.install == (["cuda-toolkit-13-0"] if state == "toolkit" else [])
    # Not the role's: it was there, in part, before it.
    assert plan.installed == []
    assert refusals(plan) == []


def test_unfinished_packages_of_others_are_ignored():
    host = having(BARE, "cuda-toolkit-13-0", "g++")
    host = dataclasses.replace(host, packages={**host.packages, "another": Package("1", whole=False)})

    assert not plan_present(host, Request(toolkits=("13.0",))).unfinished


def test_absent_first_completes_an_unfinished_change():
    host = dataclasses.replace(
        BARE,
        packages={"cuda-toolkit-13-0": Package("1", whole=False)},
        installed=frozenset({"cuda-toolkit-13-0"}),
    )

    plan = plan_absent(host)

    assert (plan.unfinished, plan.remove) == (True, ["cuda-toolkit-13-0"])


def test_half_installed_toolkit_needs_no_more_space():
    packages = {"cuda-toolkit-13-0": Package("1", whole=False), "g++": Package("1")}
    host = dataclasses.replace(BARE, packages=packages, free_bytes={"/usr/local": GIB})

    assert refusals(plan_present(host, Request(toolkits=("13.0",)))) == []


def test_toolkit_that_the_repository_lacks_is_refused():
    plan = plan_present(BARE, Request(toolkits=("13.0", "12.6")))

    plan.check_known(
        "cuda_toolkits",
        {
            "13.0": "cuda-toolkit-13-0",
            "12.9": "cuda-toolkit-12-9",
            "12.6": "cuda-toolkit-12-6",
            "11.8": "cuda-toolkit-11-8",
        },
        {"cuda-toolkit-13-0", "cuda-toolkit-12-9"},
    )

    (message,) = refusals(plan)
    assert message.startswith("cuda_toolkits asks for 12.6, which NVIDIA's repository for this system does not have")
    assert "choose among 13.0, 12.9, or" in message


def test_removed_version_goes_with_its_dependencies():
    packages = {
        "cuda-toolkit-12-9": Package("1", needs=frozenset({"cuda-nvcc-12-9", "cuda-config"})),
        "cuda-nvcc-12-9": Package("1"),
        "cuda-toolkit-13-0": Package("1", needs=frozenset({"cuda-config"})),
        "cuda-config": Package("1"),
        "g++": Package("1"),
    }
    host = dataclasses.replace(
        BARE,
        packages=packages,
        automatic=frozenset({"cuda-nvcc-12-9", "cuda-config"}),
        installed=frozenset({"cuda-toolkit-12-9", "cuda-toolkit-13-0"}),
        **LINKED,
    )

    plan = plan_present(host, Request(toolkits=("13.0",)))

    assert plan.remove == ["cuda-nvcc-12-9", "cuda-toolkit-12-9"]
    assert plan.installed == ["cuda-toolkit-13-0"]
    assert plan.alternatives == {}


def test_the_compiler_is_installed_and_stays_for_good():
    plan = plan_present(BARE, Request(toolkits=("13.0",)))
    assert plan.install == ["cuda-toolkit-13-0", "g++"]
    assert plan.installed == ["cuda-toolkit-13-0"]


def test_absent_keeps_dependencies_of_other_packages():
    ours = {"cuda-toolkit-13-0": Package("1"), "cuda-toolkit-12-9": Package("1"), "vim": Package("1")}
    own = Package("1", depends=frozenset({frozenset({"cuda-toolkit-13-0"})}))
    host = dataclasses.replace(
        BARE, packages={**ours, "own-package": own}, installed=frozenset({"cuda-toolkit-13-0", "cuda-toolkit-12-9"})
    )

    assert plan_absent(host).remove == ["cuda-toolkit-12-9"]


def test_a_toolkit_that_has_to_stay_is_still_the_role_s():
    own = Package("1", depends=frozenset({frozenset({"cuda-toolkit-12-9"})}))
    host = dataclasses.replace(
        BARE,
        packages={"cuda-toolkit-12-9": Package("1"), "own-package": own},
        installed=frozenset({"cuda-toolkit-12-9"}),
    )

    plan = plan_present(host, Request(toolkits=("13.0",)))

    assert plan.remove == []
    assert plan.installed == ["cuda-toolkit-12-9", "cuda-toolkit-13-0"]


def test_absent_names_a_held_package():
    packages = {"cuda-toolkit-13-0": Package("1", hold=True), "vim": Package("1", hold=True)}
    host = dataclasses.replace(BARE, packages=packages, installed=frozenset({"cuda-toolkit-13-0"}))

    assert refusals(plan_absent(host)) == [
        "cuda_state removes cuda-toolkit-13-0, which dpkg holds: run `apt-mark unhold cuda-toolkit-13-0` first, or"
        " leave things as they are"
    ]


@pytest.mark.parametrize(
    ("driver", "toolkits"),
    [
        ("", ["13.0"]),  # as for the branch that is preferred: 580
        ("580.95.05", ["13.0"]),
        ("570.211.01", ["12.8"]),
        ("535.309.01", ["12.2"]),
    ],
)
def test_driver_decides_without_a_request(driver, toolkits):
    assert plan_present(dataclasses.replace(BARE, driver=driver), Request()).toolkits == toolkits


def test_working_toolkit_stays_without_a_request():
    host = having(BARE, "cuda-toolkit-12-8", "cuda-toolkit-12-9", driver="580.95.05")

    assert plan_present(host, Request()).toolkits == ["12.9", "12.8"]
    assert plan_present(dataclasses.replace(host, driver="520.61.05"), Request()).toolkits == ["11.8"]


def test_driver_that_breaks_the_installed_toolkit_is_refused():
    host = having(BARE, "cuda-toolkit-13-0", installed=frozenset({"cuda-toolkit-13-0"}))

    plan = plan_present(host, Request(driver_branch="570"))

    assert plan.toolkits == ["13.0"]
    assert plan.remove == []
    assert refusals(plan)[0].startswith(
        "cuda_toolkits is empty, so that what the role installed stays: it has CUDA 13.0, which needs driver 580.65.06 or newer, not"
        " 570 ("
    )
    assert plan_present(host, Request(toolkits=("12.8",), driver_branch="570")).remove == ["cuda-toolkit-13-0"]


@pytest.mark.parametrize("roots", [{}, {"cuda": "cuda-12.9"}])
def test_missing_or_wrong_link_is_restored(roots):
    host = having(BARE, "cuda-toolkit-13-0", "g++", **LINKED)
    changed = dataclasses.replace(host, roots={"cuda-13": "/etc/alternatives/cuda-13", **roots})

    assert plan_present(host, Request(toolkits=("13.0",))).alternatives == {}
    plan = plan_present(changed, Request(toolkits=("13.0",)))
    assert refusals(plan) == []
    assert plan.alternatives == {"cuda": "/usr/local/cuda-13.0"}


def test_an_old_card_gets_the_last_toolkit_that_knows_it():
    host = dataclasses.replace(BARE, driver="580.95.05", generations=("Pascal",))

    assert plan_present(host, Request()).toolkits == ["12.9"]
    assert "CUDA 12.9 is the last for Pascal" in refusals(plan_present(host, Request(toolkits=("13.0",))))[0]


@pytest.mark.parametrize(
    ("host", "request_", "message"),
    [
        (BARE, Request(toolkits=("13.0",), driver_branch="570"), "needs driver 580.65.06 or newer, not 570"),
        (
            dataclasses.replace(BARE, driver="570.211.01"),
            Request(toolkits=("13.0",)),
            "cuda_toolkits has CUDA 13.0, which needs driver 580.65.06 or newer, not 570.211.01 (docs.nvidia.com",
        ),
        (
            dataclasses.replace(BARE, driver="470.256.02"),
            Request(),
            "cuda_toolkits is empty, and no toolkit is known that driver 470.256.02 supports in full",
        ),
        (
            BARE,
            Request(toolkits=("13.0",), driver_branch="580-open"),
            "cuda_driver_branch is 580-open, which is no branch that is known: choose among",
        ),
        (BARE, Request(toolkits=("13.99",)), "cuda_toolkits has CUDA 13.99, which is not one of 11.8"),
        (BARE, Request(toolkits=("13.0", "13.0")), "cuda_toolkits has 13.0 twice"),
        (
            BARE,
            Request(toolkits=("13.0",), default="12.9"),
            "cuda_default is 12.9, which is not among the toolkits (13.0)",
        ),
        (BARE, Request(source="archive", toolkits=("13.0",)), "the archive of Debian 13 has 12.4 alone"),
        (
            Host("Ubuntu", "22.04", "x86_64"),
            Request(source="archive"),
            "cuda_source is archive, and no toolkit is known in that of Ubuntu 22.04",
        ),
        (
            Host("Debian", "12", "aarch64"),
            Request(source="cuda_repository", toolkits=("12.9",)),
            "cuda_source is cuda_repository, and NVIDIA has none that is known for Debian 12 on aarch64",
        ),
        (
            dataclasses.replace(BARE, roots={"cuda": "", "cuda-13.0": ""}),
            Request(toolkits=("13.0",)),
            "cuda_source is cuda_repository, whose toolkit is found by way of /usr/local/cuda: no link, but another installation",
        ),
        (
            dataclasses.replace(BARE, free_bytes={"/usr/local": 15 * GIB, "/var/cache/apt": 30 * GIB}),
            Request(toolkits=("13.0", "12.9")),
            "asks for 2 new, which need 20 GiB, and less is free below /usr/local: free some room, ask for fewer, or set `cuda_free_bytes`",
        ),
        (
            dataclasses.replace(
                BARE,
                packages={"cuda-toolkit-12-9": Package("1", hold=True)},
                installed=frozenset({"cuda-toolkit-12-9"}),
            ),
            Request(toolkits=("13.0",)),
            "removes cuda-toolkit-12-9, which dpkg holds: run `apt-mark unhold cuda-toolkit-12-9` first",
        ),
    ],
)
def test_impossible_request_is_refused_with_a_remedy(host, request_, message):
    assert message in "\n".join(refusals(plan_present(host, request_)))


def test_a_planned_branch_counts_more_than_the_driver_in_use():
    host = dataclasses.replace(BARE, driver="570.211.01")
    assert refusals(plan_present(host, Request(toolkits=("13.0",), driver_branch="580"))) == []


def test_minor_version_compatibility_is_a_note():
    plan = plan_present(dataclasses.replace(BARE, driver="570.211.01"), Request(toolkits=("12.9",)))

    assert refusals(plan) == []
    assert plan.notes == [
        "CUDA 12.9 runs on driver 570.211.01 by minor-version compatibility: PTX cannot be compiled, and what needs driver"
        " 575.51.03 fails"
    ]


def test_the_archive_has_its_own_toolkit_and_no_links():
    plan = plan_present(BARE, Request(toolkits=("12.4",)))

    assert (plan.source, plan.root) == (data.ARCHIVE, "/usr")
    assert plan.install == ["nvidia-cuda-toolkit", "g++"]
    assert plan.alternatives == {}
    assert plan.files == []


ADDED = "http_proxy=http://proxy.example:3128\n"


@pytest.mark.parametrize(
    ("added", "files"),
    [
        ("", []),
        (ADDED, [{"path": "/etc/environment", "state": "released", "content": "LANG=C\n" + ADDED, "merged": True}]),
    ],
)
def test_environment_is_released_if_others_changed_it(added, files):
    host = dataclasses.replace(
        BARE, environment=set_environment("LANG=C\n", "/usr/local/cuda") + added, environment_before="LANG=C\n"
    )

    assert plan_absent(host).files == files
    assert plan_present(host, Request(source="archive")).files == files
    assert plan_absent(dataclasses.replace(host, environment_before=None)).files == []
