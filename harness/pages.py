"""Write the files that are made from others: `python -m harness pages`. A test holds them to it.

* `roles/<role>/defaults/main.yml`: values and comments, from the argument spec of the role;
* `roles/<role>/meta/main.yml` and `tasks/verify.yml`, from the row of the role;
* what names every role: site.yml and tables of pages, between their markers, from the rows of roles (harness/rows.py);
* `docs/variables.md`: every public variable, from the argument specs of the roles;
* `docs/world.md`: between its markers, how many cases of tests/world were right at the first try;
* `docs/architecture.md`: between its markers, the packages and their imports;
* `plugins/module_utils/_<package>/<role>_options.py`: the types of options, from the argument spec (harness/requests.py);
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

from harness import architecture, pictures, requests, rows
from harness.sandbox.lab import ROOT, Refusal
from tests.world import corpus

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


def world() -> str:
    """Return the table of docs/world.md."""
    found = [case for domain in corpus.domains() for case in corpus.cases(domain)]
    rows = ["| role | cases | right at the first try | of the review |", "|---|---|---|---|"]
    for role in sorted({case.role for case in found}):
        rows.append(_world_row(role, [case for case in found if case.role == role]))
    rows.append(_world_row("**all**", found))
    return "\n".join(rows)


def _world_row(name: str, found: Sequence[corpus.Case]) -> str:
    own = [case for case in found if not case.review]
    right = sum(case.first_try for case in own)
    rate = f"{right} of {len(own)}" if own else ""
    return f"| {name} | {len(found)} | {rate} | {len(found) - len(own)} |"


def filled(name: str, parts: Mapping[str, str], root: Path = ROOT) -> str:
    """Return a file with these parts between the markers of each."""
    text = (root / name).read_text()
    for part, content in parts.items():
        begin = f"begin {part}".rstrip()
        marked = rf"^ *(?:#|<!--) {begin}: made [^\n]*\n(.*?)^ *(?:#|<!--) end\b"
        match = re.search(marked, text, re.MULTILINE | re.DOTALL)
        if match is None:
            raise Refusal(f"{name} lacks `{begin}: made`, or the `end` after it: add both, where the made part belongs")
        text = f"{text[: match.start(1)]}{content}\n{text[match.end(1) :]}"
    return text


def of_rows(name: str, make: Callable[[list[rows.Row]], str | dict[str, str]]) -> Callable[[], str]:
    """Return what makes a file whose parts are made from the rows of roles."""

    def page() -> str:
        parts = make(rows.read())
        return filled(name, parts if isinstance(parts, dict) else {"": parts})

    return page


# By path: what returns the whole text of the file.
PAGES: dict[str, Callable[[], str]] = {
    "docs/world.md": lambda: filled("docs/world.md", {"": world()}),
    "docs/variables.md": variables,
    "docs/architecture.md": lambda: filled("docs/architecture.md", {"": architecture.picture()}),
    "docs/progress.svg": pictures.progress_picture,
    **{name: of_rows(name, make) for name, make in rows.PLACES.items()},
    **{f"roles/{row.role}/meta/main.yml": functools.partial(rows.meta, row.role) for row in rows.read()},
    **{f"roles/{row.role}/tasks/verify.yml": functools.partial(rows.verification, row) for row in rows.read()},
    **{
        f"roles/{role}/defaults/main.yml": functools.partial(defaults, role)
        for role in sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
        if role != "common"
    },
    **{name: functools.partial(requests.source, role) for name, role in requests.files().items()},
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
