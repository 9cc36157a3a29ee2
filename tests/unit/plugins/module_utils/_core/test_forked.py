# SPDX-License-Identifier: GPL-3.0-or-later
"""Several modules in one run: each has its arguments and its end, and none disturbs the others."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible.module_utils.common import respawn
from ansible_collections.rigwright.workstation.plugins.module_utils._core import forked

Run = Callable[..., dict[str, dict[str, Any]]]

START = "from ansible.module_utils.basic import AnsibleModule\n"
ECHO = (
    START
    + """
from ansible_collections.rigwright.workstation.plugins.module_utils._made_up import words

def main():
    module = AnsibleModule(argument_spec={"word": {"type": "str"}}, supports_check_mode=True)
    module.exit_json(changed=False, word=words.loud(module.params["word"]), check=module.check_mode)
"""
)
WORDS = "def loud(word):\n    return word.upper()\n"
FAIL = START + "def main():\n    AnsibleModule({}, supports_check_mode=True).fail_json(msg='no disk')\n"
STAY = "\n    subprocess.Popen(['sleep', '30'])\n"
PRINTED = "import os\ndef main():\n    {}\n"
NO_RESULT = "the module ended without a result (status 0)"
# Each with its message.
ENDS = {
    "raises_plan": ("def main():\n    raise ValueError('a fault')\n", "ValueError: a fault"),
    "exits_plan": ("import os\ndef main():\n    os._exit(3)\n", "the module ended without a result (status 768)"),
    "fails_plan": (FAIL, "no disk"),
    "stays_plan": (f"import subprocess\n{FAIL}".replace("main():\n", f"main():{STAY}"), "no disk"),
    "prints_plan": (FAIL.replace("    Ansible", "    print('words'); Ansible"), "no disk"),
    "prints_bytes_plan": (PRINTED.format("import sys; sys.stdout.buffer.write(bytes([255, 10]))"), NO_RESULT),
    "prints_a_list_plan": (PRINTED.format("print('[1]')"), NO_RESULT),
    "prints_a_part_plan": (PRINTED.format("print('{\"changed\": fal')"), NO_RESULT),
    "prints_more_plan": (PRINTED.format('print(\'{"failed": true, "msg": "no disk"}\\nmore\')'), "no disk"),
    "is_no_python_plan": ("def main(:\n", "SyntaxError: invalid syntax"),
    "imports_nothing_plan": ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
}
OTHER = """
from ansible.module_utils.common.respawn import respawn_module

def main():
    respawn_module("/opt/python3")
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, open_path: Path) -> Run:
    """Run made-up modules: `run({"a_plan": source}, a_plan={...})`."""
    monkeypatch.setattr(forked, "COMPILED", str(open_path / "run/compiled"))
    given = {"ANSIBLE_MODULE_ARGS": {"_ansible_check_mode": True, "sources": "of the batch"}}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(given).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")

    def run(modules: dict[str, str], **arguments: Any) -> dict[str, dict[str, Any]]:
        sources = {f"{forked.MODULES}.{name}": text for name, text in modules.items()}
        package = forked.MODULES.replace("plugins.modules", "plugins.module_utils._made_up")
        sources[f"{package}.words"] = WORDS
        before = ({*sys.modules}, [*sys.meta_path], respawn.respawn_module)
        found = forked.run_all(sources, {name: arguments.get(name, {}) for name in modules})
        assert ({*sys.modules}, sys.meta_path, respawn.respawn_module) == before, "this process goes on as it was"
        return found

    return run


def test_each_module_has_its_own_arguments_and_check_mode(run: Run) -> None:
    found = run({"a_plan": ECHO, "b_plan": ECHO}, a_plan={"word": "one"}, b_plan={"word": "two"})
    assert [(name, row["word"], row["check"]) for name, row in found.items()] == [
        ("a_plan", "ONE", True),
        ("b_plan", "TWO", True),
    ]


@pytest.mark.parametrize("name", ENDS)
def test_however_a_module_ends_the_others_go_on(run: Run, name: str) -> None:
    source, message = ENDS[name]
    found = run({name: source, "a_plan": ECHO}, a_plan={"word": "one"})
    assert found[name]["failed"] is True and found[name]["msg"].startswith(message)
    assert found["a_plan"]["word"] == "ONE"


def test_more_than_run_at_once_keep_their_order(run: Run) -> None:
    names = [f"m{number}_plan" for number in range(3 * forked.AT_ONCE)]
    found = run(dict.fromkeys(names, ECHO), **{name: {"word": name} for name in names})
    assert {name: row["word"] for name, row in found.items()} == {name: name.upper() for name in names}
    assert list(found) == names


def test_what_needs_another_python_has_to_be_started_alone(run: Run) -> None:
    found = run({"other_plan": OTHER, "a_plan": ECHO}, a_plan={"word": "one"})
    assert found["other_plan"] == forked.ALONE
    assert found["a_plan"]["word"] == "ONE"


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
    run({"a_plan": ECHO}, a_plan={"word": "one"})
    first = compilations()
    assert run({"a_plan": ECHO}, a_plan={"word": "one"})["a_plan"]["word"] == "ONE"
    assert compilations() == first > 0
    found = run({"a_plan": ECHO.replace("changed=False", "changed=True")}, a_plan={"word": "one"})
    assert found["a_plan"]["changed"] and compilations() > first


@pytest.mark.parametrize("content", [b"", b"\0" * 200, marshal.dumps({}), marshal.dumps(None), marshal.dumps({"a": 1})])
def test_spoiled_compiled_code_is_compiled_again(
    run: Run, open_path: Path, compilations: Callable[[], int], content: bytes
) -> None:
    run({"a_plan": ECHO}, a_plan={"word": "one"})
    file = open_path / "run/compiled/plan"
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    good = file.read_bytes()
    file.write_bytes(good[: len(importlib.util.MAGIC_NUMBER) + 32] + content)
    before = compilations()
    assert run({"a_plan": ECHO}, a_plan={"word": "one"})["a_plan"]["word"] == "ONE"
    assert compilations() > before and file.read_bytes() == good


@pytest.mark.parametrize("place", [40, 70, 200, -1])
def test_compiled_code_with_one_wrong_byte_is_not_loaded(
    run: Run, open_path: Path, compilations: Callable[[], int], place: int
) -> None:
    run({"a_plan": ECHO}, a_plan={"word": "one"})
    file = open_path / "run/compiled/plan"
    good = file.read_bytes()
    file.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + (good[place + 1 :] if place > 0 else b""))
    before = compilations()
    assert run({"a_plan": ECHO}, a_plan={"word": "one"})["a_plan"]["word"] == "ONE"
    assert compilations() > before and file.read_bytes() == good


def test_a_full_disk_costs_time_alone(run: Run, open_path: Path, compilations: Callable[[], int]) -> None:
    (open_path / "run").write_text("no directory")
    assert run({"a_plan": ECHO}, a_plan={"word": "one"})["a_plan"]["word"] == "ONE"
    assert compilations() > 0


def test_nothing_runs_without_room_for_results(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(forked, "Sources", refuse)
    with pytest.raises(forked.Failed, match="no room"):
        run({"a_plan": ECHO})
