"""restic and its REST server in the depot, laid out as their releases are: built from committed wrappers (files/restic, rest-server).

The server is a helper of the scenario `backup`; restic is what the role installs where a release is asked for.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from harness.depot import lifecycle as depot
from harness.progress import step
from harness.sandbox.lab import Refusal

RESTIC = "0.19.1"
REST_SERVER = "0.14.0"
CHECKSUMS = depot.STATE / "restic.json"


def put() -> None:
    """Have the depot serve both. `restic.json` has the SHA-256 of the restic that was built, which is not the publisher's."""
    packed = depot.once(f"restic_{RESTIC}_linux_amd64.bz2", partial(bz2.compress, program().read_bytes(), 1))
    depot.put(f"restic/restic/releases/download/v{RESTIC}", {f"restic_{RESTIC}_linux_amd64.bz2": packed})
    CHECKSUMS.write_text(json.dumps({RESTIC: {"amd64": hashlib.sha256(packed).hexdigest()}}))
    server = depot.once(f"rest-server_{REST_SERVER}_linux_amd64", partial(built, "rest-server", REST_SERVER))
    depot.put("rest-server", {"rest-server": server})


def program() -> Path:
    """Return the built restic for this machine: unit tests run it (tests/unit/support/backup/hosts.py)."""
    name = f"restic_{RESTIC}_linux_amd64"
    depot.once(name, partial(built, "restic", RESTIC))
    (depot.BUILDS / name).chmod(0o755)
    return depot.BUILDS / name


def built(name: str, version: str) -> bytes:
    """Build a program from its committed go.mod and go.sum. The same sources give the same bytes."""
    source = depot.FILES / name / version
    environment = os.environ | {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": "amd64"}
    with step(f"build {name} {version}"), tempfile.TemporaryDirectory() as folder:
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", f"{folder}/", "tool"]
        try:
            subprocess.run(["go", "build", *flags], cwd=source, env=environment, check=True)
        except FileNotFoundError:
            raise Refusal(
                f"{name} has to be built, and go is missing: install Go 1.25 or newer and put it on PATH"
            ) from None
        except subprocess.CalledProcessError:
            raise Refusal(
                f"go did not build {name} {version}: its words are above; Go 1.25 or newer is needed"
            ) from None
        return Path(folder, name).read_bytes()
