"""Write the files that are made from others: `python -m harness pages`. A test holds them to it.

* `roles/<role>/defaults/main.yml`: values and comments, from the argument spec of the role;
* `docs/variables.md`: every public variable, from the argument specs of the roles;
* `docs/world.md`: between its markers, how many cases of tests/world were right at the first try;
* `docs/architecture.md`: between its markers, the packages and their imports;
* `docs/progress.svg`: the table of a run, drawn from the code of the callback.
"""

from __future__ import annotations

import argparse
import functools
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import architecture, pictures
from harness.sandbox.lab import ROOT, Refusal
from tests.world import corpus

BEGIN, END = "<!-- begin: made by `python -m harness pages` -->", "<!-- end -->"
VARIABLES_HEAD = """\
# Variables

Every public variable of every role. Made by `python -m harness pages` from `roles/<role>/meta/argument_specs.yml`; change these files,
not this page. `ansible-doc -t role rigwright.workstation.<role>` shows one role with all details.
"""
DEFAULTS_HEAD = (
    "---\n# Made from meta/argument_specs.yml by `harness pages` (CONTRIBUTING.md): change that file, not this one.\n"
)
COMMENT_WIDTH = 150
# An option at its depth in the file, and the line of its default. A template as the default of a list or dictionary is a comment
# there: antsibull-docs takes only a list or a dictionary, and neither it nor ansible-lint accepts a key of our own.
_OPTION = re.compile(r"^ {6}(\w+):$")
_VALUE = re.compile(r"^ {8}(?:# )?default: (.+)$")


def _paragraphs(description: object) -> list[str]:
    """Return the parts of a description, each in one line, without the markup of Ansible."""
    parts = description if isinstance(description, list) else [description or ""]
    lines = (" ".join(str(part).split()) for part in parts)
    lines = (re.sub(r"\b[CVO]\(([^()]*(?:\([^()]*\)[^()]*)*)\)", r"`\1`", line) for line in lines)
    return [re.sub(r"\b[MPRLU]\(([^(),]*)(?:,[^()]*)?\)", r"\1", line) for line in lines]


def _text(description: object) -> str:
    """Return a description as one line of a Markdown table."""
    return " ".join(_paragraphs(description)).replace("|", "\\|")


def _default(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "required"
    if option.get("no_log") or "default" not in option:
        return ""
    value = option["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`".replace("|", "\\|") if value not in ("", None) else '`""`' if value == "" else ""


def _rows(options: Mapping[str, Mapping[str, Any]], prefix: str = "") -> Iterator[str]:
    for name, option in options.items():
        kind = option.get("type", "str")
        if option.get("elements"):
            kind = f"{kind} of {option['elements']}"
        description = _text(option.get("description"))
        if option.get("choices"):
            description += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
        if option.get("no_log"):
            description += " Secret."
        yield f"| `{prefix}{name}` | {kind} | {_default(option)} | {description} |"
        nested = f"{prefix}{name}[]." if option.get("type") == "list" else f"{prefix}{name}."
        yield from _rows(option.get("options") or {}, nested)


def variables(root: Path = ROOT) -> str:
    """Return docs/variables.md."""
    lines = [VARIABLES_HEAD]
    for path in sorted(root.glob("roles/*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text())["argument_specs"]
        # The variables of all roles are those of the role `common`, which is never called as a whole.
        main = specs.get("main") or specs.get("prepare", {})
        if main.get("options"):
            role = path.parents[1].name
            title = "All roles" if role == "common" else f"[{role}]({role}.md)"
            rows = ["| variable | type | default | what it is |", "|---|---|---|---|", *_rows(main["options"])]
            lines += [f"## {title}", "", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def defaults(role: str, root: Path = ROOT) -> str:
    """Return defaults/main.yml of a role: the values as its argument spec has them, below their descriptions."""
    text = (root / f"roles/{role}/meta/argument_specs.yml").read_text()
    options: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)["argument_specs"]["main"]["options"]
    values: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if match := _OPTION.match(line):
            name = match[1]
        elif (match := _VALUE.match(line)) and name in options:
            values[name] = match[1]
    blocks = [DEFAULTS_HEAD]
    for name, option in options.items():
        if option.get("required"):
            continue
        if name not in values or ("default" in option and yaml.safe_load(values[name]) != option["default"]):
            raise Refusal(
                f"roles/{role}/meta/argument_specs.yml: {name} needs a default in one line, or required: true"
            )
        comments = [
            textwrap.fill(part, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
            for part in _paragraphs(option.get("description"))
        ]
        # A variable that begins with another word than its role is meant to (role_contract.NAMED_OTHERWISE).
        noqa = "" if name.startswith(f"{role}_") else " # noqa: var-naming[no-role-prefix]"
        blocks.append("\n".join([*comments, f"{name}: {values[name]}{noqa}\n"]))
    return "\n".join(blocks)


def architecture_page(root: Path = ROOT) -> str:
    """Return docs/architecture.md with the picture of today."""
    before, after = _between((root / "docs/architecture.md").read_text(), "docs/architecture.md")
    return f"{before}{BEGIN}\n{architecture.picture(root)}\n{END}{after}"


def world_page(root: Path = ROOT) -> str:
    """Return docs/world.md with the table of today."""
    found = [case for domain in corpus.domains() for case in corpus.cases(domain)]
    rows = ["| role | cases | right at the first try | of the review |", "|---|---|---|---|"]
    for role in sorted({case.role for case in found}):
        rows.append(_world_row(role, [case for case in found if case.role == role]))
    rows.append(_world_row("**all**", found))
    before, rest = _between((root / "docs/world.md").read_text(), "docs/world.md")
    return f"{before}{BEGIN}\n" + "\n".join(rows) + f"\n{END}{rest}"


def _world_row(name: str, found: Sequence[corpus.Case]) -> str:
    own = [case for case in found if not case.review]
    right = sum(case.first_try for case in own)
    rate = f"{right} of {len(own)}" if own else ""
    return f"| {name} | {len(found)} | {rate} | {len(found) - len(own)} |"


def _between(text: str, name: str) -> tuple[str, str]:
    """Return what is before and after the made part of a page."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise Refusal(f"{name} lacks {BEGIN} or {END}: add both, where the made part belongs")
    return before, after


PAGES: dict[str, Callable[[], str]] = {
    "docs/world.md": world_page,
    "docs/variables.md": variables,
    "docs/architecture.md": architecture_page,
    "docs/progress.svg": pictures.progress_picture,
    **{
        f"roles/{role}/defaults/main.yml": functools.partial(defaults, role)
        for role in sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
        if role != "common"
    },
}


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def main(_args: argparse.Namespace) -> int:
    for name, make in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(make())
        print(name)
    return 0
