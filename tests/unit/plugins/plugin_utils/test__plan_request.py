# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of a role, by the argument specs of all roles."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (
    Invalid,
    options_of,
    request_of,
    values_of,
    without_secrets,
)

from harness.sandbox.lab import ROOT

ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
# A value of no other type: a list of lists fits none of them.
WRONG: Any = {"bool": "perhaps", "int": "many", "float": "much", "list": {"a": 1}, "dict": 7}
USERS: Any = {
    "samba_users": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "password": {"type": "str", "no_log": True}},
    }
}


def options(role: str) -> Mapping[str, Any]:
    return options_of(str(ROOT / "roles" / role))


def choices(role: str) -> Iterator[tuple[str, Any]]:
    for name, option in options(role).items():
        for choice in option.get("choices", []):
            yield name, [choice] if option["type"] == "list" else choice


def test_omitted_variable_is_named_with_an_example() -> None:
    texts = {"xrdp_users": "{{ mine | default(omit) }}", "xrdp_port": 3389, "xrdp_state": "{{ x | default(omit) }}"}
    variables = {name: trust_as_template(text) if isinstance(text, str) else text for name, text in texts.items()}
    with pytest.raises(Invalid) as refused:
        values_of(options("xrdp"), variables, Templar(loader=DataLoader(), variables=variables))
    lines = {line.partition(" ")[0]: line for line in str(refused.value).splitlines()}
    assert lines.keys() == {"xrdp_users", "xrdp_state"}
    assert '"{{ my_xrdp_users | default([]) }}"' in lines["xrdp_users"]
    assert "\"{{ my_xrdp_state | default('present') }}\"" in lines["xrdp_state"]


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_of_its_type(role: str) -> None:
    required = {name: "x" for name, option in options(role).items() if option.get("required")}
    request, secrets = request_of(role, options(role), required)
    values = {**request, **secrets}
    for name, option in options(role).items():
        value = values[name if name in values else name.partition("_")[2]] if name in values else None
        if "default" in option and value is not None:
            assert value == option["default"] or isinstance(value, dict | list)


@pytest.mark.parametrize("role", ROLES)
def test_every_choice_is_accepted_and_no_other(role: str) -> None:
    for name, choice in choices(role):
        request_of(role, options(role), {name: choice})
        with pytest.raises(Invalid, match=name):
            request_of(role, options(role), {name: ["no-such"] if isinstance(choice, list) else "no-such"})


@pytest.mark.parametrize("role", ROLES)
def test_every_wrong_type_is_refused_by_name(role: str) -> None:
    for name, option in options(role).items():
        if option.get("type", "str") in WRONG and "choices" not in option:
            with pytest.raises(Invalid, match=name):
                request_of(role, options(role), {name: WRONG[option["type"]]})


def test_values_are_converted_and_prefixes_removed() -> None:
    spec: Any = {"x_port": {"type": "int"}, "x_on": {"type": "bool"}, "other": {"type": "list", "elements": "int"}}
    request, secrets = request_of("x", spec, {"x_port": "22", "x_on": "yes", "other": ["1"]})
    assert (request, secrets) == ({"port": 22, "on": True, "other": [1]}, {})


def test_xrdp_has_a_second_prefix() -> None:
    spec: Any = {"remote_desktop_users": {"type": "list"}, "xrdp_port": {"type": "int"}}
    assert request_of("xrdp", spec, {"remote_desktop_users": ["a"], "xrdp_port": 1})[0] == {"users": ["a"], "port": 1}


def test_an_option_with_a_secret_in_it_is_one() -> None:
    users: Any = [{"name": "alice", "password": "correct-horse"}]
    request, secrets = request_of("samba", USERS, {"samba_users": users})
    assert (request, secrets) == ({}, {"users": users})


def test_all_problems_are_named_and_no_secret() -> None:
    values = {"samba_users": [{"name": "alice", "password": {"correct": "horse"}, "passphrase": "battery-staple"}]}
    spec: Any = {**USERS, "samba_port": {"type": "int"}}
    with pytest.raises(Invalid) as error:
        request_of("samba", spec, {**values, "samba_port": "many"})
    assert "samba_port" in str(error.value) and "passphrase" in str(error.value)
    assert "staple" not in str(error.value)


@pytest.mark.parametrize("password", [12345678, 0, True, 1.5, ["a"], {"a": "b"}, datetime.date(2026, 11, 27)])
def test_secret_without_quotes_is_refused_by_name(password: object) -> None:
    with pytest.raises(Invalid, match=r"samba_users\.password is no text: put it in quotes") as error:
        request_of("samba", USERS, {"samba_users": [{"name": "alice", "password": password}]})
    assert "12345678" not in str(error.value)


def test_secrets_of_a_list_are_texts() -> None:
    spec: Any = {
        "x_tokens": {"type": "list", "elements": "str", "no_log": True},
        "x_token": {"type": "str", "no_log": True},
    }
    assert request_of("x", spec, {"x_tokens": ["012"], "x_token": None})[1]["tokens"] == ["012"]
    with pytest.raises(Invalid, match="x_tokens is no text"):
        request_of("x", spec, {"x_tokens": [12]})


def test_list_in_a_list_of_dictionaries_does_not_show() -> None:
    # As of `samba_users: ["{{ vault_samba_users }}"]`.
    with pytest.raises(Invalid, match="samba_users is not") as error:
        request_of("samba", USERS, {"samba_users": [[{"name": "alice", "password": "correct-horse"}]]})
    assert "correct-horse" not in str(error.value)


KEY = "-----BEGIN KEY-----\nAAAAB3NzaC1yc2E\n-----END KEY-----\n"


@pytest.mark.parametrize("secret", ["correct-horse", KEY.strip(), "AAAAB3NzaC1yc2E"])
def test_secret_in_a_finding_is_masked(secret: str) -> None:
    users: Any = [{"name": "alice", "password": "correct-horse"}, {"name": "bob", "password": KEY}]
    found: Any = [
        {"id": "samba.login", "status": "fail", "evidence": f"alice: no {secret}", "remedy": f"set {secret}!"}
    ]
    masked = without_secrets(found, USERS, {"samba_users": users})
    assert masked == [
        {"id": "samba.login", "status": "fail", "evidence": "alice: no ********", "remedy": "set ********!"}
    ]


def test_short_values_and_others_stay_in_findings() -> None:
    found: Any = [{"id": "samba.login", "status": "pass", "evidence": "alice-of-the-lab logs in", "remedy": ""}]
    users: Any = [{"name": "alice-of-the-lab", "password": "logs in"}, {"name": "bob"}]
    assert without_secrets(found, USERS, {"samba_users": users}) == found


def test_the_request_is_json(tmp_path: Path) -> None:
    for role in ROLES:
        required = {name: "x" for name, option in options(role).items() if option.get("required")}
        json.dumps(request_of(role, options(role), required))


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("mirrors", {"mirrors_pip_url": "https://me:hunter2@mirror.example/simple"}),
        ("mirrors", {"mirrors_apt_urls": ["https://mirror.example/debian", "https://hunter2@mirror.example/debian"]}),
        (
            "docker",
            {
                "docker_repository": {
                    "url": "https://mirror.example",
                    "key_url": "https://me:hunter2@mirror.example/gpg",
                }
            },
        ),
        ("cuda", {"cuda_repository": {"url": "ftp://me:hunter2@mirror.example"}}),
        ("backup", {"backup_repositories": [{"name": "x", "url": "rest:https://me:hunter2@host/x"}]}),
    ],
)
def test_address_with_a_login_is_refused_without_showing_it(role: str, values: Any) -> None:
    with pytest.raises(Invalid, match=f"{next(iter(values))} has a user or a password") as refused:
        request_of(role, options(role), values)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("backup", {"backup_repositories": [{"name": "x", "url": "sftp://backup@host:22//x"}]}),
        ("mirrors", {"mirrors_pip_url": "https://mirror.example/@scope/simple"}),
        ("docker", {"docker_daemon_options": {"http-proxy": "http://me:secret@proxy.example:3128"}}),
    ],
)
def test_address_without_a_login_is_accepted(role: str, values: Any) -> None:
    request_of(role, options(role), values)
