# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._progress import (
    OUTSIDE,
    Progress,
    Task,
    fit,
    installs_packages,
    is_live,
    named,
    role_of,
    width,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def progress():
    progress = Progress()
    progress.begin_play("Apply")
    return progress


def do(progress, role, status="ok", changed=False, host="ws", at=0.0, seconds=1.0):
    """Run a task of a role on a host, and return its lines."""
    lines = progress.begin_task(host, Task("Do", role), at)
    return lines + progress.end_task(host, role, status, changed, at + seconds)


def texts(lines):
    return [" ".join(line.text.split()) for line in lines]


def test_a_role_has_a_line_when_the_host_leaves_it(progress):
    assert do(progress, "ssh", changed=True) == []
    assert do(progress, "ssh", at=1.5) == []
    lines = do(progress, "samba", at=4)
    assert texts(lines) == ["Apply:", "ws ssh 2.5 s changed (1)"]
    assert [line.status for line in lines] == ["", "changed"]
    assert texts(progress.begin_play("Verify")) == ["ws samba 1.0 s ok"]
    assert progress.end_play() == []


def test_a_role_with_a_failed_task_has_failed(progress):
    do(progress, "ssh", "failed", changed=True)
    do(progress, "ssh", "ok")
    assert texts(progress.end_play())[1:] == ["ws ssh 1.0 s failed"]


def test_an_unreachable_host_has_its_line_at_once(progress):
    assert texts(do(progress, "ssh", "unreachable"))[1:] == ["ws ssh 1.0 s unreachable"]
    assert progress.end_play() == []


@pytest.mark.parametrize(("show", "lines"), [(False, []), (True, ["Apply:", "ws ssh 1.0 s skipped"])])
def test_a_skipped_role_has_a_line_when_skipped_hosts_do(progress, show, lines):
    progress.show_skipped = show
    do(progress, "ssh", "skipped")
    assert texts(progress.end_play()) == lines


@pytest.mark.parametrize(
    ("roles", "changed", "lines"),
    [
        ((None, None), False, [f"ws {OUTSIDE} 2.0 s ok"]),
        ((None, "ssh", None), False, ["ws ssh 1.0 s ok"]),
        ((None, "ssh", None), True, ["ws ssh 1.0 s changed (1)", f"ws {OUTSIDE} 2.0 s changed (2)"]),
    ],
)
def test_tasks_outside_roles_have_one_line_a_play(progress, roles, changed, lines):
    found = [line for number, role in enumerate(roles) for line in do(progress, role, changed=changed, at=number)]
    assert texts([*found, *progress.end_play()]) == ["Apply:", *lines]


def test_interrupted_roles_name_their_task(progress):
    do(progress, "ssh")
    progress.begin_task("gw", Task("Wait", "ssh"), 2.0)
    lines = progress.interrupt(5.0)
    assert texts(lines) == ["Apply:", "ws ssh 1.0 s interrupted", "gw ssh 3.0 s interrupted: Wait"]
    assert progress.end_play() == progress.table(5.0, 80, 24) == []


def test_table_has_the_task_of_each_host(progress):
    do(progress, "ssh", changed=True)
    progress.begin_task("ws", Task("Install samba", "samba", packages=True), 3.0)
    do(progress, "ssh", host="gw")
    progress.begin_task("laptop", Task("Wait", "ssh"), 5.0)
    progress.retry("laptop", 3)
    do(progress, "ssh", "failed", host="gone")
    lines = progress.table(7.4, 100, 24)
    assert texts(lines) == [
        "Apply 7 s",
        "host role task seconds changed",
        "ws ssh changed 1 1",
        "samba waiting for packages: Install samba 4 0",
        "gw ssh waiting for other hosts 1 0",
        "laptop ssh Wait (attempt 3) 2 0",
        "gone ssh failed 1 0",
    ]
    assert {width(line.text) for line in lines[1:]} == {99}
    assert [line.status for line in lines] == ["", "", "changed", "", "", "", "failed"]


def test_hosts_in_a_task_come_first_where_room_is_short(progress):
    for host in ("a", "b", "c"):
        do(progress, "ssh", host=host)
    progress.begin_task("c", Task("Wait", "ssh"), 5.0)
    assert [line.text.split()[0] for line in progress.table(6.0, 80, 4)[2:]] == ["c", "…"]
    assert texts(progress.table(6.0, 80, 4))[-1] == "… and 2 more hosts"


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([f"host{number}" for number in range(30)]),
        st.one_of(st.none(), st.sampled_from(["ssh", "samba", "网络"]), NAMES),
        st.sampled_from(["", "ok", "skipped", "failed", "unreachable"]),
        st.booleans(),
        NAMES,
    ),
    max_size=60,
)


@given(EVENTS, st.integers(1, 200), st.integers(0, 50))
def test_table_never_exceeds_the_terminal(events, columns, rows):
    progress = Progress()
    progress.begin_play("Apply")
    for now, (host, role, status, changed, name) in enumerate(events):
        progress.begin_task(host, Task(name, role), now)
        if status:
            progress.end_task(host, role, status, changed, now + 0.5)
    lines = progress.table(len(events), columns, rows)
    assert len(lines) <= rows
    assert all(line.text == "" or (width(line.text) < columns and line.text.isprintable()) for line in lines)
    hosts = {event[0] for event in events}
    if columns >= 80 and rows >= 4 and hosts:
        shown = {line.text.split(" ")[0] for line in lines[2:]} & hosts
        more = [int(line.text.split()[2]) for line in lines if line.text.startswith("… and")]
        assert len(shown) + sum(more) == len(hosts)


@given(EVENTS)
def test_each_role_of_a_host_has_at_most_one_line(events):
    progress = Progress(show_skipped=True)
    lines = progress.begin_play("Apply")
    entered = 0
    before: dict[str, str | None] = {}
    for now, (host, role, status, changed, name) in enumerate(events):
        lines += progress.begin_task(host, Task(name, role), now)
        lines += progress.end_task(host, role, status or "ok", changed, now)
        entered += role is not None and before.get(host) != role
        before[host] = role
    lines += progress.end_play()
    without_roles = {event[0] for event in events if event[1] is None}
    of_roles = [line for line in lines[1:] if f"  {OUTSIDE} " not in line.text]
    assert len(of_roles) == entered
    assert len(lines[1:]) - len(of_roles) <= len(without_roles)


@given(st.text(), st.integers(0, 40))
def test_fitting_text_is_one_line_of_printable_cells(text, columns):
    fitted = fit(text, columns)
    assert width(fitted) <= columns
    assert fitted.isprintable()


@pytest.mark.parametrize(
    ("text", "columns", "fitted"),
    [
        ("Install", 7, "Install"),
        ("Install", 6, "Insta…"),
        ("网页页", 5, "网页…"),
        ("a\x1b[2J\nb", 9, "a [2J b"),
        ("a", 0, ""),
    ],
)
def test_text_is_cut_by_its_width(text, columns, fitted):
    assert fit(text, columns) == fitted


@pytest.mark.parametrize(
    ("action", "installs"),
    [
        ("apt", True),
        ("ansible.builtin.apt", True),
        ("rigwright.workstation.nvidia_driver_packages", True),
        ("ansible.builtin.apt_key", False),
        ("ansible.builtin.command", False),
    ],
)
def test_package_actions(action, installs):
    assert installs_packages(action) is installs


@pytest.mark.parametrize(
    ("isatty", "environment", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_lines_are_drawn_again_on_a_terminal_that_can(isatty, environment, live):
    assert is_live(isatty, environment) is live


def node(role=None, parent=None, path="tasks/main.yml", action="debug"):
    applied = role and SimpleNamespace(get_name=lambda: f"rigwright.workstation.{role}")
    return SimpleNamespace(_role=applied, _parent=parent, action=action, get_path=lambda: f"/roles/{path}:3")


@pytest.mark.parametrize(
    ("task", "role"),
    [
        (node(), None),
        (node(action="rigwright.workstation.verify"), "all roles (verify)"),
        (node("ssh", node(None)), "ssh"),
        (node("common", node("common", node("ssh", node()))), "ssh"),
        (node("common", node()), "common"),
        (node("common", node("ssh", path="ssh/tasks/verify.yml")), "ssh (verify)"),
    ],
)
def test_tasks_count_for_the_role_that_the_play_applies(task, role):
    assert role_of(task) == role


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (1, "h1"),
        (6, "h1, h2, h3, h4, h5, h6"),
        (7, "h1, h2, h3, h4, h5 and 2 more"),
        (50, "h01, h02, h03, h04, h05 and 45 more"),
    ],
)
def test_many_hosts_are_counted(count, line):
    digits = len(str(count))
    assert named([f"h{number:0{digits}}" for number in range(count, 0, -1)]) == line
