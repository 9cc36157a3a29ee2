# SPDX-License-Identifier: GPL-3.0-or-later
"""The target's half of config_files, run as Ansible runs it, on files under a temporary directory."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import (
    acl,
    config_files,
    config_files_boot,
    config_files_run,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    State,
    Store,
    Transaction,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.modules import config_files_apply

SECRET = "correct-horse-battery-staple"


def payload(files: dict[str, str], **more: object) -> str:
    return json.dumps({"files": files, "secrets": [SECRET], **more})


@pytest.fixture
def etc(tmp_path):
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


@pytest.fixture
def apply(run_module, monkeypatch, tmp_path):
    monkeypatch.setattr(config_files_boot, "ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(config_files_run, "Store", functools.partial(Store, root=str(tmp_path / "store")))

    def run(contents: dict[Path, str], files: list[dict] | None = None, extra_payload: dict | None = None, **params):
        extra = {item["path"]: item for item in files or []}
        listed = [{"path": str(path), **extra.pop(str(path), {})} for path in contents] + list(extra.values())
        texts = payload({str(path): text for path, text in contents.items()}, **(extra_payload or {}))
        return run_module(config_files_apply, name="test", files=listed, contents=texts, **params)

    return run


def shape(root: Path) -> dict[str, tuple]:
    return {str(p): (p.lstat().st_mode, p.lstat().st_ino, p.lstat().st_mtime_ns) for p in sorted(root.rglob("*"))}


def test_files_are_put_in_place_and_named(apply, etc):
    result = apply({etc / "a": "1\n", etc / "b": "2\n"})
    assert result["changed"] and result["changed_paths"] == [str(etc / "a"), str(etc / "b")]
    assert (etc / "b").read_text() == "2\n"
    assert apply({etc / "a": "1\n", etc / "b": "2\n"})["changed"] is False


def test_a_power_cut_right_after_a_run_is_no_change(apply, etc, monkeypatch):
    real = config_files._remove
    with monkeypatch.context() as patch:  # the removal of the journal was not on the disk yet
        patch.setattr(config_files, "_remove", lambda path: None if path.endswith("journal.json") else real(path))
        apply({etc / "a": "1\n"})
    result = apply({etc / "a": "1\n"})
    assert not result["changed"] and not result["recovered"]


def test_power_cut_before_the_checks_is_recovered_once(apply, etc, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "finish", lambda self: None)
        apply({etc / "a": "1\n"})
    assert apply({etc / "a": "1\n"})["recovered"]
    assert not apply({etc / "a": "1\n"})["changed"]


def test_a_released_file_outlives_its_set(apply, etc):
    (etc / "a").write_text("before\n")
    apply({etc / "a": "1\n", etc / "b": "2\n"})

    released = [{"path": str(etc / "a"), "state": "released"}]
    assert apply({etc / "a": "theirs\n"}, released)["changed_paths"] == [str(etc / "a"), str(etc / "b")]

    assert apply({}, state="absent")["changed"] is False
    assert [(path.name, path.read_text()) for path in etc.iterdir()] == [("a", "theirs\n")]


def test_refused_file_leaves_the_whole_set_unchanged(apply, etc):
    for name in ("a", "c"):
        (etc / name).write_text("before\n")
    (etc / "c").chmod(0o640)
    before = shape(etc)
    contents = {etc / name: f"{name}\n" for name in "abcde"}
    result = apply(contents, [{"path": str(etc / "c"), "validate": "grep --quiet hello %s"}])
    assert result["failed"] and f"{etc / 'c'} is refused by `grep --quiet hello %s` (exit status 1)" in result["msg"]
    assert shape(etc) == before, "same files, same inodes, same modes, same times"


def test_failed_check_restores_files_and_shows_its_output(apply, etc):
    (etc / "a").write_text("before\n")
    before = shape(etc)
    result = apply(
        {etc / "a": "after\n", etc / "b": "new\n"}, checks=[f"grep --with-filename before {etc / 'a'}", "ls /nowhere"]
    )
    assert result["failed"] and "refused by `grep" in result["msg"]
    assert shape(etc) == before
    result = apply({etc / "a": "after\n"}, checks=["ls /nowhere"])
    assert "cannot access '/nowhere'" in result["msg"]


def test_a_check_that_cannot_be_run_takes_everything_back(apply, etc):
    result = apply({etc / "a": "1\n"}, checks=["no-such-program --now"])
    assert result["failed"] and "No such file or directory" in result["msg"] and not (etc / "a").exists()


def test_the_staged_file_has_its_real_name_when_it_is_validated(apply, etc):
    validate = "sh -c 'basename %s | grep --quiet --line-regexp frps.toml'"
    assert apply({etc / "frps.toml": "x = 1\n"}, [{"path": str(etc / "frps.toml"), "validate": validate}])["changed"]


@pytest.mark.parametrize("check", [False, True], ids=["applied", "check mode"])
def test_a_secret_shows_nowhere(apply, etc, check):
    files = [{"path": str(etc / "token"), "secret": True, "mode": "0600"}]
    result = apply({etc / "token": SECRET + "\n"}, files, check=check)
    assert result["changed"] and SECRET not in json.dumps(result)


def test_secret_is_masked_in_the_output_of_a_check(apply, etc):
    files = [{"path": str(etc / "token"), "secret": True}]
    result = apply({etc / "token": f'password = "{SECRET}"\n'}, files, checks=[f"sh -c 'cat {etc / 'token'}; exit 1'"])
    assert "********" in result["msg"] and SECRET not in json.dumps(result)


def test_diff_hides_the_content_of_a_formerly_secret_file(apply, etc):
    apply({etc / "a": SECRET + "\n"}, [{"path": str(etc / "a"), "secret": True}])
    result = apply({etc / "a": "public\n"}, [{"path": str(etc / "a"), "secret": False}])
    assert result["changed"]
    assert SECRET not in json.dumps(result)


def test_full_disk_while_saving_restores_everything(apply, etc, monkeypatch):
    def no_room(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    (etc / "a").write_text("before\n")
    before = shape(etc)
    monkeypatch.setattr(Store, "save", no_room)
    assert "No space left" in apply({etc / "a": "after\n"})["msg"]
    assert shape(etc) == before


@pytest.mark.parametrize("check", [False, True], ids=["applied", "check mode"])
def test_directory_open_to_others_is_refused_or_closed(apply, etc, check):
    (etc / "open").mkdir()
    (etc / "open").chmod(0o777)
    assert "users other than root may write" in apply({etc / "open/a": "x\n"}, check=check)["msg"]
    assert apply({etc / "open/a": "x\n"}, directories=[{"path": str(etc / "open")}], check=check)["changed"]


def test_a_directory_above_that_others_may_write_is_refused(apply, etc):
    (etc / "open/ours/deep").mkdir(parents=True)
    (etc / "open").chmod(0o777)
    refused = apply({etc / "open/ours/deep/a": "x\n"})["msg"]
    assert f"users other than root may write in {etc / 'open'}, and" in refused
    assert (
        f"in {etc / 'open'}, and"
        in apply({etc / "open/b/a": "x\n"}, directories=[{"path": str(etc / "open/b")}])["msg"]
    )
    (etc / "open").chmod(0o1777)
    assert apply({etc / "open/ours/deep/a": "x\n"})["changed"]


def test_removal_below_an_open_directory_is_refused(apply, run_module, etc):
    (etc / "above/ours").mkdir(parents=True)
    apply({etc / "above/ours/passwd": "x\n"})
    (etc / "above").chmod(0o777)
    result = run_module(config_files_apply, name="test", state="absent")
    assert f"may write in {etc / 'above'}, and" in result["msg"] and "Nothing was changed" in result["msg"]
    assert (etc / "above/ours/passwd").exists()
    (etc / "above").chmod(0o755)
    assert run_module(config_files_apply, name="test", state="absent")["changed"]


def test_recovery_below_an_open_directory_is_refused(apply, etc, tmp_path, monkeypatch):
    (etc / "above/ours").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "finish", lambda self: None)
        apply({etc / "above/ours/passwd": "x\n"})
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "passwd").write_text("root's\n")
    (etc / "above").chmod(0o777)
    (etc / "above/ours").rename(etc / "above/old")
    (etc / "above/ours").symlink_to(victim)
    result = apply({etc / "above/ours/passwd": "x\n"})
    assert f"may write in {etc / 'above'}, and" in result["msg"]
    assert (victim / "passwd").read_text() == "root's\n"


def test_a_directory_is_closed_before_a_file_is_staged_in_it(apply, etc, tmp_path):
    (etc / "open").mkdir()
    (etc / "open").chmod(0o777)
    (etc / "open/.rigwright.a").symlink_to(tmp_path)
    refused = apply({etc / "open/a": "x\n"}, directories=[{"path": str(etc / "open")}])
    assert ".rigwright.a: is in the way" in refused["msg"]
    assert not (tmp_path / "a").exists()
    assert (etc / "open").stat().st_mode & 0o777 == 0o777


def test_check_mode_changes_nothing_and_shows_the_difference(apply, etc, tmp_path):
    (etc / "a").write_text("before\n")
    before = shape(tmp_path)
    result = apply({etc / "a": "after\n"}, check=True)
    assert (result["diff"][0]["before"], result["diff"][0]["after"]) == ("before\n", "after\n")
    assert shape(tmp_path) == before


def test_check_mode_validates_with_installed_programs(apply, etc):
    refused = apply({etc / "a": "x\n"}, [{"path": str(etc / "a"), "validate": "grep hello %s"}], check=True)
    assert refused["failed"]
    accepted = apply({etc / "a": "x\n"}, [{"path": str(etc / "a"), "validate": "not-installed-yet %s"}], check=True)
    assert accepted["changed"]


def test_check_mode_accepts_files_of_earlier_tasks(apply, etc):
    files = [{"path": str(etc / "new/a"), "owner": "nobody-yet"}]
    result = apply({etc / "new/a": "x\n"}, files, {"changes_before": True}, check=True)
    assert result["changed"] and result["warnings"] == []
    refused = apply({etc / "new/a": "x\n"}, files, {"changes_before": False}, check=True)
    assert f"no such directory: {etc / 'new'}" in refused["msg"]
    refused = apply({etc / "new/a": "x\n"}, [{"path": str(etc / "new/a")}], {"changes_before": True})
    assert f"no such directory: {etc / 'new'}" in refused["msg"]
    assert apply({etc / "new/a": "x\n"}, directories=[{"path": str(etc / "new")}], check=True)["warnings"] == []
    assert "there is no owner nobody-yet" in apply({etc / "new/a": "x\n"}, files)["msg"]


@pytest.mark.parametrize(
    ("path", "text"), [("lib/_tool.py", "import os\n" * 40), ("tool", "#!/bin/sh\n" + "true\n" * 39)]
)
def test_a_program_is_summed_up_in_the_diff(apply, tmp_path, path, text):
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\n")
    (diff,) = apply({file: text}, extra_payload={"version": "0.2.0"})["diff"]
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert diff["after"] == f"program {file.name} of rigwright.workstation 0.2.0, {len(text)} bytes, sha256 {digest}\n"
    assert diff["before"].startswith(f"program {file.name}, 10 bytes, sha256 ")


@pytest.mark.parametrize(
    ("path", "extra", "message"),
    [
        ("link", {}, "is a symbolic link"),
        ("directory", {}, "is a directory"),
        ("missing/a", {}, "no such directory"),
        ("a", {"mode": "rw-r--r--"}, "mode must be octal text in quotes"),
        ("a", {"mode": 0o644}, 'in quotes, such as "0644", and is 420'),
        ("a", {"mode": "420"}, "and is '420'"),
        ("../a", {}, "not an absolute, plain path"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused(apply, etc, path, extra, message):
    (etc / "link").symlink_to("/etc/passwd")
    (etc / "directory").mkdir()
    before = shape(etc)
    target = f"{etc}/{path}"
    result = apply({target: "x\n"}, [{"path": target, **extra}])
    assert result["failed"] and message in result["msg"] and "Nothing was changed" in result["msg"]
    assert shape(etc) == before


def test_a_path_of_another_set_is_refused(apply, run_module, etc):
    apply({etc / "a": "1\n"})
    texts = payload({str(etc / "a"): "2\n"})
    result = run_module(config_files_apply, name="other", files=[{"path": str(etc / "a")}], contents=texts)
    assert "belongs to the set test" in result["msg"]


def test_absent_restores_everything(apply, run_module, etc):
    (etc / "a").write_text("before\n")
    before = (etc / "a").read_bytes(), (etc / "a").stat().st_mtime_ns
    apply({etc / "a": "after\n", etc / "sub/b": "x\n"}, directories=[{"path": str(etc / "sub")}])
    assert run_module(config_files_apply, name="test", state="absent")["changed"]
    assert ((etc / "a").read_bytes(), (etc / "a").stat().st_mtime_ns) == before
    assert not (etc / "sub").exists()
    assert run_module(config_files_apply, name="test", state="absent")["changed"] is False


def test_refused_run_names_the_copy_of_an_edited_file(apply, etc, tmp_path):
    (etc / "a").write_text("before\n")
    (etc / "link").symlink_to("a")
    after = State("file", b"after\n", 0o644, os.geteuid(), os.getegid())
    transaction = Transaction(Store("test", root=str(tmp_path / "store")), [Wanted(str(etc / "a"), after)])
    transaction.stage()
    transaction.commit()  # and then the power goes
    (etc / "a").write_text("by hand\n")
    result = apply({etc / "link": "x\n"})
    assert result["failed"] and (etc / "a").read_text() == "before\n"
    (warning,) = result["warnings"]
    assert Path(warning.split(" is kept as ")[1]).read_text() == "by hand\n"


RUN = """
import functools, json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_run
from ansible_collections.rigwright.workstation.plugins.modules import config_files_apply
config_files_run.Store = functools.partial(Store, root=sys.argv[1])
with patch_module_args(json.loads(sys.argv[2])):
    config_files_apply.main()
"""


@pytest.mark.parametrize(
    ("number", "at_once"), [(signal.SIGKILL, False), (signal.SIGTERM, True), (signal.SIGHUP, True)]
)
def test_a_run_that_is_ended_in_the_middle_is_taken_back(apply, etc, tmp_path, number, at_once):
    (etc / "a").write_text("before\n")
    before = shape(etc)
    params = {
        "name": "test",
        "files": [{"path": str(etc / "a")}, {"path": str(etc / "b")}],
        "contents": payload({str(etc / "a"): "after\n", str(etc / "b"): "new\n"}),
        "checks": ["sleep 60"],
    }
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "store"), json.dumps(params)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    end = time.monotonic() + 90
    while not (etc / "b").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (etc / "a").read_text() == "after\n", "it is at its check"
    process.send_signal(number)
    process.communicate(timeout=90)
    if at_once:
        assert shape(etc) == before
    result = apply({etc / "a": "third\n"})
    assert result["recovered"] is not at_once
    assert (etc / "a").read_text() == "third\n" and not (etc / "b").exists()


def test_merged_file_keeps_its_rights_and_attributes(apply, etc):
    path = etc / "pip.conf"
    path.write_text("[global]\nindex-url = https://me:hunter2@example.org/simple\n")
    os.chown(path, 1234, 1235)
    path.chmod(0o640)
    entries = {
        (acl.USER_OBJ, ""): 6,
        (acl.USER, "alice"): 4,
        (acl.GROUP_OBJ, ""): 4,
        (acl.MASK, ""): 4,
        (acl.OTHER, ""): 0,
    }
    attributes = {"user.origin": b"site", "system.posix_acl_access": acl.encode(entries, lambda _tag, _name: 4321)}
    for name, value in attributes.items():
        os.setxattr(path, name, value)
    merged = [{"path": str(path), "merged": True, "mode": "0644"}]
    result = apply({path: "[global]\nindex-url = https://me:hunter2@example.org/simple\ntimeout = 9\n"}, merged)
    found = path.stat()
    assert (result["changed"], found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (True, 1234, 1235, 0o640)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == attributes
    assert "hunter2" not in json.dumps(result)
    assert apply({}, [], state="absent")["changed"]
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) == (0o640, 1234)


def test_diff_of_a_merged_file_has_no_secret(apply, etc):
    path = etc / "pip.conf"
    path.write_text("[global]\nindex-url = https://me:hunter2@example.org/simple\n")
    result = apply({path: path.read_text() + "timeout = 9\n"}, [{"path": str(path), "merged": True}])
    assert result["diff"][0]["after"] == "[global]\nindex-url = https://***@example.org/simple\ntimeout = 9\n"


def test_merged_file_that_is_new_has_the_mode_of_the_request(apply, etc):
    apply({etc / "new.conf": "1\n"}, [{"path": str(etc / "new.conf"), "merged": True, "mode": "0600"}])
    assert stat.S_IMODE((etc / "new.conf").stat().st_mode) == 0o600
