# SPDX-License-Identifier: GPL-3.0-or-later
"""A key is taken with its full fingerprint, and only if its file holds nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.modules import repository_key

from tests.unit.plugins.module_utils._core.test_openpgp import DOCKER, FINGERPRINT, KEY, SMUGGLED

Run = Callable[..., dict[str, Any]]
ANOTHER = f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{DOCKER}-----END PGP PUBLIC KEY BLOCK-----\n".encode()


@pytest.fixture
def fetch(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Offer a file as the key, and fetch it."""
    monkeypatch.setattr(repository_key, "PAUSE", 0)

    def run(content: bytes | None, *wanted: str) -> dict[str, Any]:
        if content is not None:
            (tmp_path / "gpg").write_bytes(content)
        return run_module(repository_key, url=(tmp_path / "gpg").as_uri(), fingerprints=list(wanted))

    return run


@pytest.mark.parametrize(
    "wanted", [FINGERPRINT, FINGERPRINT.lower(), "9E3D A7B5 37AD C146 2354  2D28 82CD AC0D 3CD5 E7FC"]
)
def test_the_right_key_is_returned(fetch: Run, wanted: str) -> None:
    assert fetch(KEY, wanted)["content"] == KEY.decode()


def test_returned_key_is_written_as_one_new_block(fetch: Run) -> None:
    assert fetch(KEY.replace(b"\n\n", b"\nComment: theirs\n\n"), FINGERPRINT)["content"] == KEY.decode()


@pytest.mark.parametrize("content", SMUGGLED.values(), ids=SMUGGLED)
def test_additional_key_is_refused(fetch: Run, content: bytes) -> None:
    assert "Nothing was changed" in fetch(content, FINGERPRINT)["msg"]


@pytest.mark.parametrize(
    ("content", "wanted", "message"),
    [
        (ANOTHER, FINGERPRINT, "is not the key that was expected: it holds 9DC858229FC7DD38854AE2D88D81803C0EBFCD88"),
        (KEY + ANOTHER, FINGERPRINT, "a line that does not belong there"),
        (b"<html>404</html>", FINGERPRINT, "it is no OpenPGP key"),
        (None, FINGERPRINT, "could not be downloaded"),
        (KEY, FINGERPRINT[-16:], "must hold full fingerprints"),
    ],
    ids=["another key", "one key more", "no key", "nothing there", "a short id"],
)
def test_anything_else_is_refused(fetch: Run, content: bytes | None, wanted: str, message: str) -> None:
    result = fetch(content, wanted)
    assert result["failed"]
    assert message in result["msg"]
    assert "content" not in result
