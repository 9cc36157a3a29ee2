"""The depot's HTTP server: which address a path stands for, and the dates of a forgotten mirror."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("DEBIAN_MAIN", "http://a.example/debian")
    monkeypatch.setenv("DEBIAN_SECURITY", "https://b.example/debian-security")
    return importlib.reload(importlib.import_module("harness.depot.files.server"))


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/debian/dists/bookworm/InRelease", "http://a.example/debian/dists/bookworm/InRelease"),
        ("/debian-security/pool/x.deb", "https://b.example/debian-security/pool/x.deb"),
        ("/fatedier/frp/releases/download/v1/x.tar.gz", None),
        ("/debianish/x", None),
    ],
)
def test_a_path_stands_for_an_address_in_an_archive(server, path, address):
    assert server.upstream(path) == address


def test_a_forgotten_mirror_has_old_dates_and_the_same_packages(server):
    release = (
        "Suite: stable\nDate: Sat, 11 Jul 2026 10:16:37 UTC\nValid-Until: Sat, 18 Jul 2026 10:16:37 UTC\nSHA256:\n 1\n"
    )
    assert server.aged(release) == (
        "Suite: stable\nDate: Thu, 11 Jun 2026 10:16:37 UTC\nValid-Until: Thu, 18 Jun 2026 10:16:37 UTC\nSHA256:\n 1\n"
    )
