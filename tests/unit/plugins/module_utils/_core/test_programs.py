# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs start with one locale, whatever the host and the caller have."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs

SHOW = ["sh", "-c", 'echo "$LC_ALL,${LANGUAGE-unset},$TZ"']


@pytest.fixture(autouse=True)
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de_DE:de", "TZ": "Europe/Berlin"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (None, "C.UTF-8,,Europe/Berlin\n"),
        ({"TZ": "UTC"}, "C.UTF-8,,UTC\n"),
        ({"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}, "C.UTF-8,,\n"),
    ],
)
def test_run(env, expected):
    assert programs.run(SHOW, env).stdout == expected


def test_output_that_is_no_text():
    done = programs.run(["sh", "-c", r"printf 'a\374'; exit 3"])
    assert (done.returncode, done.stdout) == (3, "a\N{REPLACEMENT CHARACTER}")


def test_start():
    with programs.start(SHOW, stdout=subprocess.PIPE, text=True) as started:
        assert started.communicate()[0] == "C.UTF-8,,Europe/Berlin\n"


def test_a_command_of_the_user_keeps_its_locale():
    with programs.start(SHOW, locale={}, stdout=subprocess.PIPE, text=True) as started:
        assert started.communicate()[0] == "de_DE.UTF-8,de_DE:de,Europe/Berlin\n"
