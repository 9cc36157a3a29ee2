"""The rows of roles, on parts-up roles: their order, what is written from them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness import pages, rows
from harness.sandbox.lab import Refusal

ROW: dict[str, Any] = {
    "play": "workstations",
    "task": "Configure it",
    "does": "serves a page",
    "read_to": "serve a page",
    "tested": "both",
    "promises": "nothing: it has no rights",
}


def row(role: str, **values: Any) -> rows.Row:
    return rows.row_of(role, ROW | values)


def test_roles_are_in_the_order_of_plays_and_of_after() -> None:
    given = [
        row("a", after="z"),
        row("b", after="y"),
        row("y"),
        row("z", after="y"),
        row("w", play="last"),
        row("x", play="first"),
    ]
    assert [each.role for each in rows.ordered(given)] == ["x", "y", "b", "z", "a", "w"]


@pytest.mark.parametrize("after", ["b", "c", "nowhere", "first"])
def test_role_after_none_of_its_play_is_refused(after: str) -> None:
    given = [row("first", play="first"), row("a"), row("b", after=after), row("c", after="b")]
    with pytest.raises(Refusal, match=r"^b, c: `after` in meta/rigwright.yml must name"):
        rows.ordered(given)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"aftr": "ssh"}, "aftr is no key of a row; use one of play, does,"),
        ({"does": ""}, "does is missing"),
        ({"play": "laptops"}, "play must be one of first, gateways,"),
        ({"promises": ""}, "write what the role promises"),
        ({"same_promises_as": "ssh"}, "write what the role promises"),
        ({"hands_on": {"groups": "__ssh_members.groups"}}, "groups of hands_on must be a key of a result of this role"),
        ({"hands_on": {"groups": "__web_members"}}, "groups of hands_on must be"),
    ],
)
def test_row_that_is_not_right_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=f"roles/web/meta/rigwright.yml: {message}"):
        row("web", **values)


def test_task_of_the_site_has_the_conditions_of_the_row() -> None:
    declared, several, imported = (
        row("a", when="declared"),
        row("b", when=["__site_gpu", "'x' in y"]),
        row("c", play="first"),
    )
    parts = rows.tasks([declared, several, imported, row("d", task="")])
    assert "          when: __site_a\n" in parts["workstations"]
    assert "          when:\n            - __site_gpu\n            - \"'x' in y\"\n" in parts["workstations"]
    assert parts["workstations"].count("include_role") == 2
    assert "import_role" in parts["first"]
    assert "apply" not in parts["first"]


@pytest.mark.parametrize(
    ("values", "applies"),
    [
        ({"play": "last"}, "true"),
        ({"when": "declared"}, "\"{{ 'workstations' in group_names and __site_web }}\""),
        ({"when": "a or b"}, "\"{{ ('workstations' in group_names) and (a or b) }}\""),
        ({"play": "clients"}, "\"{{ group_names | intersect(['workstations', 'laptops']) | length > 0 }}\""),
    ],
)
def test_host_gets_a_role_by_its_groups_and_conditions(values: dict[str, Any], applies: str) -> None:
    parts = rows.variables([row("web", **values)])
    assert parts["roles"] == f"__site_roles:\n  - {{role: web, applies: {applies}}}"
    assert bool(parts["declared"]) is (values.get("when") == "declared")


def test_role_that_promises_the_same_shares_the_row() -> None:
    given = [row("a"), row("b", promises="", same_promises_as="a")]
    assert rows.security(given).endswith("| `a`, `b` | nothing: it has no rights | |")


def test_roles_that_send_messages() -> None:
    assert (
        rows.senders([row("b", sends_messages=True), row("c"), row("a", sends_messages=True)])
        == "__common_notify_senders: [a, b]"
    )


def test_what_stays_of_a_role_is_what_its_row_says() -> None:
    assert rows.stays([row("a"), row("b", stays="x: y")]) == '__uninstall_stays:\n  b: "x: y"'


def test_parts_are_put_between_their_markers(tmp_path: Any) -> None:
    (tmp_path / "x.yml").write_text("a\n  # begin b: made by x\nold\n  # end\nc\n  # begin d: made by x\n  # end\n")
    assert pages.filled("x.yml", {"b": "new", "d": r"\1"}, tmp_path) == (
        "a\n  # begin b: made by x\nnew\n  # end\nc\n  # begin d: made by x\n\\1\n  # end\n"
    )
    with pytest.raises(Refusal, match="x.yml lacks `begin e: made`"):
        pages.filled("x.yml", {"e": ""}, tmp_path)
