# SPDX-License-Identifier: GPL-3.0-or-later
"""The list is split into requests for modes, MIG and MPS, and findings report choices that do not fit the users."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import request as sharing
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Gpu

CARDS = [
    Card(object(), 0, "GPU-a", "0000:41:00.0", "NVIDIA H200"),
    Card(object(), 1, "GPU-b", "0000:42:00.0", "NVIDIA H200"),
]
H200 = Gpu(CARDS[0], True, (9, 0))
GEFORCE = Gpu(CARDS[1], False, (8, 9))
PASCAL = Gpu(CARDS[1], False, (6, 1))
LIMITED: Any = {"name": "vision", "active_thread_percentage": 50, "memory_limits": {"all": "20G"}}


def read(*rows: Any) -> sharing.Request:
    return sharing.read(list(rows), CARDS)


def test_list_is_split_by_module() -> None:
    request = read({"device": "all", "persistence": True, "users": "team", "ecc": None, "mps": [{"name": "vision"}]})
    assert request.modes == [{"device": "all", "persistence": True}]
    assert request.mig == []
    assert request.daemons == [{"name": "vision", "devices": ["GPU-a", "GPU-b"]}]


def test_row_for_one_card_wins_over_all() -> None:
    request = read(
        {"device": "0000:42:00.0", "mps": [], "mig": {"mode": "enabled", "layout": [], "when_busy": None}},
        {"device": "all", "mps": [{"name": "vision"}]},
    )
    assert request.daemons == [{"name": "vision", "devices": ["GPU-a"]}]
    assert request.mig == [{"mode": "enabled", "layout": [], "devices": ["GPU-b"]}]
    assert request.modes == []


def test_cards_that_get_the_same_instances_are_one_request() -> None:
    layout = [{"profile": "1g.18gb", "count": 7}]
    request = read({"device": "all", "mig": {"mode": "enabled", "layout": layout}})
    assert [row["devices"] for row in request.mig] == [["GPU-a", "GPU-b"]]
    other = read(
        {"device": "0", "mig": {"mode": "enabled", "layout": layout}}, {"device": "1", "mig": {"mode": "disabled"}}
    )
    assert [row["devices"] for row in other.mig] == [["GPU-a"], ["GPU-b"]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"device": "GPU-x"}, {"device": "7"}], "no GPU is 'GPU-x'.*no GPU is '7'"),
        ([{"device": "0", "mig": {"mode": "enabled"}, "mps": [{"name": "a"}]}], "leave one of them out"),
        (
            [{"device": "0", "mps": [{"name": "a"}]}, {"device": "1", "mps": [{"name": "a", "user": "bob"}]}],
            "the daemon a is declared in two ways",
        ),
    ],
)
def test_contradicting_rows_are_refused(rows: list[Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        read(*rows)


# Ways of sharing that do not fit, with the better choice.
UNFIT = [
    (H200, {"users": "untrusted"}, "divide it with `mig`"),
    (GEFORCE, {"users": "untrusted"}, "limit processors and memory of each user by control groups"),
    (H200, {"users": "untrusted", "mps": [LIMITED]}, "divide the card with `mig`"),
    (GEFORCE, {"users": "untrusted", "mps": [LIMITED]}, "share it by time slices"),
    (H200, {"users": "untrusted", "mps": [{**LIMITED, "multiuser": True}]}, "give each team a daemon of its own"),
    (H200, {"users": "team", "jobs": "small"}, "give the team a daemon under `mps`"),
    (GEFORCE, {"users": "one", "jobs": "small"}, "give the team a daemon under `mps`"),
    (H200, {"users": "team", "jobs": "saturating"}, "queue them"),
    (H200, {"users": "team", "jobs": "saturating", "mps": [LIMITED]}, "queue them"),
    (
        H200,
        {"users": "team", "jobs": "mixed", "mps": [{"name": "a"}]},
        "set `active_thread_percentage` and `memory_limits`",
    ),
    (PASCAL, {"users": "team", "mps": [LIMITED]}, "leave `mps` out for this card"),
]
FIT = [
    (H200, {"users": "untrusted", "mig": {"mode": "enabled"}}),
    (H200, {"users": "team", "jobs": "small", "mps": [{"name": "a"}]}),
    (H200, {"users": "team", "jobs": "mixed", "mps": [LIMITED]}),
    (H200, {"users": "team", "jobs": "saturating", "compute_mode": "exclusive_process"}),
    (PASCAL, {"users": "team", "jobs": "small"}),
    # The users are unknown.
    (H200, {}),
    (H200, {"mps": [{"name": "a"}]}),
]


@pytest.mark.parametrize(("gpu", "entry", "fitting"), UNFIT)
def test_unfit_choice_is_reported_with_a_better_one(gpu: Gpu, entry: Any, fitting: str) -> None:
    (found,) = sharing.findings([gpu], {gpu.card.uuid: entry})
    assert found["status"] == "warn"
    assert fitting in found["remedy"]


@pytest.mark.parametrize(("gpu", "entry"), FIT)
def test_a_choice_that_fits_passes(gpu: Gpu, entry: Any) -> None:
    (found,) = sharing.findings([gpu], {gpu.card.uuid: entry})
    assert (found["status"], found["remedy"]) == ("pass", "")


def test_finding_names_the_way_of_sharing_and_the_users() -> None:
    (found,) = sharing.findings([H200], {"GPU-a": {"users": "team", "jobs": "small", "mps": [LIMITED]}})
    assert found["evidence"] == "NVIDIA H200 at 0000:41:00.0: mps for team and small jobs"
    assert sharing.findings([GEFORCE], {"GPU-a": {}}) == []


def test_v100_counts_as_volta_for_mps() -> None:
    v100 = Gpu(CARDS[0], False, (7, 0))
    assert sharing.advise(v100, {"users": "team", "jobs": "small", "mps": [LIMITED]}) == []
    assert sharing.advise(v100, {"users": "team", "jobs": "small"})[0][1] == "give the team a daemon under `mps`"
