# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Render a view as one HTML page that needs no script and requests nothing. Every value is text in it. Pure."""

from __future__ import annotations

import html
import time

from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --line: #d1d9e0; --paper: #fff; --card: #f6f8fa; --bar: #0969da;
  --fail: #b3261e; --warn: #805600; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --paper: #0d1117; --card: #151b23;
  --bar: #58a6ff; --fail: #ff8a80; --warn: #e3b341; } }
body { margin: 0 auto; padding: 1rem; max-width: 100rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 0 0 .5rem; } p { margin: 0 0 1rem; color: var(--dim); }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; align-items: start; }
section { padding: 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .15rem .75rem .15rem 0; text-align: left; vertical-align: top; }
td:last-child { width: 99%; }
th { font-weight: normal; white-space: pre; } td { overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
span { display: inline-block; max-width: 100%; unicode-bidi: isolate; margin-right: .75rem; }
svg { display: block; margin-top: .45rem; } rect { fill: var(--line); }
rect + rect { fill: var(--bar); } .warn, .mark { color: var(--warn); } .fail { color: var(--fail); font-weight: 600; }
.dim, .old { color: var(--dim); } .warn rect + rect { fill: var(--warn); } .fail rect + rect { fill: var(--fail); }"""
# The page may load nothing, whatever a value would bring in. Without an icon of its own, a browser asks the server for one.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(view: View) -> str:
    """Return the whole page."""
    sections = "\n".join(_section(section, view.now) for section in view.sections)
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta http-equiv="refresh" content="{int(view.refresh_s)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{_text(view.host)}: status</title>
<style>
{_STYLE}
</style>
</head>
<body>
<h1>{_text(view.host)}</h1>
<p>{_text(_clock(view))}</p>
<main>
{sections}
</main>
</body>
</html>
"""


def _clock(view: View) -> str:
    try:
        clock = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(view.now))
    except (OverflowError, ValueError, OSError):
        clock = "unknown time"
    return f"{clock}, up {model.duration(view.uptime_s)}" if view.uptime_s else clock


def _text(value: str) -> str:
    """Return a value as text of the page; characters that HTML forbids are question marks."""
    return html.escape(shown(value))


def _section(section: Section, now: float) -> str:
    mark = model.stale(section, now)
    heading = f'{_text(section.title)}{f""" <span class="mark">{_text(mark)}</span>""" if mark else ""}'
    rows = "\n".join(_row(row, now) for row in section.rows)
    return f"<section{' class=old' if mark else ''}>\n<h2>{heading}</h2>\n<table>\n{rows}\n</table>\n</section>"


def _row(row: Row, now: float) -> str:
    mark = model.stale(row, now)
    values = "".join(f"<span>{_text(value)}</span>" for value in row.values)
    if mark:
        values = f'<span class="mark">{_text(mark)}</span>{values}'
    level = row.level if row.level in (model.DIM, model.WARN, model.FAIL) else model.OK
    return f'<tr class="{level}"><th>{_text(row.label)}</th>{_cells(row, values)}</tr>'


def _cells(row: Row, values: str) -> str:
    """Return the cells of a bar and of the values; without a bar, the values have the room of both."""
    if row.share is None:
        return f'<td colspan="2">{values}</td>'
    width = min(max(row.share, 0.0), 1.0) * 100
    bars = f'<rect width="100" height="10"/><rect width="{width:.1f}" height="10"/>'
    bar = f'<svg width="100" height="10" role="img" aria-label="{width:.0f} %">{bars}</svg>'
    return f"<td>{bar}</td><td>{values}</td>"
