"""A run of a role that `script/new-role` wrote is killed after each of its files, and completed by the next.

The stage new_role (harness/testing/stages.py) puts this beside the tests of the role.
"""

from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox.clients import Machine

FILES = (
    "/usr/local/lib/rigwright/probe.pyz",
    "/etc/rigwright/probe.json",
    "/etc/systemd/system/rigwright-probe.service",
    "/etc/systemd/system/multi-user.target.wants/rigwright-probe.service",
)


@pytest.mark.both_releases
@pytest.mark.parametrize("path", FILES)
def test_run_killed_after_a_file_is_completed_by_the_next(
    apply: Callable[..., Any],
    applied: Callable[..., Any],
    verified: Callable[[], dict[str, dict[str, str]]],
    targets: list[Machine],
    path: str,
) -> None:
    applied({"probe_state": "absent"})
    for target in targets:
        target.must("touch /run/killing")
        target.start(
            f"while test -e /run/killing; do test -L {path} -o -e {path} && pkill -9 -x python3; sleep 0.05; done"
        )
    killed = apply()
    for target in targets:
        target.must("rm /run/killing")
    assert killed.rc != 0

    applied()

    assert {status for found in verified().values() for status in found.values()} == {"pass"}
    assert set(apply().changed().values()) == {0}
