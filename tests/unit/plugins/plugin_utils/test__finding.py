# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import merge, parse

TLS: Any = {"id": "web.tls", "status": "warn", "evidence": "ends in 3 days", "remedy": "renew it"}


def test_whole_finding_is_kept():
    assert parse(TLS) == TLS


@pytest.mark.parametrize("status", ["pass", "skip"])
def test_good_news_needs_no_remedy(status):
    assert parse({**TLS, "status": status, "remedy": None})["remedy"] == ""


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("web.tls", "a finding is a mapping"),
        ({**TLS, "id": "tls"}, "id of a finding must be <role>.<what>"),
        ({**TLS, "id": None}, "id of a finding must be <role>.<what>"),
        ({**TLS, "hint": ""}, "web.tls: unknown key hint"),
        ({**TLS, "status": "ok"}, "web.tls: status must be one of"),
        ({**TLS, "status": None}, "web.tls: status must be one of"),
        ({**TLS, "evidence": " "}, "web.tls: evidence must be a string"),
        ({**TLS, "evidence": 0}, "web.tls: evidence must be a string"),
        ({**TLS, "remedy": None}, "web.tls: remedy must say what to do about a warn"),
        ({**TLS, "remedy": ["renew"]}, "web.tls: remedy must be a string"),
    ],
)
def test_bad_finding_is_refused(raw, message):
    with pytest.raises(ValueError, match=message):
        parse(raw)


def test_later_finding_takes_the_place_of_the_earlier():
    other, again = TLS | {"id": "web.port"}, TLS | {"status": "pass"}
    assert merge([TLS, other], [again]) == [again, other]


def with_evidence(text):
    return {**TLS, "evidence": text}


@pytest.mark.parametrize(
    "value",
    [
        "https_proxy=http://u:hunter2@proxy:1",
        "https://hunter2@git.example.org/x",
        "https://conda.example.org/t/hunter2/main",
        "API_TOKEN=hunter2",
        '"auth": "hunter2"',
        "//nas/share,user=u,password=hunter2,uid=1",
        "Authorization: Bearer hunter2abc",
    ],
)
def test_secret_of_another_file_is_masked_in_a_finding(value):
    evidence = parse(with_evidence(f"not in force: {value} (/etc/x.conf)"))["evidence"]
    assert "hunter2" not in evidence and "not in force: " in evidence


@pytest.mark.parametrize(
    "evidence",
    [
        "can become root without a password: ada, bob",
        "PasswordAuthentication=yes, AuthorizedKeysFile=.ssh/authorized_keys",
        "not mounted: /srv/t/data/old, nas:/export",
        "git@github.com and sftp:user@host:/backup",
        "https://example.org/x?y=z: the token ended 2026-11-27",
    ],
)
def test_sentence_without_a_secret_stays(evidence):
    assert parse(with_evidence(evidence))["evidence"] == evidence
