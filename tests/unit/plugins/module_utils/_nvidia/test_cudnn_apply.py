# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in a directory; pip is a script that hands out wheels from another one."""

from __future__ import annotations

import hashlib
import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cudnn_apply
from ansible_collections.rigwright.workstation.plugins.modules import cudnn_wheels

Run = Callable[..., Any]


class Host:
    """A root directory, an index of wheels, and what pip was asked for."""

    def __init__(self, folder: Path) -> None:
        self.root, self.index = folder / "root", folder / "index"
        self.commands: list[str] = []
        for path in (self.root / "usr/local/include", self.root / "usr/local/lib", self.index):
            path.mkdir(parents=True)

    def add(self, cuda: int, version: str, *libraries: str, header: str = "cudnn.h") -> Any:
        """Put a wheel into the index, and return what the module takes."""
        path = self.index / f"nvidia_cudnn_cu{cuda}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"nvidia/cudnn/include/{header}", f"/* {version} */")
            for name in libraries or ("libcudnn.so.9", "libcudnn_ops.so.9"):
                archive.writestr(f"nvidia/cudnn/lib/{name}", f"{cuda} {version} {name}")
            archive.writestr("../../etc/evil", "out of the wheel")
            archive.writestr("nvidia/cudnn/lib/../../../../evil", "out of the wheel")
        return {"cuda": cuda, "version": version, "sha256": [hashlib.sha256(path.read_bytes()).hexdigest()]}

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def run_command(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        if command[0] == "ldconfig":
            return 0, "", ""
        place = Path(command[command.index("--dest") + 1])
        wanted = Path(command[command.index("--requirement") + 1]).read_text()
        self.commands.append(" ".join(command))
        project, digest = wanted.split()[0], wanted.split("sha256:")[1].strip()
        name, version = project.replace("-", "_").split("==")
        wheel = self.index / f"{name}-{version}-py3-none-any.whl"
        if not wheel.exists() or hashlib.sha256(wheel.read_bytes()).hexdigest() != digest:
            return 1, "", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES"
        (place / wheel.name).write_bytes(wheel.read_bytes())
        return 0, "", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    monkeypatch.setattr(cudnn_apply, "ROOT", str(host.root))
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command, **options: host.run_command(command))
    return host


def test_wheels_are_due_when_the_module_would_change_them(run_module: Run, host: Host) -> None:
    wheel = host.add(13, "9.12.0.46")
    assert [cudnn_apply.is_due([wheel]), cudnn_apply.is_due([])] == [True, False]
    run_module(cudnn_wheels, wheels=[wheel])
    assert [cudnn_apply.is_due([wheel]), cudnn_apply.is_due([])] == [False, True]
    (host.root / "usr/local/lib/libcudnn_theirs.so").touch()
    assert cudnn_apply.is_due([wheel]) is True


def test_files_of_a_receipt_are_on_the_disk(run_module: Run, host: Host, synced: Callable[[Path], bool]) -> None:
    run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])
    base = host.root / "opt/cudnn"
    trees = [path for path in base.rglob("*") if not path.is_symlink()]
    assert [path for path in (base, *trees) if not synced(path)] == []


def leads(host: Host, path: str) -> str:
    return str((host.root / path.lstrip("/")).readlink())


def test_headers_and_libraries_are_found_where_compilers_look(run_module: Run, host: Host) -> None:
    result = run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])

    assert result["changed"]
    assert leads(host, "/opt/cudnn/default") == "cuda13"
    assert leads(host, "/opt/cudnn/cuda13") == "cuda13-9.12.0.46"
    assert leads(host, "/usr/local/include/cudnn.h") == "/opt/cudnn/default/include/cudnn.h"
    assert leads(host, "/usr/local/lib/libcudnn.so") == "/opt/cudnn/default/lib/libcudnn.so"
    assert host.read("/opt/cudnn/cuda13/lib/libcudnn.so") == "13 9.12.0.46 libcudnn.so.9"
    assert "Version: 9.12.0.46" in host.read("/opt/cudnn/cuda13/pkgconfig/cudnn.pc")
    assert "prefix=/opt/cudnn/cuda13\n" in host.read("/opt/cudnn/cuda13/pkgconfig/cudnn.pc")
    assert list(host.root.rglob("evil")) == []
    assert not run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])["changed"]


def test_an_empty_list_gives_everything_back(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    (host.root / "opt").mkdir()
    before = snapshot(host.root)
    run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46"), host.add(12, "9.12.0.46")])

    assert run_module(cudnn_wheels, wheels=[])["changed"]

    assert snapshot(host.root) == before
    assert not run_module(cudnn_wheels, wheels=[])["changed"]


def test_a_new_version_replaces_the_old_one(run_module: Run, host: Host) -> None:
    run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46", "libcudnn.so.9", "libcudnn_old.so.9")])

    run_module(cudnn_wheels, wheels=[host.add(13, "9.20.0.48", "libcudnn.so.9", "libcudnn_new.so.9")])

    assert sorted(path.name for path in (host.root / "opt/cudnn").iterdir()) == [
        "cuda13",
        "cuda13-9.20.0.48",
        "default",
    ]
    assert sorted(path.name for path in (host.root / "usr/local/lib").glob("*.so")) == [
        "libcudnn.so",
        "libcudnn_new.so",
    ]


def test_another_default_needs_no_download(run_module: Run, host: Host) -> None:
    wheels = [host.add(13, "9.12.0.46"), host.add(12, "9.12.0.46")]
    run_module(cudnn_wheels, wheels=wheels)
    host.commands.clear()

    run_module(cudnn_wheels, wheels=wheels[::-1])

    assert host.commands == []
    assert leads(host, "/opt/cudnn/default") == "cuda12"


def test_a_damaged_file_is_replaced(run_module: Run, host: Host) -> None:
    wheel = host.add(13, "9.12.0.46")
    run_module(cudnn_wheels, wheels=[wheel])
    (host.root / "opt/cudnn/cuda13/lib/libcudnn.so.9").write_text("half")

    assert run_module(cudnn_wheels, wheels=[wheel])["changed"]

    assert host.read("/usr/local/lib/../../../opt/cudnn/cuda13/lib/libcudnn.so.9") == "13 9.12.0.46 libcudnn.so.9"


def test_a_wrong_checksum_changes_nothing(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])
    before = snapshot(host.root)

    result = run_module(cudnn_wheels, wheels=[{**host.add(13, "9.20.0.48"), "sha256": ["00" * 32]}])

    assert result["failed"]
    assert "nvidia-cudnn-cu13==9.20.0.48: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" in result["msg"]
    assert "cudnn_index_url" in result["msg"]
    assert snapshot(host.root) == before


def test_a_wheel_without_a_header_is_refused(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    (host.root / "opt").mkdir()
    before = snapshot(host.root)

    result = run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46", header="other.h")])

    assert result["failed"]
    assert "it has no cudnn.h or no libcudnn.so" in result["msg"]
    assert snapshot(host.root) == before


def test_an_unmanaged_library_is_refused(run_module: Run, host: Host) -> None:
    (host.root / "usr/local/lib/libcudnn.so.8").write_text("theirs")

    result = run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])

    assert "/usr/local/lib/libcudnn.so.8 is in the way" in result["msg"]
    assert host.commands == []


def test_leftovers_of_an_interrupted_run_are_removed(run_module: Run, host: Host) -> None:
    wheel = host.add(13, "9.12.0.46")
    run_module(cudnn_wheels, wheels=[wheel])
    (host.root / "opt/cudnn/.work/cuda13-9.20.0.48").mkdir(parents=True)
    (host.root / "opt/cudnn/.default.rigwright").symlink_to("cuda13")
    (host.root / "usr/local/lib/.libcudnn.so.rigwright").symlink_to("/opt/cudnn/default/lib/libcudnn.so")

    assert run_module(cudnn_wheels, wheels=[wheel])["changed"]

    assert sorted(path.name for path in (host.root / "opt/cudnn").iterdir()) == [
        "cuda13",
        "cuda13-9.12.0.46",
        "default",
    ]


THEIRS = {
    "opt/cudnn/README": "a file",
    "opt/cudnn/9.1/include/cudnn.h": "a cuDNN of their own",
    "opt/cudnn/cuda12-9.1/notes": "a name like ours",
}


def put_theirs(host: Host) -> None:
    for name, text in THEIRS.items():
        (host.root / name).parent.mkdir(parents=True, exist_ok=True)
        (host.root / name).write_text(text)
    (host.root / "opt/cudnn/current").symlink_to("9.1")
    (host.root / "opt/cudnn/cuda12").symlink_to("cuda12-9.1")
    (host.root / "usr/local/include/mine_cudnn.h").symlink_to("/opt/cudnn/9.1/include/cudnn.h")


@pytest.mark.parametrize("installed", [False, True])
def test_unmanaged_files_under_opt_cudnn_stay(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], installed: bool
) -> None:
    if installed:
        run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])
    put_theirs(host)

    assert run_module(cudnn_wheels, wheels=[])["changed"] == installed

    remaining = snapshot(host.root)
    assert {name: remaining[name][1].decode() for name in remaining if name in THEIRS} == THEIRS
    assert leads(host, "/opt/cudnn/current") == "9.1"
    assert leads(host, "/opt/cudnn/cuda12") == "cuda12-9.1"
    assert leads(host, "/usr/local/include/mine_cudnn.h") == "/opt/cudnn/9.1/include/cudnn.h"
    assert not list(host.root.rglob("*cuda13*"))
    assert not run_module(cudnn_wheels, wheels=[])["changed"]


@pytest.mark.parametrize("name", ["cuda13-9.12.0.46", "cuda13", "default"])
def test_a_name_of_an_unmanaged_file_is_refused(
    run_module: Run, host: Host, snapshot: Callable[[Path], Any], name: str
) -> None:
    (host.root / "opt/cudnn" / name / "include").mkdir(parents=True)
    before = snapshot(host.root)

    result = run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])

    assert f"/opt/cudnn/{name} is in the way" in result["msg"]
    assert snapshot(host.root) == before


def test_killed_removal_is_completed_by_the_next_run(
    run_module: Run, run_killed: Callable[..., bool], host: Host, snapshot: Callable[[Path], Any]
) -> None:
    (host.root / "opt").mkdir()
    before = snapshot(host.root)
    for step in itertools.count(1):
        run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")])
        if not run_killed(cudnn_wheels, step, wheels=[]):
            break
        run_module(cudnn_wheels, wheels=[])
        assert snapshot(host.root) == before


@pytest.mark.parametrize("version", ["../../../etc", "9/1", ""])
def test_invalid_version_does_not_become_a_path(run_module: Run, host: Host, version: str) -> None:
    result = run_module(cudnn_wheels, wheels=[{"cuda": 13, "version": version, "sha256": ["00" * 32]}])

    assert "is no version of cuDNN" in result["msg"]


def test_check_mode_downloads_nothing(run_module: Run, host: Host, snapshot: Callable[[Path], Any]) -> None:
    before = snapshot(host.root)

    assert run_module(cudnn_wheels, check=True, wheels=[host.add(13, "9.12.0.46")])["changed"]

    assert snapshot(host.root) == before
    assert host.commands == []


@pytest.mark.parametrize(
    ("index", "options"),
    [
        ("http://10.1.2.3:8080/simple/", "--index-url http://10.1.2.3:8080/simple/ --trusted-host 10.1.2.3:8080"),
        ("https://index.example/simple", "--index-url https://index.example/simple"),
        ("", "--dest"),
    ],
)
def test_pip_uses_the_index(run_module: Run, host: Host, index: str, options: str) -> None:
    run_module(cudnn_wheels, wheels=[host.add(13, "9.12.0.46")], index_url=index)

    assert options in host.commands[0]
    assert "--require-hashes" in host.commands[0]
    assert ("--trusted-host" in host.commands[0]) == index.startswith("http:")
