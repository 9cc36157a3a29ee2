"""A proof that passes shows that the thing happened: on a machine on which nothing is to be seen, nothing passes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("nothing_seen.py")
EMPTY = ("/etc", "/home", "/opt", "/run", "/var")
# An account database that has root and nobody: Python itself asks for them.
ACCOUNTS = "echo root:x:0:0::/root:/bin/sh >/etc/passwd; echo nobody:x:65534:65534::/:/bin/false >>/etc/passwd; echo root:x:0: >/etc/group"


@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare (util-linux) makes the empty machine")
@pytest.mark.parametrize("status", [0, 1])
def test_nothing_seen_is_no_pass(status: int) -> None:
    mounts = "; ".join(f"mount -t tmpfs none {place}" for place in EMPTY)
    script = f'set -e; {mounts}; {ACCOUNTS}; exec "$@"'
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--propagation", "private"]
    command = [*namespaces, "sh", "-c", script, "sh", sys.executable, str(PROGRAM), str(status)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    found = json.loads(done.stdout)
    assert len(found) > 15 and sum(map(len, found.values())) > 40
    assert [id_ for findings in found.values() for id_, status in findings.items() if status == "pass"] == []
