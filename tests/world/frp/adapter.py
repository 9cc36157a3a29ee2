"""Call the roles frp_server and frp_client with the options of frps and frpc that people use."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._frp import checks, server_ports, tunnels

from tests.unit.support.frp import CLIENT, SERVER


class Refused(Exception):
    """The plan refuses the request."""


REFUSALS = (Refused,)


def server(**options: Any) -> dict[str, Any]:
    """Return whether frps may bind ports below 1024, and which ports are opened to its networks."""
    _refuse(checks.server_problems({**SERVER, **options}, []))
    found = server_ports.listening(server_ports.config_of({**SERVER, **options}))
    opened = [f"{row['protocol']} {port}" for row in found["opened"] for port in row["port"]]
    return {"privileged": found["privileged"], "opened": sorted(opened)}


def proxies(services: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the type and the keys of each proxy."""
    return [{"type": row["type"], "keys": sorted(row)} for row in _client(services, [])["proxies"]]


def visitors(visitors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the type and the port of each visitor."""
    return [{"type": row["type"], "port": row["bindPort"]} for row in _client([], visitors)["visitors"]]


def _client(services: list[dict[str, Any]], visits: list[dict[str, Any]]) -> dict[str, Any]:
    wanted = tunnels.tunnels(services, visits, CLIENT["secret_key"])
    _refuse(checks.client_problems({**CLIENT, "services": services, "visitors": visits}, wanted, []))
    return wanted


def _refuse(problems: Any) -> None:
    text = "; ".join(f"{row['variable']} {row['problem']}: {row['remedy']}" for row in problems)
    if text:
        raise Refused(text)
