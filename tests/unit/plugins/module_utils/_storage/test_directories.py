# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import acl
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.directories import State
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import Directory, read_entries

ENTRIES, _REFUSED = read_entries([{"serial": "A", "role": "data", "quota": True}])


def mine(mode: int) -> State:
    return State(os.getuid(), os.getgid(), mode)


def test_a_directory_is_made_and_read_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b"
    assert directories.read(path) is None
    directories.write(path, mine(0o2750))
    assert directories.read(path) == mine(0o2750)
    directories.write(path, mine(0o700))
    assert directories.read(path) == mine(0o700)


@pytest.mark.parametrize("where", ["link", "link/x", "file", "file/x"])
def test_no_link_is_followed_wherever_it_stands(tmp_path: Path, where: str) -> None:
    (tmp_path / "real/x").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    before = (tmp_path / "real/x").stat()
    for call in (directories.read, lambda path: directories.write(path, mine(0o777))):
        with pytest.raises(UnsafePath):
            call(f"{tmp_path}/{where}")
    assert (tmp_path / "real/x").stat() == before


def wrong(directory: Directory, size: int = 10**9, unknown: frozenset[tuple[int, str]] = frozenset()) -> str:
    found = directories.requirements([directory], ENTRIES, {"/data": size}, unknown)
    return "; ".join(f"{row['problem']} -> {row['remedy']}" for row in found)


def test_unsupported_directories_are_refused() -> None:
    assert "more than its disk, which has 1000000000 -> set a smaller one" in wrong(
        Directory("/data/x", quota=2 * 10**9)
    )
    assert "takes for two words" in wrong(Directory("/data/my x", quota=1))
    assert "the default ACL entry 'ml:rwx' -> write it as group:ml:rwx" in wrong(Directory("/data/x", acl=("ml:rwx",)))
    assert wrong(Directory("/data/x", quota=10**9)) == ""


def test_missing_users_and_groups_are_refused() -> None:
    nobody = frozenset([(acl.USER, "bob"), (acl.GROUP, "ml")])
    output = wrong(Directory("/data/x", "bob", "ml"), unknown=nobody)
    assert "for the user bob, who is not there -> make the user first: `useradd bob`" in output
    assert "for the group ml, which is not there -> make the group first: `groupadd ml`" in output
    assert "group ml" in wrong(Directory("/data/x", acl=("group:ml:rwx",)), unknown=nobody)


def test_a_directory_without_a_group_has_its_owners() -> None:
    numbers = {(acl.USER, "alice"): 5, (acl.GROUP, "of alice"): 6}
    state = directories.wanted_state(Directory("/data/u", "alice", "", 0o700), lambda tag, name: numbers[tag, name], 0)
    assert (state.uid, state.gid, state.mode, state.acl) == (5, 6, 0o700, b"")


# --- Quotas ---

# As `xfs_quota -x -c 'report -p -b -n -N'` prints it.
REPORT = """\
#0                   0          0          0     00 [--------]
#1000          1048576          0  524288000     00 [--------]

"""


def test_limits_are_read_in_bytes() -> None:
    assert directories.parse_limits(REPORT) == {0: 0, 1000: 500 * 2**30}


def test_new_directory_gets_the_next_project() -> None:
    requested = [Directory(path, quota=1) for path in ("/data/a", "/data/b", "/data/b/c")] + [Directory("/data/free")]
    # The last one has inherited its parent's.
    states = {"/data/b": State(0, 0, 0o755, project=1000), "/data/b/c": State(0, 0, 0o755, project=1000)}
    chosen = directories.next_projects(requested, states)
    assert chosen == {"/data/a": 1001, "/data/b": 1000, "/data/b/c": 1002}


def test_project_is_set_once_and_a_changed_limit_again() -> None:
    wanted = State(0, 0, 0o755, project=1000, limit=500 * 2**30)
    quota = ["xfs_quota", "-x", "-f", "-c"]
    limit = [*quota, "limit -p bhard=524288000k 1000", "/data"]

    def commands(had: State | None, target: State = wanted) -> list[list[str]]:
        return list(directories.commands("/data/x", "/data", "ext4", had, target))

    assert commands(None) == [[*quota, "project -s -p /data/x 1000", "/data"], limit]
    assert commands(State(0, 0, 0o755, project=1000, limit=5)) == [limit]
    assert commands(wanted) == []
    assert commands(wanted, State(0, 0, 0o755, project=1000)) == [[*quota, "limit -p bhard=0 1000", "/data"]]
    assert list(directories.commands("/x", "/", "xfs", None, wanted))[1][:3] == ["xfs_quota", "-x", "-c"]
