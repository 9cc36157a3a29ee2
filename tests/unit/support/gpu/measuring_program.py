# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake interpreter with PyTorch and GPUs: the module gpu_accept starts it, and it emits the events of the measuring program."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.support.gpu.reports import HEALTHY

TEXT = """#!{python}
import json, os, sys, time
wanted, sources = json.loads(sys.argv[-1]), dict(json.loads(sys.stdin.readline()))
assert sys.argv[1:-2] == ["-I", "-u", "-c"] and "def work" in sources[list(sources)[-1]]
uuids = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
uuid = uuids[0]
record = {{"uuid": uuid, "uuids": uuids, "uid": os.getuid(), "wanted": wanted}}
open({record!r}, "a").write(json.dumps(record) + "\\n")
def say(event, **facts):
    print(json.dumps(dict(event=event, **facts)), flush=True)
def hang():
    time.sleep(600)
slow, started = 1, time.monotonic()
values = {values!r}
# Real windows last for seconds. On a busy machine the sampling would miss short ones: these reach beyond the whole run.
def window(kind, test, unit):
    value = values[test] * (slow if test == "copy" else 1)
    say(kind, test=test, value=value, unit=unit, wrong=0, begun=time.monotonic(), **{{"from": started - 60, "to": started + 600}})
def measure(line):
    for test in [*("matmul_" + dtype for dtype in wanted["dtypes"]), "copy", "h2d", "d2h", "h2d_d2h"]:
        unit = "tflops" if test.startswith("matmul") else "gb_s"
        if unit == "tflops":
            say("checksum", test=test, sha256="sum of " + test, error=0.0017)
        for number in range(wanted["windows"]):
            time.sleep(0.03)
            window("window", test, unit)
def memory(line):
    say("memory", free_bytes=1000, total_bytes=1200, tested_bytes=int(1000 * wanted["memory_share"]), patterns=["zeros"],
        seconds=1.5, gb_s=1000.0, wrong=0, first=None)
def together(line):
    for test, unit in (("matmul_" + wanted["dtypes"][0], "tflops"), ("h2d", "gb_s"), ("d2h", "gb_s")):
        say("ready", test=test)
        sys.stdin.readline()
        window("together", test, unit)
def all_reduce(line):
    say("meeting", rank=line["rank"])
    say("all_reduce", gb_s=400.0, seconds=0.002, bytes=1 << 29, wrong=0, nccl="2.28.9", ranks=line["world"])
def pairs(line):
    for source in range(len(uuids)):
        for target in range(len(uuids)):
            if source != target:
                say("trying", source=source, target=target)
                say("pair", source=source, target=target, gb_s=390.0, latency_us=9.5, peer_access=True, wrong=0)
{before}
print("a library prints what it likes")
say("started", torch="2.11.0+cu130", side=8192)
for text in sys.stdin:
    line = json.loads(text)
    globals()[line["do"]](line)
    say("did", step=line["do"])
say("done")
"""


def write(folder: Path, before: str = "", **values: float) -> Path:
    """Write the interpreter into a folder. It appends its requests to record.jsonl.

    *before* are lines of Python that it runs first. They may set `slow`, a factor for its copies, or replace a step.
    """
    program = folder / "python"
    text = TEXT.format(
        python=sys.executable, record=str(folder / "record.jsonl"), before=before, values={**HEALTHY, **values}
    )
    program.write_text(text)
    program.chmod(0o755)
    return program
