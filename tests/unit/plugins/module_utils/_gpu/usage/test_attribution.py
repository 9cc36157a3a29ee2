# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns a process, by its control groups and its uid."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.attribution import (
    KINDS,
    Names,
    attribute,
)
from hypothesis import given
from hypothesis import strategies as st

ID = "3f" * 32
USERS = {0: "root", 33: "www-data", 1000: "alice", 1001: "bob"}
NAMES = Names(
    lambda uid: USERS.get(uid, ""),
    lambda session: {"3": "sshd", "4": "xrdp-sesman"}.get(session, ""),
    {ID: {"name": "trainer", "user": ""}},
)
LABELLED = Names(NAMES.users, NAMES.services, {ID: {"name": "trainer", "user": "carol"}})
POD = "1f2d3c4b-0000-4111-8222-333344445555"


def owner(groups: str, uid: int, names: Names = NAMES) -> tuple[str, str, str]:
    found = attribute(groups, uid, names)
    return found.user, found.kind, found.name


@pytest.mark.parametrize(
    ("groups", "uid", "expected"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope", 1000, ("alice", "ssh", "")),
        ("0::/user.slice/user-1000.slice/session-4.scope", 1000, ("alice", "session", "")),
        ("0::/user.slice/user-1000.slice/session-99.scope", 1000, ("alice", "session", "")),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service",
            1000,
            ("alice", "unit", "train.service"),
        ),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter-lab.service",
            1000,
            ("alice", "jupyter", "jupyter-lab.service"),
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service", 1000, ("alice", "unit", "")),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/docker-{ID}.scope",
            100999,
            ("alice", "container", "trainer"),
        ),
        (
            "0::/system.slice/jupyter-alice-singleuser.service",
            1000,
            ("alice", "jupyter", "jupyter-alice-singleuser.service"),
        ),
        ("0::/system.slice/jupyter-dave.service", 61200, ("dave", "jupyter", "jupyter-dave.service")),
        ("0::/system.slice/ollama.service", 33, ("www-data", "system", "ollama.service")),
        ("0::/system.slice/system-worker.slice/worker@1.service", 1001, ("bob", "system", "worker@1.service")),
        (f"0::/system.slice/docker-{ID}.scope", 0, ("", "container", "trainer")),
        # The uid of a user of the image, and not of the host.
        (f"0::/system.slice/docker-{ID}.scope", 1001, ("", "container", "trainer")),
        (f"0::/mine/{ID}", 1001, ("", "container", "trainer")),
        (
            "0::/machine.slice/machine-a.long-name-of-a-machine.scope/payload",
            1000,
            ("", "container", "a.long-name-of-a-machine"),
        ),
        (
            "0::/some-other-engine/7/user.slice/user-1000.slice/session-3.scope",
            1000,
            ("", "unknown", "some-other-engine"),
        ),
        (f"0::/docker/{ID}", 33, ("", "container", "trainer")),
        (f"0::/system.slice/docker.service/docker/{ID}", 33, ("", "container", "trainer")),
        ("0::/machine.slice/libpod-" + "ab" * 32 + ".scope", 0, ("", "container", "ab" * 6)),
        (
            "0::/machine.slice/machine-libpod_pod_" + "cd" * 32 + ".slice/libpod-" + "ab" * 32 + ".scope/container",
            1000,
            ("", "container", "ab" * 6),
        ),
        ("0::/machine.slice/machine-my\\x2dbox.scope", 1000, ("", "container", "my-box")),
        ("0::/docker/buildkit/" + "a1" * 12, 1000, ("", "container", "a1" * 12)),
        ("0::/lxc.payload.box/init.scope", 0, ("", "container", "box")),
        ("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", 1000, ("alice", "slurm", "42")),
        ("0::/system.slice/node1_slurmstepd.scope/job_7/step_extern", 1001, ("bob", "slurm", "7")),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            1000,
            ("", "kubernetes", POD),
        ),
        (f"0::/kubepods/besteffort/pod{POD}/{ID}", 0, ("", "kubernetes", POD)),
        ("0::/", 1000, ("alice", "unknown", "")),
        ("0::/", 4242, ("4242", "unknown", "")),
        ("", 1000, ("alice", "unknown", "")),
        ("nonsense", 0, ("root", "unknown", "")),
    ],
)
def test_owner_by_control_group(groups: str, uid: int, expected: tuple[str, str, str]) -> None:
    assert owner(groups, uid) == expected


def test_cgroup_v1_takes_the_group_that_says_most() -> None:
    groups = "9:memory:/slurm/uid_1000/job_42/step_0\n4:cpu:/\n1:name=systemd:/system.slice/slurmd.service\n"
    assert owner(groups, 1000) == ("alice", "slurm", "42")
    groups = f"9:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n"
    assert owner(groups, 0) == ("", "container", "trainer")
    groups = "9:memory:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/\n"
    assert owner(groups, 1000) == ("alice", "ssh", "")


def test_label_of_a_container_names_its_user() -> None:
    assert owner(f"0::/system.slice/docker-{ID}.scope", 1001, LABELLED) == ("carol", "container", "trainer")


def test_label_is_also_a_number_of_a_user() -> None:
    names = Names(NAMES.users, containers={ID: {"name": "trainer", "user": "1001"}}, uids={"bob": 1001}.get)
    found = attribute(f"0::/system.slice/docker-{ID}.scope", 0, names)
    assert (found.user, found.uid) == ("bob", 1001)


def test_user_of_docker_run_owns_a_container() -> None:
    names = Names(NAMES.users, containers={ID: {"name": "trainer", "user": "", "uid": "1001"}})
    assert owner(f"0::/system.slice/docker-{ID}.scope", 1001, names) == ("bob", "container", "trainer")
    assert owner(f"0::/system.slice/docker-{ID}.scope", 1000, names) == ("", "container", "trainer")


def test_user_who_logged_in_owns_a_container_without_a_daemon() -> None:
    found = attribute(f"0::/machine.slice/libpod-{ID}.scope", 0, NAMES, login=1001)
    assert (found.user, found.uid) == ("bob", 1001)


@given(st.sampled_from(["lxc", "x", "machine", "lxc.payload.a", "docker"]), st.integers(1000, 1001))
def test_no_guests_slice_is_that_of_an_account(guest: str, uid: int) -> None:
    for inner in ("user.slice/user-1000.slice/session-3.scope", "system.slice/cron.service"):
        assert owner(f"0::/{guest}/ns/{inner}", uid)[0] == ""


def test_process_of_another_uid_in_a_session_is_its_users() -> None:
    assert owner("0::/user.slice/user-1000.slice/session-3.scope", 0) == ("alice", "ssh", "")


@pytest.mark.parametrize(
    "below",
    [
        "slurm/uid_1001/job_42",
        f"docker-{ID}.scope",
        "system.slice/jupyter-bob-singleuser.service",
        f"kubepods/pod{POD}",
        "user.slice/user-1001.slice/session-3.scope",
        # All but a line feed may be in the name of a group.
        *(f"x{char}0::/slurm/uid_1001/job_42" for char in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    ],
)
def test_user_cannot_name_a_group_that_makes_another_pay(below: str) -> None:
    assert owner(f"0::/user.slice/user-1000.slice/user@1000.service/{below}", 1000, LABELLED)[0] == "alice"


@given(st.text(max_size=200), st.integers(0, 2**32 - 2))
def test_any_text_has_an_owner(groups: str, uid: int) -> None:
    found = attribute(groups, uid, NAMES)
    assert found.kind in KINDS


@given(
    st.lists(
        st.sampled_from(
            ["slurm", "job_1", "uid_1001", "user-1001.slice", f"docker-{ID}.scope", "kubepods", "a.service"]
        )
    )
)
def test_below_a_users_slice_everything_is_theirs(parts: list[str]) -> None:
    assert owner("0::/user.slice/user-1000.slice/" + "/".join(parts), 1001, LABELLED)[0] == "alice"
