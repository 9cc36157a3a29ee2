"""Call the readers of the role firewall with what a host has."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import (
    facts,
    findings,
    ssh_ports,
    table,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import others as of_others

# DEVTYPE in uevent of the kinds that have one.
DEVTYPES = ("bond", "bridge", "vlan", "vxlan", "wlan", "wireguard", "dsa")


class Module:
    """A host with these answers of nft and ip; all else is absent or inactive."""

    check_mode = False
    run_client = Host.run_client

    def __init__(
        self,
        ruleset: list[dict[str, Any]],
        links: list[dict[str, Any]],
        active: list[str],
        iptables: dict[str, str] = {},  # noqa: B006 - never changed
    ) -> None:
        self.ruleset, self.links, self.active, self.iptables = ruleset, links, active, iptables

    def get_bin_path(self, name: str, *_arguments: Any, **_options: Any) -> str | None:
        return f"/usr/sbin/{name}" if name in ("nft", "systemctl", "ip") else None

    def run_command(
        self, command: list[str], *_arguments: Any, handle_exceptions: bool = True, **_options: Any
    ) -> tuple[int, str, str]:
        if command[0] in ("iptables-nft", "ip6tables-nft") and self.iptables:
            return 0, self.iptables.get(command[0].replace("tables-nft", ""), ""), ""
        if command[0] not in ("systemctl", "ip", "unshare", "nft"):
            assert not handle_exceptions, f"{command[0]} is missing, which ends the module"
            raise FileNotFoundError(2, "No such file or directory")
        if command[0] == "systemctl":
            units = [word for word in command if word.endswith((".service", ".path"))]
            return 0, "\n\n".join(map(self._unit, units)) + "\n", ""
        if command[0] == "ip":
            return 0, json.dumps(self.links), ""
        if command[0] == "unshare":
            return 0, json.dumps({"nftables": []}), ""
        if command[0] == "nft" and "ruleset" in command:
            return 0, json.dumps({"nftables": [{"metainfo": {"json_schema_version": 1}}, *self.ruleset]}), ""
        return (0, "", "") if command[:2] == ["nft", "list"] and "tables" in command else (1, "", "No such table")

    def _unit(self, name: str) -> str:
        state = "active" if name in self.active else "inactive"
        return f"Id={name}\nNames={name}\nActiveState={state}\nUnitFileState=disabled\nNeedDaemonReload=no"


def ssh_listens(files: dict[str, str], links: list[str] = []) -> list[int]:  # noqa: B006 - never changed
    """Return the ports of sshd from its files; *links* are links below /etc that enable a unit."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            _write(root, path, text)
        for path in links:
            place = Path(root, path.lstrip("/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(f"/usr/lib/systemd/system/{place.name}")
        return ssh_ports.ports(Tree(root))


def others(
    ruleset: list[dict[str, Any]],
    names: list[str],
    files: dict[str, str] = {},  # noqa: B006 - never changed
    active: list[str] = [],  # noqa: B006 - never changed
    iptables: dict[str, str] = {},  # noqa: B006 - never changed
    links: list[dict[str, Any]] = [],  # noqa: B006 - never changed
) -> dict[str, Any]:
    """Return the finding on other firewalls: its status, and which of the names it names.

    :param iptables: what ``iptables-nft`` and ``ip6tables-nft`` list, by family.
    """
    request = table.Request(allow=[{"port": 6006, "networks": ["192.0.2.0/24"]}])
    found = _facts(request, ruleset, links, files, active, iptables)
    (row,) = [row for row in findings.findings(found) if row["id"] == "firewall.others"]
    return {"status": row["status"], "names": [name for name in names if name in row["evidence"]]}


def old_iptables(listing: str) -> bool:
    """Return whether iptables drops all that no rule accepts."""
    return of_others.iptables_drop(listing)


def outside(links: list[dict[str, Any]], bridges: list[str] = ["docker0", "br-*"]) -> list[str]:  # noqa: B006 - never changed
    """Return the bridges that are let in and lead to other machines."""
    found = _facts(table.Request(bridges=bridges), [], links, {}, [])
    return sorted({entry.split(" ")[0] for entry in found.outside})


def _facts(
    request: table.Request,
    ruleset: Any,
    links: Any,
    files: dict[str, str],
    active: list[str],
    iptables: dict[str, str] = {},  # noqa: B006 - never changed
) -> Any:
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            _write(root, path, text)
        for link in links:
            _link(root, link)
        module: Any = Module(ruleset, links, active, iptables)
        return facts.Reader(module, Tree(root)).facts(request, [table.text(request)])[1]


def _link(root: str, link: dict[str, Any]) -> None:
    """Write /sys/class/net of a link as the kernel shows it."""
    place = Path(root, "sys/class/net", link["ifname"])
    place.mkdir(parents=True, exist_ok=True)
    kind = link.get("linkinfo", {}).get("info_kind", "")
    if not kind and link.get("link_type") == "ether":
        (place / "device").mkdir()
    if kind in DEVTYPES:
        (place / "uevent").write_text(f"DEVTYPE={kind}\nINTERFACE={link['ifname']}\n")
    if kind == "bridge":
        (place / "brif").mkdir(exist_ok=True)
    if kind in ("vlan", "vxlan") and "link" in link:
        (place / f"lower_{link['link']}").mkdir()
    if "master" in link and link.get("linkinfo", {}).get("info_slave_kind") == "bridge":
        (place.parent / link["master"] / "brif" / link["ifname"]).mkdir(parents=True)


def _write(root: str, path: str, text: str) -> None:
    place = Path(root, path.lstrip("/"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
