# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a test has read."""

from __future__ import annotations

from harness.sandbox.lab import ROOT
from harness.testing.tracing import Recorder, Trace


def test_files_of_the_checkout_are_recorded_by_test() -> None:
    trace = Trace()
    trace.enter(ROOT / "tests/unit/test_a.py")
    trace.hear("open", (f"{ROOT}/docs/samba.md", "r", 0))
    trace.hear("open", (f"{ROOT}/plugins/modules/samba_users.py", "r", 0))
    trace.hear("open", (f"{ROOT}/plugins/modules/__pycache__/ssh_users.cpython-313.pyc", "r", 0))
    trace.hear("open", (f"{ROOT}/plugins/modules/xrdp_users.py", "rb", 0))
    trace.hear("open", (f"{ROOT}/collections/ansible_collections/rigwright/workstation/roles/ssh/README.md", "r", 0))
    for place in ("/etc/passwd", f"{ROOT}/.cache/x", 3):
        trace.hear("open", (place, "r", 0))
    trace.enter(ROOT.parent)
    trace.hear("open", (f"{ROOT}/LICENSE", "r", 0))
    trace.test = ""
    assert trace.reads == {
        "tests/unit/test_a.py": {"docs/samba.md", "plugins/modules/samba_users.py", "roles/ssh/README.md"}
    }


def test_what_follows_the_collection_of_a_test_is_not_its_own() -> None:
    recorder = Recorder()
    recorder.trace.enter(ROOT / "tests/unit/test_a.py")
    recorder.pytest_collectreport()
    recorder.trace.hear("open", (f"{ROOT}/tests/unit/support/ssh.py", "r", 0))
    assert recorder.trace.reads == {}
