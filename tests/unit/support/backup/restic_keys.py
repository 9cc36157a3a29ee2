# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of tests opens without restic's half a second of scrypt, which guards a password that everybody can read here.

How a key is made: restic's doc/design.rst, "Keys, Encryption and MAC". The repository itself stays as restic has made it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import Done
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.poly1305 import Poly1305

LEAST = {"N": 2, "r": 1, "p": 1}  # the least that scrypt allows
NONCE = TAG = 16  # bytes


def weaken(repository: Path, password: str) -> None:
    """Have the keys of a repository that are not weak yet, and are those of this password, be derived by the least work."""
    for path in (repository / "keys").iterdir():
        key = json.loads(path.read_text())
        if key["N"] == LEAST["N"]:
            continue
        master = _open(_derive(key, password), base64.b64decode(key["data"]))
        key.update(LEAST)
        key["data"] = base64.b64encode(_seal(_derive(key, password), master)).decode()
        text = json.dumps(key).encode()
        weak = path.parent / hashlib.sha256(text).hexdigest()
        weak.write_bytes(text)
        shutil.copystat(path, weak)
        os.chown(weak, path.stat().st_uid, path.stat().st_gid)
        path.unlink()


def weaken_new(patch: pytest.MonkeyPatch) -> None:
    """Have each key be weak that restic makes for the code under test, before anything reads it.

    :param patch: undone with the test.
    """
    run = Restic.run

    def weakening(self: Restic, *arguments: str, **options: Any) -> Done:
        done = run(self, *arguments, **options)
        if done.rc == 0 and ("init" in arguments or arguments[:2] == ("key", "add")):
            new, repository = arguments[-1], self.repository
            file = new if "add" in arguments else repository.password_file or repository.file("password")
            address = Path(repository.file("address")).read_text().strip()
            weaken(Path(address), Path(file).read_text().strip())
        return done

    patch.setattr(Restic, "run", weakening)


def _derive(key: dict[str, Any], password: str) -> bytes:
    """Derive 32 bytes for encryption, and 16 and 16 for the MAC."""
    costs = {"n": key["N"], "r": key["r"], "p": key["p"], "maxmem": 1 << 30}
    return hashlib.scrypt(password.encode(), salt=base64.b64decode(key["salt"]), dklen=64, **costs)


def _cipher(derived: bytes, nonce: bytes, text: bytes) -> bytes:
    return Cipher(algorithms.AES(derived[:32]), modes.CTR(nonce)).encryptor().update(text)


def _tag(derived: bytes, nonce: bytes, text: bytes) -> bytes:
    """Return Poly1305-AES: one part of the key encrypts the nonce, the other part authenticates."""
    masked = Cipher(algorithms.AES(derived[32:48]), modes.ECB()).encryptor().update(nonce)  # noqa: S305 - one block
    return Poly1305.generate_tag(derived[48:] + masked, text)


def _seal(derived: bytes, text: bytes) -> bytes:
    nonce = os.urandom(NONCE)
    hidden = _cipher(derived, nonce, text)
    return nonce + hidden + _tag(derived, nonce, hidden)


def _open(derived: bytes, sealed: bytes) -> bytes:
    nonce, hidden, tag = sealed[:NONCE], sealed[NONCE:-TAG], sealed[-TAG:]
    assert tag == _tag(derived, nonce, hidden), "this is not how restic makes a key"
    return _cipher(derived, nonce, hidden)
