# SPDX-License-Identifier: GPL-3.0-or-later
"""Which generation is used, and what that changes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import (
    CondaError,
    Decision,
    Difference,
    Environment,
    Found,
    Generation,
    Package,
    Receipt,
    Wanted,
    check,
    decide,
    difference,
    leads_to,
    present_packages,
    serves,
    settle,
    stays,
    surplus,
    unknown_records,
)

NUMPY, NEWER, TORCH = Package("1.26", "py_0", "aa"), Package("2.1", "py_0", "bb"), Package("2.8", "cpu_0", "cc")
ADDED = Package("1.0", "0", "dd")


def spec(*packages: str, **rest: Any) -> dict[str, Any]:
    return {
        "packages": list(packages),
        "channels": ["c"],
        "channel_alias": "a",
        "cuda": "",
        "lock": "",
        "pip": [],
        **rest,
    }


def generation(number: int, *packages: str, present: dict[str, Package] | None = None, **rest: Any) -> Generation:
    """Return a generation with numpy, unless *present* names its present packages."""
    receipt = Receipt(spec(*packages), complete=True, packages={"numpy": NUMPY})
    return Generation(number, receipt, receipt.packages if present is None else present, **rest)


def environment(in_use: int | None, *generations: Generation, **rest: Any) -> Environment:
    numbered = {row.number: row for row in generations}
    return Environment("e", in_use, numbered, highest=max(numbered, default=0), **rest)


def wanted(*packages: str, **rest: Any) -> Wanted:
    return Wanted("e", spec(*packages), **rest)


# ---- Differences ---------------------------------------------------------------------------------------------------------


def test_a_difference_has_a_line_for_each_package():
    before = {"numpy": NUMPY, "torch": TORCH}
    after = {"numpy": NEWER, "extra": ADDED}
    assert difference(before, after) == Difference(
        ["extra 1.0 0"], ["torch 2.8 cpu_0"], ["numpy 1.26 py_0 -> 2.1 py_0"]
    )
    assert difference(before, before) == Difference([], [], [])


def test_the_same_build_from_another_archive_is_a_difference():
    other = NUMPY._replace(sha256="ff")
    assert difference({"numpy": NUMPY}, {"numpy": other}).replaced == ["numpy 1.26 py_0 -> 1.26 py_0 (another archive)"]


# ---- What is in a prefix -------------------------------------------------------------------------------------------------

INSTALLED = Receipt(
    spec("numpy"),
    True,
    {"numpy": NUMPY, "torch": TORCH},
    {"numpy-1.26-py_0.json": "d1", "torch-2.8-cpu_0.json": "d2"},
    ("numpy-1.26.dist-info",),
)


def found(strange: dict[str, tuple[str, Package]] | None = None, **records: str) -> Found:
    return Found(records, INSTALLED.distributions, strange or {})


def test_an_untouched_prefix_has_the_installed_packages():
    assert unknown_records(INSTALLED, INSTALLED.records) == []
    assert present_packages(INSTALLED, Found(INSTALLED.records, INSTALLED.distributions, {})) == INSTALLED.packages


def test_only_records_that_are_new_or_other_have_to_be_read():
    now = {**INSTALLED.records, "torch-2.8-cpu_0.json": "changed", "new-1.0-0.json": "d3"}
    assert unknown_records(INSTALLED, now) == ["new-1.0-0.json", "torch-2.8-cpu_0.json"]


def test_foreign_packages_count_and_removed_ones_do_not():
    now = Found({"numpy-1.26-py_0.json": "d1", "x": "d3"}, INSTALLED.distributions, {"x": ("extra", ADDED)})
    assert present_packages(INSTALLED, now) == {"numpy": NUMPY, "extra": ADDED}


def test_another_build_replaces_a_package():
    now = Found({"torch-2.8-cpu_0.json": "d2", "n": "d3"}, INSTALLED.distributions, {"n": ("numpy", NEWER)})
    assert present_packages(INSTALLED, now) == {"numpy": NEWER, "torch": TORCH}


def test_rewritten_record_is_the_same_package():
    now = Found({**INSTALLED.records, "numpy-1.26-py_0.json": "d9"}, (), {"numpy-1.26-py_0.json": ("numpy", NUMPY)})
    assert present_packages(INSTALLED, now) == INSTALLED.packages


@pytest.mark.parametrize(
    ("directory", "name", "version"),
    [
        ("requests-2.32.5.dist-info", "requests", "2.32.5"),
        ("odd.egg-info", "odd", ""),
        ("a-1-py3.9.egg-info", "a", "1-py3.9"),
    ],
)
def test_pip_package_is_listed_by_its_name(directory, name, version):
    now = Found(INSTALLED.records, (*INSTALLED.distributions, directory), {})
    assert present_packages(INSTALLED, now)[f"{name} (pip)"] == Package(version)


def test_a_receipt_survives_json_unchanged():
    text = json.dumps(INSTALLED.to_json())
    back = Receipt.from_json(json.loads(text))
    assert dataclasses.replace(back, distributions=tuple(back.distributions)) == INSTALLED


# ---- Which generation ----------------------------------------------------------------------------------------------------


def test_new_environment_is_solved():
    assert decide(wanted("numpy"), environment(None)).solve


def test_solved_request_is_not_solved_again():
    assert decide(wanted("numpy"), environment(2, generation(1, "numpy"), generation(2, "numpy"))) == Decision(use=2)


def test_generation_in_use_comes_before_newer_ones():
    assert decide(wanted("numpy"), environment(1, generation(1, "numpy"), generation(2, "numpy"))) == Decision(use=1)


def test_complete_generation_is_linked():
    assert decide(wanted("torch"), environment(1, generation(1, "numpy"), generation(2, "torch"))) == Decision(use=2)


def test_an_earlier_request_goes_back_to_its_generation():
    assert decide(wanted("numpy"), environment(2, generation(1, "numpy"), generation(2, "torch"))) == Decision(use=1)


def test_another_request_is_solved():
    assert decide(wanted("numpy", "torch"), environment(1, generation(1, "numpy"))).solve


def test_drift_is_fixed_from_the_lock():
    drifted = generation(1, "numpy", present={"numpy": NUMPY, "extra": ADDED})
    assert decide(wanted("numpy"), environment(1, drifted)) == Decision(again=1)


def test_lost_distribution_is_drift():
    assert decide(wanted("numpy"), environment(1, generation(1, "numpy", lost=["x.dist-info"]))) == Decision(again=1)


def test_generation_without_lock_is_solved_again():
    assert decide(wanted("numpy"), environment(1, generation(1, "numpy", present={}, has_lock=False))).solve


def test_update_solves_whatever_is_there():
    assert decide(wanted("numpy", update=True), environment(1, generation(1, "numpy"))).solve


def test_named_generation_overrides_the_request():
    existing = environment(2, generation(1, "numpy", present={}), generation(2, "numpy"))
    assert decide(wanted("torch", generation=1, update=True), existing) == Decision(use=1)


def test_generation_with_the_solved_packages_is_used():
    existing = environment(1, generation(1, "numpy"))
    assert settle(wanted("numpy >1"), {"numpy": NUMPY}, existing) == Decision(use=1)
    assert settle(wanted("numpy"), {"numpy": NEWER}, existing).solve


def test_drifted_generation_is_made_again():
    assert settle(wanted("numpy"), {"numpy": NUMPY}, environment(1, generation(1, "numpy", present={}))).solve


def test_versions_stay_while_only_the_packages_change():
    existing = environment(1, generation(1, "numpy"))
    assert stays(wanted("numpy", "torch"), existing) == 1
    assert stays(wanted("numpy", update=True), existing) is None
    for name, value in {"cuda": "12.8", "channels": ["d"], "channel_alias": "b"}.items():
        assert stays(Wanted("e", spec("numpy", **{name: value})), existing) is None
    assert stays(wanted("torch"), environment(None)) is None


# ---- What goes -----------------------------------------------------------------------------------------------------------

THREE = environment(2, generation(1), generation(2), generation(3))


@pytest.mark.parametrize(
    ("use", "keep", "goes"),
    [
        (2, 1, [1]),
        (2, 0, [1, 3]),
        (2, 5, []),
        (4, 1, [1, 3]),  # the one in use up to now stays, although 3 is newer
        (4, 2, [1]),
        (1, 1, [3]),
        (None, 1, [1, 2, 3]),
    ],
)
def test_surplus_generations(use, keep, goes):
    assert surplus(THREE, use, keep) == goes


# ---- What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "-x", "a/b", "a b", "a\n", "ü"])
def test_strange_names_are_refused(name):
    with pytest.raises(CondaError, match="is not a name for an environment"):
        check("", [Wanted(name, spec("numpy"))], {})


@pytest.mark.parametrize("cuda", ["twelve", "12.", "12.8 ", "v12"])
def test_a_strange_version_of_cuda_is_refused(cuda):
    with pytest.raises(CondaError, match="for `cuda`"):
        check("", [Wanted("e", spec("numpy", cuda=cuda))], {"e": environment(None)})


def test_foreign_conda_is_refused_only_with_environments():
    existing = {"e": environment(None, foreign="/opt/conda/envs/e")}
    with pytest.raises(CondaError, match="/opt/conda/envs/e is in the way"):
        check("", [wanted("numpy")], existing)
    check("", [wanted("numpy", present=False)], existing)


def test_missing_generation_is_refused_with_existing_ones():
    with pytest.raises(CondaError, match="choose among 1, 2, 3"):
        check("", [wanted(generation=9)], {"e": THREE})


# ---- Another driver, another mirror -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solved", "offered", "good"),
    [
        ("", "", True),
        ("12.8", "12.8", True),
        ("12.8", "13.0", True),
        ("12.8", "12.10", True),
        ("12.8", "12.6", False),
        ("", "12.8", False),
        ("12.8", "", False),
    ],
)
def test_builds_serve_newer_drivers_but_not_hosts_without_gpu(solved, offered, good):
    assert serves(solved, offered) == good


def test_another_mirror_leads_to_the_same_environment():
    receipt = Receipt(spec("numpy", channel_alias="https://a.example"), True)
    assert leads_to(Wanted("e", spec("numpy", channel_alias="https://b.example")), receipt)
    assert not leads_to(Wanted("e", spec("scipy", channel_alias="https://b.example")), receipt)
