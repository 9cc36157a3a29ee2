# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest

TLS = {"id": "web.tls", "status": "warn", "evidence": "ends in 3 days", "remedy": "renew it"}
PORT = {"id": "web.port", "status": "fail", "evidence": "closed", "remedy": "open web_port"}


def recorded(run, host="localhost"):
    return [(finding["id"], finding["status"]) for finding in run.report["hosts"][host]["findings"]]


def test_findings_add_up_and_change_nothing(run_tasks):
    run = run_tasks(
        [
            {"rigwright.workstation.finding": TLS},
            {"rigwright.workstation.finding": {"findings": [PORT, {**TLS, "status": "pass"}]}},
            {
                "ansible.builtin.assert": {
                    "that": ["ansible_facts['rigwright_findings'] | map(attribute='id') == ['web.tls', 'web.port']"]
                }
            },
        ]
    )
    assert run.rc == 0, run.output
    assert recorded(run) == [("web.tls", "pass"), ("web.port", "fail")]
    assert run.report["hosts"]["localhost"]["stats"]["changed"] == 0
    assert run.report["hosts"]["localhost"]["outside_roles"]["module_runs"] == 0


def test_findings_stay_with_their_host(run_tasks):
    task = {"rigwright.workstation.finding": TLS, "when": "inventory_hostname == 'a'"}
    run = run_tasks([task], "--check", hosts=("a", "b"))
    assert (recorded(run, "a"), recorded(run, "b")) == ([("web.tls", "warn")], [])


def test_templates_in_evidence_from_a_target_stay_text(run_tasks):
    run = run_tasks(
        [
            {"ansible.builtin.command": "echo '{{ \"{{ 6 * 7 }}\" }}'", "register": "said"},
            {"rigwright.workstation.finding": {**TLS, "evidence": "said {{ said.stdout }}"}},
        ]
    )
    assert run.report["hosts"]["localhost"]["findings"][0]["evidence"] == "said {{ 6 * 7 }}"


def test_loop_is_refused_because_it_would_lose_findings(run_tasks):
    run = run_tasks([{"rigwright.workstation.finding": TLS, "loop": [1, 2]}])
    assert run.rc == 2
    assert "give the list as `findings` instead" in run.output


def test_bad_finding_is_refused_with_its_name(run_tasks):
    run = run_tasks([{"rigwright.workstation.finding": {**TLS, "status": "ok"}}])
    assert run.rc == 2
    assert "web.tls: status must be one of pass, warn, fail, skip" in run.output


def test_no_log_keeps_a_finding_out_of_the_report(run_tasks):
    run = run_tasks([{"rigwright.workstation.finding": TLS, "no_log": True}])
    assert (run.rc, recorded(run)) == (0, [])


ROLE = """\
- {ansible.builtin.debug: {msg: a}, register: __web_written, changed_when: "{{ due }}"}
- rigwright.workstation.finding: {findings: "{{ found }}"}
"""


@pytest.mark.parametrize(
    ("options", "due", "status"),
    [(("--check",), True, "skip"), (("--check",), False, "pass"), ((), True, "pass")],
)
def test_check_mode_passes_nothing_that_the_role_changes_first(run_tasks, tmp_path, options, due, status):
    file = tmp_path / "roles/web/tasks/main.yml"
    file.parent.mkdir(parents=True)
    file.write_text(ROLE)
    found = [{**TLS, "status": "pass", "evidence": "good for 90 days"}, {**PORT, "status": "warn"}]
    tasks = [
        {"ansible.builtin.include_role": {"name": "web"}},
        {"rigwright.workstation.finding": {**TLS, "id": "other.tls", "status": "pass"}},
    ]
    run = run_tasks(tasks, *options, "-e", json.dumps({"due": due, "found": found}))
    assert recorded(run) == [("web.tls", status), ("web.port", "warn"), ("other.tls", "pass")]
    evidence = run.report["hosts"]["localhost"]["findings"][0]["evidence"]
    assert evidence.endswith("good for 90 days")
    assert evidence.startswith("check mode: ") is (status == "skip")
