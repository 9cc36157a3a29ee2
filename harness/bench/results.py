"""Write results as JSON that can be read and compared: a row of a list is a line, and so is all that fits into one.

python3 -m harness.bench.results FILE ...      write files again
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WIDTH = 140


def text(value: Any, indent: str = "") -> str:
    """Return a value as JSON without its last line break."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = f"{indent} "
    if isinstance(value, list):
        rows = [f"{inner}{json.dumps(row, ensure_ascii=False)}" for row in value]
    else:
        # str: a key may be a number here.
        rows = [
            f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {text(field, inner)}" for key, field in value.items()
        ]
    start, end = "[]" if isinstance(value, list) else "{}"
    return ",\n".join(rows).join((f"{start}\n", f"\n{indent}{end}"))


def write(path: Path, value: Any) -> None:
    """Replace a file in one step, so that a run that is cut short leaves what it has."""
    staged = path.with_name(f"{path.name}.new")
    staged.write_text(f"{text(value)}\n", encoding="utf-8")
    staged.replace(path)


if __name__ == "__main__":
    for name in map(Path, sys.argv[1:]):
        write(name, json.loads(name.read_text(encoding="utf-8")))
