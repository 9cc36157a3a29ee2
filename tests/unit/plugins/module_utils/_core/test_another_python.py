"""A module that needs another Python of the host is started again, whatever the size of its arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ansible_collections
import pytest

PROGRAM = """
import sys
from ansible_collections.rigwright.workstation.plugins.module_utils._core import another_python
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule

def main():
    spec = {name: {"type": "str"} for name in ("text", "python")}
    module = HostModule(argument_spec=spec, supports_check_mode=True)
    if another_python.may_start(module.params["python"]):
        another_python.start_again(module, "program", module.params["python"])
    if module.params["text"] == "fail":
        module.fail_json(msg="it failed", next_step="repair it")
    module.warn("careful")
    started = hasattr(sys.modules["__main__"], another_python.MARK)
    module.exit_json(changed=True, length=len(module.params["text"]), check=module.check_mode, no_log=module.no_log, started=started)

if __name__ == "__main__":
    main()
"""


def run(tmp_path: Path, python: str, **arguments: Any) -> dict[str, Any]:
    """Run the module as Ansible does, and return its result."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    places = [str(tmp_path), str(Path(next(iter(ansible_collections.__path__))).parent)]
    done = subprocess.run(
        [sys.executable, program],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {"python": python, **arguments}}),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def another(tmp_path: Path) -> str:
    """Return a Python that this is not. It leaves out -I, so that it finds the module of this test."""
    path = tmp_path / "python3"
    path.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("length", [1, 300_000])
@pytest.mark.parametrize("check", [False, True])
def test_module_is_started_again_with_all_its_arguments(tmp_path: Path, another: str, length: int, check: bool) -> None:
    found = run(tmp_path, another, text="x" * length, _ansible_check_mode=check, _ansible_no_log=check)
    assert found["no_log"] is check
    assert (found["changed"], found["length"], found["check"], found["started"]) == (True, length, check, True)
    assert "careful" in json.dumps(found["warnings"])


def test_failure_is_handed_on(tmp_path: Path, another: str) -> None:
    found = run(tmp_path, another, text="fail")
    assert (found["failed"], found["msg"], found["next_step"]) == (True, "it failed", "repair it")


def test_module_goes_on_where_there_is_no_other_python(tmp_path: Path) -> None:
    assert run(tmp_path, "/nowhere/python3", text="x")["started"] is False


def test_python_that_gives_no_result_is_a_failure(tmp_path: Path) -> None:
    found = run(tmp_path, "/bin/false", text="x")
    # Or the pipe was broken before all arguments were in it.
    assert found["failed"] and (
        "/bin/false ended with status 1" in found["msg"] or found["cmd"].startswith("/bin/false")
    )
