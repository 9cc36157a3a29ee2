"""Call the readers of the role xrdp with processes and files of hosts."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import facts as of_hosts
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import ini, plan, sessions

from tests.unit.support.xrdp import REQUEST

PARAMS: Any = {**REQUEST, "networks": ["192.0.2.0/24"], "desktop": "xfce"}
DECISION = plan.Decision("xrdp", "xfce", False, "")


def desktops(processes: list[list[Any]]) -> Any:
    """Return who has a desktop, who has one that nobody can reconnect to, and whether xrdp may be restarted."""
    found = sessions.find_sessions([sessions.Process(*process) for process in processes])
    facts = plan.Facts(sessions=found, running=True, managed=True)
    (unit,) = [unit for unit in plan.units(PARAMS, facts, DECISION) if unit["name"] == "xrdp.service"]
    return {
        "open": plan.open_sessions(facts),
        "lost": sorted({session.user for session in found if session.lost}),
        "may_restart": unit["may_restart"],
    }


def xrdp_ini(text: str, option: str) -> Any:
    """Return the sections of the file that the role writes, and the values of one option of [Globals]."""
    read = ini.sections(plan.xrdp_ini(PARAMS, plan.Facts(packaged={plan.XRDP_INI: text})))
    return {"sections": sorted(read), option: read["globals"].get(option, [])}


def sesman_ini(text: str, options: list[str]) -> dict[str, list[str]]:
    """Return the values of some options of the file that the role writes, by section and name."""
    read = ini.sections(plan.sesman_ini(PARAMS, plan.Facts(packaged={plan.SESMAN_INI: text}), DECISION))
    return {option: read.get(option.split(".")[0], {}).get(option.split(".")[1], []) for option in options}


def logins(shown: str) -> list[str]:
    """Return the users with a session of logind, from `loginctl show-session`."""
    return [row["Name"] for row in of_hosts.parse_logins(shown)]
