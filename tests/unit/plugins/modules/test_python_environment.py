# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments that are really made, from wheels behind a web server."""

from __future__ import annotations

import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import python_environment


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


class Host:
    def __init__(self, folder: Path, address: str, run: Callable[..., dict[str, Any]]) -> None:
        self.path, self.folder, self.address, self._run = folder / "opt/python", folder, address, run

    def add(self, version: str) -> str:
        """Put a library into the index, and return the requirement for it."""
        place = self.folder / "simple/library"
        place.mkdir(parents=True, exist_ok=True)
        wheel = place / f"library-{version}-py3-none-any.whl"
        info = f"library-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("library.py", f"version = '{version}'\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: library\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        (place / "index.html").write_text(
            "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in place.glob("*.whl"))
        )
        return f"library=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"

    def run(self, requirements: str | None, check: bool = False, **params: Any) -> dict[str, Any]:
        index = f"{self.address}/simple"
        given = {"requirements": requirements} if requirements is not None else {}
        fixed = {"path": str(self.path), "index_url": index}
        return self._run(python_environment, check=check, **{**fixed, "user": "conda", **given, **params})

    def version(self) -> str:
        command = (self.path / "bin/python3", "-c", "import library; print(library.version)")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the first environment is kept that venv makes here."""
    return tmp_path_factory.mktemp("first") / "environment"


@pytest.fixture
def made_once(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy the first environment for each further one, which venv would make with three seconds of pip's own installation."""
    run_command, venv = AnsibleModule.run_command, [sys.executable, "-I", "-m", "venv"]

    def run(self: AnsibleModule, command: list[str], **options: Any) -> Any:
        if command[:-1] != venv:
            return run_command(self, command, **options)
        if first.exists():
            shutil.copytree(first, command[-1], symlinks=True)
            return 0, "", ""
        outcome = run_command(self, command, **options)
        if outcome[0] == 0:
            shutil.copytree(command[-1], first, symlinks=True)
        return outcome

    monkeypatch.setattr(AnsibleModule, "run_command", run)


@pytest.fixture
def host(tmp_path: Path, run_module: Callable[..., dict[str, Any]], made_once: None) -> Iterator[Host]:
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *arguments: Silent(*arguments, directory=str(tmp_path))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Host(tmp_path, f"http://127.0.0.1:{server.server_port}", run_module)
        server.shutdown()


def test_environment_is_created_replaced_and_removed(host, snapshot):
    old, new = host.add("1.0"), host.add("2.0")
    assert host.run(old, check=True)["changed"] and not host.path.parent.exists()
    assert host.run(old)["changed"] and host.version() == "1.0"
    before = snapshot(host.path.parent)
    assert not host.run(old)["changed"] and snapshot(host.path.parent) == before

    assert host.run(new)["changed"] and host.version() == "2.0"
    assert len(list(host.path.parent.iterdir())) == 3, "the link, one environment, and who needs it"

    result = host.run(new.replace("sha256:", "sha256:0"))
    assert "pip did not install" in result["msg"] and host.version() == "2.0"

    (host.path / ".rigwright").unlink()  # as a killed run leaves it
    assert host.run(new)["changed"] and host.version() == "2.0"

    assert host.run(None, state="absent")["changed"] and not host.path.parent.exists()
    assert not host.run(None, state="absent")["changed"]


def test_environment_stays_while_a_role_needs_it(host):
    requirements = host.add("1.0")
    assert host.run(requirements)["changed"]
    assert host.run(requirements, user="gpu")["changed"]
    assert not host.run(requirements, user="conda")["changed"]

    gone = host.run(None, state="absent", user="conda")
    assert gone["changed"] and gone["diff"]["after"]["users"] == ["gpu"] and host.version() == "1.0"
    assert not host.run(None, state="absent", user="conda")["changed"]

    assert host.run(None, state="absent", user="gpu")["changed"] and not host.path.parent.exists()


def test_without_venv_the_package_is_named(host, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "Install the package python3-venv" in host.run(host.add("1.0"))["msg"]


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_foreign_path_is_refused_and_kept(host, kind):
    host.path.parent.mkdir()
    if kind == "link":
        host.path.symlink_to("/usr")
    else:
        host.path.mkdir()
    for options in ({"requirements": host.add("1.0")}, {"requirements": None, "state": "absent"}):
        assert "is in the way" in host.run(**options)["msg"]
    assert host.path.exists()
