# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers as tables, and as one page that needs nothing else. Pure."""

from __future__ import annotations

import html
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import compare
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Answer, Found, Pair, Rank

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:1em auto;padding:0 1em;color:#1a1a1a;"
    "background:#fff}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:left}"
    ".t{overflow-x:auto}td.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}td:last-child{min-width:9em}"
    "text{font:12px system-ui,sans-serif;fill:#1a1a1a}"
)
_COLOURS = {"yes": "#2f7d4f", "tight": "#b7791f", "no": "#b83232"}


def columns(rows: t.Sequence[t.Sequence[t.Any]], titles: t.Sequence[str]) -> str:
    """Return rows as a table of text."""
    texts = [[str(cell) for cell in row] for row in [titles, *rows]]
    widths = [max(len(row[number]) for row in texts) for number in range(len(titles))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def job_text(found: Answer) -> str:
    """Return the answer for one job as text."""
    need = found["need_gib"]
    parts = ", ".join(f"{name} {size:.2f}" for name, size in need["parts"].items() if size >= 0.005)
    head = [
        f"{found['name']}: {need['total']:.2f} GiB ({need['low']:.2f} to {need['high']:.2f}), basis {found['basis']}",
        f"  {parts}",
        *[f"  {note}" for note in found["notes"]],
        "",
    ]
    rows = [
        [
            row["card"],
            row["fits"],
            row["memory_gib"],
            row["max_batch"],
            f"{row['rate_low']:g} to {row['rate_high']:g} {row['unit']}",
            row["decides"],
            "" if row["joules"] is None else f"{row['joules']:g} J",
        ]
        for row in found["cards"]
    ]
    table = columns(rows, ("card", "fits", "GiB", "largest batch", "speed", "decided by", "energy of a step"))
    return "\n".join([*head, table, *[f"  {note}" for note in card_notes(found)]])


def card_notes(found: Answer) -> list[str]:
    """Return the notes on all cards of a job, each once."""
    return sorted({note for row in found["cards"] for note in row["notes"]})


def pair_text(pair: Pair) -> str:
    """Return what two jobs on one card cost, as text."""
    slow = pair["slowdown"] or {}
    return (
        f"{' and '.join(pair['jobs'])} at once on one {pair['card']}: fits {pair['fits']}; each takes "
        f"{slow['time_sliced']:g} times as long time-sliced, {slow['mps']:g} times under MPS ({pair['source']}); {pair['advice']}."
    )


def rank_text(rows: t.Sequence[Rank]) -> str:
    """Return ranks as text."""
    return "\n".join(f"{row['rank']:3}. {row['card']}: {row['reason']}" for row in rows)


# What ranks cards: the field of a rank, and what a bar shows.
_TITLES = {
    "speed": "Speed of the mix of jobs, as a multiple of an RTX 3090",
    "money": "Speed for 1000 {currency}, as a multiple of an RTX 3090",
    "watt": "Speed for each kW, as a multiple of an RTX 3090",
    "memory": "Memory in GB",
}


def picture(rows: t.Sequence[Rank], by: str = "speed") -> str:
    """Return ranked cards as bars of what ranks them, in SVG. A long name is narrower, and none is cut."""
    shown = list(rows)[:24]
    title = _TITLES[by].format(currency=next((row["currency"] for row in shown if row["currency"]), ""))
    values = [compare.score(row, by) for row in shown]
    most = max(values, default=0.0) or 1.0
    names = [f"{row['card']} ({row['memory_gb']} GB)" for row in shown]
    margin = 7.2 * max((len(name) for name in names), default=0) + 8
    bars = []
    for number, (row, value, name) in enumerate(zip(shown, values, names)):
        top, width = 22 * number, (640 - margin) * value / most
        colour = _COLOURS["yes" if row["fitting"] == 1 else "tight" if row["fitting"] else "no"]
        bars.append(
            f'<text x="{margin - 7:.0f}" y="{top + 15}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="{margin:.0f}" y="{top + 3}" width="{width:.1f}" height="16" fill="{colour}"/>'
            f'<text x="{margin + width + 6:.1f}" y="{top + 15}">{value:g}</text>'
        )
    height = 22 * len(shown) + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 700 {height}" width="700" height="{height}">'
        f"<title>{html.escape(title)}</title>{''.join(bars)}</svg>"
    )


def html_table(titles: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]]) -> str:
    """Return a table of HTML; numbers are to the right."""

    def cell(value: t.Any) -> str:
        kind = ' class="n"' if isinstance(value, (int, float)) else ""
        return f"<td{kind}>{html.escape(str('' if value is None else value))}</td>"

    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(cell(value) for value in row)}</tr>" for row in rows)
    return f'<div class="t"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def page(found: Found) -> str:
    """Return one page of HTML for jobs and ranks."""
    parts = ["<h1>Which GPU for these jobs</h1>"]
    if found.get("ranks"):
        parts.append(f"<p>Ranked by {html.escape(found['by'])}; the bars show what ranks. Green: all jobs fit.</p>")
        parts.append(picture(found["ranks"], found["by"]))
        rows = [
            (row["rank"], row["card"], row["speed"], row["price"], row["currency"], row["reason"])
            for row in found["ranks"]
        ]
        parts.append(html_table(("rank", "card", "speed", "price", "", "why"), rows))
    parts += [f"<p>{html.escape(pair_text(pair))}</p>" for pair in found.get("together", ())]
    for job in found["jobs"]:
        need = job["need_gib"]
        parts.append(f"<h2>{html.escape(job['name'])}</h2>")
        parts.append(
            f"<p>{need['total']:.2f} GiB ({need['low']:.2f} to {need['high']:.2f}), basis {html.escape(job['basis'])}</p>"
        )
        parts += [f"<p>{html.escape(note)}</p>" for note in [*job["notes"], *card_notes(job)]]
        parts.append(html_table(("part", "GiB"), need["parts"].items()))
        keys = ("card", "fits", "memory_gib", "max_batch", "rate_low", "rate_high", "unit", "decides", "joules")
        parts.append(
            html_table(
                [key.replace("_", " ") for key in keys], ([row.get(key) for key in keys] for row in job["cards"])
            )
        )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>gpu-fit</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )
