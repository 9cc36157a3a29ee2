# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that is one service: a program of this collection with its settings, a unit, and perhaps a port and metrics.

The role says what differs. What is the same in every service is here: files, unit, confinement, firewall, checks.
"""

from __future__ import annotations

import dataclasses
import re
import time
import typing as t
import urllib.request
from http.client import HTTPException

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan, stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._system import (
    port_owner,
    ports,
    sandboxing,
    systemd,
)

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host

Request = t.Mapping[str, t.Any]
# Right after the role the program may not listen yet.
ATTEMPTS, PAUSE_S = 10, 1
# Bytes of a page that are read.
LARGEST = 1 << 20
UNIT = """\
# Ansible writes this file: the role {role} of rigwright.workstation.
[Unit]
Description={description}
After=network.target

[Service]
ExecStart={program}
DynamicUser=yes
Restart=on-failure
RestartSec=10
{hardening}
[Install]
WantedBy=multi-user.target
"""


@dataclasses.dataclass(frozen=True)
class Service:
    """What a service says of itself.

    :param role: its role, such as ``probe``, which gives the unit ``rigwright-probe.service`` its name.
    :param description: of the unit.
    :param program: the private module whose ``main()`` runs, such as ``_probe.program``. It reads ``settings_path``.
    :param limits: the least and the greatest value of options that are numbers; the program gets them as settings.
    :param has_port: whether it listens on the option ``port``, for the option ``networks``; on loopback where that is empty.
    :param metric: a metric that the page ``/metrics`` of this port has while all is well; empty for none.
    """

    role: str
    description: str
    program: str
    limits: t.Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    has_port: bool = False
    metric: str = ""

    @property
    def unit(self) -> str:
        return f"rigwright-{self.role.replace('_', '-')}.service"

    @property
    def program_path(self) -> str:
        return f"/usr/local/lib/rigwright/{self.role}.pyz"

    @property
    def settings_path(self) -> str:
        return f"/etc/rigwright/{self.role}.json"

    def plan(self, request: Request, host: Host) -> Plan:
        del host
        return plan(self, request)

    def verify(self, request: Request, host: Host) -> list[Finding]:
        return verify(self, request, host)


def plan(service: Service, request: Request, settings: t.Mapping[str, t.Any] | None = None) -> Plan:
    """Return the plan: problems of the port, and the files and units of the state.

    :param request: with ``hardening`` and ``listeners``, as each role has them.
    :param settings: what the program reads besides ``limits``, address and port. No secret: every user of the host can read it.
    """
    if request["state"] == "absent":
        # A unit that the role never made is none of its.
        return Plan(units=stopped(service.unit) if is_due(Tree(), service.role) else ())
    text = UNIT.format(
        role=service.role,
        description=service.description,
        program=service.program_path,
        hardening=request["hardening"],
    )
    files: list[FileRow] = [
        {"path": service.program_path, "program": service.program, "mode": "0755"},
        {"path": service.settings_path, "data": {**_settings(service, request), **(settings or {})}},
        {"path": f"/etc/systemd/system/{service.unit}", "content": text},
    ]
    unit: UnitRow = {"name": service.unit, "enabled": True, "restart_on": [file["path"] for file in files]}
    folders = ["/etc/rigwright", "/usr/local/lib/rigwright"]
    problems = _problems(service, request)
    if service.has_port and not problems:
        opened: list[rules.OpenedPorts] = [{"port": request["port"], "protocol": "tcp"}]
        files.append(rules.file(opened, request["networks"], service.role))
        folders += rules.FOLDERS
    return Plan(requirements=problems, directories=[{"path": folder} for folder in folders], files=files, units=[unit])


def _settings(service: Service, request: Request) -> dict[str, t.Any]:
    found = {name: request[name] for name in service.limits}
    if service.has_port:
        # An IPv6 socket for all addresses takes IPv4 as well.
        found.update(address="::" if request["networks"] else "127.0.0.1", port=request["port"])
    return found


def _problems(service: Service, request: Request) -> list[Problem]:
    found = [
        problem(f"{service.role}_{name}", f"is {request[name]}", f"set it to a number from {least} to {greatest}")
        for name, (least, greatest) in service.limits.items()
        if not least <= request[name] <= greatest
    ]
    return [*found, *(_port_problems(service, request) if service.has_port else [])]


def _port_problems(service: Service, request: Request) -> list[Problem]:
    found = ports.port_problems({f"{service.role}_port": request["port"]}, request["listeners"], service.unit)
    try:
        rules.parse_networks(request["networks"])
    except ValueError as error:
        remedy = "write networks in CIDR notation, such as 192.168.1.0/24"
        found.append(problem(f"{service.role}_networks", f"is not right: {error}", remedy))
    return found


def verify(
    service: Service, request: Request, host: Host, wait: t.Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Return the findings on the unit and its confinement, and on what its port answers."""
    found = [of_unit(service, host), sandboxing.check(host.run_client, service.role, [service.unit])]
    if service.has_port:
        found.append(of_page(service, request, host, wait))
    return found


def of_unit(service: Service, host: Host) -> Finding:
    shown_unit = systemd.show(host.run_command, [service.unit], ("ActiveState", "UnitFileState"))[service.unit]
    state, enabled = ((shown_unit.get(name) or ["unknown"])[0] for name in ("ActiveState", "UnitFileState"))
    return finding(
        f"{service.role}.unit",
        "pass" if (state, enabled) == ("active", "enabled") else "fail",
        f"{service.unit} is {state} and {enabled}",
        f"read `journalctl --unit {service.unit}`, and run the role again",
    )


def of_page(service: Service, request: Request, host: Host, wait: t.Callable[[float], None]) -> Finding:
    """Ask the port as its clients do, if it is the unit that listens there."""
    subject = "metric" if service.metric else "page"
    address = f"http://127.0.0.1:{request['port']}/{'metrics' if service.metric else ''}"
    problem_text, evidence = "", ""
    for pause_s in [0, *[PAUSE_S] * (ATTEMPTS - 1)]:
        wait(pause_s)
        problem_text = port_owner.foreign_owner_of(host.run_client, service.unit)("127.0.0.1", request["port"])
        if not problem_text:
            problem_text, evidence = _answer(address, service.metric)
        if not problem_text:
            break
    return finding(
        f"{service.role}.{subject}",
        "fail" if problem_text else "pass",
        problem_text or evidence,
        f"read `journalctl --unit {service.unit}`, and run the role again",
    )


def _answer(address: str, metric: str) -> tuple[str, str]:
    """Return why a page is not what it should be, or else what it says."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5) as answer:
            text = answer.read(LARGEST).decode("utf-8", "replace")
    except (OSError, ValueError, HTTPException) as error:
        return f"{address}: {error}", ""
    if not metric:
        return "", f"{address} answers"
    line = re.search(rf"^{re.escape(metric)}(\{{[^}}]*\}})? \S+.*$", text, re.MULTILINE)
    return ("", shown(line[0])) if line else (f"{address} has no metric {metric}", "")
