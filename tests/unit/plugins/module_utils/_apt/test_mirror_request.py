# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of services, with and without a profile, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_request import (
    Services,
    endpoints,
    files,
    problems,
)

PROFILES = {
    "none": {},
    "custom": {},
    "lab": {
        "apt": {"debian": "https://lab.example/debian", "ubuntu": "https://lab.example/ubuntu"},
        "pip": "https://lab.example/simple",
        "conda": "https://lab.example/cloud",
    },
}
REQUEST: Any = {
    "profiles": PROFILES,
    "profile": "none",
    "archive": "debian",
    "apt_urls": [],
    "pip_url": "",
    "uv_url": "",
    "conda_url": "",
    "hf_endpoint": "",
    "max_age_days": 7,
    "timeout": 10,
}
NOTHING = Services((), "", "", "", "")
LAB = Services(
    ("https://lab.example/debian",),
    "https://lab.example/simple",
    "https://lab.example/simple",
    "https://lab.example/cloud",
    "",
)


def refused(**options: Any) -> dict[str, str]:
    request: Any = {**REQUEST, **options}
    return {row["variable"]: row["problem"] for row in problems(request, Services.of(request))}


def test_variables_come_before_the_profile() -> None:
    assert Services.of(REQUEST) == NOTHING
    assert Services.of(REQUEST | {"profile": "lab"}) == LAB
    own: Any = {"apt_urls": ["https://a.example/debian"], "uv_url": "https://a.example/simple"}
    assert Services.of(REQUEST | {"profile": "lab", **own}) == LAB._replace(
        apt_urls=tuple(own["apt_urls"]), uv_url=own["uv_url"]
    )


def test_an_archive_that_a_profile_lacks_has_no_mirror() -> None:
    assert Services.of(REQUEST | {"profile": "lab", "archive": "ubuntu-ports"}).apt_urls == ()


@pytest.mark.parametrize(
    ("options", "variable", "text"),
    [
        ({"profile": "custom"}, "mirrors_profile", "is custom, and no mirror is set"),
        ({"pip_url": "http://a.example/simple"}, "mirrors_pip_url", "has no TLS, so pip would refuse it"),
        ({"max_age_days": 0}, "mirrors_max_age_days", "is not a number of days"),
        ({"timeout": -1}, "mirrors_timeout", "is not a number of seconds"),
        (
            {"apt_urls": ["https://a.example/debian", "a.example"], "hf_endpoint": "https://a.example/$(id)"},
            "mirrors_apt_urls, mirrors_hf_endpoint",
            "is not an address such as https://mirror.example/debian",
        ),
        *(
            ({"uv_url": url}, "mirrors_uv_url", "is not an address such as https://mirror.example/debian")
            for url in ("ftp://a.example", "https://", "https://a.example/'", "https://a.example\n", "https://a b")
        ),
        ({"apt_urls": [""]}, "mirrors_apt_urls", "is not an address such as https://mirror.example/debian"),
    ],
)
def test_problems(options: Any, variable: str, text: str) -> None:
    assert refused(**options) == {variable: text}


@pytest.mark.parametrize("options", [{}, {"profile": "lab"}, {"profile": "custom", "uv_url": "http://a.example"}])
def test_requests_without_problems(options: Any) -> None:
    assert refused(**options) == {}


def test_files_of_the_services() -> None:
    assert files(NOTHING) == ([], [])
    found, directories = files(LAB._replace(hf_endpoint="https://hf.example"))
    assert {item["path"]: item.get("data") or item["content"] for item in found} == {
        "/etc/uv/uv.toml": {"index": [{"url": "https://lab.example/simple", "default": True}]},
        "/etc/conda/condarc.d/rigwright-mirrors.yml": {"custom_channels": {"conda-forge": "https://lab.example/cloud"}},
        "/etc/profile.d/rigwright-mirrors.sh": "export HF_ENDPOINT='https://hf.example'\n",
        "/etc/environment.d/60-rigwright-mirrors.conf": "HF_ENDPOINT=https://hf.example\n",
    }
    assert [item["path"] for item in directories] == [
        "/etc/uv",
        "/etc/conda",
        "/etc/conda/condarc.d",
        "/etc/environment.d",
    ]


def test_endpoints_are_what_clients_ask_for_first() -> None:
    assert endpoints(NOTHING) == []
    assert endpoints(LAB._replace(uv_url="https://lab.example/simple//", hf_endpoint="https://hf.example/")) == [
        "https://lab.example/simple/pip/",
        "https://lab.example/cloud/conda-forge/noarch/repodata.json",
        "https://hf.example/",
    ]
