# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that a script of /etc/profile.d sets."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.shell_variables import assignments


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1; export A", {"A": "1"}),
        ("export A=1 B='x y'", {"A": "1", "B": "x y"}),
        ("unset A", {"A": ""}),
        ("unset -v A B; unset -f", {"A": "", "B": ""}),
        ("A=2 somecmd", {}),
        ("env A=2 somecmd; echo A=2; alias A=2", {}),
        ("(A=2); B=1", {"B": "1"}),
        ("A=$A:2; B=${B:-1}", {}),
        (': "${A:=2}"', {}),
        ('if [ -z "$A" ]; then A=2; fi', {}),
        ('if [ -z "$A" ]\nthen\n  export A=2\nfi\nB=1', {"B": "1"}),
        ('if [ -n "$B" ] && [ -z "$A" ]; then A=2; fi', {}),
        ('if [ -z "$B" ]; then A=2; fi', {"A": "2"}),
        ('if [ -n "$A" ]; then A=2; fi', {"A": "2"}),
        ('if [ -n "$A" ]; then :; else A=2; fi', {}),
        ('if [ -z "$A" ]; then :; else A=2; fi', {"A": "2"}),
        ('[ -n "$A" ] || A=2', {}),
        ('[ -z "$A" ] &&\n  A=2', {}),
        ("[ -v A ] || A=2", {}),
        ('[ "x$A" = x ] && A=2', {}),
        ("[ -d /x ] && A=2; A=3 || true", {"A": "3"}),
        ('case "$(id -un)" in\n    a | b) export A="x/$(id -u)/y" ;;\nesac', {"A": "x/$(id -u)/y"}),
        ('A="$(dirname "$0")"; B=$(id -u)', {"A": "$(dirname $0)", "B": "$(id -u)"}),
        ("B=1 # A=2", {"B": "1"}),
        ("cat <<EOF\nA=2\nEOF\nB=1", {"B": "1"}),
        ("echo it\\'s\nA=1", {"A": "1"}),
        ('echo "open\nA=1', {"A": "1"}),
        ("", {}),
    ],
)
def test_assignments(text: str, found: dict[str, str]) -> None:
    assert dict(assignments(text)) == found
