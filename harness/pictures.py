"""Draw a terminal as an SVG for docs/: the table of the progress callback, in the middle of a run of the demo's site."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from xml.sax.saxutils import escape

from harness.sandbox.lab import ROOT

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.rigwright.workstation.plugins.plugin_utils._progress import (
    Line,
    Progress,
    Task,
)

COLUMNS, ROWS = 100, 12
# Of a character and a line, in pixels.
WIDTH, HEIGHT, EDGE = 8.4, 19, 14
COLOURS = {"ok": "#4ec94e", "changed": "#d7ba4a", "failed": "#f2777a", "skipped": "#66c2cd"}
PLAIN, BACKGROUND = "#d8d8d8", "#1e1e1e"
PLAY, NOW = "Configure services", 96.0
# When, where, which role, how many seconds, and how many changes.
ENDED = [
    (0.0, "gateway", "mirrors", 4.0, 1),
    (0.0, "laptop", "mirrors", 4.0, 1),
    (0.0, "workstation", "mirrors", 4.0, 1),
    (4.0, "gateway", "ssh", 9.0, 2),
    (4.0, "laptop", "ssh", 9.0, 2),
    (4.0, "workstation", "ssh", 9.0, 2),
    (13.0, "gateway", "frp_server", 14.0, 5),
    (13.0, "workstation", "storage", 12.0, 4),
    (25.0, "workstation", "docker", 48.0, 6),
]


def run() -> tuple[list[Line], list[Line]]:
    """Return the lines of the roles that have ended, and the live table."""
    progress = Progress()
    lines = progress.begin_play(PLAY)
    for begun, host, role, seconds, changes in ENDED:
        lines += progress.begin_task(host, Task("Plan", role), begun)
        for _change in range(changes):
            lines += progress.end_task(host, role, "ok", True, begun + seconds)
    lines += progress.begin_task("workstation", Task("Install the packages", "samba", packages=True), NOW - 17)
    lines += progress.begin_task("laptop", Task("Configure", "frp_client"), NOW - 1)
    return lines, progress.table(NOW, COLUMNS, ROWS)


def svg(title: str, lines: Iterable[Line]) -> str:
    """Return a picture of lines as a terminal shows them."""
    shown = list(lines)
    width, height = COLUMNS * WIDTH + 2 * EDGE, len(shown) * HEIGHT + 2 * EDGE
    texts = [
        f'<text x="{EDGE}" y="{EDGE + HEIGHT * (number + 0.75):.1f}" fill="{COLOURS.get(line.status, PLAIN)}">{escape(line.text)}</text>'
        for number, line in enumerate(shown)
        if line.text
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
            'font-family="ui-monospace, monospace" font-size="14" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


def progress_picture() -> str:
    """Return docs/progress.svg."""
    ended, table = run()
    return svg("A run on a terminal: what has ended, and what each host does now", [*ended, Line(""), *table])
