# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import (
    MISSING,
    Record,
    State,
    Wanted,
    plan,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused

from tests.unit.support.config_files import NEW, OLD, directory, file

LINK, DEVICE = State("link"), State("other")


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        pytest.param(NEW, MISSING, NEW, id="made"),
        pytest.param(NEW, OLD, NEW, id="replaced"),
        pytest.param(NEW, NEW, None, id="unchanged"),
        pytest.param(file("new\n", 0o600), NEW, file("new\n", 0o600), id="mode"),
        pytest.param(MISSING, OLD, MISSING, id="moved away"),
        pytest.param(MISSING, MISSING, None, id="already away"),
        pytest.param(directory(), MISSING, directory(), id="directory made"),
    ],
)
def test_a_step_leads_from_the_current_to_the_wanted_state(wanted, before, after):
    steps = plan([Wanted("/x", wanted)], {"/x": before}, {})
    assert [(step.before, step.after) for step in steps] == ([] if after is None else [(before, after)])


@pytest.mark.parametrize(
    ("wanted", "before", "reason"),
    [
        (NEW, LINK, "symbolic link"),
        (directory(), LINK, "symbolic link"),
        (MISSING, LINK, "symbolic link"),
        (NEW, directory(), "is a directory"),
        (MISSING, directory(), "is a directory"),
        (directory(), OLD, "is a file"),
        (NEW, DEVICE, "is a other"),
    ],
)
def test_obstacle_at_the_path_is_refused(wanted, before, reason):
    with pytest.raises(Refused, match=reason):
        plan([Wanted("/x", wanted)], {"/x": before}, {})


def test_all_obstacles_are_named_at_once():
    with pytest.raises(Refused, match="/x is .*/y is "):
        plan([Wanted("/x", NEW), Wanted("/y", NEW)], {"/x": LINK, "/y": LINK}, {})


def test_original_of_an_unlisted_file_is_restored():
    records = {"/x": Record(OLD, 5, NEW.digest)}
    (step,) = plan([], {"/x": NEW}, records)
    assert (step.after, step.mtime_ns, step.edited) == (OLD, 5, False)


def test_edited_file_is_marked_before_it_is_restored():
    (step,) = plan([], {"/x": file("by hand\n")}, {"/x": Record(OLD, 5, NEW.digest)})
    assert step.edited


def test_directories_are_made_first_and_removed_last():
    current = dict.fromkeys(["/a", "/a/b", "/a/b/f"], MISSING)
    wanted = [Wanted("/a/b/f", NEW), Wanted("/a/b", directory()), Wanted("/a", directory())]
    assert [step.path for step in plan(wanted, current, {})] == ["/a", "/a/b", "/a/b/f"]
    records = {path: Record(MISSING) for path in current}
    existing = {"/a": directory(), "/a/b": directory(), "/a/b/f": NEW}
    assert [step.path for step in plan([], existing, records)] == ["/a/b/f", "/a/b", "/a"]
