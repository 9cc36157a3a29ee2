# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs of ansible-playbook: what it counts, writes and shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.rigwright.workstation.plugins.callback import report
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _unchanged

PROVISION = """\
- name: Prepare
  ansible.builtin.include_role: {name: common, tasks_from: prepare}
- name: Start a stat and a copy
  ansible.builtin.copy: {content: "x", dest: "{{ playbook_dir }}/{{ inventory_hostname }}.txt"}
- name: Start three
  ansible.builtin.ping:
  loop: [1, 2, 3]
- name: Start one elsewhere
  ansible.builtin.ping:
  delegate_to: localhost
- name: Start none
  ansible.builtin.debug: {msg: x}
- name: Start none either
  ansible.builtin.ping:
  when: false
"""

VERIFY = """\
- name: Start one
  ansible.builtin.ping:
- name: Start one more
  ansible.builtin.include_tasks: more.yml
- name: Record
  rigwright.workstation.finding: {id: web.answers, status: pass, evidence: "GET /: 200"}
"""

PING = "- {name: Start one, ansible.builtin.ping: }\n"


@pytest.fixture
def web(tmp_path):
    """Create a role `web` that includes a role `common`, both for the count of module runs."""
    tasks = {"web/tasks/main.yml": PROVISION, "web/tasks/verify.yml": VERIFY}
    for path, text in {**tasks, "web/tasks/more.yml": PING, "common/tasks/prepare.yml": PING}.items():
        file = tmp_path / "roles" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("---\n" + text)


def plays(strategy):
    include = {"ansible.builtin.include_role": {"name": "web"}}
    verify = {"ansible.builtin.include_role": {"name": "web", "tasks_from": "verify"}}
    every = {"hosts": "all", "strategy": strategy, "gather_subset": ["!all", "!min"]}
    return [
        {"name": "Provision", **every, "gather_facts": True, "tasks": [include]},
        {"name": "Prove", **every, "gather_facts": False, "tasks": [verify]},
    ]


def counts(work):
    return work["module_runs"], work["verify_module_runs"], work["changed"]


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_counts_are_those_of_the_interpreter_on_the_target(run_plays, web, tmp_path, strategy):
    # Each module starts the target's Python once: this one keeps its own count, of which the callback knows nothing.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho >> {tmp_path}/starts\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run = run_plays(plays(strategy), "-e", f"ansible_python_interpreter={python}", hosts=("a", "b"))
    assert run.rc == 0, run.output
    for host in ("a", "b"):
        report = run.report["hosts"][host]
        assert counts(report["roles"]["web"]) == (2 + 3 + 1, 2, 1)
        assert counts(report["roles"]["common"]) == (1, 0, 0)
        assert counts(report["outside_roles"]) == (1, 0, 0)
        works = [*report["roles"].values(), report["outside_roles"]]
        assert all(work["seconds"] > 0 for work in works)
        assert sum(work["seconds"] for work in works) <= run.report["seconds"]
    assert len((tmp_path / "starts").read_text().splitlines()) == 2 * (6 + 2 + 1 + 1)
    assert [play["name"] for play in run.report["plays"]] == ["Provision", "Prove"]
    assert 0 < sum(play["seconds"] for play in run.report["plays"]) <= run.report["seconds"]


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_check_mode_is_noted(run_tasks, options):
    report = run_tasks([{"ansible.builtin.debug": {"msg": "x"}}], *options).report
    assert report["check_mode"] is bool(options)


def test_failures_name_role_and_task_without_their_words(run_tasks, tmp_path):
    run = run_tasks(
        [
            {"name": "Look", "ansible.builtin.fail": {"msg": "x"}, "ignore_errors": True},
            {"name": "Break", "ansible.builtin.fail": {"msg": "the word is hunter2"}},
        ]
    )
    host = run.report["hosts"]["localhost"]
    assert run.rc == 2
    assert host["failures"] == [{"role": None, "task": "Break"}]
    assert host["failed"] is True
    assert "localhost FAILED" in run.output
    assert "hunter2" not in (tmp_path / "report.json").read_text()


def test_a_role_whose_condition_fails_is_named(run_tasks):
    include = {"name": "Include", "ansible.builtin.include_role": {"name": "none"}, "when": "undefined_here"}
    run = run_tasks([include])
    assert run.report["hosts"]["localhost"]["failures"] == [{"role": None, "task": "Include"}]


def test_unreachable_host_is_a_failed_one(run_tasks):
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    run = run_tasks([{"ansible.builtin.ping": {}, "vars": gone}])
    assert run.rc == 4
    assert run.report["hosts"]["localhost"]["failures"] == [{"role": None, "task": "ansible.builtin.ping"}]
    assert run.report["hosts"]["localhost"]["failed"] is True


def test_report_of_an_earlier_run_does_not_outlive_a_broken_one(run_tasks, tmp_path):
    (tmp_path / "report.json").write_text('{"schema": 1}')
    run = run_tasks([{"ansible.builtin.include_role": {"name": "missing"}}])
    assert run.rc != 0
    assert run.report.get("playbook") == "play.yml"


def test_report_of_the_run_before_is_kept(run_tasks, tmp_path):
    kept = tmp_path / "report.json.previous"
    first = run_tasks([{"ansible.builtin.debug": {"msg": "x"}}]).report
    assert not kept.exists()
    (tmp_path / "report.json").chmod(0o600)
    run_tasks([{"ansible.builtin.debug": {"msg": "x"}}])
    assert json.loads(kept.read_text()) == first
    assert kept.stat().st_mode & 0o777 == 0o600


def test_run_that_does_not_end_leaves_the_report_before_it(run_tasks, tmp_path):
    (tmp_path / "report.json").write_text('{"run": "before"}')
    # What a run has while it runs, it has when it is killed there.
    list_reports = f"cd {tmp_path} && grep -H . report.json* > during"
    run_tasks([{"ansible.builtin.shell": list_reports}])
    assert (tmp_path / "during").read_text() == 'report.json.previous:{"run": "before"}\n'
    # The next run has no report to keep, and leaves the last one.
    (tmp_path / "report.json").unlink()
    run_tasks([{"ansible.builtin.debug": {"msg": "x"}}])
    assert (tmp_path / "report.json.previous").read_text() == '{"run": "before"}'


def test_path_that_cannot_be_written_is_a_warning(run_tasks, tmp_path):
    (tmp_path / "report.json").mkdir()
    (tmp_path / "report.json" / "in the way").touch()
    run = run_tasks([{"ansible.builtin.debug": {"msg": "x"}}])
    assert run.rc == 0
    assert "report: Is a directory" in run.output
    assert [path.name for path in tmp_path.glob(".report.json*")] == []


def test_report_is_its_owners_alone_and_follows_no_link(run_tasks, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    # Made under a name that the callback could be guessed to use, and in place of the report.
    parent = "$(sed -n 's/^PPid:.//p' /proc/$pid/status)"
    guess = f"pid=$$; while [ $pid -gt 1 ]; do ln -s {theirs} {tmp_path}/.report.json.$pid; pid={parent}; done"
    link = {"ansible.builtin.shell": f"{guess}; ln -s {theirs} {tmp_path}/report.json"}
    run = run_tasks([link])
    assert run.rc == 0, run.output
    assert theirs.read_text() == "theirs"
    assert not (tmp_path / "report.json").is_symlink()
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o600


def test_evidence_changes_no_terminal_and_no_report_is_lost(run_tasks, tmp_path):
    finding = {"id": "web.answers", "status": "warn", "evidence": "a\x1b]0;x\x07\x9b\u202eb", "remedy": "fix\x1b[2J it"}
    run = run_tasks([{"rigwright.workstation.finding": finding}])
    assert run.rc == 0, run.output
    assert "a?]0;x???b" in run.output and "fix?[2J it" in run.output
    assert not {*"\x1b\x07\x9b\u202e"} & {*run.output}
    assert run.report["hosts"]["localhost"]["findings"][0]["evidence"] == finding["evidence"]


SPECS = """\
argument_specs:
  main:
    options:
      web_port: {type: int, description: A port that is described at length, default: 80}
"""


@pytest.mark.parametrize(("options", "shown"), [((), False), (("-v",), True)], ids=["plain", "-v"])
def test_an_error_about_an_argument_is_not_buried_under_the_spec(run_tasks, web, tmp_path, options, shown):
    (tmp_path / "roles/web/meta").mkdir()
    (tmp_path / "roles/web/meta/argument_specs.yml").write_text(SPECS)
    run = run_tasks([{"ansible.builtin.include_role": {"name": "web"}, "vars": {"web_port": "no number"}}], *options)
    assert run.rc == 2
    assert "argument 'web_port' is of type str and we were unable to convert to int" in run.output
    assert ("described at length" in run.output) is shown


def test_mitogen_counts_as_ansible_does(plays_command, web):
    def counts(strategy):
        command = plays_command(plays(strategy))
        # A process of its own: a fork has loaded Ansible's strategies.
        subprocess.run(command.arguments, cwd=command.folder, env=command.environment, capture_output=True, check=True)
        roles = command.reported()["hosts"]["localhost"]["roles"]
        return {name: (role["module_runs"], role["verify_module_runs"]) for name, role in roles.items()}

    mitogen = counts("mitogen_linear")
    assert mitogen == counts("linear")
    assert sum(sum(count) for count in mitogen.values()) > 0


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_task_that_takes_long_is_named(run_plays, strategy):
    sleep = {"name": "Take long", "ansible.builtin.command": "sleep 5"}
    plays = [{"hosts": "all", "strategy": strategy, "gather_facts": False, "tasks": [sleep]}]
    run = run_plays(plays, hosts=("a", "b"), silence=1)
    assert run.rc == 0
    assert re.search(r"^still: Take long \(a, b, [1-4] s\)$", run.output, re.MULTILINE)


@pytest.mark.parametrize("silence", [0, 20])
def test_quick_or_unwatched_tasks_are_not_named(run_plays, silence):
    sleep = {"name": "Take some time", "ansible.builtin.command": "sleep 2"}
    run = run_plays([{"hosts": "all", "gather_facts": False, "tasks": [sleep]}], silence=silence)
    assert run.rc == 0
    assert "still:" not in run.output


# --- Changes since a plan ---


@pytest.fixture
def callback():
    plugin = report.CallbackModule.__new__(report.CallbackModule)
    plugin._report = report.Report("play.yml", "2.21", False, "now")
    plugin._task_began, plugin._silence = {}, report._Silence(0, print)
    yield plugin
    _unchanged.note_change_anywhere()


def result(action="x", host="ws1", changed=False, skipped=False, **options):
    role = SimpleNamespace(get_name=lambda: "rigwright.workstation.web")
    plain: dict[str, object] = {"delegate_to": None, "changed_when": [], "failed_when": [], "async_val": 0}
    task = SimpleNamespace(
        action=action, _role=role, _uuid="1", get_name=lambda **_options: "x", **{**plain, **options}
    )
    return SimpleNamespace(
        task=task,
        host=SimpleNamespace(get_name=lambda: host),
        result={},
        is_changed=lambda: changed,
        is_skipped=lambda: skipped,
    )


@pytest.mark.parametrize(
    ("event", "later", "as_planned"),
    [
        ("ok", result(), True),
        ("skipped", result(), True),
        ("ok", result(changed=True), False),
        ("ok", result(host="ws2", changed=True), True),
        ("ok", result(host="ws2", changed=True, delegate_to="ws1"), False),
        ("failed", result(), False),
        ("unreachable", result(), False),
        ("retry", result(), False),
        ("ok", result(changed_when=["false"]), False),
        ("ok", result(failed_when=["false"]), False),
        ("ok", result(async_val=30), False),
        ("ok", result("ansible.builtin.slurp", failed_when=["false"], delegate_to="ws2"), True),
        ("skipped", result(skipped=True, changed_when=["false"]), True),
    ],
)
def test_change_since_a_plan_is_known(callback, event, later, as_planned):
    callback.v2_runner_on_ok(result(_unchanged.PLAN))
    assert _unchanged.is_as_planned("ws1", "web")
    getattr(callback, "v2_runner_retry" if event == "retry" else f"v2_runner_on_{event}")(later)
    assert _unchanged.is_as_planned("ws1", "web") is as_planned
    assert not _unchanged.is_as_planned("ws2", "web")
