"""Write the pages of docs/ that are made from code: `python -m harness pages`. A test holds them to it.

* `variables.md`: every public variable, from the argument specs of the roles;
* `world.md`: between its markers, how many cases of tests/world were right at the first try;
* `architecture.md`: between its markers, the packages and their imports;
* `progress.svg`: the table of a run, drawn from the code of the callback.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
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


def _text(value: object) -> str:
    """Return a description as one line of a Markdown table."""
    parts = [value] if isinstance(value, str) else list(value or []) if isinstance(value, list) else []
    line = " ".join(" ".join(str(part).split()) for part in parts)
    line = re.sub(r"\b[CVO]\(([^()]*(?:\([^()]*\)[^()]*)*)\)", r"`\1`", line)
    line = re.sub(r"\b[MPRLU]\(([^(),]*)(?:,[^()]*)?\)", r"\1", line)
    return line.replace("|", "\\|")


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
        main = specs.get("main") or specs.get("look_at_host", {})
        if main.get("options"):
            role = path.parents[1].name
            title = "All roles" if role == "common" else f"[{role}]({role}.md)"
            rows = ["| variable | type | default | what it is |", "|---|---|---|---|", *_rows(main["options"])]
            lines += [f"## {title}", "", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


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


PAGES = {
    "world.md": world_page,
    "variables.md": variables,
    "architecture.md": architecture_page,
    "progress.svg": pictures.progress_picture,
}


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def main(_args: argparse.Namespace) -> int:
    for name, make in PAGES.items():
        (ROOT / "docs" / name).write_text(make())
        print(f"docs/{name}")
    return 0
