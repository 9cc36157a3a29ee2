# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules are loaded, kept and restored, on a fake kernel with files below a directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import apply as load
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.apply import (
    Loader,
    LoadError,
    comparable,
    flat,
)

OLD, NEW, WRONG = "old\n", "new\n", "nonsense\n"


class Kernel:
    """A fake of nft and systemd for the loader."""

    def __init__(self, root: Path) -> None:
        self.root, self.rules, self.timer = root, "", 0
        self.no_timers = False

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[:2] == ["nft", "--file"]:
            text = flat(Tree(str(self.root)), Path(command[2]).read_text())
            if "nonsense" in text:
                return 1, "", "x.nft:1:1-8: Error: syntax error\n"
            self.rules = text
        elif command[0] == "nft" and "list" in command:
            rows = [{"metainfo": {}}, {"rule": {"handle": 7, "text": self.rules}}]
            return (0, json.dumps({"nftables": rows}), "") if self.rules else (1, "", "No such file or directory")
        elif command[0] == "nft":
            assert command[1] == "add table inet rigwright; delete table inet rigwright"
            self.rules = ""
        elif command[0] == "systemd-run":
            if self.no_timers:
                return 1, "", "no bus"
            self.timer = next(int(word.split("=")[1]) for word in command if word.startswith("--on-active="))
            assert command[-1] == "undo"
        elif command[0] == "systemctl":
            self.timer = 0
        return 0, "", ""


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path)


@pytest.fixture
def loader(kernel, tmp_path):
    return Loader(kernel, Tree(str(tmp_path)))


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a file in /etc: the rules, or a declaration that they include."""

    def put(text: str, name: str = "rigwright.nft") -> None:
        path = tmp_path / "etc/nftables.d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return put


def reboot(kernel: Kernel) -> None:
    kernel.rules, kernel.timer = "", 0


def test_the_files_are_loaded_with_the_ports_of_sshd(loader, kernel, files, tmp_path):
    files(OLD)
    assert loader.load() == "loaded"
    assert kernel.rules == OLD
    assert (tmp_path / "run/rigwright-firewall/ssh.nft").read_text() == "tcp dport 22 jump ssh\n"


def test_a_declaration_with_an_error_changes_nothing(loader, kernel, files):
    files('old\ninclude "/etc/nftables.d/rigwright/*.nft"\n')
    files("b\n", "rigwright/b.nft")
    files("a\n", "rigwright/a.nft")
    loader.load()
    assert kernel.rules == "old\na\nb\n\n"

    good = kernel.rules
    files(WRONG, "rigwright/c.nft")
    with pytest.raises(LoadError, match=r"Error: syntax error: the rules before are still in force"):
        loader.load()
    assert kernel.rules == good

    reboot(kernel)
    with pytest.raises(LoadError, match=r"Error: syntax error: the last good rules are in force"):
        loader.load()
    assert kernel.rules == good


def test_an_error_of_the_first_load_leaves_no_rules(loader, files):
    files(WRONG)
    with pytest.raises(LoadError, match="there are no rules"):
        loader.load()


def test_a_change_that_is_confirmed_stays(loader, kernel, files):
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)
    assert (kernel.rules, kernel.timer) == (NEW, 60)
    loader.confirm()
    assert (kernel.rules, kernel.timer) == (NEW, 0)
    reboot(kernel)
    loader.load()
    assert kernel.rules == NEW


def test_an_unconfirmed_change_is_reverted_for_good(loader, kernel, files):
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)
    assert "in force again" in loader.undo()
    assert kernel.rules == OLD
    for again in (lambda: None, lambda: reboot(kernel)):
        again()
        with pytest.raises(LoadError, match="was not confirmed"):
            loader.load()
        assert kernel.rules == OLD
    with pytest.raises(LoadError, match="nobody confirmed the change in time"):
        loader.confirm()

    loader.try_out(60)
    loader.confirm()
    assert kernel.rules == NEW


def test_rules_of_a_killed_run_are_not_loaded(loader, kernel, files):
    included = 'old\ninclude "/etc/nftables.d/rigwright/*.nft"\n'
    files(included)
    loader.try_out(60)
    loader.confirm()
    good = kernel.rules
    files(NEW)
    files("samba\n", "rigwright/samba.nft")
    for again in (lambda: None, lambda: reboot(kernel)):
        again()
        with pytest.raises(
            LoadError, match="is not what was confirmed, the rules before it are in force: run the role again"
        ):
            loader.load()
        assert kernel.rules == good

    # An unconfirmed change restores the same rules.
    loader.try_out(60)
    assert kernel.rules == NEW
    loader.undo()
    assert kernel.rules == good
    loader.try_out(60)
    loader.confirm()
    assert kernel.rules == NEW
    # Declarations alone are loaded as usual.
    files(included)
    loader.try_out(60)
    loader.confirm()
    files("xrdp\n", "rigwright/xrdp.nft")
    assert loader.load() == "loaded"
    assert "xrdp" in kernel.rules


def test_a_reboot_before_the_confirmation_reverts(loader, kernel, files):
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)
    reboot(kernel)
    with pytest.raises(LoadError):
        loader.load()
    assert kernel.rules == OLD


def test_unconfirmed_first_rules_are_deleted(loader, kernel, files):
    files(NEW)
    loader.try_out(60)
    assert "there were no rules before it" in loader.undo()
    assert kernel.rules == ""


def test_a_second_change_does_not_confirm_the_first(loader, kernel, files):
    # A run is killed before it confirms, and another one follows.
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)
    files("newer\n")
    loader.try_out(60)
    loader.undo()
    assert kernel.rules == OLD


def test_a_late_undo_does_nothing(loader, kernel, files):
    files(NEW)
    loader.try_out(60)
    loader.confirm()
    assert loader.undo() == "no change waits for a confirmation"
    assert kernel.rules == NEW


@pytest.mark.parametrize("broken", ["rules", "timer"])
def test_a_failed_change_leaves_everything_unchanged(loader, kernel, files, broken):
    files(OLD)
    loader.load()
    files(WRONG if broken == "rules" else NEW)
    kernel.no_timers = broken == "timer"
    with pytest.raises(LoadError, match="the rules before are still in force"):
        loader.try_out(60)
    assert (kernel.rules, kernel.timer) == (OLD, 0)
    kernel.no_timers = False
    files(NEW)
    assert loader.load() == "loaded"


def test_a_declaration_before_the_confirmation_is_loaded_with_it(loader, kernel, files):
    files('new\ninclude "/etc/nftables.d/rigwright/*.nft"\n')
    loader.try_out(60)
    files("samba\n", "rigwright/samba.nft")
    with pytest.raises(LoadError):
        loader.load()
    loader.confirm()
    assert "samba" in kernel.rules


def test_tables_are_compared_without_handles():
    rows = [{"metainfo": {"version": "1"}}, {"rule": {"handle": 3, "expr": [{"counter": None}]}}]
    assert comparable(json.dumps({"nftables": rows})) == [{"rule": {"expr": [{"counter": None}]}}]


def test_the_program_prints_its_result(loader, kernel, files, capfd):
    files(OLD)
    assert load.main(["load"], loader) == 0
    assert load.main(["delete"], loader) == 0
    assert kernel.rules == ""
    files(WRONG)
    assert load.main(["load"], loader) == 1
    output = capfd.readouterr()
    assert output.out == "loaded\ndone\n"
    assert "Error: syntax error" in output.err


def test_a_missing_program_is_an_exit_status():
    assert load.run(["/nonexistent/nft"])[0] == load.NOT_THERE


@pytest.mark.parametrize("error", [28, 30], ids=["full", "read-only"])
def test_former_rules_return_on_a_disk_without_room(loader, kernel, files, monkeypatch, error):
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)

    def refuse(place: str, *_arguments: object) -> None:
        raise OSError(error, os.strerror(error), place)

    monkeypatch.setattr(load, "replace_file", refuse)
    assert "in force again" in loader.undo()
    assert kernel.rules == OLD


def test_note_in_run_prevents_a_late_confirmation(loader, kernel, files, monkeypatch):
    files(OLD)
    loader.load()
    files(NEW)
    loader.try_out(60)
    written = load.replace_file

    def only_run(place: str, *arguments: Any) -> None:
        if "/var/lib/rigwright_firewall" in place:
            raise OSError(28, "No space left on device", place)
        written(place, *arguments)

    monkeypatch.setattr(load, "replace_file", only_run)
    loader.undo()
    with pytest.raises(LoadError, match="nobody confirmed the change in time"):
        loader.confirm()
    assert kernel.rules == OLD
    monkeypatch.setattr(load, "replace_file", written)
    loader.try_out(60)
    loader.confirm()
    assert kernel.rules == NEW


def test_boot_loads_on_a_disk_without_room(loader, kernel, files, monkeypatch):
    files(OLD)
    loader.load()
    reboot(kernel)

    def refuse(place: str, *_arguments: object) -> None:
        raise OSError(30, "Read-only file system", place)

    monkeypatch.setattr(load, "replace_file", refuse)
    assert loader.load().startswith("loaded, but not kept")
    assert kernel.rules == OLD
