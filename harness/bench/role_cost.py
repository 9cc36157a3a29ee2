"""Count what a role costs: its hand-written files and lines, and how many of the lines are the same in other roles.

`python -m harness.bench.role_cost` counts the smallest role that `script/new-role` writes: a unit, settings, a port and a metric.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from harness import new_role
from harness.sandbox.lab import ROOT

# A line that is in so many other roles, with the name replaced, is ceremony.
SAME_IN = 3
# Lines such as `---` and `)` say nothing.
_SAYS = re.compile(r"\w{2}")


class Cost(NamedTuple):
    files: int
    lines: int
    same: int

    @property
    def same_share(self) -> float:
        return self.same / self.lines


def cost(files: Mapping[Path, str], role: str, others: Mapping[str, Iterable[str]]) -> Cost:
    """Return the cost of a role.

    :param others: the lines of other roles, by their names.
    """
    counts = Counter(line for name, lines in others.items() for line in {plain(line, name) for line in lines})
    lines = [line for text in files.values() for line in text.splitlines()]
    same = [line for line in lines if _SAYS.search(line) and counts[plain(line, role)] >= SAME_IN]
    return Cost(len(files), len(lines), len(same))


def plain(line: str, role: str) -> str:
    """Return a line with another name in the place of the role's."""
    return re.sub(rf"{role}|{role.replace('_', '-')}", "ROLE", line.strip())


def others(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the hand-written lines of each role of the checkout."""
    places = ("roles/{}", "molecule/{}", "plugins/module_utils/_{}", "tests/unit/plugins/module_utils/_{}")
    found = {}
    for role in sorted(path.parents[1].name for path in root.glob("roles/*/meta/rigwright.yml")):
        folders = [root / place.format(role) for place in places]
        files = [
            path for folder in folders for path in folder.rglob("*") if path.suffix in (".yml", ".py", ".md", ".j2")
        ]
        files += [root / f"docs/{role}.md", root / f"plugins/module_utils/_roles/{role}.py"]
        generated = [
            root / f"roles/{role}/{name}" for name in ("defaults/main.yml", "meta/main.yml", "tasks/verify.yml")
        ]
        found[role] = [
            line for path in files if path.is_file() and path not in generated for line in path.read_text().splitlines()
        ]
    return found


def smallest(root: Path = ROOT) -> Cost:
    """Return the cost of the smallest role with a unit, settings, a port and a metric."""
    files = new_role.render("probe", root, unit=True, port=9700, metric=True)
    return cost({Path(name): text for name, text in files.items()}, "probe", others(root))


if __name__ == "__main__":
    found = smallest()
    print(f"{found.files} files, {found.lines} lines, {found.same_share:.0%} the same as in {SAME_IN} other roles")
