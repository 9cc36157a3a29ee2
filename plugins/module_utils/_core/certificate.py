# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide when a private CA and its certificate have to be created again, from the output of ``openssl``."""

from __future__ import annotations

import datetime
import ipaddress
import re
import typing as t

# What `openssl x509` is asked to print for parse_certificate.
PRINTED = ["-noout", "-ext", "subjectAltName", "-enddate", "-dateopt", "iso_8601", "-fingerprint", "-sha256", "-pubkey"]

_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_DNS_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_COMMON_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:@()-]{0,63})")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PRIVATE_MODE = re.compile(r"0?[0-7][0-7]0")


class CertificateError(Exception):
    """A request, or a CA, that no certificate can come from; the text names the cause and the remedy."""


class CertificateRequest(t.TypedDict):
    """The parameters of ``tls_certificate``."""

    directory: str
    name: str
    state: str
    names: list[str]
    ca_common_name: str
    ca_days: int
    days: int
    renew_days: int
    renew_ca: bool
    owner: str
    group: str
    mode: str


class Certificate(t.NamedTuple):
    """A certificate that is there."""

    names: frozenset[str]
    """The subject alternative names, as ``alternative_name`` writes them."""
    not_after: datetime.datetime
    fingerprint: str
    """SHA-256, in pairs of hexadecimal digits with colons between."""
    public_key: str
    """PEM"""


def alternative_name(name: str) -> str:
    """Write a name as ``openssl`` wants it: ``DNS:gateway.example.org`` or ``IP:192.0.2.1``.

    :raises CertificateError: it is neither.
    """
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        # A last label of digits is a mistyped IPv4 address, never a name (RFC 3696, section 2).
        if not _DNS_NAME.fullmatch(name) or name.rpartition(".")[2].isdigit():
            raise CertificateError(
                f"names has {name!r}. Set `names` to host names and IP addresses, without a port."
            ) from None
        return f"DNS:{name.lower()}"


def check_request(params: CertificateRequest) -> None:
    """Refuse a request that cannot be met, or that would create a certificate on every run.

    :raises CertificateError: the parameter, what is wrong with it and what it should be.
    """
    if not params["names"]:
        raise CertificateError(
            "names is empty. Set `names` to the host names and IP addresses that clients connect to."
        )
    for name in params["names"]:
        alternative_name(name)
    if not _COMMON_NAME.fullmatch(params["ca_common_name"]):
        raise CertificateError(
            f"ca_common_name is {params['ca_common_name']!r}."
            " Set `ca_common_name` to at most 64 letters, digits, spaces and ._:@()- that begin with a letter or digit."
        )
    if not _FILE_NAME.fullmatch(params["name"]) or params["name"] == "ca":
        raise CertificateError(f"name is {params['name']!r}. Set `name` to letters, digits and ._- but not to `ca`.")
    if not _PRIVATE_MODE.fullmatch(params["mode"]):
        raise CertificateError(
            f"mode is {params['mode']!r}. Set `mode` to octal digits that keep the key from others, such as 0640."
        )
    if not 0 <= params["renew_days"] < params["days"] < params["ca_days"]:
        raise CertificateError(
            f"renew_days is {params['renew_days']}, days {params['days']} and ca_days {params['ca_days']}."
            " Set `renew_days` below `days`, and `days` below `ca_days`."
        )


def parse_certificate(printed: str) -> Certificate:
    """Read what ``openssl x509`` prints with the options PRINTED."""
    names = re.search(r"Subject Alternative Name:.*\n\s*(.+)", printed)
    end = re.search(r"^notAfter=(.+)Z$", printed, re.MULTILINE)
    fingerprint = re.search(r"Fingerprint=(\S+)", printed)
    public_key = re.search(r"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", printed, re.DOTALL)
    if not (end and fingerprint and public_key):
        raise ValueError(f"openssl printed no certificate: {printed!r}")
    return Certificate(
        names=frozenset(_parse_names(names.group(1)) if names else ()),
        not_after=datetime.datetime.fromisoformat(end.group(1)).replace(tzinfo=datetime.timezone.utc),
        fingerprint=fingerprint.group(1),
        public_key=public_key.group(0),
    )


def _parse_names(text: str) -> t.Iterator[str]:
    for name in text.split(", "):
        kind, _colon, value = name.strip().partition(":")
        yield alternative_name(value) if kind == "IP Address" else f"{kind}:{value.lower()}"


def days_left(certificate: Certificate, now: datetime.datetime) -> int:
    """Whole days until a certificate ends; negative once it has ended."""
    return (certificate.not_after - now).days


def find_ca_problems(ca: Certificate | None, public_key: str | None, now: datetime.datetime) -> list[str]:
    """Say why a CA can sign nothing. Clients know it, so it is not replaced without being asked.

    :param ca: what its file says, None if that is no certificate.
    :param public_key: the public half of its key file, None if that is no key.
    """
    if ca is None:
        return ["its certificate cannot be read"]
    problems = []
    if public_key != ca.public_key:
        problems.append("its key is missing or another one's")
    if days_left(ca, now) < 1:
        problems.append(f"it ends on {ca.not_after:%Y-%m-%d}")
    return problems


def find_reasons(
    certificate: Certificate | None,
    *,
    public_key: str | None,
    signed: bool,
    names: t.Iterable[str],
    days: int,
    renew_days: int,
    now: datetime.datetime,
) -> list[str]:
    """Say why a certificate has to be made; nothing if it serves.

    :param signed: whether the CA signed it.
    :param days: what a new one would last. It is not made when that is no gain: the CA itself ends soon.
    """
    if certificate is None:
        return ["there is none"]
    reasons = []
    if public_key != certificate.public_key:
        reasons.append("its key is missing or another one's")
    if not signed:
        reasons.append("the CA did not sign it")
    if certificate.names != frozenset(alternative_name(name) for name in names):
        reasons.append("its names differ")
    remaining = days_left(certificate, now)
    # Both count whole days from different moments, so one day is no difference.
    if remaining < renew_days and remaining + 1 < days:
        reasons.append(f"it ends on {certificate.not_after:%Y-%m-%d}")
    return reasons
