# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Name other tables of the kernel that drop what comes in: a packet has to pass the base chains of all tables. Pure.

The table may be of nftables.conf, of iptables (a table ``filter`` of nftables, or of the older kernel interface), or of a VPN.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table

Rule = t.Mapping[str, t.Any]
Key = tuple[str, str, str]

# Hooks that a packet for this machine passes.
HOOKS = ("ingress", "prerouting", "input")
# What counts, logs or marks, and decides nothing. `limit` and `quota` decide: a rule with one drops only a part.
PASSING = ("counter", "log", "mangle", "comment", "notrack")
REFUSING = ("REJECT", "DROP", "TARPIT")
# Matches that say nothing about who asks for which port: a rule with these alone is for everything that is new.
GENERAL = {"nfproto": {"ipv4"}, "l4proto": {"tcp", "udp"}}
INTERFACE = ("iifname", "iif")  # codespell:ignore iif


# Matches of iptables that leave a rule for everything that is new, as `_is_general` has them for nftables.
_EVERYTHING = (
    r'(?:! -i \S+ |-m comment --comment (?:"(?:\\.|[^"\\])*"|\S+) '
    r"|-m (?:conntrack --ctstate|state --state) (?:\S+,)?NEW(?:,\S+)? )*"
)


def dropping(listing: str) -> list[str]:
    """Return the base chains of a ``nft --json list ruleset`` that drop all that no rule of theirs accepts.

    :raises ValueError: it is not one.
    """
    chains: dict[Key, t.Mapping[str, t.Any]] = {}
    rules: dict[Key, list[Rule]] = {}
    for row in json.loads(listing)["nftables"]:
        if "chain" in row:
            chain = row["chain"]
            chains[chain["family"], chain["table"], chain["name"]] = chain
        elif "rule" in row:
            rule = row["rule"]
            rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule)
    return [
        f"table {' '.join(key[:2])} (chain {key[2]})"
        for key, chain in chains.items()
        if key[:2] != table.TABLE
        and chain.get("hook") in HOOKS
        and chain.get("type") == "filter"
        and (_end(key, rules, set()) or chain.get("policy")) == "drop"
    ]


def _end(key: Key, rules: t.Mapping[Key, t.Sequence[Rule]], passed: set[Key]) -> str:
    """Return what a chain does with everything: `accept` or `drop` by a rule without a condition, there or where it goes without one.

    Empty for a chain that decides on a part alone.
    """
    passed.add(key)
    for rule in rules.get(key, ()):
        decisions = [part for part in rule.get("expr", ()) if not _is_general(part)]
        if len(decisions) != 1:
            continue
        ((verb, value),) = decisions[0].items()
        goal = (*key[:2], value["target"]) if verb in ("jump", "goto") else key
        if verb in ("drop", "reject") or (verb == "xt" and value and value.get("name") in REFUSING):
            end = "drop"
        elif verb == "accept":
            end = "accept"
        else:
            end = _end(goal, rules, passed) if goal not in passed else ""
        # All but one interface: what is let in is not everything, as that one may be the card.
        but_one = any("match" in part and part["match"]["op"] == "!=" for part in rule["expr"])
        if end == "drop" or (end and not but_one):
            return end
        if verb in ("return", "goto") and not but_one:
            return ""
    return ""


def _is_general(part: t.Mapping[str, t.Any]) -> bool:
    (verb, value) = next(iter(part.items()))
    if verb != "match":
        return verb in PASSING
    field = value.get("left")
    if not isinstance(field, dict):
        return False
    if "meta" in field:
        key, right = field["meta"]["key"], value.get("right")
        values = right.get("set", []) if isinstance(right, dict) else right if isinstance(right, list) else [right]
        # What comes not from this interface, such as `lo`, is all the rest.
        if value["op"] == "!=":
            return key in INTERFACE
        return any(each in values for each in GENERAL.get(key, ()))
    return "ct" in field and field["ct"].get("key") == "state" and "new" in json.dumps(value.get("right"))


def old_iptables_drop(listing: str) -> bool:
    """Return whether ``iptables-legacy --list-rules INPUT`` drops all that no rule accepts."""
    return bool(re.search(rf"^-P INPUT DROP$|^-A INPUT {_EVERYTHING}-j (DROP|REJECT)\b", listing, re.MULTILINE))
