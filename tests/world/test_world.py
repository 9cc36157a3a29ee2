"""Read inputs of real life as the roles do: tests/world/README.md."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.world.corpus import Case, Refused, cases, domains

CASES = [case for domain in domains() for case in cases(domain)]
LARGEST_SHARE_OF_A_THREAD = 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.domain}: {case.name}")
def test_case(case: Case) -> None:
    answer = case.ask()
    if isinstance(case.expect, Refused):
        assert isinstance(answer, Refused)
        assert case.expect.text in answer.text
    else:
        assert answer == case.expect, case.source


def test_names_are_unique() -> None:
    names = Counter((case.domain, case.name) for case in CASES)
    assert not [name for name, count in names.items() if count > 1]


def test_few_cases_of_a_thread() -> None:
    sources = Counter(case.source for case in CASES if not case.review)
    assert not {source: count for source, count in sources.items() if count > LARGEST_SHARE_OF_A_THREAD}
