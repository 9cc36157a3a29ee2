# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the timer: its files, its errors, and that it needs no Ansible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import program, state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


@pytest.fixture
def tree(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Create a host without a GPU."""
    monkeypatch.setattr(lock, "DIRECTORY", str(tmp_path_factory.mktemp("locks")))
    monkeypatch.setattr(program, "run", lambda command: (0, '{"MESSAGE":"Linux"}\n', ""))
    (tmp_path / state.HOME.lstrip("/")).mkdir(parents=True)
    return Tree(str(tmp_path))


def files(tree: Tree) -> list[str]:
    return sorted(str(path.relative_to(tree.root)) for path in Path(tree.root).rglob("*") if path.is_file())


def test_check_writes_report_state_and_textfile(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "textfile").mkdir()
    program.check({"textfile_directory": "/textfile"}, tree, 1000.0)
    assert files(tree) == [
        "textfile/rigwright_gpu_health.prom",
        "var/lib/rigwright_gpu_health/report.json",
        "var/lib/rigwright_gpu_health/state.json",
    ]
    report = json.loads(tree.text(state.REPORT))
    assert (report["verdict"], report["time"], report["since"]) == ("PASS", 1000.0, None)
    assert [row["id"] for row in report["findings"]] == ["gpu_health.nvml", "gpu_health.unread"]
    assert "rigwright_gpu_health_host_verdict 0\n" in tree.text("/textfile/rigwright_gpu_health.prom")
    assert [path.stat().st_mode & 0o777 for path in tmp_path.rglob("*.*") if path.is_file()] == [0o644] * 3


def test_second_check_compares_with_the_first(tree: Tree) -> None:
    program.check({}, tree, 1000.0)
    assert program.check({}, tree, 1600.0)["since"] == 1000.0
    assert files(tree) == ["var/lib/rigwright_gpu_health/report.json", "var/lib/rigwright_gpu_health/state.json"]


def test_finding_that_newly_fails_is_sent_once(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[str, str]] = []

    def send(title: str, text: str) -> str:
        sent.append((title, text))
        return "no message was sent"

    row = {"id": "gpu_health.nvml", "evidence": "NVML: GPU_IS_LOST", "remedy": "reboot"}
    for status in ("warn", "fail", "fail", "pass", "fail"):
        monkeypatch.setattr(program.report, "findings", lambda _result, status=status: [{**row, "status": status}])
        program.check({"notify": True}, tree, 1000.0, send)
    assert sent == [("GPU health", "NVML: GPU_IS_LOST. To do: reboot")] * 2
    assert capsys.readouterr().err == "no message was sent\n" * 2
    Path(tree.at(state.REPORT)).write_text("{")
    program.check({}, tree, 1000.0, send)
    assert len(sent) == 2


def test_missing_textfile_directory_fails_and_keeps_report(tree: Tree) -> None:
    with pytest.raises(FileNotFoundError):
        program.check({"textfile_directory": "/nowhere"}, tree, 1000.0)
    assert json.loads(tree.text(state.REPORT))["verdict"] == "PASS"


@pytest.mark.parametrize("settings", [{"window": "yesterday"}, {"limits": {"rows": 1}}])
def test_invalid_settings_are_refused_before_a_write(tree: Tree, settings: Any) -> None:
    with pytest.raises(Refusal):
        program.check(settings, tree, 1000.0)
    assert files(tree) == []


def test_missing_or_hanging_command_has_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program.run(["printf", "output"]) == (0, "output", "")
    assert program.run(["/nonexistent/journalctl"])[0] == 127
    monkeypatch.setattr(program, "TIMEOUT_S", 0.1)
    assert program.run(["sleep", "5"])[0] == 127


def test_findings_or_the_error_are_printed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "Tree", lambda: tree)
    assert program.main() == 0
    assert "gpu_health.nvml: skip: no NVIDIA GPU here\n" in capsys.readouterr().out
    path = Path(tree.at(program.SETTINGS))
    path.parent.mkdir(parents=True)
    for text in ("{", '{"window": "yesterday"}', '{"textfile_directory": "/nowhere"}'):
        path.write_text(text)
        assert program.main() == 1
        assert capsys.readouterr().err.strip()
