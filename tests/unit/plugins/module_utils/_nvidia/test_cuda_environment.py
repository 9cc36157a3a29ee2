# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_environment import (
    SYSTEM_PATH,
    set_environment,
    unset_environment,
)
from hypothesis import example, given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "",
            'PATH="/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games"\n'
            'CUDA_HOME="/usr/local/cuda"\n',
        ),
        (
            '# Ours\nPATH="/opt/bin:/usr/bin"\nLANG=C\n',
            '# Ours\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\nLANG=C\nCUDA_HOME="/usr/local/cuda"\n',
        ),
    ],
)
def test_environment_keeps_other_settings(before, after):
    assert set_environment(before, "/usr/local/cuda") == after
    assert set_environment(after, "/usr/local/cuda") == after


def pam_env(text: str) -> dict[str, str]:
    """Parse /etc/environment as Linux-PAM 1.5.2 does, character by character like its C code (pam_env.c, _parse_env_file)."""
    read: dict[str, str] = {}
    lines = text.split("\n")
    while lines:
        line = lines.pop(0)
        while "#" not in line and line.rstrip(" \t").endswith("\\") and lines:
            line = line.rstrip(" \t")[:-1] + lines.pop(0)
        line = line.lstrip(" \t").removeprefix("export ").partition("#")[0]
        name, equals, value = line.partition("=")
        if not name or not all(sign.isascii() and (sign.isalnum() or sign == "_") for sign in name):
            continue
        if value[:1] in ("'", '"') and value:
            value = "".join(sign for at, sign in enumerate(value[1:], 1) if sign not in "'\"" or at < len(value) - 1)
        read.pop(name, None)
        if equals:
            read[name] = value
    return read


PLACES = st.lists(st.sampled_from(["/usr/bin", "/opt/mine/bin", "/usr/local/cuda/bin", ""]), max_size=3).map(":".join)
QUOTED = st.tuples(st.sampled_from(["", '"', "'"]), st.one_of(PLACES, st.just("/opt/cuda"), st.just("/usr/local/cuda")))
SETTINGS = st.builds(
    lambda start, name, value, end: f"{start}{name}={value[0]}{value[1]}{value[0]}{end}",
    st.sampled_from(["", "export ", "  ", "export  ", "#", "x"]),
    st.sampled_from(["PATH", "CUDA_HOME", "LANG", "CUDA_HOME_2"]),
    QUOTED,
    st.sampled_from(["", "", " # mine", "# mine", "  ", "\r"]),
)
LINES = st.one_of(SETTINGS, st.sampled_from(["", "PATH", "# a comment \\", 'PATH="/opt/a:\\\n/opt/b"', "no setting"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=5), st.sampled_from(["", "\n"]))


@given(TEXTS)
def test_any_environment_gets_the_toolkit_and_loses_nothing(before):
    after = set_environment(before, "/usr/local/cuda")
    read, earlier = pam_env(after), pam_env(before)

    first, *rest = read.pop("PATH").split(":")
    places = (earlier.pop("PATH", "").strip("\"' \r") or SYSTEM_PATH).split(":")
    assert first == "/usr/local/cuda/bin"
    assert rest == [place for place in places if place != first]
    assert read.pop("CUDA_HOME") == "/usr/local/cuda"
    earlier.pop("CUDA_HOME", None)
    assert read == earlier
    assert set_environment(after, "/usr/local/cuda") == after


@given(TEXTS)
@example('export CUDA_HOME="/usr/local/cuda"\nexport CUDA_HOME=/opt/cuda\n')
def test_the_toolkit_leaves_the_environment_as_it_came(before):
    after = set_environment(before, "/usr/local/cuda")
    assert unset_environment(after, "/usr/local/cuda", before) == before
    if before.endswith("\n"):
        assert unset_environment(ADDED + after + ADDED, "/usr/local/cuda", before) == ADDED + before + ADDED


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("PATH=/usr/bin\nPATH=/opt/bin:/usr/bin\n", 'PATH=/usr/bin\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('export PATH="/opt/bin:/usr/bin"\n', 'export PATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH="/opt/bin:/usr/bin" # mine\n', '# mine\nPATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH="/opt/bin:\\\n/usr/bin"\n', 'PATH="/usr/local/cuda/bin:/opt/bin:/usr/bin"\n'),
        ('PATH=""\n', f'PATH="/usr/local/cuda/bin:{SYSTEM_PATH}"\n'),
        ("PATH=/opt/bin\nPATH\n", f'PATH=/opt/bin\nPATH\nPATH="/usr/local/cuda/bin:{SYSTEM_PATH}"\n'),
    ],
)
def test_the_path_is_read_as_pam_env_reads_it(before, line):
    assert set_environment(before, "/usr/local/cuda") == f'{line}CUDA_HOME="/usr/local/cuda"\n'


ADDED = "http_proxy=http://proxy.example:3128\n"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "LANG=C\n",
        "PATH=/opt/bin:/usr/bin\nLANG=C\n",
        'PATH="/usr/bin:/usr/local/cuda/bin"\nCUDA_HOME=/opt/cuda\n',
    ],
)
def test_absent_removes_only_the_toolkits_lines(before):
    ours = set_environment(before, "/usr/local/cuda")

    assert unset_environment(ours, "/usr/local/cuda", before) == before
    assert unset_environment(ours + ADDED, "/usr/local/cuda", before) == before + ADDED


def test_a_place_that_others_put_on_the_toolkit_s_path_stays():
    ours = set_environment("PATH=/usr/bin\n", "/usr/local/cuda")
    theirs = ours.replace("/usr/bin", "/usr/bin:/opt/bin").replace('CUDA_HOME="/usr/local/cuda"', "CUDA_HOME=/opt/cuda")

    assert unset_environment(theirs, "/usr/local/cuda", "PATH=/usr/bin\n") == (
        'PATH="/usr/bin:/opt/bin"\nCUDA_HOME=/opt/cuda\n'
    )
