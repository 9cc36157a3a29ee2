# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of a pip.conf is set as pip reads it, and every other option stays."""

from __future__ import annotations

import configparser

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.pip_conf import Unreadable, set_index
from hypothesis import example, given
from hypothesis import strategies as st

URL = "https://m.example/simple"
PIP = """\
# Ask Ann before you touch this.
[global]
cert = /etc/ssl/lab.pem
index_url = https://old.example/simple
    https://continued.example/simple
timeout: 60

[install]
index-url = https://for-install.example/simple
"""


def test_a_pip_conf_keeps_all_but_the_index() -> None:
    assert (
        set_index(PIP, URL)
        == f"""\
# Ask Ann before you touch this.
[global]
index-url = {URL}
cert = /etc/ssl/lab.pem
timeout: 60

[install]
index-url = {URL}
"""
    )


def test_missing_pip_conf_is_created() -> None:
    assert set_index("", URL) == f"[global]\nindex-url = {URL}\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[global]\n  index-url = x\n  timeout = 60\n", f"[global]\n  index-url = {URL}\n  timeout = 60\n"),
        ("[global]\n\tno-cache-dir = 1\n", f"[global]\n\tindex-url = {URL}\n\tno-cache-dir = 1\n"),
        ("[global]\nIndex-URL: x", f"[global]\nindex-url = {URL}\n"),
        ("[global] # all\n--index-url = x\n", f"[global] # all\nindex-url = {URL}\n"),
        (
            "[global]\nextra-index-url =\n    https://a\n\n    https://b\n    # c\n    index-url = no option\n",
            f"[global]\nindex-url = {URL}\nextra-index-url =\n    https://a\n\n    https://b\n    # c\n    index-url = no option\n",
        ),
        ("[ global ]\nindex-url = x\n", f"[ global ]\nindex-url = {URL}\n\n[global]\nindex-url = {URL}\n"),
    ],
)
def test_forms_that_configparser_reads(text: str, after: str) -> None:
    assert set_index(text, URL) == after
    assert set_index(after, URL) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[global]\na = 1\na = 2\n", "option 'a' in section 'global' already exists"),
        ("[install]\n[install]\n", "section 'install' already exists"),
        ("timeout = 60\n", "no section headers"),
        ("[global]\ntimeout\n", "parsing errors"),
    ],
)
def test_a_file_that_pip_refuses(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        set_index(text, URL)


WORDS = st.sampled_from(["index-url", "index_url", "Index-Url", "timeout", "cert", "extra-index-url"])
VALUES = st.sampled_from(["", "60", "https://a.example", "a = b", "[x]"])
INDENTS = st.sampled_from(["", " ", "    ", "\t"])
LINES = st.one_of(
    st.builds("{}{}{}{}\n".format, INDENTS, WORDS, st.sampled_from([" = ", "=", ": "]), VALUES),
    st.builds(
        "{}{}\n".format, INDENTS, st.sampled_from(["[global]", "[install]", "# c", "; c", "", "https://b.example"])
    ),
)


def read(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {name: {key.replace("_", "-"): value for key, value in parser.items(name)} for name in parser.sections()}


@given(st.lists(LINES, max_size=8).map("".join))
@example("[install]\nindex-url = https://a.example\nindex_url = https://b.example\n")
def test_all_other_options_stay(text: str) -> None:
    try:
        before = read(text)
    except configparser.Error:
        with pytest.raises(Unreadable):
            set_index(text, URL)
        return
    after = set_index(text, URL)
    found = read(after)
    indexes = {name: options.pop("index-url", None) for name, options in found.items()}
    assert {
        "global": {},
        **{name: {k: v for k, v in o.items() if k != "index-url"} for name, o in before.items()},
    } == found
    assert indexes == {
        **{name: URL if "index-url" in options else None for name, options in before.items()},
        "global": URL,
    }
    assert set_index(after, URL) == after
