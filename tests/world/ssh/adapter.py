# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of sshd's files, as the roles ssh and firewall use them."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import ipaddress
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import (
    access,
    checks,
    config,
    facts,
    plan,
    request,
    run,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban

from tests.unit.support import ssh as support

TODAY = 20_000


def _stat(path: str) -> Any:
    if path != "/bin/bash":
        raise FileNotFoundError(path)
    return SimpleNamespace(st_mode=stat.S_IFREG | 0o755, st_uid=0, st_gid=0)


HOST = access.HostReader(_stat, lambda path: "", TODAY, lambda gid: set())


def _config(settings: Sequence[str]) -> Any:
    given = {keyword: value for keyword, value in config.parse_config("\n".join(settings)).items() if value}
    return {**config.DEFAULTS, **given}


@contextlib.contextmanager
def _host(user: str, shadow: Mapping[str, Any], sudo: bool) -> Iterator[None]:
    """Make a host with root and one more user, who has a home without files."""
    entries = [
        SimpleNamespace(pw_name=name, pw_uid=uid, pw_gid=uid, pw_dir=f"/home/{name}", pw_shell="/bin/bash")
        for name, uid in (("root", 0), (user, 1000))
    ]
    with contextlib.ExitStack() as stack:
        for where, name, value in (
            (facts.pwd, "getpwall", lambda: entries),
            (facts.os, "getgrouplist", lambda name, gid: []),
            (facts, "read", lambda path: ""),
            (facts, "parse_shadow", lambda text: {"root": ("*", None), **shadow}),
            (facts, "can_sudo", lambda module, account: sudo),
            (run, "HostReader", lambda *arguments: HOST),
        ):
            stack.enter_context(mock.patch.object(where, name, value))
        yield


@contextlib.contextmanager
def laid_out(files: Mapping[str, str], links: Mapping[str, str]) -> Iterator[Tree]:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            Path(folder + path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder + path).write_text(text, encoding="utf-8")
        for path, target in links.items():
            Path(folder + path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder + path).symlink_to(target)
        yield Tree(folder)


def ports(files: Mapping[str, str], links: Mapping[str, str] | None = None) -> list[int]:
    """Return the ports of sshd that the firewall opens."""
    with laid_out(files, links or {}) as tree:
        return ssh_ports.ports(tree)


def lines(files: Mapping[str, str]) -> list[config.Line]:
    def read(path: str) -> str:
        return files.get(path, "")

    return list(config.read_lines(config.MAIN_CONFIG, read, lambda pattern: fnmatch.filter(files, pattern)))


def tries(
    text: str, users: Mapping[str, Sequence[str]], user: str, inside: str = "0.0.0.0/0", outside: str = "192.0.2.255/32"
) -> bool:
    """Return whether the configuration is tried for a user from a network, without the part of it that is outside."""
    found = config.connections(lines({config.MAIN_CONFIG: text}), users)
    addresses = []
    for each in found:
        with contextlib.suppress(ValueError):
            addresses += [ipaddress.ip_address(each["address"])] if each and each["user"] == user else []
    return any(
        address in ipaddress.ip_network(inside) and address not in ipaddress.ip_network(outside)
        for address in addresses
    )


def added(text: str) -> list[str]:
    """Return the settings that the role puts in front of the main file."""
    result = config.ensure_include(text)
    assert result.endswith(text)
    return [line for line in result[: len(result) - len(text)].splitlines() if line and not line.startswith("#")]


def overridden(files: Mapping[str, str], drop_in: Sequence[str], packaged: str = "") -> list[str]:
    """Return the settings of other files that the role's drop-in puts out of force.

    :param packaged: the main file as its package has it.
    """
    decision: Any = SimpleNamespace(drop_in=tuple(drop_in))
    found = plan.overridden(decision, lines({**files, plan.DROP_IN: "\n".join(drop_in)}), [], packaged)
    return [f"{line.keyword} {line.value} ({line})" for line in found]


def refused_keys(keys: Sequence[str]) -> list[str]:
    """Return why keys of a user in ssh_authorized_keys are refused."""
    params: Any = {"authorized_keys": [{"user": "alice", "keys": list(keys)}], "allow_groups": []}
    host: Any = None
    planner = run.Planner(host, params)
    return run.invalid_keys(planner.keys, config.DEFAULTS, TODAY)


def grants_root(listing: str, password: bool) -> bool:
    return access.grants_root(listing, password=password)


def refused_names(names: Sequence[str]) -> list[str]:
    """Return the users whom ssh_authorized_keys refuses for their names."""
    problems = [
        row["problem"]
        for name in names
        for row in request.input_problems(support.request(authorized_keys=[{"user": name, "keys": []}]))
    ]
    return [name for name in names if any(name in text for text in problems)]


def refusal(settings: Sequence[str], user: str, client: str | None = None) -> str | None:
    """Return why sshd refuses a user who is connected from an address, whatever the key; None when it does not."""
    account = access.Account(user, 1000, f"/home/{user}", "/bin/bash", "*", None, frozenset([user]))
    return access.refusal(account, _config(settings), HOST, client)


def locked_out(settings: Sequence[str], user: str, client: str, shadow: str = "", sudo: bool = False) -> list[str]:
    """Return the problems of the role's defaults with a user as whom Ansible is connected, and who has no file of keys.

    :param shadow: the field of the password in /etc/shadow; empty for a user who is not in there.
    """
    shadowed = {user: (shadow, None)} if shadow else {}
    with _host(user, shadowed, sudo):
        planner = run.Planner(None, support.request())  # type: ignore[arg-type]
        config = _config(settings)
        found = dataclasses.replace(
            support.FACTS,
            connection=plan.Peer(user, client, "192.0.2.1", 22),
            passwords_accepted="yes" in (config["passwordauthentication"], config["kbdinteractiveauthentication"]),
        )
        _users, found = planner._read_users(found, config, config)
    decision = plan.decide(planner.params, found)
    problems = checks.host_problems(planner.params, found, decision, [], "")
    return [f"{row['variable']} {row['problem']}" for row in problems]


def causes(files: Mapping[str, str], keyword: str, wanted: str) -> list[str]:
    """Return the lines that make a setting another one than wanted for everybody."""
    found = config._causes(keyword, frozenset([wanted]), lines(files), everybody=True)
    return [str(line) for line in found]


def rerooted(text: str, root: str) -> list[str]:
    """Return the patterns of the files that a copy of a configuration includes."""
    settings = [config.split_setting(line) for line in config.reroot(text, root).splitlines()]
    return [word for keyword, value in settings if keyword == "include" for word in config.split_values(value)]


def passwords(files: Mapping[str, str], passwords: str = "auto") -> dict[str, Any]:
    """Return whether the role refuses passwords, and the variables of the problems, where an administrator has a key."""
    found = support.facts(methods=plan.methods(lines(files)))
    params = support.request(passwords=passwords)
    decision = plan.decide(params, found)
    problems = checks.host_problems(params, found, decision, [], "")
    return {"refused": decision.passwords_refused, "variables": [row["variable"] for row in problems]}


def jail(files: Mapping[str, str], **values: Any) -> list[str]:
    """Return what the role's jail for sshd puts out of force of fail2ban's other files."""
    params = support.request(**{f"fail2ban_{name}": value for name, value in values.items()})
    with laid_out(files, {}) as tree:
        return fail2ban.overridden(tree, "sshd", plan.JAIL, params)
