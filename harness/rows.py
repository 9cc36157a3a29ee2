"""Read the row of each role, `roles/<role>/meta/rigwright.yml`, and write from it the places that name every role.

`python -m harness pages` puts them into site.yml, its variables, the tables of pages and meta/main.yml of the role. Keys of a row:

* `play`: the play of site.yml, one of PLAYS; `after`: the role before this one. The first role of a play has none;
* `task`: the name of its task. A role without one only proves: it has no state, and site.yml does not apply it;
* `when`: conditions of Ansible besides the group of the play; `declared` is one: a variable of the role is set for the host;
* `hands_on`: what later roles of a run take as there in check mode, by kind: the registered result that has it, as
  `{groups: __ssh_members.groups}`;
* `ports`: ports on which it listens that are no default of an option `<role>_port` (script/new-role);
* `sends_messages`: whether it sends some to `workstation_notify_urls`;
* `proof`: the name of the task that proves it, in its tasks/verify.yml;
* `does`: what it does (README.md); `read_to`: what its page helps to do (docs/README.md);
* `stays`: what stays of it, besides packages of the distribution, where all roles are removed (uninstall.yml);
* `tested`, `not_tested`: what was run and what was not (docs/tested.md);
* `promises`, `does_not_promise` (docs/security.md), or `same_promises_as` with another role;
* `package`: floor and purpose of the package `_<role>`, where it is the code of this role (harness/architecture.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.sandbox.lab import ROOT, Refusal

FILE = "meta/rigwright.yml"
COLLECTION = "rigwright.workstation"


class Play(NamedTuple):
    """A play of site.yml: the groups of its hosts (none: all hosts), and whether roles without a condition are imported."""

    groups: tuple[str, ...]
    imports: bool = False


PLAYS = {
    "first": Play((), imports=True),
    "gateways": Play(("gateways",), imports=True),
    "clients": Play(("workstations", "laptops")),
    "workstations": Play(("workstations",)),
    "last": Play(()),
}


@dataclass(frozen=True)
class Row:
    role: str
    play: str
    does: str
    read_to: str
    tested: str
    after: str = ""
    task: str = ""
    proof: str = ""
    when: tuple[str, ...] = ()
    hands_on: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    sends_messages: bool = False
    stays: str = ""
    not_tested: str = ""
    promises: str = ""
    does_not_promise: str = ""
    same_promises_as: str = ""
    package: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_declared(self) -> bool:
        return "declared" in self.when

    def conditions(self) -> list[str]:
        """Return the conditions of its task in site.yml."""
        return [f"__site_{self.role}" if condition == "declared" else condition for condition in self.when]


KEYS = {
    each.name: each.default is MISSING and each.default_factory is MISSING
    for each in fields(Row)
    if each.name != "role"
}


def row_of(role: str, data: Mapping[str, Any]) -> Row:
    """Return the row of a role, or refuse what it does not say."""
    name = f"roles/{role}/{FILE}"
    if unknown := sorted(data.keys() - KEYS):
        raise Refusal(f"{name}: {', '.join(unknown)} is no key of a row; use one of {', '.join(KEYS)}")
    if missing := [key for key, is_required in KEYS.items() if is_required and not data.get(key)]:
        raise Refusal(f"{name}: {', '.join(missing)} is missing; harness/rows.py says what it is")
    if data["play"] not in PLAYS:
        raise Refusal(f"{name}: play must be one of {', '.join(PLAYS)}")
    if bool(data.get("promises")) == bool(data.get("same_promises_as")):
        raise Refusal(
            f"{name}: write what the role promises (promises), or which role promises the same (same_promises_as)"
        )
    for kind, source in data.get("hands_on", {}).items():
        if not re.fullmatch(rf"__{role}_\w+[.]\w+", source):
            raise Refusal(
                f"{name}: {kind} of hands_on must be a key of a result of this role, as __{role}_configured.changed"
            )
    when = data.get("when", [])
    return Row(
        role,
        **{**data, "when": tuple([when] if isinstance(when, str) else when), "ports": tuple(data.get("ports", []))},
    )


def read(root: Path = ROOT) -> list[Row]:
    """Return the rows of all roles in the order of site.yml."""
    paths = sorted(root.glob(f"roles/*/{FILE}"))
    return ordered(row_of(path.parents[1].name, yaml.safe_load(path.read_text()) or {}) for path in paths)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Put rows in the order of site.yml: play by play, each role somewhere after the one that it names."""
    given = sorted(rows, key=lambda row: row.role)

    def following(play: str, role: str) -> Iterator[Row]:
        for row in given:
            if (row.play, row.after) == (play, role):
                yield row
                yield from following(play, row.role)

    found = [row for play in PLAYS for row in following(play, "")]
    if lost := [row.role for row in given if row not in found]:
        raise Refusal(f"{', '.join(lost)}: `after` in {FILE} must name a role of the same play that comes before")
    return found


# ---- site.yml ------------------------------------------------------------------------------------------------------------


def _scalar(text: str) -> str:
    """Return a text as YAML writes it in one line."""
    try:
        is_plain = yaml.safe_load(text) == text
    except yaml.YAMLError:
        is_plain = False
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _task(row: Row) -> str:
    """Return the task of site.yml that applies a role."""
    imports = PLAYS[row.play].imports and not row.when
    conditions = [_scalar(condition) for condition in row.conditions()]
    lines = [
        f"- name: {_scalar(row.task)}",
        f"  ansible.builtin.{'import' if imports else 'include'}_role:",
        f"    name: {COLLECTION}.{row.role}",
        "    rolespec_validate: false",
        *([] if imports else ["    apply:", f"      tags: [{row.role}]"]),
        *([f"  when: {conditions[0]}"] if len(conditions) == 1 else []),
        *(["  when:", *(f"    - {condition}" for condition in conditions)] if len(conditions) > 1 else []),
        f"  tags: [{row.role}]",
    ]
    return "\n".join(f"{' ' * 8}{line}" for line in lines)


def tasks(rows: Iterable[Row]) -> dict[str, str]:
    """Return the tasks of each play of site.yml."""
    given = list(rows)
    return {play: "\n\n".join(_task(row) for row in given if row.play == play and row.task) for play in PLAYS}


def _applies(row: Row) -> str:
    """Return the condition under which a host gets a role."""
    groups = PLAYS[row.play].groups
    conditions = [f"'{groups[0]}' in group_names"] if len(groups) == 1 else []
    if len(groups) > 1:
        conditions = [f"group_names | intersect({list(groups)}) | length > 0"]
    conditions += row.conditions()
    if any(" or " in condition or " if " in condition for condition in conditions):
        conditions = [f"({condition})" for condition in conditions]
    return json.dumps(f"{{{{ {' and '.join(conditions)} }}}}", ensure_ascii=False) if conditions else "true"


def variables(rows: Iterable[Row]) -> dict[str, str]:
    """Return the parts of the variables of site.yml."""
    given = list(rows)
    query = "{{{{ query('rigwright.workstation.role_variables', '{}') | length > 0 }}}}"
    return {
        "declared": "\n".join(f'__site_{row.role}: "{query.format(row.role)}"' for row in given if row.is_declared),
        "roles": "\n".join(
            ["__site_roles:", *(f"  - {{role: {row.role}, applies: {_applies(row)}}}" for row in given)]
        ),
    }


# ---- Other places --------------------------------------------------------------------------------------------------------


def senders(rows: Iterable[Row]) -> str:
    """Return the roles that send messages, as a variable of the role common."""
    return f"__common_notify_senders: [{', '.join(sorted(row.role for row in rows if row.sends_messages))}]"


def stays(rows: Iterable[Row]) -> str:
    """Return what stays of roles, as a variable of uninstall.yml."""
    return "\n".join(["__uninstall_stays:", *(f"  {row.role}: {_scalar(row.stays)}" for row in rows if row.stays)])


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    columns = head.count("|") + 1
    return "\n".join(
        [
            f"| {head} |",
            "|" + "---|" * columns,
            *("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows),
        ]
    )


def readme(rows: Iterable[Row]) -> str:
    return _table("role | what it does", ((f"[`{row.role}`](docs/{row.role}.md)", row.does) for row in rows))


def index(rows: Iterable[Row]) -> str:
    return _table("you want to | read", ((row.read_to, f"[{row.role}.md]({row.role}.md)") for row in rows))


def tested(rows: Iterable[Row]) -> str:
    found = ((f"[`{row.role}`]({row.role}.md)", row.tested, row.not_tested) for row in rows)
    return _table("role | what was run | what was not", found)


def security(rows: Iterable[Row]) -> str:
    given = list(rows)

    def names(row: Row) -> str:
        return ", ".join(f"`{each.role}`" for each in given if row.role in (each.role, each.same_promises_as))

    found = ((names(row), row.promises, row.does_not_promise) for row in given if row.promises)
    return _table("role | promises | does not promise", found)


def meta(role: str, root: Path = ROOT) -> str:
    """Return meta/main.yml of a role, whose description is that of its argument specs."""
    specs = yaml.safe_load((root / f"roles/{role}/meta/argument_specs.yml").read_text())["argument_specs"]
    matrix = yaml.safe_load((root / "roles/common/vars/main/platforms.yml").read_text())["__common_platforms"]
    platforms = [
        f"    - {{name: {name}, versions: [{', '.join(each['codename'] for each in matrix if each['distribution'] == name)}]}}"
        for name in dict.fromkeys(each["distribution"] for each in matrix)
    ]
    return "\n".join(
        [
            "---",
            "# Made by harness/rows.py.",
            "galaxy_info:",
            "  author: The Rigwright engineers",
            f"  description: {_scalar(specs['main']['short_description'])}",
            "  license: GPL-3.0-or-later",
            '  min_ansible_version: "2.19"',
            "  platforms:",
            *platforms,
            f"dependencies: [{COLLECTION}.common]",
            "",
        ]
    )


def verification(row: Row, root: Path = ROOT) -> str:
    """Return tasks/verify.yml of a role, which proves this role alone. One that only proves uses the result in its tasks/main.yml."""
    has_platforms = any((root / f"roles/{row.role}/vars").glob("[A-Z]*.yml"))
    platforms = [
        "- name: Load the variables of the platform",
        '  ansible.builtin.include_vars: "{{ item }}"',
        '  loop: "{{ __common_prepared.platform_files }}"',
        "",
    ]
    return "\n".join(
        [
            "---",
            "# Made by harness/rows.py.",
            "- name: Prepare",
            f"  {COLLECTION}.prepare:",
            "  register: __common_prepared",
            "",
            *(platforms if has_platforms else []),
            f"- name: {_scalar(row.proof or f'Use {row.role} as its clients do')}",
            f"  {COLLECTION}.verify:",
            *([] if row.task else [f"  register: __{row.role}_verified"]),
            "",
        ]
    )


# By path: the part between markers, or the parts by name.
PLACES: dict[str, Callable[[list[Row]], str | dict[str, str]]] = {
    "playbooks/site.yml": tasks,
    "playbooks/vars/site.yml": variables,
    "playbooks/vars/uninstall.yml": stays,
    "roles/common/vars/main/notify.yml": senders,
    "README.md": readme,
    "docs/README.md": index,
    "docs/tested.md": tested,
    "docs/security.md": security,
}
