# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.options import OPTIONS, with_defaults


def test_all_parameters_have_their_defaults() -> None:
    found = with_defaults({"devices": ["GPU-1"], "when_busy": "skip", "layout": [{"profile": "1g.18gb", "start": 2}]})
    assert found.keys() == OPTIONS.keys()
    assert (found["mode"], found["when_busy"], found["stop_services"]) == ("unchanged", "skip", [])
    assert found["layout"] == [{"profile": "1g.18gb", "start": 2, "count": 1, "compute_instances": None}]


def test_no_layout_and_an_empty_one_differ() -> None:
    assert with_defaults({})["layout"] is None
    assert with_defaults({"layout": []})["layout"] == []
