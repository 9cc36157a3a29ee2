# SPDX-License-Identifier: GPL-3.0-or-later
"""One pattern says which names of users and groups exist, and one which can be created (_core/names.py)."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core import names
from hypothesis import given
from hypothesis import strategies as st

from .sources import CHECKOUT, PYTHON, YAML, nodes

ACCOUNTS = ("alice", "svc-backup", "_apt")
NEVER = ("", "a b", "a/b", "a=b", "a:b", "[a]")
# These match names of accounts as well, and are of other things.
OTHERS = {
    r"[\w.-]+": "host names",
    "[A-Za-z0-9_][A-Za-z0-9_.-]*": "conda environments",
    "(?!-)[A-Za-z0-9_-]{1,63}(?<!-)": "labels of DNS",
    "[A-Za-z0-9_.-]{1,14}[A-Za-z0-9_.*-]": "network interfaces",
    "[A-Za-z0-9_-][A-Za-z0-9._-]*": "the prefix of a client's tunnels in frp",
    "[A-Za-z0-9_+.][A-Za-z0-9_+.-]*": "LVM's groups and volumes",
    "[A-Za-z0-9._-]+": "labels, serial numbers and ids of disks",
    "[A-Za-z_][A-Za-z0-9_.-]*": "keys of INI files",
    "[A-Za-z0-9_-]+": "bare keys of TOML",
    "^[a-z0-9._-]+": "packages of conda",
}


def is_for_accounts(pattern: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            compiled = re.compile(pattern)
    except re.error:
        return False
    return all(map(compiled.fullmatch, ACCOUNTS)) and not any(map(compiled.fullmatch, NEVER))


def patterns(path: Path) -> list[str]:
    text = path.read_text()
    if path.suffix == ".py":
        found = [node.value for node in nodes(text) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    else:
        found = re.findall(r"""["']((?:\^)?\[[^"']*)["']""", text)
    return [pattern for pattern in found if pattern.count("[") and is_for_accounts(pattern.replace("\\\\", "\\"))]


def test_no_other_pattern_of_names_of_accounts() -> None:
    found = {str(path.relative_to(CHECKOUT)): {*patterns(path)} - OTHERS.keys() for path in (*PYTHON, *YAML)}
    assert [name for name, others in found.items() if others] == ["plugins/module_utils/_core/names.py"]


@given(st.from_regex(names.NEW, fullmatch=True))
def test_a_created_name_is_one_that_exists(name: str) -> None:
    assert names.is_name(name)
