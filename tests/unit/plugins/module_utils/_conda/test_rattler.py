# SPDX-License-Identifier: GPL-3.0-or-later
"""What py-rattler is relied on for, and what it is not. Environments as a whole: ../modules/test_conda_environment.py."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import rattler
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError, Package

from harness.depot import conda_channel


def spec(channel: str, *packages: str, **rest: Any) -> dict[str, Any]:
    return {
        "packages": list(packages),
        "channels": [channel],
        "channel_alias": "https://a.example",
        "cuda": "",
        "lock": "",
        **rest,
    }


@pytest.fixture
def channel(tmp_path: Path) -> str:
    conda_channel.write(tmp_path / "channel", conda_channel.read_table())
    return (tmp_path / "channel").as_uri()


def solve(wanted: dict[str, Any], tmp_path: Path, locked: Any = ()) -> Any:
    return rattler.solve("e", wanted, wanted["cuda"], list(locked), str(tmp_path / "index"), 60)


def test_packages_have_version_build_and_sha256(channel, tmp_path):
    packages = rattler.packages_of(solve(spec(channel, "handwritten"), tmp_path))
    archive = (tmp_path / "channel/noarch/handwritten-1.0-0.conda").read_bytes()
    assert packages == {"handwritten": Package("1.0", "0", hashlib.sha256(archive).hexdigest())}


def test_a_package_without_a_sha256_is_refused():
    with pytest.raises(CondaError, match="states no SHA-256 for old-1-0.tar.bz2"):
        rattler.packages_of([SimpleNamespace(sha256=None, file_name="old-1-0.tar.bz2")])


def test_locked_packages_stay_while_they_fit(channel, tmp_path):
    old = solve(spec(channel, "libnumbers <2"), tmp_path)
    assert rattler.packages_of(solve(spec(channel, "libnumbers"), tmp_path, old))["libnumbers"].version == "1.1"
    assert rattler.packages_of(solve(spec(channel, "libnumbers >=2"), tmp_path, old))["libnumbers"].version == "2.0"


def test_lock_round_trip_keeps_packages(channel, tmp_path):
    records = solve(spec(channel, "plotter", "python 3.11.*"), tmp_path)
    path = str(tmp_path / "lock")
    rattler.write_lock(path, spec(channel), records)
    again = rattler.read_lock(path, "the lock")
    assert rattler.packages_of(again) == rattler.packages_of(records)
    assert sorted(record.url for record in again) == sorted(record.url for record in records)


def test_a_lock_for_another_kind_of_machine_is_refused(tmp_path):
    path = tmp_path / "lock"
    path.write_text(
        "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      osx-arm64: []\npackages: []\n"
    )
    with pytest.raises(CondaError, match="the lock has no packages for linux-64"):
        rattler.read_lock(str(path), "the lock")


def test_cuda_version_is_from_the_spec_not_from_the_machine(monkeypatch):
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "11.0")
    offered = {row.name.normalized: str(row.version) for row in rattler.virtual_packages("12.8")}
    assert offered["__cuda"] == "12.8" and "__glibc" in offered
    assert "__cuda" not in {row.name.normalized for row in rattler.virtual_packages("")}


@pytest.mark.parametrize("alias", ["https://a.example/cloud", "https://a.example/cloud/"])
def test_only_channels_by_name_are_below_the_alias(alias):
    named, addressed = rattler.channels({"channels": ["conda-forge", "https://b.example/c"], "channel_alias": alias})
    assert named.base_url.rstrip("/") == "https://a.example/cloud/conda-forge"
    assert addressed.base_url.rstrip("/") == "https://b.example/c"


def no_command(_command: list[str]) -> tuple[int, str, str]:
    raise AssertionError("nothing may be linked")


def test_py_rattler_does_not_check_archives_of_file_channels(channel, tmp_path):
    """Show why check_local_archives exists: if this fails, py-rattler has fixed it."""
    import asyncio

    records = solve(spec(channel, "tampered"), tmp_path)
    asyncio.run(
        rattler.rattler.install(records, tmp_path / "prefix", cache_dir=tmp_path / "cache", show_progress=False)
    )
    assert (tmp_path / "prefix/share/tampered").exists()
    with pytest.raises(CondaError, match="hash mismatch"):
        rattler.install("e", "unread", records, str(tmp_path / "other"), str(tmp_path / "cache"), no_command)


def test_silent_channel_times_out(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        wanted = spec(f"http://127.0.0.1:{silent.getsockname()[1]}/c", "numpy")
        with pytest.raises(CondaError, match="was not solved within 1 s"):
            rattler.solve("e", wanted, "", [], str(tmp_path), 1)
