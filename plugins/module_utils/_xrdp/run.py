# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a request for a remote desktop: read the host, decide, and return what the role has to do."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import certificate_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban, ports, sandboxing
from ansible_collections.rigwright.workstation.plugins.module_utils._system.groups import GroupRow
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import (
    checks,
    findings,
    gnome_remote_desktop,
    plan,
    proof,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.facts import HostReader, read
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params, texts

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

SESMAN_UNIT = "/usr/lib/systemd/system/xrdp-sesman.service"


class XrdpPlan(t.TypedDict):
    """The plan, as the tasks of the role take it."""

    managed: bool
    backend: str
    desktop: str
    command: str
    missing: list[str]
    files: list[FileRow]
    listener: list[str]
    certificate: list[str]
    certificate_due: bool
    groups: list[GroupRow]
    units: list[UnitRow]
    sessions: list[str]
    gnome_configured: bool
    gnome_managed: bool
    shared_directory: bool
    auth_log: bool
    fail2ban_due: bool
    requirements: list[Problem]
    findings: list[Finding]


# The unit of each backend.
UNITS = {"xrdp": "xrdp.service", "gnome": xrdp_gnome.UNIT}


def run(module: Runner, params: Params, probe: bool = False) -> XrdpPlan:
    """Return the plan.

    :param probe: whether to probe the server, as a client before the login.
    """
    params["ini_overrides"], params["sesman_overrides"] = map(
        texts, (params["ini_overrides"], params["sesman_overrides"])
    )
    environments = texts({"session": params["session_env"], "gnome": params["gnome_environment"]})
    params["session_env"], params["gnome_environment"] = environments["session"], environments["gnome"]
    host = HostReader(module, params)
    facts = host.read()
    decision = plan.decide(params, facts)
    account = "xrdp" if decision.backend == "xrdp" else gnome_remote_desktop.ACCOUNT
    facts = dataclasses.replace(facts, certificate=host.own_certificate(account))
    gnome = host.gnome(decision.backend)
    if decision.backend == "gnome":
        return plan_gnome(params, host, facts, gnome, decision, probe)
    requirements = checks.requirements(params, facts, decision) + xrdp_gnome.absence_problems(params, gnome)
    # A request with problems has no files.
    files = [] if requirements else plan.files(params, facts, decision)
    contents = {file["path"]: file["content"] for file in files}
    found = findings.findings(params, facts, decision)
    if params["fail2ban"]:
        jail = (host.tree, "rigwright-xrdp", plan.JAIL, params)
        found.append(
            fail2ban.jail_finding(
                "xrdp", "rigwright-xrdp", plan.JAIL, fail2ban.overridden(*jail), fail2ban.stronger(*jail)
            )
        )
    certificate, key = plan.certificate_paths(params)
    if probe:
        in_force = {path: read(path) == content for path, content in contents.items()}
        found += proof.findings(
            proof.ask(params["port"], host.foreign_owner(UNITS["xrdp"])), host.fingerprint(certificate), in_force
        )
    return {
        "managed": facts.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": plan.command(params, decision),
        "missing": plan.missing_packages(params, facts, decision),
        "files": files,
        "listener": plan.listener(contents.get(plan.XRDP_INI, "")),
        "certificate": [certificate, key],
        "certificate_due": is_certificate_due(host.module, params, facts, decision.backend),
        "groups": plan.groups(params, facts),
        "units": plan.units(params, facts, decision),
        "sessions": plan.open_sessions(facts),
        "gnome_configured": False,
        "gnome_managed": gnome.managed,
        "shared_directory": "RuntimeDirectory=" in read(SESMAN_UNIT),
        "auth_log": facts.auth_log,
        "fail2ban_due": params["fail2ban"] and fail2ban.is_note_due(host.module.run_command, host.tree),
        "requirements": requirements + port_problems(params, facts, decision.backend),
        "findings": found,
    }


def plan_gnome(
    params: Params,
    host: HostReader,
    facts: plan.Facts,
    gnome: xrdp_gnome.Facts,
    decision: plan.Decision,
    probe: bool,
) -> XrdpPlan:
    """Return the plan where GNOME serves its own desktop. Changes of an earlier run for xrdp are undone."""
    absent: Params = {**params, "state": "absent"}
    certificate, key = xrdp_gnome.certificate_paths(params)
    requirements = xrdp_gnome.absence_problems(params, gnome) if params["state"] == "absent" else []
    units: list[UnitRow] = []
    if facts.record:
        requirements = requirements + checks.requirements(absent, facts, decision)
        units += plan.units(absent, facts, decision)
    if params["state"] == "present":
        requirements = requirements + checks.gnome_requirements(params, facts) + xrdp_gnome.problems(params, gnome)
        units += xrdp_gnome.units(params, gnome)
    found = findings.gnome_findings(params, facts, decision) + xrdp_gnome.findings(params, gnome)
    if probe:
        answers = proof.ask_gnome(params["port"], host.foreign_owner(UNITS["gnome"]))
        found += xrdp_gnome.proof_findings(params, gnome, answers, host.fingerprint(certificate))
    return {
        "managed": facts.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": "",
        "missing": [package for package in params["gnome_packages"] if package not in facts.packages],
        "files": [],
        "listener": [],
        "certificate": [certificate, key],
        "certificate_due": is_certificate_due(host.module, params, facts, decision.backend),
        "groups": plan.groups(absent, facts),
        "units": units,
        "sessions": list(gnome.sessions),
        "gnome_configured": xrdp_gnome.configured(params, gnome),
        "gnome_managed": gnome.managed,
        "shared_directory": False,
        "auth_log": facts.auth_log,
        "fail2ban_due": False,
        "requirements": requirements + port_problems(params, facts, decision.backend),
        "findings": found,
    }


def port_problems(params: Params, facts: plan.Facts, backend: str) -> list[Problem]:
    """Return the problems of the port. The other backend releases it where an earlier run has configured it."""
    if params["state"] == "absent":
        return []
    released = UNITS.values() if facts.managed else ()
    listeners = [row for row in params["listeners"] if row["unit"] not in released]
    return ports.port_problems({"xrdp_port": params["port"]}, listeners, UNITS[backend])


def is_certificate_due(module: Runner, params: Params, facts: plan.Facts, backend: str) -> bool:
    """Return whether the certificate of the role has to be made, renewed or, for xrdp alone, removed."""
    if params["state"] == "absent":
        return facts.managed and certificate_run.is_due(module, state="absent", directory=plan.TLS)
    if params["tls_cert"] or params["tls_cert_content"]:
        return False
    place = (
        {"directory": plan.TLS, "group": "xrdp"}
        if backend == "xrdp"
        else {"directory": xrdp_gnome.TLS, "group": gnome_remote_desktop.ACCOUNT}
    )
    return certificate_run.is_due(module, names=params["tls_names"], **place)


def verified(run_client: t.Callable[..., tuple[int, str, str]], planned: XrdpPlan) -> list[Finding]:
    """Return the findings of a plan that has probed the server, with that on the sandboxing of xrdp."""
    confined = [sandboxing.check(run_client, "xrdp", [UNITS["xrdp"]])] if planned["backend"] == "xrdp" else []
    return [*planned["findings"], *confined]
