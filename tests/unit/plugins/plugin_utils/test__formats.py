# SPDX-License-Identifier: GPL-3.0-or-later
"""Data as TOML, INI, JSON and YAML."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.plugin_utils._formats import (
    format_of,
    to_ini,
    to_json,
    to_toml,
    to_yaml,
)
from hypothesis import example, given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
TABLES = st.recursive(
    st.dictionaries(TEXT, VALUES, max_size=4),
    lambda table: st.dictionaries(TEXT, VALUES | table | st.lists(table, min_size=1, max_size=3), max_size=4),
    max_leaves=8,
)


@given(TABLES)
@example({"0\n": []})
def test_written_toml_is_parsed_unchanged(table):
    assert tomllib.loads(to_toml(table)) == table


def test_toml_looks_like_a_hand_written_file():
    data = {"bindPort": 7000, "auth": {"method": "token"}, "proxies": [{"name": "ssh"}, {"name": "rdp"}]}
    assert to_toml(data) == (
        'bindPort = 7000\n\n[auth]\nmethod = "token"\n\n[[proxies]]\nname = "ssh"\n\n[[proxies]]\nname = "rdp"\n'
    )


@pytest.mark.parametrize("value", [None, [{"a": 1}, 2], {"a": None}])
def test_unsupported_toml_values_are_refused(value):
    with pytest.raises(ValueError, match="TOML has no value"):
        to_toml({"key": value})


def test_ini_repeats_an_option_for_a_list():
    assert to_ini({"Unit": {"After": ["a", "b"]}, "Service": {"Restart": True}}) == (
        "[Unit]\nAfter = a\nAfter = b\n\n[Service]\nRestart = true\n"
    )


def test_ini_refuses_a_line_break_in_a_value():
    with pytest.raises(ValueError, match="s.a: INI holds single lines"):
        to_ini({"s": {"a": "b\nc = d"}})


@given(st.dictionaries(TEXT, VALUES))
def test_json_reads_back_and_does_not_depend_on_the_order(data):
    assert json.loads(to_json(data)) == data
    assert to_json(data) == to_json(dict(reversed(data.items())))


def test_yaml_reads_back():
    data = {"b": [1, "two"], "a": {"c": None}}
    assert yaml.safe_load(to_yaml(data)) == data


@pytest.mark.parametrize(
    ("path", "name"), [("/etc/frp/frps.toml", "toml"), ("/etc/pip.conf", "ini"), ("/etc/motd", None)]
)
def test_the_ending_names_the_format(path, name):
    assert format_of(path) == name
