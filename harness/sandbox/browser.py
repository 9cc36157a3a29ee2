"""Open pages in headless Chromium on a host of the sandbox, as a person would in a browser."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from harness.sandbox.clients import Entry, Machine

PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
PAGE, PICTURE, PROFILE, REQUESTS = "/srv/page.html", "/srv/page.png", "/srv/browser", "/srv/requests.json"
CHROMIUM = f"rm -rf {PROFILE}; chromium-headless-shell --no-sandbox --disable-gpu --user-data-dir={PROFILE} --window-size=1280,720"


class Visit(NamedTuple):
    """What Chromium made of a page: messages of its console, addresses that it requested, the document, and a picture."""

    console: list[str]
    requests: list[str]
    document: str
    picture: bytes


def visit(machine: Machine, page: str) -> Visit:
    """Open a page on a host that has the packages."""
    machine.put({PAGE: Entry(page.encode())})
    options = f"--enable-logging=stderr --log-net-log={REQUESTS} --screenshot={PICTURE}"
    shown = machine.run(f"{CHROMIUM} {options} file://{PAGE}", seconds=120)
    if shown.rc != 0:
        raise RuntimeError(shown.stderr)
    requested = set(re.findall(r'"url":"((?:https?|ftp|wss?):[^"]*)"', machine.must(f"cat {REQUESTS}")))
    return Visit(
        [line for line in shown.stderr.splitlines() if "CONSOLE" in line],
        sorted(requested),
        machine.must(f"{CHROMIUM} --dump-dom file://{PAGE} 2>/dev/null", seconds=120),
        base64.b64decode(machine.must(f"base64 --wrap=0 {PICTURE}")),
    )
