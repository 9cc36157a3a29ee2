# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations that are refused."""

from __future__ import annotations

import os

import pytest

from tests.unit.support.storage.dataset_cache_processes import program

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_refuses_a_configuration_writable_by_others(place, images):
    (place.top / "configuration.json").chmod(0o666)
    done = place.get(images)
    assert done.rc == 2
    assert "chown root" in done.err


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "lacks `cache`"),
        ({"cache": 1}, "lacks `cache`"),
        ({"cache": "/c", "quotas": 1}, "unknown key: quotas"),
        ({"cache": "c"}, "not an absolute path"),
        ({"cache": "/c", "mount": "c"}, "not an absolute path"),
        ({"cache": "/c", "sources": "/data"}, "wrong kind"),
        ({"cache": "/c", "sources": ["data"]}, "not a list of absolute paths"),
        ({"cache": "/c", "quota": "much"}, "`quota` is not a size"),
        ({"cache": "/c", "free": -1}, "`free` is not a size"),
        ({"cache": "/c", "quota": True}, "wrong kind"),
        ({"cache": "/c", "hash": "none"}, "none of full, once"),
        ({"cache": "/c", "algorithm": "md5"}, "none of auto"),
        ({"cache": "/c", "file_mode": "0640"}, "lets copies be written"),
        ({"cache": "/c", "file_mode": "rw"}, "not a mode"),
        ({"cache": "/c", "directory_mode": "0777"}, "lets everybody write"),
        ({"cache": "/c", "directory_mode": "0770"}, "lets copies be changed"),
        ({"cache": "/c", "directory_mode": "0440"}, "lets nobody enter"),
        ({"cache": "/c", "jobs": -1}, "not below 0"),
        ({"cache": "/c", "evict_service": "yes"}, "wrong kind"),
    ],
)
def test_wrong_configuration_is_refused_by_name(values, expected):
    with pytest.raises(ValueError, match=expected):
        program.check_settings(values)
