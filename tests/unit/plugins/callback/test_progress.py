# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs of ansible-playbook, on a terminal and into a pipe."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
import yaml

from tests.unit.support.terminal import run_on_terminal

PROGRESS = "rigwright.workstation.progress"
SECRET = "hunter2"
ROLES = {
    "web/tasks/main.yml": """\
- name: Prepare
  ansible.builtin.include_role: {name: common, tasks_from: prepare}
- name: Install 网页 packages
  ansible.builtin.command: sleep {{ pause | default(0) }}
- name: Include more
  ansible.builtin.include_tasks: more.yml
""",
    "web/tasks/more.yml": "- {name: Skip, ansible.builtin.command: 'true', when: false}\n",
    "web/tasks/verify.yml": """\
- name: Record that it answers
  rigwright.workstation.finding: {id: web.answers, status: pass, evidence: "GET /: 200"}
- name: Record the certificate
  rigwright.workstation.finding: {id: web.certificate, status: warn, evidence: "5 days", remedy: "renew it"}
""",
    "common/tasks/prepare.yml": "- {name: Look, ansible.builtin.command: 'true', changed_when: false}\n",
    "db/tasks/main.yml": """\
- name: Check the request
  rigwright.workstation.require:
    that:
      - {ok: "{{ inventory_hostname != 'bad' }}", variable: db_port, problem: "is taken", remedy: "set another"}
      - {ok: "{{ inventory_hostname != 'bad' }}", variable: db_user, problem: "is missing", remedy: "set it"}
- name: Skip
  ansible.builtin.command: "true"
  when: false
""",
}
GONE = {
    "ansible_connection": "{{ 'ssh' if inventory_hostname == 'gone' else 'local' }}",
    "ansible_host": "127.0.0.1",
    "ansible_port": 1,
    "ansible_ssh_timeout": 3,
}
MANY = ("gone", "bad", *(f"host{number:02}" for number in range(18)))


@pytest.fixture(autouse=True)
def roles(tmp_path):
    for path, text in ROLES.items():
        file = tmp_path / "roles" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("---\n" + text)


def include(role, **options):
    return {"name": f"Apply {role}", "ansible.builtin.include_role": {"name": role, **options}}


def play(*tasks, name="Apply the roles", **options):
    return {"name": name, "hosts": "all", "gather_facts": False, "tasks": [*tasks], **options}


@pytest.fixture
def on_terminal(plays_command):
    def run(plays, *options, columns=80, rows=30, interrupt=lambda _frame: False, environment=None, **prepared):
        command = plays_command(plays, *options, stdout_callback=PROGRESS, **prepared)
        return run_on_terminal(
            command.arguments,
            command.folder,
            {**command.environment, **(environment or {})},
            columns=columns,
            rows=rows,
            interrupt=interrupt,
        )

    return run


@pytest.fixture
def in_pipe(run_plays):
    def run(plays, *options, **prepared):
        return run_plays(plays, *options, stdout_callback=PROGRESS, **prepared)

    return run


def cells(lines):
    """Return the words of each line, without its seconds."""
    return [re.sub(r" +\d+\.\d s ", "  ", line).split() for line in lines]


def test_terminal_shows_the_task_of_one_host_and_its_age(on_terminal):
    verify = include("web", tasks_from="verify")
    plays = [play(include("db"), include("web"), vars={"pause": 3}), play(verify, name="Verify the roles")]
    run = on_terminal(plays, columns=80)
    assert run.rc == 0, run.output
    frames = [frame for frame in run.frames if "Install 网页 packages" in "\n".join(frame)]
    title, header, earlier, now = [line for line in frames[-1] if line]
    assert re.fullmatch(r"Apply the roles  \d+ s", title)
    assert header.split() == ["host", "role", "task", "seconds", "changed"]
    assert re.fullmatch(r"localhost +db +ok +\d+ +0", earlier)
    age = re.fullmatch(r" +web +Install 网页 packages +(\d+) +0", now)
    assert age and int(age[1]) >= 1
    # At the end the table is gone.
    shown = "\n".join(run.screen.text())
    assert "Apply the roles" not in shown and "Install" not in shown
    assert "PLAY RECAP" in shown and "still:" not in shown
    report = run.screen.text()[run.screen.text().index("REPORT " + "*" * 73) + 1 :]
    assert report[:3] == ["localhost", "  ! web.certificate  5 days", "                     remedy: renew it"]
    assert report[3].split() == ["role", "hosts", "pass", "changed", "seconds"]
    assert ["web", "1", "1", "1"] in [line.split()[:4] for line in report[4:]]
    assert run.screen.cursor


@pytest.mark.parametrize("columns", [80, 160])
def test_terminal_shows_twenty_hosts_and_their_problems(on_terminal, columns):
    run = on_terminal(
        [play(include("common", tasks_from="prepare"), include("db"), vars=GONE)], columns=columns, rows=16, hosts=MANY
    )
    assert run.rc in (2, 4), run.output
    tables = [frame[frame.index(title) :] for frame in run.frames for title in frame if title.startswith("Apply the")]
    # The last line is that of the cursor.
    assert max(len(table) for table in tables) == 16
    assert any(re.fullmatch(r"… and \d+ more hosts", line) for table in tables for line in table)
    header = next(line for table in tables for line in table if line.startswith("host  "))
    assert len(header) == columns - 1
    shown = run.screen.text()
    at = shown.index("FAILED bad, db: Check the request")
    assert shown[at + 1 : at + 4] == [
        "  The request is refused:",
        "  db_port: is taken; set another.",
        "  db_user: is missing; set it.",
    ]
    assert any(line.startswith("UNREACHABLE gone, common: Look") for line in shown)
    assert "bad FAILED" in shown and "gone FAILED" in shown
    assert not [line for line in shown if line.startswith("Apply the roles")]
    assert run.screen.cursor


def test_ctrl_c_restores_the_terminal(on_terminal):
    run = on_terminal(
        [play(include("web"), vars={"pause": 60})],
        columns=80,
        interrupt=lambda frame: any("Install" in line for line in frame),
    )
    assert run.rc == 99, run.output
    assert run.output.rpartition("\x1b")[2].startswith("[?25h")
    assert run.screen.cursor and run.screen.column == 0
    shown = "\n".join(line for line in run.screen.text() if line)
    assert re.search(
        r"User interrupted execution\nApply the roles:\nlocalhost +web +\d+\.\d s  interrupted: Install 网页 ", shown
    )
    assert "seconds  changed" not in shown


def test_pipe_has_a_line_for_each_host_and_role(in_pipe):
    verify = include("web", tasks_from="verify")
    plays = [play(include("web"), include("db"), vars=GONE), play(verify, name="Verify the roles", vars=GONE)]
    run = in_pipe(plays, hosts=MANY)
    assert run.rc in (2, 4), run.output
    lines = run.output.splitlines()
    assert "\x1b" not in run.output
    rows = cells(lines[: lines.index(next(line for line in lines if line.startswith("PLAY RECAP")))])
    for host in MANY[2:]:
        of_host = [row[1:] for row in rows if row[:1] == [host]]
        assert of_host == [["web", "changed", "(1)"], ["db", "ok"], ["web", "(verify)", "ok"]]
    assert ["gone", "web", "unreachable"] in rows and ["bad", "db", "failed"] in rows
    assert lines.count("Apply the roles:") == lines.count("Verify the roles:") == 1
    assert "  db_user: is missing; set it." in lines
    assert any(line.startswith("FAILED bad, db: Check the request") for line in lines)


FAIL = {
    "name": "Fail with items",
    "ansible.builtin.command": "sh -c 'exit {{ item }}'",
    "loop": [0, 3],
    "changed_when": False,
}
HIDE = {"name": "Hide words", "ansible.builtin.fail": {"msg": f"the word is {SECRET}"}, "no_log": True}
TASKS = [
    {"name": "Say", "ansible.builtin.debug": {"msg": "the plan\nof two lines"}},
    {"name": "Ignore", "ansible.builtin.fail": {"msg": "not a problem"}, "ignore_errors": True},
    {
        "name": "Write {{ inventory_hostname }}",
        "ansible.builtin.copy": {"content": "words\n", "dest": "{{ playbook_dir }}/new"},
    },
    {"name": "Try", "block": [FAIL], "rescue": [HIDE]},
]


def test_problems_diffs_and_messages_are_shown_and_no_secret(in_pipe):
    run = in_pipe([play(*TASKS)], "--diff")
    assert run.rc == 2, run.output
    assert SECRET not in run.output
    assert "localhost, (playbook): Say\n  the plan\n  of two lines\n\n" in run.output
    assert "not a problem" not in run.output
    assert re.search(r"^localhost, \(playbook\): Write localhost\n--- before\n\+\+\+ after", run.output, re.MULTILINE)
    assert "+words\n" in run.output
    assert "FAILED localhost, (playbook): Fail with items (item=3)\n" in run.output
    assert "(item=0)" not in run.output
    assert "FAILED localhost, (playbook): Hide words\n  the output has been hidden" in run.output
    assert re.search(r"^localhost +\(playbook\) +\d+\.\d s  failed$", run.output, re.MULTILINE)


def test_texts_of_hosts_do_not_change_the_terminal(in_pipe, tmp_path):
    odd = "\x1b]0;{}\x07\x1b[2J"
    result = {
        "changed": True,
        "warnings": [odd.format("warning")],
        "deprecations": [{"msg": odd.format("deprecation"), "version": "9"}],
        "diff": {"before": "", "after": odd.format("after"), "before_header": odd.format("header")},
    }
    (tmp_path / "library").mkdir()
    (tmp_path / "library/odd.py").write_text(f"#!/usr/bin/python3\nimport json\nprint(json.dumps({result!r}))\n")
    run = in_pipe([play({"name": "Ask", "odd": {}}, {"name": "Fail", "odd": {}, "failed_when": True})], "--diff")
    assert "?]0;after?" in run.output and "?]0;warning?" in run.output
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", run.output)


def write_role(folder, name, tasks):
    path = folder / "roles" / name / "tasks"
    path.mkdir(parents=True)
    (path / "main.yml").write_text(yaml.safe_dump(tasks))
    (path / "fail.yml").write_text(yaml.safe_dump([FAIL]))


def rescued(*failing, rescue="true"):
    return {"name": "Try", "block": [*failing], "rescue": [{"name": "Repair", "ansible.builtin.command": rescue}]}


@pytest.mark.parametrize(
    ("tasks", "outcome"),
    [
        ([rescued(FAIL)], "changed (1)"),
        ([rescued({"name": "Nested", "block": [FAIL], "always": [TASKS[0]]})], "changed (1)"),
        ([rescued({"name": "Include", "ansible.builtin.include_tasks": "fail.yml"})], "changed (1)"),
        ([rescued({"name": "Import", "ansible.builtin.import_role": {"name": "broken"}})], "changed (1)"),
        ([rescued(FAIL, rescue="false")], "failed"),
        ([rescued(rescued(FAIL, rescue="false"))], "changed (2)"),
        ([rescued(TASKS[0]), FAIL], "failed"),
    ],
)
def test_role_with_a_rescue_is_shown_as_it_ended(in_pipe, tmp_path, tasks, outcome):
    (tmp_path / "fail.yml").write_text(yaml.safe_dump([FAIL]))
    for name, content in (("tried", tasks), ("broken", [FAIL])):
        write_role(tmp_path, name, content)
    run = in_pipe([play(include("tried"))])
    assert run.rc == (2 if outcome == "failed" else 0), run.output
    (row,) = re.findall(r"^localhost +tried +\d+\.\d s  (.*)$", run.output, re.MULTILINE)
    assert row == outcome
    assert "FAILED localhost, tried: Fail with items (item=3)" in run.output


def test_role_that_fails_in_a_rescued_block_is_shown_as_failed(in_pipe, tmp_path):
    write_role(tmp_path, "broken", [TASKS[0], FAIL])
    show = {"name": "Show", "ansible.builtin.debug": {"msg": "Failed."}}
    run = in_pipe([play({"name": "Apply", "block": [include("broken")], "rescue": [show]})])
    assert re.findall(r"^localhost +broken +\d+\.\d s  (.*)$", run.output, re.MULTILINE) == ["failed"]


HOSTILE = "\x1b]0;title\x07\x9b2J\u202e"


def test_text_of_a_host_changes_no_terminal(in_pipe):
    say = {"name": "Say {{ word }}", "ansible.builtin.debug": {"msg": "{{ word }}\n\tnext"}}
    write = {"name": "Write {{ word }}", "ansible.builtin.copy": {"content": "x", "dest": "{{ playbook_dir }}/n"}}
    fail = {"name": "Fail {{ word }}", "ansible.builtin.fail": {"msg": "{{ word }}\nend"}}
    run = in_pipe([play(say, write, fail, vars={"word": f"a{HOSTILE}b"})], "--diff")
    assert run.rc == 2, run.output
    assert not [each for each in HOSTILE if not each.isprintable() and each in run.output], run.output
    assert "a?]0;title??2J?b\n  \tnext\n" in run.output and "a?]0;title??2J?b\n  end\n" in run.output


def test_log_has_the_roles_that_the_table_shows(on_terminal, tmp_path):
    plays = [play(include("db"), include("common", tasks_from="prepare"))]
    run = on_terminal(plays, environment={"ANSIBLE_LOG_PATH": str(tmp_path / "run.log")})
    assert run.rc == 0, run.output
    assert "Apply the roles:" not in "\n".join(run.screen.text())
    log = (tmp_path / "run.log").read_text()
    assert "Apply the roles:" in log
    assert re.search(r"localhost +db +\d+\.\d s  ok$", log, re.MULTILINE)
    assert re.search(r"localhost +common +\d+\.\d s  ok$", log, re.MULTILINE)


def test_ctrl_c_in_a_pipe_names_what_did_not_end(plays_command):
    command = plays_command([play(include("web"), vars={"pause": 60})], stdout_callback=PROGRESS, silence=0.2)
    process = subprocess.Popen(
        command.arguments,
        cwd=command.folder,
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    assert process.stdout
    try:
        for line in process.stdout:
            if line.startswith("still: web : Install"):
                break
    finally:
        os.killpg(process.pid, signal.SIGINT)
        rest, _nothing = process.communicate(timeout=30)
    assert process.returncode == 99
    assert re.search(r"^localhost +web +\d+\.\d s  interrupted: Install 网页 packages$", rest, re.MULTILINE)


def test_v_gives_the_output_of_ansible(run_plays):
    plays = [play(*TASKS[:2], include("db"))]
    ours, ansibles = (
        run_plays(plays, "-v", stdout_callback=callback).output for callback in (PROGRESS, "ansible.builtin.default")
    )
    without_seconds = [re.sub(r"\d+\.\d\n", "", text) for text in (ours, ansibles)]
    assert without_seconds[0] == without_seconds[1]
    assert "TASK [db : Check the request]" in ours
