# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.filter.conda_request import conda_request, plain


def problems(result):
    return [f"{row['problem']}: {row['remedy']}" for row in result["requirements"] if not row["ok"]]


def test_a_short_request():
    result = conda_request([{"name": "research", "python": "3.12", "packages": ["numpy=2.1"]}], {})
    assert result["environments"] == [
        {
            "name": "research",
            "state": "present",
            "packages": ["python 3.12.*", "numpy 2.1.*"],
            "pip": [],
            "lock": "",
            "cuda": "auto",
            "generation": 0,
            "update": False,
        }
    ]
    assert problems(result) == []


def test_the_base_comes_first_and_needs_no_gpu():
    base, research = conda_request([{"name": "research"}], {}, ["conda", "mamba"], update=True)["environments"]
    assert base == {"name": "base", "state": "present", "packages": ["conda", "mamba"], "cuda": "", "update": True}
    assert research["update"]


def test_file_adds_to_the_row():
    text = "name: x\nchannels: [conda-forge, nodefaults]\ndependencies: [numpy, pip, {pip: [einops]}]\n"
    row = {"name": "e", "file": "e.yml", "packages": ["scipy"], "pip": ["layers"]}
    (wanted,) = conda_request([row], {"e.yml": text})["environments"]
    assert wanted["packages"] == ["scipy", "numpy", "pip"]
    assert wanted["pip"] == ["layers", "einops"]
    assert wanted["channels"] == ["conda-forge"]


def test_channels_of_the_row_win():
    row = {"name": "e", "file": "e.yml", "channels": ["https://c.example/mine"]}
    (wanted,) = conda_request([row], {"e.yml": "channels: [conda-forge]\ndependencies: []\n"})["environments"]
    assert wanted["channels"] == ["https://c.example/mine"]


def test_a_lock_and_a_version_of_cuda_without_quotes():
    (wanted,) = conda_request([{"name": "e", "lock": "e.lock", "cuda": 12.8}], {"e.lock": "text"})["environments"]
    assert (wanted["lock"], wanted["cuda"]) == ("text", "12.8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not an environment.yml with dependencies"),
        ("name: x\n", "is not an environment.yml with dependencies"),
        ("dependencies: [{conda: [x]}]\n", "is not an environment.yml with dependencies"),
        ("dependencies: []\nvariables: {A: b}\n", "has variables, which the role does not support"),
        ("dependencies: []\npip: [x]\n", "has pip, which the role does not support"),
        ("dependencies: []\nchannel: [x]\n", "has channel, which the role does not support"),
        ("channels: [defaults]\ndependencies: []\n", "names defaults, Anaconda's own channels"),
    ],
)
def test_unsupported_environment_file_is_refused(text, message):
    (problem,) = problems(conda_request([{"name": "e", "file": "e.yml"}], {"e.yml": text}))
    assert message in problem


@pytest.mark.parametrize("channel", ["defaults", "main", "https://repo" + ".anaconda.com/pkgs/main"])
def test_channels_that_organizations_pay_for_are_refused(channel):
    (problem,) = problems(conda_request([{"name": "e", "channels": [channel]}], {}))
    assert channel in problem
    (problem,) = problems(conda_request([{"name": "e"}], {}, channels=[channel]))
    assert channel in problem


def test_name_base_is_refused_while_there_is_a_base():
    assert problems(conda_request([{"name": "base"}], {}, ["conda"])) != []
    assert problems(conda_request([{"name": "base"}], {})) == []


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("numpy", "numpy"),
        ("numpy=2.1", "numpy 2.1.*"),
        ("numpy = 2.1", "numpy 2.1.*"),
        ("numpy=2.1.*", "numpy 2.1.*"),
        ("numpy=2.1.0=py312_0", "numpy ==2.1.0 py312_0"),
        ("conda-forge::numpy=2.1", "conda-forge::numpy 2.1.*"),
        ("numpy>=2,<3", "numpy>=2,<3"),
        ("numpy==2.1.0", "numpy==2.1.0"),
        ("numpy 2.1.*", "numpy 2.1.*"),
        ("numpy !=2.1", "numpy !=2.1"),
    ],
)
def test_old_match_specs_become_unambiguous(text, spec):
    assert plain(text) == spec
