# SPDX-License-Identifier: GPL-3.0-or-later
"""What other users can write reaches a terminal, journal, mail, chat or page as one line that changes nothing of it (_core/shown.py)."""

from __future__ import annotations

import ast
import html
import json
import os
import pwd
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import shown as core
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_diff import diff
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import MISSING, State, Step
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model, page, text
from ansible_collections.rigwright.workstation.plugins.module_utils._system import listeners, notifier, notify
from ansible_collections.rigwright.workstation.plugins.modules import host_facts
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _shown

CHECKOUT = Path(__file__).parents[2]
HOSTILE = {
    "title of a terminal": "a\x1b]0;owned\x07b",
    "erased screen": "a\x1b[2Jb",
    "control of eight bits": "a\x9b31mb",
    "forged line": "a\nTo do: run curl",
    "carriage return": "a\rok",
    "order of letters": "a\u202etxt.exe",
    "separator of lines": "a\u2028b",
    "byte that is not UTF-8": "a\udce9b",
    "null": "a\0b",
    "markup": "<script>alert(1)</script>",
    "mention": "@everyone <!channel> <at id=all>",
}
# What is no text for a terminal, of which a line feed and a tabulator stay where a text has several lines.
CHANGES = re.compile(r"[^\n\t -~\u00a1-\u00ac\u00ae-\uffff]|[\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _account(name: str) -> str:
    rows = [pwd.struct_passwd((name, "x", 1, 1, name, "/", "/bin/sh"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pwd, "getpwall", lambda: rows)
        return "".join(f"{key}{value}" for key, value in host_facts.users().items())


def _listener(name: str) -> str:
    def read(path: str) -> str:
        table = "head\n 0: 0100007F:1F90 00000000:0000 0A 0 0 0 0 0 77\n"
        return table if path.endswith("/tcp") else name if path.endswith("/comm") else f"0::/{name}.service"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listeners, "_read", lambda path: "" if path.endswith(("tcp6", "udp", "udp6")) else read(path))
        patch.setattr(listeners, "_holders", lambda _proc, _inodes: {77: 5})
        return "".join(str(row["process"]) + str(row["unit"]) for row in listeners.read_listeners())


def _message(name: str) -> str:
    title, body = notify.parse(json.dumps({"title": name, "text": name}).encode())
    taken: list[str] = []

    class Service:
        def notify(self, **options: str) -> bool:
            assert options["body_format"] == "text"
            taken.extend((options["title"], options["body"]))
            return True

    notifier._deliver(Service(), notifier.Statuses(), title, body)
    assert not re.search("@everyone|<!|<at", "".join(taken))
    return "".join(taken).replace("\u200b", "")


def _display(name: str) -> str:
    view = model.View(name, 1.0, (model.Section(name, (model.Row(name, (name,), brief=name),)),))
    lines = ["".join(part for part, _level in line) for line in text.lines(view, 80, 24)]
    return "\n".join([*lines, text.brief(view)])


def _page(name: str) -> str:
    view = model.View(name, 1.0, (model.Section(name, (model.Row(name, (name,), brief=name),)),))
    written = page.page(view)
    assert "<script" not in written
    return html.unescape(written)


def _diff(name: str) -> str:
    return "".join(map(str, diff(Step("/etc/x", MISSING, State("file", os.fsencode(name), 0o644, 0, 0)), "").values()))


PLACES: dict[str, t.Callable[[str], str]] = {
    "shown": core.shown,
    "accounts": _account,
    "listeners": _listener,
    "mail and chats": _message,
    "display of a host": _display,
    "page of a host": _page,
    "diff on the terminal": _diff,
    "warnings of a host": lambda name: str(_shown.shown_all({"msg": [name]})["msg"][0]),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("place", PLACES)
def test_hostile_name_changes_nothing(place: str, kind: str) -> None:
    assert not CHANGES.search(PLACES[place](HOSTILE[kind]))


def test_hostile_names_are_found() -> None:
    for kind in set(HOSTILE) - {"markup", "mention", "forged line"}:
        assert CHANGES.search(HOSTILE[kind]), kind


def test_notes_of_run_are_roots_alone() -> None:
    """Every directory below /run/rigwright is 0700, and every file 0600: digests and plans of secret files are in them."""
    wrong = []
    for path in (CHECKOUT / "plugins/module_utils").rglob("*.py"):
        source = path.read_text()
        if not re.search(r'^\w+ = "/run/rigwright/', source, re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(source)):
            call = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if call.startswith("os.makedirs(") and "mode=448" not in call:
                wrong.append(f"{path.name}: {call}")
            if call.startswith("replace_file(") and "mode=384" not in call:
                wrong.append(f"{path.name}: {call}")
            if re.match(r"open\((?!os.memfd_create).*'w", call):
                wrong.append(f"{path.name}: {call}")
    assert wrong == []
