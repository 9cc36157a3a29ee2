# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks themselves: a good role passes all of them, and each flaw is found by the one that is made for it."""

from __future__ import annotations

import pytest

from tests.contract import role_contract
from tests.contract.role_contract import CHECKS, Role

SPECS = """\
---
argument_specs:
  main:
    options:
      web_state: {type: str, description: Whether the service runs., choices: [present, absent], default: present}
      web_token: {type: str, description: What clients show., no_log: true, default: ""}
      web_releases: {type: dict, description: Releases. Default is what all roles have.}
"""

MAIN = """\
---
- name: Prepare
  rigwright.workstation.prepare:
  register: __common_prepared

- name: Load the variables of the platform
  ansible.builtin.include_vars: "{{ item }}"
  loop: "{{ __common_prepared.platform_files }}"

- name: Check the request
  rigwright.workstation.require:
    that: "{{ __web_requirements }}"
  when: web_state == "present"

- name: Look around
  ansible.builtin.ping:

- name: Configure
  ansible.builtin.import_tasks: configure.yml
  when: web_state == "present" and __web_wanted

- name: Remove
  ansible.builtin.include_tasks: remove.yml
  when:
    - web_state == "absent"
"""

CONFIGURE = """\
---
- name: Put the configuration in place
  rigwright.workstation.config_files:
    name: web
    directories:
      - {path: /etc/web}
    files: "{{ __web_files }}"
  register: __web_written

- name: Record what is left to do
  rigwright.workstation.finding: {id: web.pending, status: pass, evidence: nothing waits}
"""

VARS = """\
---
__web_requirements:
  - {ok: "{{ web_token | length > 32 }}", variable: web_token, problem: is short, remedy: make one}
__web_unit: /etc/systemd/system/web.service
__web_settings: {token: "{{ web_token }}"}
__web_files:
  - {path: /etc/web/web.conf, secret: true}
  - {path: /etc/web/settings.json, data: "{{ __web_settings }}", secret: "{{ web_token | length > 0 }}"}
  - {path: "{{ __web_unit }}"}
  - {path: /etc/web/old.conf, state: absent}
"""

VERIFY = """\
---
- name: Prepare
  rigwright.workstation.prepare:
  register: __common_prepared

- name: Load the variables of the platform
  ansible.builtin.include_vars: "{{ item }}"
  loop: "{{ __common_prepared.platform_files }}"

- name: Ask it as its clients do
  rigwright.workstation.verify:
"""

REMOVE = """\
---
- name: Stop the service
  rigwright.workstation.systemd_units:
    units: [{name: web.service, state: stopped}]
  when: "'web' in ansible_facts['rigwright']['managed']"

- name: Give the configuration back
  rigwright.workstation.config_files: {name: web, state: absent}
"""

GOOD = {
    "roles/web/README.md": "# web\n",
    "roles/web/defaults/main.yml": "---\nweb_state: present\n",
    "roles/web/meta/argument_specs.yml": SPECS,
    "roles/web/meta/main.yml": "",
    "roles/web/meta/rigwright.yml": "task: Configure web\n",
    "roles/web/tasks/main.yml": MAIN,
    "roles/web/tasks/configure.yml": CONFIGURE,
    "roles/web/tasks/remove.yml": REMOVE,
    "roles/web/tasks/verify.yml": VERIFY,
    "roles/web/templates/etc/web/web.conf.j2": "token = {{ web_token }}\n",
    "roles/web/templates/etc/systemd/system/web.service.j2": "[Service]\n",
    "roles/web/vars/main.yml": VARS,
    "roles/web/vars/Debian_12.yml": "---\n__web_package: web\n",
    "roles/web/vars/releases.yml": "---\nsome: data\n",
    "docs/web.md": "# web\n",
    "changelogs/fragments/web.yml": "---\nminor_changes:\n  - web - new role.\n",
    "plugins/module_utils/_roles/web.py": "\ndef verify(request, host): ...\n",
    "molecule/web/molecule.yml": "",
    "molecule/web/tests/test_web.py": "",
}


@pytest.fixture
def role(tmp_path):
    """Return a role without violations, as Role; change(path, old, new) spoils it."""
    for path, text in GOOD.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Role(tmp_path / "roles/web")


def violations(role):
    return {check.__name__: found for check in CHECKS if (found := list(check(role)))}


def test_good_role_passes(role):
    assert violations(role) == {}


@pytest.mark.parametrize(
    ("path", "old", "new", "check", "message"),
    [
        ("tasks/odd.txt", "", "x", "files", "tasks/odd.txt has no place in a role"),
        ("library/web.py", "", "x", "files", "library/web.py has no place in a role"),
        (
            "handlers/main.yml",
            "",
            "---\n- name: Restart it\n  ansible.builtin.systemd_service: {name: web, state: restarted}\n",
            "handlers",
            "handlers/main.yml uses ansible.builtin.systemd_service: rigwright.workstation.systemd_units knows what has to restart",
        ),
        ("meta/argument_specs.yml", "web_token", "token", "variables", "token does not begin with web_"),
        (
            "meta/argument_specs.yml",
            "type: str, description: What",
            "description: What",
            "variables",
            "web_token has no type",
        ),
        ("meta/argument_specs.yml", "Default is", "As", "variables", "web_releases has no default: write it"),
        (
            "meta/argument_specs.yml",
            "type: dict,",
            'type: dict, default: "{{ x }}",',
            "variables",
            "web_releases has a template as its default",
        ),
        ("meta/argument_specs.yml", ", default: present", "", "variables", "web_state has no default"),
        ("meta/argument_specs.yml", "[present, absent]", "[present]", "variables", "web_state must have the choices"),
        ("vars/main.yml", "__web_unit:", "unit:", "variables", "unit in vars/ does not begin with __web_"),
        ("tasks/main.yml", "ping:", "ping:\n  register: pong", "variables", "pong in tasks/main.yml does not begin"),
        ("meta/argument_specs.yml", "no_log: true, ", "", "secrets", "web_token sounds secret"),
        ("vars/main.yml", "web.conf, secret: true", "web.conf", "secrets", "/etc/web/web.conf holds a secret"),
        (
            "vars/main.yml",
            ', secret: "{{ web_token | length > 0 }}"',
            "",
            "secrets",
            "/etc/web/settings.json holds a secret",
        ),
        (
            "tasks/configure.yml",
            "nothing waits",
            '"{{ web_token }}"',
            "secrets",
            "Record what is left to do: shows a secret",
        ),
        (
            "tasks/main.yml",
            "ansible.builtin.ping:",
            'ansible.builtin.command: "web {{ __web_settings.token }}"',
            "secrets",
            "Look around: a secret in the arguments of a command",
        ),
        ("tasks/main.yml", "ping:", 'ping:\n  loop: "{{ __web_settings }}"', "secrets", "-v shows the item of a loop"),
        (
            "tasks/main.yml",
            "Look around",
            "Look around (half a minute)",
            "durations",
            "main.yml: the name 'Look around (half",
        ),
        ("tasks/main.yml", "Look around", "Wait 30 s", "durations", "has a duration: leave it out"),
        ("templates/web.conf.j2", "", "x", "templates", "templates/web.conf.j2 does not mirror a path"),
        ("templates/etc/spare.j2", "", "x", "templates", "templates/etc/spare.j2 is used by nothing"),
        (
            "vars/main.yml",
            "/etc/web/web.conf",
            "/etc/web/other.conf",
            "templates",
            "templates/etc/web/other.conf.j2 is missing",
        ),
        ("tasks/main.yml", "name: Prepare", "name: Begin", "table_of_contents", "does not begin with Prepare"),
        ("tasks/main.yml", "tasks: configure", "tasks: other", "table_of_contents", "Configure does something else"),
        ("tasks/main.yml", 'web_state == "absent"', "true", "table_of_contents", "Remove is not tied to web_state"),
        (
            "tasks/main.yml",
            "name: Check the request",
            "name: Check",
            "table_of_contents",
            "does not have, in this order",
        ),
        ("tasks/main.yml", "---\n", "---\n" + "# more\n" * 60, "table_of_contents", "lines, more than 60"),
        (
            "tasks/remove.yml",
            """  when: "'web' in ansible_facts['rigwright']['managed']"\n""",
            "",
            "removal",
            "Stop the service: is done on a host that the role never managed",
        ),
        (
            "tasks/remove.yml",
            "absent}",
            "absent}\n- name: More",
            "removal",
            "the next run does not complete one that was interrupted",
        ),
        (
            "tasks/verify.yml",
            "rigwright.workstation.verify:",
            "rigwright.workstation.verify: {roles: [web]}",
            "verification",
            "does something else than to call the action verify",
        ),
        ("tasks/verify.yml", "loop: ", "with_items: ", "platforms", "does not load the variables of the platform"),
        (
            "tasks/verify.yml",
            "register: __common_prepared",
            "register: __other",
            "verification",
            "does not begin with Prepare",
        ),
        ("tasks/configure.yml", "register: __web_written", "diff: true", "registered_changes", "is not registered"),
        ("tasks/main.yml", "ansible.builtin.ping", "ping", "full_names", "ping is no full name"),
        (
            "tasks/main.yml",
            "ansible.builtin.ping:",
            "ansible.builtin.include_role: {name: common}",
            "full_names",
            "role common is no full name",
        ),
        (
            "meta/rigwright.yml",
            "task: Configure web\n",
            "task: Configure web\nhands_on: {groups: __web_members.groups}\n",
            "handed_on",
            "hands on groups by __web_members.groups, which no task of the role registers",
        ),
    ],
)
def test_flaw_is_found(role, path, old, new, check, message):
    file = role.path / path
    file.parent.mkdir(exist_ok=True)
    text = file.read_text() if file.exists() else ""
    assert old in text
    file.write_text(text.replace(old, new, 1))
    assert message in "\n".join(violations(role).get(check, []))


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("roles/web/README.md", "files"),
        ("roles/web/tasks/verify.yml", "files"),
        ("docs/web.md", "pages"),
        ("changelogs/fragments/web.yml", "pages"),
        ("plugins/module_utils/_roles/web.py", "verification"),
        ("molecule/web/molecule.yml", "scenario"),
        ("molecule/web/tests/test_web.py", "scenario"),
    ],
)
def test_missing_file_is_found(role, path, check):
    (role.checkout / path).unlink()
    assert check in violations(role)


def test_role_that_only_proves_has_no_states(role):
    (role.path / "meta/rigwright.yml").write_text("play: workstations\n")
    assert violations(role) == {
        "files": [f"tasks/{name}.yml has no place in a role that only proves" for name in ("configure", "remove")],
        "variables": ["web_state is there, and the role only proves"],
    }


def test_every_check_has_a_flaw_that_it_finds():
    marks = test_flaw_is_found.pytestmark[0].args[1] + test_missing_file_is_found.pytestmark[0].args[1]
    assert {check.__name__ for check in CHECKS} <= {value for case in marks for value in case}
    assert all(getattr(role_contract, check.__name__) is check for check in CHECKS)
