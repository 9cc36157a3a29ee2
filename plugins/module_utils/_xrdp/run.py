# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a request for a remote desktop: read the host, decide, and return what the role has to do."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import (
    checks,
    findings,
    gnome_remote_desktop,
    plan,
    proof,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome as xrdp_gnome
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.facts import HostReader, read
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import texts

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

SESMAN_UNIT = "/usr/lib/systemd/system/xrdp-sesman.service"


def run(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the plan of the module xrdp_plan."""
    params = module.params
    for name in ("ini_overrides", "sesman_overrides"):
        params[name] = texts(params[name])
    for name in ("session_env", "gnome_environment"):
        params[name] = texts({"": params[name]})[""]
    host = HostReader(module)
    facts = host.read()
    decision = plan.decide(params, facts)
    account = "xrdp" if decision.backend == "xrdp" else gnome_remote_desktop.ACCOUNT
    facts = dataclasses.replace(facts, certificate=host.own_certificate(account))
    gnome = host.gnome(decision.backend)
    if decision.backend == "gnome":
        return plan_gnome(params, host, facts, gnome, decision)
    requirements = checks.requirements(params, facts, decision) + xrdp_gnome.absence_problems(params, gnome)
    # A request with problems has no files.
    files = [] if requirements else plan.files(params, facts, decision)
    contents = {file["path"]: file["content"] for file in files}
    found = findings.findings(params, facts, decision)
    certificate, key = plan.certificate_paths(params)
    if params["proof"]:
        in_force = {path: read(path) == content for path, content in contents.items()}
        found += proof.findings(proof.ask(params["port"]), host.fingerprint(certificate), in_force)
    return {
        "managed": facts.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": plan.command(params, decision),
        "missing": plan.missing_packages(params, facts, decision),
        "files": files,
        "listener": plan.listener(contents.get(plan.XRDP_INI, "")),
        "certificate": [certificate, key],
        "groups": plan.groups(params, facts),
        "units": plan.units(params, facts, decision),
        "sessions": plan.open_sessions(facts),
        "gnome_configured": False,
        "gnome_managed": gnome.managed,
        "shared_directory": "RuntimeDirectory=" in read(SESMAN_UNIT),
        "auth_log": facts.auth_log,
        "fail2ban_idle": fail2ban.is_idle(host.module.run_command),
        "requirements": requirements,
        "findings": found,
    }


def plan_gnome(
    params: t.Mapping[str, t.Any],
    host: HostReader,
    facts: plan.Facts,
    gnome: xrdp_gnome.Facts,
    decision: plan.Decision,
) -> dict[str, t.Any]:
    """Return the plan where GNOME serves its own desktop. Changes of an earlier run for xrdp are undone."""
    absent = {**params, "state": "absent"}
    certificate, key = xrdp_gnome.certificate_paths(params)
    requirements = xrdp_gnome.absence_problems(params, gnome) if params["state"] == "absent" else []
    units: list[dict[str, t.Any]] = []
    if facts.record:
        requirements = requirements + checks.requirements(absent, facts, decision)
        units += plan.units(absent, facts, decision)
    if params["state"] == "present":
        requirements = requirements + checks.gnome_requirements(params, facts) + xrdp_gnome.problems(params, gnome)
        units += xrdp_gnome.units(params, gnome)
    found = findings.gnome_findings(params, facts, decision) + xrdp_gnome.findings(params, gnome)
    if params["proof"]:
        found += xrdp_gnome.proof_findings(
            params, gnome, proof.ask_gnome(params["port"]), host.fingerprint(certificate)
        )
    return {
        "managed": facts.managed,
        "backend": decision.backend,
        "desktop": decision.desktop,
        "command": "",
        "missing": [package for package in params["gnome_packages"] if package not in facts.packages],
        "files": [],
        "listener": [],
        "certificate": [certificate, key],
        "groups": plan.groups(absent, facts),
        "units": units,
        "sessions": list(gnome.sessions),
        "gnome_configured": xrdp_gnome.configured(params, gnome),
        "gnome_managed": gnome.managed,
        "shared_directory": False,
        "auth_log": facts.auth_log,
        "fail2ban_idle": fail2ban.is_idle(host.module.run_command),
        "requirements": requirements,
        "findings": found,
    }
