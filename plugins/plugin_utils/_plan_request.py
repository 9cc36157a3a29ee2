# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the request of a role from its argument spec and its variables. Works on the controller."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleValueOmittedError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Option, Spec
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role_variables import OTHER_PREFIXES

# Shorter values (numbers, switches) occur in findings by themselves.
MASKED_FROM = 8
# A user of a web server, or a user and a password of any. `sftp://user@host` has no secret.
LOGIN = re.compile(r"\b(?:https?://[^/\s@]*|[a-z][a-z0-9+.-]*://[^/\s@:]*:[^/\s@]*)@", re.IGNORECASE)


class Invalid(ValueError):
    """Variables do not fit the argument spec; the text has a line for each."""


@cache
def options_of(role_path: str, entry_point: str = "main") -> Spec:
    """Return the options of an entry point of a role."""
    text = Path(role_path, "meta", "argument_specs.yml").read_text(encoding="utf-8")
    options: Spec = yaml_load(text)["argument_specs"].get(entry_point, {}).get("options", {})
    return options


def values_of(options: Spec, variables: Variables, templar: Any) -> Variables:
    """Return the values of options, each templated by itself: one that cannot be is then named in the error.

    :raises Invalid: `omit` is the value, which only options of modules can have.
    """
    values, omitted = {}, []
    for name in options:
        if name in variables:
            try:
                values[name] = templar.template(variables[name])
            except AnsibleValueOmittedError:
                omitted.append(name)
    if omitted:
        raise Invalid("\n".join(_omitted(name, options[name]) for name in omitted))
    return values


def _omitted(name: str, option: Option) -> str:
    default = option.get("default", {"list": [], "dict": {}}.get(option.get("type", "str"), ""))
    return (
        f"{name} is `omit`, which a variable of a role cannot be: write what it is otherwise, such as"
        f' "{{{{ my_{name} | default({default!r}) }}}}", or leave it out'
    )


def request_of(role: str, options: Spec, values: Variables) -> tuple[JsonObject, JsonObject]:
    """Return the request and its secrets, both by the names of the options without the prefix of the role.

    An option is a secret if it, or an option in it, has ``no_log``.

    :raises Invalid: a value does not fit its option. The text shows no secret.
    """
    no_dictionary = [name for name in values if name in options and not _can_be_validated(options[name], values[name])]
    if no_dictionary:
        raise Invalid(
            "\n".join(
                f"{name} is not what its argument spec describes: write {_expected(options[name])}"
                for name in no_dictionary
            )
        )
    result = ArgumentSpecValidator(dict(options)).validate(dict(values))
    errors = remove_values(result.error_messages, result._no_log_values)
    # Ansible converts them, and the user could not log in with what they wrote.
    no_texts = {name for option in options for name in _no_texts(option, options[option], values.get(option))}
    errors += [
        f"{name} is no text: put it in quotes, since YAML may read it as another value (012 is 10)"
        for name in sorted(no_texts)
    ]
    if errors:
        raise Invalid("\n".join(errors))
    if logins := [name for name, value in values.items() if name in options and _has_login(options[name], value)]:
        raise Invalid(
            "\n".join(
                f"{name} has a user or a password in an address, which logs and files show: use the role's own options for them,"
                " or write them where the client looks for logins (apt: /etc/apt/auth.conf.d, pip: ~/.netrc)"
                for name in logins
            )
        )
    prefixes = (f"{role}_", *(f"{prefix}_" for prefix, owner in OTHER_PREFIXES.items() if owner == role))
    request: JsonObject = {}
    secrets: JsonObject = {}
    for option, value in result.validated_parameters.items():
        prefix = next((prefix for prefix in prefixes if option.startswith(prefix)), "")
        (secrets if _is_secret(options[option]) else request)[option[len(prefix) :]] = value
    return request, secrets


def without_secrets(found: Any, options: Spec, values: Variables) -> Any:
    """Return findings in which the values of options with ``no_log``, and the lines of these values, are masked."""
    secrets = ArgumentSpecValidator(dict(options)).validate(dict(values))._no_log_values
    texts = {text.strip() for secret in secrets for text in (secret, *secret.splitlines())}
    return remove_values(found, {text for text in texts if len(text) >= MASKED_FROM})


def _is_secret(option: Option) -> bool:
    return option.get("no_log") is True or any(map(_is_secret, (option.get("options") or {}).values()))


def _no_texts(name: str, option: Option, value: Any) -> Iterator[str]:
    """Yield the names of secret texts that YAML has read as something else."""
    inner = option.get("options") or {}
    if option.get("no_log") is True and option.get("type", "str") == "str":
        if isinstance(value, bool | int | float | datetime.date | list | Mapping):
            yield name
    elif isinstance(value, list):
        for element in value:
            yield from _no_texts(name, {**option, "type": option.get("elements", "raw")}, element)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _no_texts(f"{name}.{key}", inner.get(key) or {}, each)


def _has_login(option: Option, value: Any) -> bool:
    """Return whether an option that is no secret has an address with a user or a password."""
    inner = option.get("options") or {}
    if option.get("no_log") is True:
        return False
    if isinstance(value, Mapping):
        return any(_has_login(inner.get(name) or {}, each) for name, each in value.items())
    if isinstance(value, list):
        return any(_has_login(option, each) for each in value)
    return isinstance(value, str) and LOGIN.search(value) is not None


def _expected(option: Option) -> str:
    return "a dictionary" if option.get("type") == "dict" else "a list of dictionaries, without a list in it"


def _can_be_validated(option: Option, value: Any) -> bool:
    """Return False where ansible-core ends with a TypeError, or shows the value: another type for a dictionary with declared keys."""
    if not option.get("options"):
        return True
    if option.get("type") == "dict":
        return not isinstance(value, bool | int | float | list)
    elements = value if isinstance(value, list) else []
    return not any(isinstance(element, list) for element in elements)
