# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Name other tables of the kernel that drop what comes in: a packet has to pass the base chains of all tables. Pure.

The table may be of nftables.conf, of iptables (a table ``filter`` of nftables, or of the older kernel interface), or of a VPN.
Rules of iptables are read as iptables lists them, since nft has no more than the names of their parts of xtables.
"""

from __future__ import annotations

import fnmatch
import json
import shlex
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import table

Key = tuple[str, str, str]
Rules = t.Mapping[Key, t.Sequence[JsonObject]]

# Hooks that a packet for this machine passes.
HOOKS = ("ingress", "prerouting", "input")
# What counts, logs or marks, and decides nothing. `limit` and `quota` decide: a rule with one drops only a part.
PASSING = ("counter", "log", "mangle", "comment", "notrack")
REFUSING = ("REJECT", "DROP", "TARPIT")
# Matches that say nothing about who asks for which port: a rule with these alone is for everything that is new.
GENERAL = {"nfproto": {"ipv4"}, "protocol": {"ip"}, "l4proto": {"tcp", "udp"}, "nexthdr": {"tcp", "udp"}}
INTERFACE = ("iifname", "iif")  # codespell:ignore iif
# New connections of TCP, as `--syn` has them.
SYN = ["fin", "syn", "rst", "ack"]
COMMENT = {"type": "match", "name": "comment"}


def dropping(listing: str, cards: t.Collection[str] = ()) -> list[str]:
    """Return the base chains of a ``nft --json list ruleset`` that drop all that no rule of theirs accepts.

    :param cards: the interfaces that lead to other machines: what is dropped from one of them is dropped from all.
    :raises ValueError: it is not one.
    """
    chains: dict[Key, JsonObject] = {}
    rules: dict[Key, list[JsonObject]] = {}
    for row in json.loads(listing)["nftables"]:
        if "chain" in row:
            chain = row["chain"]
            chains[chain["family"], chain["table"], chain["name"]] = chain
        elif "rule" in row:
            rule = row["rule"]
            rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule)
    return [
        name_of(key)
        for key, chain in chains.items()
        if key[:2] != table.TABLE
        and chain.get("hook") in HOOKS
        and chain.get("type") == "filter"
        and (_end(key, rules, cards) or chain.get("policy")) == "drop"
    ]


def name_of(key: Key) -> str:
    return f"table {' '.join(key[:2])} (chain {key[2]})"


def of_iptables(listing: str) -> list[str]:
    """Return the families in which the rules of iptables for this machine have parts of xtables that nft cannot show."""
    rows = [row["rule"] for row in json.loads(listing)["nftables"] if row.get("rule", {}).get("table") == "filter"]
    found: set[tuple[str, str]] = set()
    more = {("ip", "INPUT"), ("ip6", "INPUT")}
    while more:
        found |= more
        here = [row for row in rows if (row["family"], row["chain"]) in more]
        goals = [(row["family"], part.get("jump", part.get("goto"))) for row in here for part in row.get("expr", ())]
        more = {(family, goal["target"]) for family, goal in goals if goal} - found
    own = [row for row in rows if (row["family"], row["chain"]) in found]
    return sorted({row["family"] for row in own if any(map(_is_hidden, row.get("expr", ())))})


def _is_hidden(part: JsonObject) -> bool:
    # Of a target, the name says enough.
    return "xt" in part and part["xt"] != COMMENT and (part["xt"] or {}).get("type") != "target"


def _end(key: Key, rules: Rules, cards: t.Collection[str], passed: frozenset[Key] = frozenset()) -> str:
    """Return what a chain does with everything: `accept` or `drop` by a rule without a condition, there or where it goes without one.

    Empty for a chain that decides on a part alone.
    """
    passed |= {key}

    def outcome(verb: str, value: t.Any) -> str:
        if verb in ("drop", "reject") or (verb == "xt" and value and value.get("name") in REFUSING):
            return "drop"
        goal = (*key[:2], value["target"]) if verb in ("jump", "goto") else key
        return "accept" if verb == "accept" else "" if goal in passed else _end(goal, rules, cards, passed)

    for rule in rules.get(key, ()):
        decisions = [part for part in rule.get("expr", ()) if not _is_general(part, cards)]
        if len(decisions) != 1:
            continue
        ((verb, value),) = decisions[0].items()
        if verb == "vmap":
            ends = [outcome(*next(iter(verdict.items()))) for verdict in _verdicts(value, cards)]
            end, in_part = "drop" if "drop" in ends else "", True
        else:
            # What is let in of one protocol, or from all interfaces but one, is not everything: that one may be the card.
            end = outcome(verb, value)
            in_part = any("match" in part and "ct" not in part["match"]["left"] for part in rule["expr"])
        if end == "drop" or (end and not in_part):
            return end
        if verb in ("return", "goto") and not in_part:
            return ""
    return ""


def _verdicts(value: JsonObject, cards: t.Collection[str]) -> list[JsonObject]:
    """Return the verdicts of a map for what is new, whatever port it asks for. One with a name has none that are known here."""
    data = value["data"].get("set", []) if isinstance(value.get("data"), dict) else []
    return [
        verdict
        for right, verdict in data
        if _is_general({"match": {"op": "==", "left": value["key"], "right": right}}, cards)
    ]


def _is_general(part: JsonObject, cards: t.Collection[str]) -> bool:
    (verb, value) = next(iter(part.items()))
    if verb != "match":
        return verb in PASSING or part == {"xt": COMMENT}
    field, right = value.get("left"), value.get("right")
    if not isinstance(field, dict):
        return False
    values = right.get("set", []) if isinstance(right, dict) else right if isinstance(right, list) else [right]
    of_flags, of_packet = field.get("&"), field.get("payload", {})
    if of_flags:
        return (
            value["op"] == "=="
            and right == "syn"
            and of_flags[0].get("payload", {}).get("field") == "flags"
            and of_flags[1] == SYN
        )
    key = field["meta"]["key"] if "meta" in field else of_packet.get("field", "")
    if key in INTERFACE:
        # What comes not from this interface, such as `lo`, is all the rest.
        return value["op"] == "!=" or any(fnmatch.fnmatchcase(card, str(each)) for card in cards for each in values)
    if of_packet.get("protocol") == "ip" and key == "protocol":
        key = "nexthdr"
    if key:
        return value["op"] != "!=" and any(each in values for each in GENERAL.get(key, ()))
    return field.get("ct", {}).get("key") == "state" and ("new" in json.dumps(right)) is (value["op"] != "!=")


def iptables_drop(listing: str, cards: t.Collection[str] = ()) -> bool:
    """Return whether ``iptables --list-rules`` drops all that no rule of INPUT accepts."""
    rules: dict[Key, list[JsonObject]] = {}
    policy = ""
    for line in listing.splitlines():
        command, chain, *rest = [*_words(line), "", ""]
        if command == "-A":
            rules.setdefault(("", "", chain), []).append({"expr": list(_expressions(rest))})
        elif (command, chain) == ("-P", "INPUT"):
            policy = rest[0].lower()
    return (_end(("", "", "INPUT"), rules, cards) or policy) == "drop"


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _expressions(rule: t.Sequence[str]) -> t.Iterator[JsonObject]:
    """Yield the parts of a rule of iptables as nft has them; one that is not known is a match that nothing is known of."""
    pending = [word for word in rule if word]
    while pending:
        word, op = pending.pop(0), "=="
        if word == "!" and pending:
            word, op = pending.pop(0), "!="
        value = pending.pop(0) if pending and word[:1] == "-" else ""
        if word == "-i":
            # A name with a plus is for all that begin so.
            yield {"match": {"op": op, "left": {"meta": {"key": "iifname"}}, "right": value.replace("+", "*")}}
        elif word == "-p":
            yield {"match": {"op": op, "left": {"meta": {"key": "l4proto"}}, "right": value}}
        elif word in ("--ctstate", "--state"):
            yield {"match": {"op": op, "left": {"ct": {"key": "state"}}, "right": value.lower().split(",")}}
        elif word == "--tcp-flags" and op == "==" and pending:
            flags = {"&": [{"payload": {"field": "flags"}}, value.lower().split(",")]}
            yield {"match": {"op": "==", "left": flags, "right": pending.pop(0).lower()}}
        elif word in ("-j", "-g"):
            verbs = {"ACCEPT": "accept", "RETURN": "return", **dict.fromkeys(REFUSING, "drop")}
            yield {verbs[value]: None} if value in verbs else {"goto" if word == "-g" else "jump": {"target": value}}
            return
        elif word not in ("-m", "--comment") or (
            word == "-m" and value not in ("comment", "conntrack", "state", "tcp", "udp")
        ):
            yield {"xt": {"type": "match", "name": word}}
