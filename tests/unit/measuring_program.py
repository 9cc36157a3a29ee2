# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python with PyTorch and a GPU, imitated: the module gpu_accept starts it, and it tells of windows as the program does."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.gpu_reports import HEALTHY

TEXT = """#!{python}
import json, os, sys, time
program, wanted = sys.stdin.read(), json.loads(sys.argv[-1])
assert sys.argv[1:-1] == ["-I", "-u", "-"] and "def measure" in program
record = {{"uuid": os.environ["CUDA_VISIBLE_DEVICES"], "uid": os.getuid(), "wanted": wanted}}
open({record!r}, "a").write(json.dumps(record) + "\\n")
def say(**event):
    print(json.dumps(event), flush=True)
slow, begun = 1, time.monotonic() - 60
{before}
print("a library prints what it likes")
say(event="started", torch="2.11.0+cu130", side=8192)
values = {values!r}
for test in [*("matmul_" + dtype for dtype in wanted["dtypes"]), "copy", "h2d", "d2h"]:
    unit = "tflops" if test.startswith("matmul") else "gb_s"
    if unit == "tflops":
        say(event="checksum", test=test, sha256="sum of " + test, error=0.0017)
    for number in range(wanted["windows"]):
        time.sleep(0.03)
        event = dict(event="window", test=test, value=values[test] * (slow if test == "copy" else 1), unit=unit, wrong=0)
        # The real windows last for seconds. These would be missed by the one who samples, on a busy machine.
        say(**event, **{{"from": begun, "to": begun + 600}})
say(event="done")
"""


def write(folder: Path, before: str = "", **values: float) -> Path:
    """An interpreter in *folder*. What it was asked for is appended to record.jsonl.

    *before* are lines of Python that it runs first; they may set `slow`, a factor for its copies.
    """
    program = folder / "python"
    text = TEXT.format(
        python=sys.executable, record=str(folder / "record.jsonl"), before=before, values={**HEALTHY, **values}
    )
    program.write_text(text)
    program.chmod(0o755)
    return program
