# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for environments from the options of the module."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import Wanted
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.request import (
    UNNAMED,
    any_present,
    parse_request,
)

PARAMS: dict[str, Any] = {
    "environments": [],
    "exclusive": False,
    "channels": ["conda-forge"],
    "channel_alias": "",
    "keep": 2,
}
ROW = {**UNNAMED, "name": "research", "state": "present", "packages": ["python   3.12.*", "numpy"]}


def parse(*rows: dict[str, Any], **params: Any) -> list[Wanted]:
    return parse_request({**PARAMS, "environments": list(rows), **params}, lambda: ["plots", "research"], ("12.8", ""))


def test_packages_are_sorted_and_channels_have_a_default() -> None:
    (request,) = parse(ROW)
    assert request.spec["packages"] == ["numpy", "python 3.12.*"]
    assert request.spec["channels"] == ["conda-forge"]
    assert (request.present, request.keep) == (True, 2)


@pytest.mark.parametrize(("cuda", "version"), [("auto", "12.8"), ("11.8", "11.8"), ("", "")])
def test_cuda_auto_is_the_version_of_the_driver(cuda: str, version: str) -> None:
    (request,) = parse({**ROW, "cuda": cuda})
    assert (request.spec["cuda"], request.cuda) == (cuda, version)


def test_exclusive_removes_environments_that_are_not_named() -> None:
    assert [(row.name, row.present) for row in parse(ROW)] == [("research", True)]
    assert [(row.name, row.present) for row in parse(ROW, exclusive=True)] == [("research", True), ("plots", False)]


def test_any_present_needs_one_environment() -> None:
    assert any_present({"environments": [{**ROW, "state": "absent"}, ROW]})
    assert not any_present({"environments": [{**ROW, "state": "absent"}]})
