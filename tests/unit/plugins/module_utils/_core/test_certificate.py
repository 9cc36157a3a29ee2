# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions on renewal of certificates. The output of openssl was recorded with OpenSSL 3.0.19."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    Certificate,
    CertificateError,
    alternative_name,
    check_request,
    days_left,
    find_ca_problems,
    find_reasons,
    parse_certificate,
)

PRINTED = """\
X509v3 Subject Alternative Name: 
    DNS:gateway.example.org, IP Address:192.0.2.1, IP Address:2001:DB8:0:0:0:0:0:1
notAfter=2026-12-21 09:59:29Z
sha256 Fingerprint=51:65:E1:F2
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEW+qjZTJj8c3vREln32+dGsmZ7zvY
-----END PUBLIC KEY-----
"""  # noqa: W291 - openssl prints a space there
PUBLIC_KEY = PRINTED[PRINTED.index("-----BEGIN") :].strip()
NOW = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.UTC)
NAMES = ["gateway.example.org", "192.0.2.1", "2001:db8::1"]
REQUEST: Any = {
    "name": "server",
    "names": NAMES,
    "ca_common_name": "frp on gateway",
    "ca_days": 3650,
    "days": 825,
    "renew_days": 30,
    "mode": "0640",
}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("gateway", "DNS:gateway"),
        ("Gateway.Example.org", "DNS:gateway.example.org"),
        ("*.example.org", "DNS:*.example.org"),
        ("my_host-1", "DNS:my_host-1"),
        ("192.0.2.1", "IP:192.0.2.1"),
        ("2001:DB8:0::1", "IP:2001:db8::1"),
    ],
)
def test_a_name_or_an_address(name: str, written: str) -> None:
    assert alternative_name(name) == written


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a,IP:10.0.0.1",
        "a.",
        "-a",
        "a..b",
        "*",
        "host:7000",
        "192.0.2.256",
        "1.2.3",
        "https://a",
        "ä.example",
        "a\n",
    ],
)
def test_name_that_is_no_host_or_address_is_refused(name: str) -> None:
    with pytest.raises(CertificateError, match=r"^names has .* Set `names`"):
        alternative_name(name)


def test_a_good_request_is_accepted() -> None:
    check_request(REQUEST)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"names": []}, "names"),
        ({"names": ["gateway", "no name"]}, "names"),
        ({"name": "ca"}, "name"),
        ({"name": "../server"}, "name"),
        ({"ca_common_name": "a/O=b"}, "ca_common_name"),
        ({"ca_common_name": "x" * 65}, "ca_common_name"),
        ({"ca_common_name": ""}, "ca_common_name"),
        ({"mode": "0644"}, "mode"),
        ({"mode": "rw"}, "mode"),
        ({"renew_days": 825}, "renew_days"),
        ({"renew_days": -1}, "renew_days"),
        ({"days": 3650}, "renew_days"),
    ],
)
def test_a_bad_request_is_refused_by_the_name_of_its_parameter(change: Any, named: str) -> None:
    with pytest.raises(CertificateError, match=rf"^{named} .*Set `"):
        check_request(REQUEST | change)


def test_output_of_openssl_is_parsed() -> None:
    assert parse_certificate(PRINTED) == Certificate(
        names=frozenset({"DNS:gateway.example.org", "IP:192.0.2.1", "IP:2001:db8::1"}),
        not_after=datetime.datetime(2026, 12, 21, 9, 59, 29, tzinfo=datetime.UTC),
        fingerprint="51:65:E1:F2",
        public_key=PUBLIC_KEY,
    )


def test_a_certificate_without_names_is_read() -> None:
    assert parse_certificate(PRINTED[PRINTED.index("notAfter") :]).names == frozenset()


def test_invalid_certificate_is_recognized() -> None:
    with pytest.raises(ValueError, match="printed no certificate"):
        parse_certificate("unable to load certificate")


def certificate(days: float = 400) -> Certificate:
    """Return a certificate that ends in this many days."""
    names = frozenset(alternative_name(name) for name in NAMES)
    return Certificate(names, NOW + datetime.timedelta(days=days), "51:65", PUBLIC_KEY)


@pytest.mark.parametrize(("days", "remaining"), [(1.5, 1), (1, 1), (0.5, 0), (0, 0), (-0.1, -1)])
def test_days_left_are_whole_days(days: float, remaining: int) -> None:
    assert days_left(certificate(days), NOW) == remaining


@pytest.mark.parametrize(
    ("present", "change", "reasons"),
    [
        pytest.param(certificate(), {}, [], id="serves"),
        pytest.param(certificate(), {"names": [*reversed(NAMES)]}, [], id="order does not matter"),
        pytest.param(None, {}, ["there is none"], id="none"),
        pytest.param(certificate(30), {}, [], id="30 days left"),
        pytest.param(certificate(29.9), {}, ["it ends on 2026-12-21"], id="less than 30 days left"),
        pytest.param(certificate(-1), {}, ["it ends on 2026-11-20"], id="has ended"),
        pytest.param(certificate(20), {"days": 21}, [], id="a new one would end with the CA too"),
        pytest.param(certificate(20), {"days": 22}, ["it ends on 2026-12-11"], id="a new one would last longer"),
        pytest.param(certificate(), {"names": NAMES[:1]}, ["its names differ"], id="fewer names"),
        pytest.param(certificate(), {"names": [*NAMES, "x"]}, ["its names differ"], id="more names"),
        pytest.param(certificate(), {"signed": False}, ["the CA did not sign it"], id="another CA"),
        pytest.param(certificate(), {"public_key": None}, ["its key is missing or another one's"], id="no key"),
        pytest.param(certificate(), {"public_key": "x"}, ["its key is missing or another one's"], id="another key"),
    ],
)
def test_why_a_certificate_is_made(present: Certificate | None, change: Any, reasons: list[str]) -> None:
    serves = {"public_key": PUBLIC_KEY, "signed": True, "names": NAMES, "days": 825, "renew_days": 30, "now": NOW}
    assert find_reasons(present, **{**serves, **change}) == reasons


@pytest.mark.parametrize(
    ("ca", "public_key", "problems"),
    [
        (certificate(), PUBLIC_KEY, []),
        (certificate(1), PUBLIC_KEY, []),
        (None, PUBLIC_KEY, ["its certificate cannot be read"]),
        (certificate(), None, ["its key is missing or another one's"]),
        (certificate(), "x", ["its key is missing or another one's"]),
        (certificate(0.5), PUBLIC_KEY, ["it ends on 2026-11-21"]),
    ],
)
def test_why_a_ca_can_sign_nothing(ca: Certificate | None, public_key: str | None, problems: list[str]) -> None:
    assert find_ca_problems(ca, public_key, NOW) == problems
