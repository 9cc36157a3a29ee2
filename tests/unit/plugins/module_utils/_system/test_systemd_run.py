# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs in a row with a fake systemd: what each run does, and leaves for the next one."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system import systemd_run
from ansible_collections.rigwright.workstation.plugins.modules import systemd_units

DONE = (0, "", "")
X_CHECK = "x --check x.toml"


class Systemd:
    """A service that started an hour ago, and every verb since then. A second start needs reset-failed first."""

    def __init__(self) -> None:
        self.verbs: list[str] = []
        self.state, self.invocation, self.outdated = "active", 1, False
        self.started = time.time() - 3600
        self.validator = DONE
        self.journal = ""
        self.starts = 0
        self.type, self.result = "simple", "success"

    def systemctl(self, verb, *names_and_options):
        if verb == "show":
            return (0, self.show(), "")
        if verb == "reset-failed":
            self.starts = 0
            return DONE
        self.verbs.append(verb)
        if verb in ("start", "restart"):
            self.starts += 1
            if self.starts > 1:
                return (1, "", "Start request repeated too quickly.")
            self.state = "inactive" if self.type == "oneshot" else "active"
            self.invocation, self.started = self.invocation + 1, time.time()
        elif verb == "stop":
            self.state = "inactive"
        elif verb == "daemon-reload":
            self.outdated = False
        return DONE

    def uptime(self):
        """Return the microseconds from the boot to the start."""
        return (self.started - time.time() + time.monotonic()) * 1e6

    def show(self):
        started = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(self.started))
        return "\n".join(
            [
                "Id=x.service",
                "Names=x.service",
                "LoadState=loaded",
                f"ActiveState={self.state}",
                "SubState=",
                "UnitFileState=disabled",
                f"NeedDaemonReload={'yes' if self.outdated else 'no'}",
                "DropInPaths=",
                f"InvocationID={self.invocation}",
                "NRestarts=0",
                f"ActiveEnterTimestamp={'' if self.type == 'oneshot' else started}",
                f"ActiveEnterTimestampMonotonic={0 if self.type == 'oneshot' else self.uptime():.0f}",
                f"Type={self.type}",
                "RemainAfterExit=no",
                f"Result={self.result}",
                "ExecMainStatus=0",
                f"ExecMainStartTimestamp={started if self.starts else ''}",
                f"ExecMainStartTimestampMonotonic={self.uptime() if self.starts else 0:.0f}",
            ]
        )


@pytest.fixture
def systemd(monkeypatch):
    systemd = Systemd()

    def run_command(_module, command, **_options):
        if command == X_CHECK.split():
            return systemd.validator
        if command[0] == "journalctl":
            return (0, systemd.journal, "")
        assert command[0] == "systemctl"
        return systemd.systemctl(*command[1:])

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    return systemd


@pytest.fixture
def files(tmp_path):
    """Return the file that the service reads at its start, and the one that it reads at a reload; both are older than its start."""
    for name in ("main.toml", "more.toml"):
        (tmp_path / name).write_text("1\n")
    return tmp_path / "main.toml", tmp_path / "more.toml"


@pytest.fixture
def run(run_module, systemd, monkeypatch, tmp_path, files):
    """Run the module for this service; return its result, and the verbs that it used."""
    monkeypatch.setattr(systemd_run, "NOTES", str(tmp_path / "notes"))
    systemd.started = time.time() + 3600  # the files cannot be made older: a ctime is the system's own

    def run(check=False, changed_paths=(), fails=False, secrets=(), **unit):
        systemd.verbs.clear()
        watched = {"restart_on": [str(files[0])], "reload_on": [str(files[1])]}
        result = run_module(
            systemd_units,
            check=check,
            units=[{"name": "x.service", **watched, **unit}],
            changed_paths=list(changed_paths),
            settle=0,
            secrets=list(secrets),
        )
        assert result.get("failed", False) is fails, result
        return result, list(systemd.verbs)

    return run


def test_a_change_leads_to_one_restart(run, files):
    assert run()[1] == []
    files[0].write_text("2\n")
    assert run()[1] == ["restart"]
    assert run()[1] == []


def test_its_restarts_do_not_add_up_to_systemds_limit(run, files):
    run()
    for text in ("2\n", "3\n"):
        files[0].write_text(text)
        assert run()[0]["actions"] == {"x.service": ["restart"]}


def test_a_daemon_reload_comes_first_and_once(run, files, systemd):
    run()
    systemd.outdated = True
    files[0].write_text("2\n")
    assert run()[1] == ["daemon-reload", "restart"]
    assert run()[1] == []


def test_held_back_restart_is_announced_at_every_run(run, files, systemd):
    run()
    files[0].write_text("2\n")
    for _run in range(2):
        result, verbs = run(may_restart=False)
        assert (verbs, result["changed"], result["pending"]) == ([], False, ["x.service"])
        assert "still runs with older files" in result["warnings"][0]
    systemd.systemctl("restart", "x.service")
    systemd.started = time.time() + 1
    assert run(may_restart=False)[0]["pending"] == []


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "judged by its time"])
def test_while_a_restart_waits_a_reload_is_done_once(run, files, systemd, noted):
    if noted:
        run()
    else:
        systemd.started = time.time() - 3600
    for file in files:
        file.write_text("2\n")
    results = [run(may_restart=False) for _run in range(3)]
    assert [verbs for _result, verbs in results] == [["reload"], [], []]
    assert all(result["pending"] == ["x.service"] for result, _verbs in results)
    assert run(may_restart=True)[1] == ["restart"]


def test_check_mode_announces_a_restart_for_a_change(run, files, tmp_path):
    run()
    result, verbs = run(check=True, changed_paths=[str(files[0])])
    assert (result["changed"], result["actions"], verbs) == (True, {"x.service": ["restart"]}, [])
    assert "x.service: started (restart)" in result["diff"]["after"]
    assert run(check=True, changed_paths=[str(files[1])])[0]["actions"] == {"x.service": ["reload"]}
    assert run(check=True, changed_paths=[str(tmp_path / "other")])[0]["changed"] is False


@pytest.mark.parametrize(("changed", "verb"), [(0, "restart"), (1, "reload")])
def test_refused_file_leaves_the_running_service_alone(run, files, systemd, changed, verb):
    run()
    files[changed].write_text("broken\n")
    systemd.validator = (255, "", "x.toml line 1: what is this?\n")
    for check in (True, False):
        result, verbs = run(check, fails=True, validate=X_CHECK)
        assert verbs == []
        assert "x.service goes on as it is" in result["msg"] and "line 1: what is this?" in result["msg"]
    assert run(True, [str(files[changed])], validate=X_CHECK)[0]["actions"] == {"x.service": [verb]}, "a file is coming"
    systemd.validator = DONE
    assert run(validate=X_CHECK)[1] == [verb], "it is not forgotten"


@pytest.mark.parametrize("state", ["inactive", "activating"])
def test_a_service_that_does_not_run_has_nothing_to_lose(run, systemd, state):
    systemd.state, systemd.validator = state, (255, "", "the folder is made when it starts")
    assert run(validate=X_CHECK)[1] in (["start"], ["restart"])


def test_check_mode_announces_no_held_back_restart(run, files):
    run()
    result, _verbs = run(check=True, changed_paths=[str(files[0])], may_restart=False)
    assert (result["changed"], result["pending"]) == (False, ["x.service"])


def test_outside_check_mode_only_the_files_count(run, files):
    run()
    os.utime(files[0])
    assert run(changed_paths=[str(files[0])])[1] == []


@pytest.mark.parametrize("changed", [0, 1], ids=["restart", "reload"])
def test_already_loaded_file_is_recorded_without_a_restart(run, files, systemd, changed):
    systemd.started = time.time() - 3600
    files[changed].write_text("2\n")
    noted = [str(file) for file in files]
    assert run(loaded=noted)[1] == []
    # The next run does not say so any more.
    assert run()[1] == []
    files[changed].write_text("3\n")
    assert run()[1] == [["restart", "reload"][changed]]


def test_no_secret_shows_when_a_unit_fails(run, files, systemd):
    systemd.state, systemd.starts = "inactive", 1
    systemd.systemctl = lambda verb, *_words: (0, systemd.show(), "") if verb == "show" else (1, "", "--token=abc")
    systemd.journal = "login of https://me:hunter2@x.example\npassword: hunter3\nsent hunter4 to port 7000\n"
    message = run(fails=True, secrets=["hunter4", ""])[0]["msg"]
    assert "--token=***" in message and "https://***@x.example" in message
    assert "hunter" not in message and "abc" not in message
    assert message.endswith("to port 7000")


def test_no_secret_shows_when_a_file_is_refused(run, files, systemd):
    run()
    files[0].write_text("2\n")
    systemd.validator = (1, "", "bad token = 'hunter2' at line 2")
    assert "bad token = '***' at line 2" in run(fails=True, validate=X_CHECK)[0]["msg"]


@pytest.fixture
def oneshot(systemd):
    """Make the service a oneshot unit that has not run since the boot."""
    systemd.type, systemd.state = "oneshot", "inactive"
    return systemd


@pytest.mark.parametrize("changed", [0, 1], ids=["restart_on", "reload_on"])
def test_oneshot_unit_runs_once_and_for_changed_files(run, files, oneshot, changed):
    assert [run()[1] for _run in range(3)] == [["start"], [], []]
    files[changed].write_text("2\n")
    assert [run()[1] for _run in range(2)] == [["start"], []]
    assert run(check=True, changed_paths=[str(files[changed])])[0]["actions"] == {"x.service": ["start"]}


def test_oneshot_unit_that_failed_runs_again(run, oneshot):
    run()
    oneshot.result = "exit-code"
    assert run()[1] == ["start"]


def test_oneshot_unit_without_paths_runs_each_time(run, oneshot):
    assert [run(restart_on=[], reload_on=[])[1] for _run in range(2)] == [["start"], ["start"]]


def test_stopped_oneshot_unit_has_not_loaded_changed_files(run, files, oneshot):
    run()
    files[0].write_text("2\n")
    assert run(state="stopped")[1] == []
    assert run()[1] == ["start"]


@pytest.mark.parametrize("state", ["started", "stopped"])
def test_unit_that_is_listed_twice_is_refused(run_module, systemd, files, state):
    units = [{"name": "x.service", "restart_on": [str(files[0])]}, {"name": "x.service", "state": state}]
    result = run_module(systemd_units, units=units, settle=0)
    assert result["msg"].startswith("units are listed twice: x.service") and "Nothing was changed" in result["msg"]
    assert systemd.verbs == []


def test_file_of_the_second_of_a_start_is_loaded(run, files, systemd):
    systemd.started = time.time()
    files[0].write_text("2\n")
    assert run()[1] == ["restart"]
    assert run()[1] == []


def test_notes_are_roots_alone_and_tell_nothing(run, files, tmp_path):
    (tmp_path / "notes").mkdir(mode=0o755)
    run()
    notes = tmp_path / "notes"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (notes, notes / "x.service.json")] == [0o700, 0o600]
    assert hashlib.sha256(files[0].read_bytes()).hexdigest() not in (notes / "x.service.json").read_text()


def test_note_of_an_earlier_release_is_taken_over(run, files, systemd, tmp_path):
    systemd.started = time.time() - 3600
    (tmp_path / "notes").mkdir(mode=0o755)
    loaded = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (tmp_path / "notes/x.service.json").write_text(json.dumps({"invocation": "1", "loaded": loaded}))
    assert run()[1] == []
    files[0].write_text("2\n")
    assert run()[1] == ["restart"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "7", '{"invocation": "1"}', '{"invocation": "1", "loaded": 7}']
)
def test_damaged_note_is_no_note(run, tmp_path, content):
    run()
    (tmp_path / "notes/x.service.json").write_text(content)
    assert run()[1] == []
