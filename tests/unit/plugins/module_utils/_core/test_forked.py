# SPDX-License-Identifier: GPL-3.0-or-later
"""Several roles in one run: each has its request and its end, and none disturbs the others."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import forked

Run = Callable[..., dict[str, Any]]

PACKAGE = "ansible_collections.rigwright.workstation.plugins.module_utils._made_up"
# Imports the code of a call, as _system/role_run.py does.
ENTRY = f"""
import importlib

def load(call, module):
    code = importlib.import_module(f"{PACKAGE}.{{call['role']}}")
    return lambda: code.run(call["word"], module)
"""
ECHO = f"""
from {PACKAGE} import words

def run(word, module):
    return {{"changed": False, "word": words.loud(word), "check": module.check_mode}}
"""
WORDS = "def loud(word):\n    return word.upper()\n"
RUN = "def run(word, module):\n"
FAIL = "    return {'failed': True, 'msg': 'no disk'}\n"
EXIT = "    import os; os._exit(0)\n"
NO_RESULT = "the role ended without a result (status 0)"
# Each with its message.
ENDS = {
    "raises": (f"{RUN}    raise ValueError('a fault')\n", "ValueError: a fault"),
    "exits": (f"import os\n{RUN}    os._exit(3)\n", "the role ended without a result (status 768)"),
    "gives_no_json": (f"{RUN}    return {{1, 2}}\n", "TypeError: Object of type set is not JSON serializable"),
    "stays": (f"import subprocess\n{RUN}    subprocess.Popen(['sleep', '30'])\n{FAIL}", "no disk"),
    "prints": (f"{RUN}    print('words')\n{FAIL}", "no disk"),
    "prints_bytes": (f"{RUN}    import sys; sys.stdout.buffer.write(bytes([255, 10]))\n{EXIT}", NO_RESULT),
    "prints_a_list": (f"{RUN}    print('[1]', flush=True)\n{EXIT}", NO_RESULT),
    "is_no_python": ("def run(:\n", "SyntaxError: invalid syntax"),
    "imports_nothing": (
        f"import no_such_module\n{RUN}    pass\n",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
}
OTHER = f"""
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import NeedsPython

{RUN}    raise NeedsPython("/opt/python3")
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, open_path: Path) -> Run:
    """Run the code of made-up roles: `run({"a": source}, a="one")`."""
    monkeypatch.setattr(forked, "COMPILED", str(open_path / "run/compiled"))

    def run(roles: dict[str, str], **requests: str) -> dict[str, Any]:
        sources: Any = {f"{PACKAGE}.{name}": text for name, text in {**roles, "words": WORDS, "entry": ENTRY}.items()}
        before = ({*sys.modules}, [*sys.meta_path])
        calls: Any = {name: {"role": name, "word": requests.get(name, "")} for name in roles}
        found = forked.run_all(sources, f"{PACKAGE}.entry", calls, SimpleNamespace(check_mode=True), "plan")
        assert ({*sys.modules}, sys.meta_path) == before, "this process goes on as it was"
        return found

    return run


def test_each_role_has_its_own_request_and_check_mode(run: Run) -> None:
    found = run({"a": ECHO, "b": ECHO}, a="one", b="two")
    assert [(name, row["word"], row["check"]) for name, row in found.items()] == [
        ("a", "ONE", True),
        ("b", "TWO", True),
    ]


@pytest.mark.parametrize("name", ENDS)
def test_however_a_role_ends_the_others_go_on(run: Run, name: str) -> None:
    source, message = ENDS[name]
    found = run({name: source, "a": ECHO}, a="one")
    assert found[name]["failed"] is True and found[name]["msg"].startswith(message)
    assert found["a"]["word"] == "ONE"


def test_an_error_has_its_text_and_its_place(run: Run) -> None:
    found = run({"raises": ENDS["raises"][0]})["raises"]
    assert "in run" in found["exception"] and found["exception"].endswith("ValueError: a fault\n")


@pytest.mark.parametrize("callback", ["os._exit, 3", "sys.exit, 3", "int, 'x'"])
def test_a_callback_at_the_end_loses_no_result(run: Run, callback: str) -> None:
    found = run({"a": f"import atexit, os, sys\n{RUN}    atexit.register({callback})\n{FAIL}"})
    assert found["a"]["msg"] == "no disk"


def test_more_than_run_at_once_keep_their_order(run: Run) -> None:
    names = [f"m{number}" for number in range(3 * forked.AT_ONCE)]
    found = run(dict.fromkeys(names, ECHO), **{name: name for name in names})
    assert {name: row["word"] for name, row in found.items()} == {name: name.upper() for name in names}
    assert list(found) == names


def test_what_needs_another_python_has_to_be_started_alone(run: Run) -> None:
    found = run({"other": OTHER, "a": ECHO}, a="one")
    assert found["other"] == {forked.ALONE: "/opt/python3"}
    assert found["a"]["word"] == "ONE"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """Return a function that returns how many sources were compiled."""
    log, compile_source = tmp_path / "compiled", forked.Sources.source_to_code

    def noted(source: str, path: str) -> Any:
        with log.open("a") as file:
            file.write(f"{path}\n")
        return compile_source(source, path)

    monkeypatch.setattr(forked.Sources, "source_to_code", staticmethod(noted))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return lambda: len(log.read_text().splitlines())


def test_compiled_code_is_used_for_the_same_sources_alone(run: Run, compilations: Callable[[], int]) -> None:
    run({"a": ECHO}, a="one")
    first = compilations()
    assert run({"a": ECHO}, a="one")["a"]["word"] == "ONE"
    assert compilations() == first > 0
    found = run({"a": ECHO.replace('"changed": False', '"changed": True')}, a="one")
    assert found["a"]["changed"] and compilations() > first


@pytest.mark.parametrize("content", [b"", b"\0" * 200, marshal.dumps({}), marshal.dumps(None), marshal.dumps({"a": 1})])
def test_spoiled_compiled_code_is_compiled_again(
    run: Run, open_path: Path, compilations: Callable[[], int], content: bytes
) -> None:
    run({"a": ECHO}, a="one")
    file = open_path / f"run/compiled/plan.{sys.implementation.cache_tag}"
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    good = file.read_bytes()
    file.write_bytes(good[: len(importlib.util.MAGIC_NUMBER) + 32] + content)
    before = compilations()
    assert run({"a": ECHO}, a="one")["a"]["word"] == "ONE"
    assert compilations() > before and file.read_bytes() == good


@pytest.mark.parametrize("place", [40, 70, 200, -1])
def test_compiled_code_with_one_wrong_byte_is_not_loaded(
    run: Run, open_path: Path, compilations: Callable[[], int], place: int
) -> None:
    run({"a": ECHO}, a="one")
    file = open_path / f"run/compiled/plan.{sys.implementation.cache_tag}"
    good = file.read_bytes()
    file.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + (good[place + 1 :] if place > 0 else b""))
    before = compilations()
    assert run({"a": ECHO}, a="one")["a"]["word"] == "ONE"
    assert compilations() > before and file.read_bytes() == good


def test_a_full_disk_costs_time_alone(run: Run, open_path: Path, compilations: Callable[[], int]) -> None:
    (open_path / "run").write_text("no directory")
    assert run({"a": ECHO}, a="one")["a"]["word"] == "ONE"
    assert compilations() > 0


def test_nothing_runs_without_room_for_results(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(forked, "Sources", refuse)
    with pytest.raises(forked.Failed, match="no room"):
        run({"a": ECHO})
