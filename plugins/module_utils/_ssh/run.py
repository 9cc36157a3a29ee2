# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a request for sshd: read the host, decide, try the configuration, and return what the role has to do."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import missing_packages
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import sets_in_place
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import (
    checks,
    command_line,
    findings,
    match,
    plan,
    trial,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import facts as host_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import (
    Access,
    HostReader,
    access,
    has_password,
    key_problem,
    refusal,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    DEFAULTS,
    INCLUDE_NOTE,
    MAIN_CONFIG,
    Config,
    Connection,
    Override,
    connections,
    ensure_include,
    local_address,
    overrides,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import Params, input_problems
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_listeners

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner


PACKAGED = "/usr/share/openssh/sshd_config"


def key_problems(found: t.Mapping[str, Access], expected: t.Collection[str]) -> list[str]:
    """Return why users cannot use their keys and, for the expected ones, why they cannot log in at all."""
    lines = []
    for name, ways in sorted(found.items()):
        problems = list(ways.problems) if not ways.key else []
        if ways.refusal and name in expected:
            problems.append(ways.refusal)
        lines += [f"{name}: {text}" for text in problems]
    return lines


def invalid_keys(keys: t.Mapping[str, t.Sequence[str]], config: Config, today: int) -> list[str]:
    checked = [
        (user, number, key_problem(key, config, today))
        for user, found in sorted(keys.items())
        for number, key in enumerate(found, 1)
    ]
    return [f"{user}, key {number}: {problem}" for user, number, problem in checked if problem]


class Planner:
    """The plan for one request on this host."""

    def __init__(self, module: Runner, request: Params) -> None:
        self.module = module
        self.params = request
        self.keys = {
            # As in a file of keys, lines may be empty, or comments.
            entry["user"]: [
                line for key in entry["keys"] for line in map(str.strip, key.splitlines()) if line and line[0] != "#"
            ]
            for entry in self.params["authorized_keys"]
        }
        self.members = {group["name"]: group["members"] for group in self.params["allow_groups"]}
        self.installed = os.path.exists(trial.SSHD)
        self.host = HostReader(os.stat, host_facts.read_keys, int(time.time()) // 86400, host_facts.group_members)

    def run(self) -> plan.SshPlan:
        config = self._config()
        facts = self._read_host(config)
        problems = list(input_problems(self.params))
        # Who can log in depends on the planned configuration, and the plan refuses passwords depending on who can log in.
        draft = plan.decide(self.params, facts)
        facts = dataclasses.replace(facts, methods=plan.methods(self._files(facts, draft).lines))
        draft = plan.decide(self.params, facts)
        # An invalid request is not tried: sshd would only report the same again.
        drafted = self._files(facts, draft)
        tried, refused = ([], "") if problems else self._try(drafted, [None])
        planned = tried[0][1] if tried else plan.assumed(draft, config)
        users, facts = self._read_users(facts, config, planned)
        decision = plan.decide(self.params, facts)
        found, files = tried, self._files(facts, decision)
        if tried:
            everybody, *others = connections(files.lines, users.now)
            unchanged = files.planned == drafted.planned
            more, refused = self._try(files, others if unchanged else [everybody, *others])
            found = [*tried, *more] if unchanged else more
        overridden, unsure = self._overrides(facts, decision, found, files, users)
        facts = dataclasses.replace(
            facts, overridden=plan.overridden(decision, files.lines, overridden, self._packaged()), unsure_blocks=unsure
        )
        present = self.params["state"] == "present"
        host_problems = checks.host_problems(self.params, facts, decision, overridden, refused)
        return {
            "installed": self.installed,
            "install": missing_packages(self.module.run_command, self.params["packages"]) if present else [],
            "settings": list(decision.drop_in),
            "files": plan.files(self.params, facts),
            "directories": plan.directories(self.params, facts.service),
            # The role does not restart a sshd that it did not configure.
            "units": plan.units(self.params, facts.service) if present or "ssh" in sets_in_place() else [],
            "socket_active": facts.service.socket_active,
            "listen_streams": plan.listen_streams(self.params, decision.ports),
            "door": local_address(config),
            "fail2ban_due": self.params["fail2ban"] and fail2ban.is_note_due(self.module.run_command, Tree()),
            "groups_due": host_facts.groups_due(self.params["allow_groups"]),
            "ports_open": list(decision.ports.open),
            "ports_to_close": list(decision.ports.surplus),
            "passwords_refused": decision.passwords_refused,
            "requirements": [*problems, *host_problems] if present else [],
            "findings": findings.findings(self.params, facts, decision, overridden),
        }

    @staticmethod
    def _packaged() -> str:
        """Return the main file as the package has it; empty where there is none."""
        return host_facts.read(PACKAGED) if os.path.exists(PACKAGED) else ""

    def _read_host(self, config: Config) -> plan.Facts:
        """Read the host. Who can log in is read later, since it depends on the planned configuration."""
        peer = host_facts.own_connection()
        service, listeners = self._read_listeners(peer)
        main = host_facts.read(MAIN_CONFIG) if os.path.exists(MAIN_CONFIG) else ""
        included = ensure_include(main) if main else ""
        jail = (Tree(), "sshd", plan.JAIL, self.params)
        return plan.Facts(
            service=service,
            listeners=listeners,
            connection=peer,
            passwords_accepted="yes" in (config["passwordauthentication"], config["kbdinteractiveauthentication"]),
            main_config=included,
            main_config_added=included != main or INCLUDE_NOTE in main,
            key_files=trial.key_files_of(trial.Files({}).lines),
            banners=self._banners(service, peer, local_address(config)),
            foreign=host_facts.foreign_listeners(listeners, service.pid),
            other_config=next(iter(command_line.config_files(Tree())[1:]), ""),
            jail_overridden=fail2ban.overridden(*jail) if self.params["fail2ban"] else [],
            jail_stronger=fail2ban.stronger(*jail) if self.params["fail2ban"] else [],
            missing_addresses=[name for name in self.params["listen_addresses"] if not host_facts.can_listen(name)],
        )

    def _read_users(self, facts: plan.Facts, config: Config, planned: Config) -> tuple[match.Entering, plan.Facts]:
        """Return the users whom sshd will not refuse, and the facts with the users who can log in."""
        users = {*self.keys, *(user for found in self.members.values() for user in found)}
        named = {*users, *([facts.peer] if facts.peer else [])}
        present, joined = host_facts.accounts(named, {}), host_facts.accounts(named, self.members)
        clients = {facts.connection.user: facts.connection.client} if facts.connection else {}
        now = {
            user.name: access(user, config, self.host, client=clients.get(user.name))
            for user in (present if self.installed else ())
        }
        others = plan.without_own_keys(planned)
        then = {
            user.name: access(user, others, self.host, self.keys.get(user.name, ()), clients.get(user.name))
            for user in joined
        }
        before = now.get(facts.peer)
        for found in (now, then):
            found.update(self._unseen(facts, before, found))
        entering = {name for found in (now, then) for name, ways in found.items() if ways.key or ways.password}
        su = any(user.uid == 0 and has_password(user) for user in present)
        entered = match.Entering(
            {user.name: user.groups for user in present if then[user.name].refusal is None},
            {user.name: user.groups for user in joined if then[user.name].refusal is None},
            {user.name: user.groups for user in joined if refusal(user._replace(shell=""), others, self.host) is None},
        )
        return entered, dataclasses.replace(
            facts,
            users_now=[name for name, ways in now.items() if ways.key or (ways.password and facts.passwords_accepted)],
            key_users=[name for name, ways in then.items() if ways.key],
            password_users=[name for name, ways in then.items() if ways.password],
            admins=[
                user.name
                for user in present
                if user.name in entering and (su or host_facts.can_sudo(self.module, user))
            ],
            key_problems=key_problems(then, self.keys),
            invalid_keys=invalid_keys(self.keys, planned, self.host.today),
            unknown_users=sorted(users - then.keys()),
        )

    @staticmethod
    def _unseen(facts: plan.Facts, before: Access | None, found: t.Mapping[str, Access]) -> dict[str, Access]:
        """Return how the user as whom Ansible is connected can log in, where none of the ways that are seen here explains the connection.

        That is a certificate, a key that a program hands to sshd, or the password of a directory service. Where sshd takes passwords,
        it may be one, and counts as long as they stay.
        """
        if facts.peer == "root" or not before or before.key or before.password or before.refusal:
            return {}
        then = found.get(facts.peer, Access())
        if then.refusal:
            return {}
        return {facts.peer: then._replace(password=True) if facts.passwords_accepted else then._replace(key=True)}

    def _config(self) -> Config:
        """Return the effective configuration; the defaults where sshd is not installed or its configuration is broken."""
        if self.installed:
            with contextlib.suppress(trial.Refused):
                return trial.effective(self.module, MAIN_CONFIG)
        return dict(DEFAULTS)

    def _read_listeners(self, peer: plan.Peer | None) -> tuple[plan.Service, list[Listener]]:
        """Read the units and listeners. With ``proof: all``, unwanted ports get some time to close."""
        end = time.monotonic() + (host_facts.PATIENCE if self.params["proof"] == "all" else 0)
        while True:
            listeners = read_listeners()
            service = host_facts.read_service(self.module, listeners)
            if not plan.surplus_ports(self.params, service, peer) or time.monotonic() >= end:
                return service, listeners
            time.sleep(0.2)

    def _banners(self, service: plan.Service, peer: plan.Peer | None, address: str) -> dict[int, str]:
        """Read the banners of the wanted ports, only where the plan needs them: sshd penalises clients that disconnect silently."""
        if self.params["proof"] == "none" and not plan.surplus_ports(self.params, service, peer):
            return {}
        patience = 0 if self.params["proof"] == "none" else host_facts.PATIENCE
        # Ports out of range are refused, not probed.
        ports = [port for port in self.params["ports"] if 1 <= port <= 65535]
        return {port: host_facts.banner(address, port, patience) for port in ports}

    def _files(self, facts: plan.Facts, decision: plan.Decision) -> trial.Files:
        """Return the planned files; with ``proof: all`` the present ones."""
        drop_in = "".join(f"{line}\n" for line in decision.drop_in)
        return trial.Files(
            {} if self.params["proof"] == "all" else {MAIN_CONFIG: facts.main_config, plan.DROP_IN: drop_in}
        )

    def _try(self, files: trial.Files, targets: t.Sequence[Connection]) -> tuple[list[tuple[Connection, Config]], str]:
        """Return the effective configuration for each connection, or why sshd refuses the files."""
        if not targets or not self.installed or self.params["state"] == "absent":
            return [], ""
        with trial.laid_out(files) as (root, main):
            try:
                return [(target, trial.effective(self.module, main, target)) for target in targets], ""
            except trial.Refused as error:
                return [], str(error).replace(root, "") if root else str(error)

    def _overrides(
        self,
        facts: plan.Facts,
        decision: plan.Decision,
        found: t.Sequence[tuple[Connection, Config]],
        files: trial.Files,
        users: match.Entering,
    ) -> tuple[list[Override], list[Override]]:
        """Return the settings that would have other values than requested, and those of blocks that may be for users who are not listed."""
        if not found:
            return [], []
        wanted = plan.wanted_values(decision, facts.service, found[0][1])
        lines = [line for line in files.lines if line.path != plan.DROP_IN]
        tried = [connection for connection, _config in found]
        untried = match.untried(wanted, lines, tried, users.now)
        refused, unsure = match.sort_out(untried, tried, users, host_facts.listed()) if untried else ([], [])
        return [*overrides(wanted, found, lines), *refused], unsure
