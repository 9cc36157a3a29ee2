# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import (
    SYSTEM_PATH,
    Host,
    Plan,
    Request,
    plan_absent,
    plan_present,
    set_environment,
    unset_environment,
)
from hypothesis import example, given
from hypothesis import strategies as st

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


def test_what_is_there_is_neither_installed_nor_claimed():
    host = having(BARE, "cuda-toolkit-12-9", "g++")
    plan = plan_present(host, Request(toolkits=("12.9", "13.0")))

    assert plan.install == plan.brought == ["cuda-toolkit-13-0"]
    assert plan.remove == []


@pytest.mark.parametrize("state", ["toolkit", "nvcc", "journal"])
def test_what_was_cut_short_is_completed(state):
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
    assert plan.brought == []
    assert refusals(plan) == []


def test_what_somebody_else_left_unfinished_is_not_the_role_s_to_complete():
    host = having(BARE, "cuda-toolkit-13-0", "g++")
    host = dataclasses.replace(host, packages={**host.packages, "another": Package("1", whole=False)})

    assert not plan_present(host, Request(toolkits=("13.0",))).unfinished


def test_absent_has_what_the_role_left_unfinished_settled_first():
    host = dataclasses.replace(
        BARE,
        packages={"cuda-toolkit-13-0": Package("1", whole=False)},
        brought=frozenset({"cuda-toolkit-13-0"}),
    )

    plan = plan_absent(host)

    assert (plan.unfinished, plan.remove) == (True, ["cuda-toolkit-13-0"])


def test_what_is_half_there_needs_no_room_of_its_own():
    packages = {"cuda-toolkit-13-0": Package("1", whole=False), "g++": Package("1")}
    host = dataclasses.replace(BARE, packages=packages, free_bytes={"/usr/local": GIB})

    assert refusals(plan_present(host, Request(toolkits=("13.0",)))) == []


def test_a_toolkit_that_the_repository_lacks_is_refused_with_those_that_it_has():
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

    (words,) = refusals(plan)
    assert words.startswith("cuda_toolkits asks for 12.6, which NVIDIA's repository for this system does not have")
    assert "choose among 13.0, 12.9, or" in words


def test_one_version_leaves_with_what_it_brought():
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
        brought=frozenset({"cuda-toolkit-12-9", "cuda-toolkit-13-0"}),
        **LINKED,
    )

    plan = plan_present(host, Request(toolkits=("13.0",)))

    assert plan.remove == ["cuda-nvcc-12-9", "cuda-toolkit-12-9"]
    assert plan.brought == ["cuda-toolkit-13-0"]
    assert plan.alternatives == {}


def test_the_compiler_is_installed_and_stays_for_good():
    plan = plan_present(BARE, Request(toolkits=("13.0",)))
    assert plan.install == ["cuda-toolkit-13-0", "g++"]
    assert plan.brought == ["cuda-toolkit-13-0"]


def test_absent_leaves_what_something_else_depends_on():
    ours = {"cuda-toolkit-13-0": Package("1"), "cuda-toolkit-12-9": Package("1"), "vim": Package("1")}
    own = Package("1", depends=frozenset({frozenset({"cuda-toolkit-13-0"})}))
    host = dataclasses.replace(
        BARE, packages={**ours, "own-package": own}, brought=frozenset({"cuda-toolkit-13-0", "cuda-toolkit-12-9"})
    )

    assert plan_absent(host).remove == ["cuda-toolkit-12-9"]


def test_a_toolkit_that_has_to_stay_is_still_the_role_s():
    own = Package("1", depends=frozenset({frozenset({"cuda-toolkit-12-9"})}))
    host = dataclasses.replace(
        BARE,
        packages={"cuda-toolkit-12-9": Package("1"), "own-package": own},
        brought=frozenset({"cuda-toolkit-12-9"}),
    )

    plan = plan_present(host, Request(toolkits=("13.0",)))

    assert plan.remove == []
    assert plan.brought == ["cuda-toolkit-12-9", "cuda-toolkit-13-0"]


def test_absent_names_a_hold_that_is_in_the_way():
    packages = {"cuda-toolkit-13-0": Package("1", hold=True), "vim": Package("1", hold=True)}
    host = dataclasses.replace(BARE, packages=packages, brought=frozenset({"cuda-toolkit-13-0"}))

    assert refusals(plan_absent(host)) == [
        "cuda_state lets cuda-toolkit-13-0 go, and dpkg has a hold on that: run `apt-mark unhold cuda-toolkit-13-0` first, or"
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
def test_nobody_asked_so_the_driver_decides(driver, toolkits):
    assert plan_present(dataclasses.replace(BARE, driver=driver), Request()).toolkits == toolkits


def test_nobody_asked_so_what_is_there_stays_as_long_as_it_works():
    host = having(BARE, "cuda-toolkit-12-8", "cuda-toolkit-12-9", driver="580.95.05")

    assert plan_present(host, Request()).toolkits == ["12.9", "12.8"]
    assert plan_present(dataclasses.replace(host, driver="520.61.05"), Request()).toolkits == ["11.8"]


def test_a_driver_that_what_the_role_brought_does_not_work_with_is_refused():
    host = having(BARE, "cuda-toolkit-13-0", brought=frozenset({"cuda-toolkit-13-0"}))

    plan = plan_present(host, Request(driver_branch="570"))

    assert plan.toolkits == ["13.0"]
    assert plan.remove == []
    assert refusals(plan)[0].startswith(
        "cuda_toolkits is empty, so that what the role brought stays: it has CUDA 13.0, which needs driver 580.65.06 or newer, not"
        " 570 ("
    )
    assert plan_present(host, Request(toolkits=("12.8",), driver_branch="570")).remove == ["cuda-toolkit-13-0"]


@pytest.mark.parametrize("roots", [{}, {"cuda": "cuda-12.9"}])
def test_a_link_that_is_gone_or_leads_elsewhere_comes_back(roots):
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
    ("host", "request_", "words"),
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
                BARE, packages={"cuda-toolkit-12-9": Package("1", hold=True)}, brought=frozenset({"cuda-toolkit-12-9"})
            ),
            Request(toolkits=("13.0",)),
            "lets cuda-toolkit-12-9 go, and dpkg has a hold on that: run `apt-mark unhold cuda-toolkit-12-9` first",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_variable_and_the_way_out(host, request_, words):
    assert words in "\n".join(refusals(plan_present(host, request_)))


def test_a_planned_branch_counts_more_than_the_driver_in_use():
    host = dataclasses.replace(BARE, driver="570.211.01")
    assert refusals(plan_present(host, Request(toolkits=("13.0",), driver_branch="580"))) == []


def test_minor_version_compatibility_is_told():
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "",
            'PATH="/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games"\n'
            'CUDA_HOME="/usr/local/cuda"\n',
        ),
        (
            '# Ours\nPATH="/opt/bin:/usr/bin"\nLANG=C\n',
            '# Ours\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\nLANG=C\nCUDA_HOME="/usr/local/cuda"\n',
        ),
    ],
)
def test_environment_keeps_what_else_it_says(before, after):
    assert set_environment(before, "/usr/local/cuda") == after
    assert set_environment(after, "/usr/local/cuda") == after


def pam_env(text: str) -> dict[str, str]:
    """What Linux-PAM 1.5.2 makes of /etc/environment, told character by character as its C code does (pam_env.c, _parse_env_file)."""
    read: dict[str, str] = {}
    lines = text.split("\n")
    while lines:
        line = lines.pop(0)
        while "#" not in line and line.rstrip(" \t").endswith("\\") and lines:
            line = line.rstrip(" \t")[:-1] + lines.pop(0)
        line = line.lstrip(" \t").removeprefix("export ").partition("#")[0]
        name, equals, value = line.partition("=")
        if not name or not all(sign.isascii() and (sign.isalnum() or sign == "_") for sign in name):
            continue
        if value[:1] in ("'", '"') and value:
            value = "".join(sign for at, sign in enumerate(value[1:], 1) if sign not in "'\"" or at < len(value) - 1)
        read.pop(name, None)
        if equals:
            read[name] = value
    return read


PLACES = st.lists(st.sampled_from(["/usr/bin", "/opt/mine/bin", "/usr/local/cuda/bin", ""]), max_size=3).map(":".join)
QUOTED = st.tuples(st.sampled_from(["", '"', "'"]), st.one_of(PLACES, st.just("/opt/cuda"), st.just("/usr/local/cuda")))
SETTINGS = st.builds(
    lambda start, name, value, end: f"{start}{name}={value[0]}{value[1]}{value[0]}{end}",
    st.sampled_from(["", "export ", "  ", "export  ", "#", "x"]),
    st.sampled_from(["PATH", "CUDA_HOME", "LANG", "CUDA_HOME_2"]),
    QUOTED,
    st.sampled_from(["", "", " # mine", "# mine", "  ", "\r"]),
)
LINES = st.one_of(SETTINGS, st.sampled_from(["", "PATH", "# a comment \\", 'PATH="/opt/a:\\\n/opt/b"', "no setting"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=5), st.sampled_from(["", "\n"]))


@given(TEXTS)
def test_whatever_the_environment_says_sessions_find_the_toolkit_and_lose_nothing(before):
    after = set_environment(before, "/usr/local/cuda")
    read, earlier = pam_env(after), pam_env(before)

    first, *rest = read.pop("PATH").split(":")
    places = (earlier.pop("PATH", "").strip("\"' \r") or SYSTEM_PATH).split(":")
    assert first == "/usr/local/cuda/bin"
    assert rest == [place for place in places if place != first]
    assert read.pop("CUDA_HOME") == "/usr/local/cuda"
    earlier.pop("CUDA_HOME", None)
    assert read == earlier
    assert set_environment(after, "/usr/local/cuda") == after


@given(TEXTS)
@example('export CUDA_HOME="/usr/local/cuda"\nexport CUDA_HOME=/opt/cuda\n')
def test_the_toolkit_leaves_the_environment_as_it_came(before):
    after = set_environment(before, "/usr/local/cuda")
    assert unset_environment(after, "/usr/local/cuda", before) == before
    if before.endswith("\n"):
        assert unset_environment(ADDED + after + ADDED, "/usr/local/cuda", before) == ADDED + before + ADDED


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("PATH=/usr/bin\nPATH=/opt/bin:/usr/bin\n", 'PATH=/usr/bin\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('export PATH="/opt/bin:/usr/bin"\n', 'export PATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH="/opt/bin:/usr/bin" # mine\n', '# mine\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH="/opt/bin:\\\n/usr/bin"\n', 'PATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH=""\n', f'PATH="/usr/local/cuda/bin:{SYSTEM_PATH}"\n'),
        ("PATH=/opt/bin\nPATH\n", f'PATH=/opt/bin\nPATH\nPATH="/usr/local/cuda/bin:{SYSTEM_PATH}"\n'),
    ],
)
def test_the_path_is_read_as_pam_env_reads_it(before, line):
    assert set_environment(before, "/usr/local/cuda") == f'{line}CUDA_HOME="/usr/local/cuda"\n'


ADDED = "http_proxy=http://proxy.example:3128\n"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "LANG=C\n",
        "PATH=/opt/bin:/usr/bin\nLANG=C\n",
        'PATH="/usr/bin:/usr/local/cuda/bin"\nCUDA_HOME=/opt/cuda\n',
    ],
)
def test_absent_takes_only_the_toolkit_s_lines_out_of_the_environment(before):
    ours = set_environment(before, "/usr/local/cuda")

    assert unset_environment(ours, "/usr/local/cuda", before) == before
    assert unset_environment(ours + ADDED, "/usr/local/cuda", before) == before + ADDED


def test_a_place_that_others_put_on_the_toolkit_s_path_stays():
    ours = set_environment("PATH=/usr/bin\n", "/usr/local/cuda")
    theirs = ours.replace("/usr/bin", "/usr/bin:/opt/bin").replace('CUDA_HOME="/usr/local/cuda"', "CUDA_HOME=/opt/cuda")

    assert unset_environment(theirs, "/usr/local/cuda", "PATH=/usr/bin\n") == (
        'PATH="/usr/bin:/opt/bin"\nCUDA_HOME=/opt/cuda\n'
    )


@pytest.mark.parametrize(
    ("added", "files"),
    [("", []), (ADDED, [{"path": "/etc/environment", "state": "released", "content": "LANG=C\n" + ADDED}])],
)
def test_the_environment_comes_back_as_it_was_unless_others_wrote_to_it(added, files):
    host = dataclasses.replace(
        BARE, environment=set_environment("LANG=C\n", "/usr/local/cuda") + added, environment_before="LANG=C\n"
    )

    assert plan_absent(host).files == files
    assert plan_present(host, Request(source="archive")).files == files
    assert plan_absent(dataclasses.replace(host, environment_before=None)).files == []
