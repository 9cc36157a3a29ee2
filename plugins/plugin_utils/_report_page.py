# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet as one HTML page, which needs no script and requests nothing. Every value is text in it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import jinja2
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import MARKS
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_fleet import (
    FAILED,
    GONE,
    NO_REPORT,
    STATES,
    Fleet,
    shorten,
    started,
)

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --line: #d1d9e0; --paper: #fff; --card: #f6f8fa;
  --fail: #b3261e; --warn: #805600; --pass: #1a6b32; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --paper: #0d1117;
  --card: #151b23; --fail: #ff8a80; --warn: #e3b341; --pass: #56d364; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 0; } h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
section { margin: 1rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .15rem .75rem .15rem 0; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td.text { text-align: left; } thead th { color: var(--dim); font-weight: normal; border-bottom: 1px solid var(--line); }
ul { list-style: none; margin: .25rem 0; padding: 0; } li { margin: .35rem 0; } a { color: inherit; }
samp { font: inherit; white-space: pre-wrap; unicode-bidi: isolate; } code { font: .9em ui-monospace, monospace; unicode-bidi: isolate; }
.dim { color: var(--dim); } .remedy { display: block; padding-left: 1.2rem; }
.failed, .fail { color: var(--fail); } .warn { color: var(--warn); } .pass { color: var(--pass); } li.pass, li.skip { color: inherit; }
b.skip { color: var(--dim); } summary { cursor: pointer; margin-top: .75rem; }
@media print { :root { color-scheme: light; } body { max-width: none; font-size: 10pt; } section { break-inside: avoid-page; }
  details::details-content { content-visibility: visible; block-size: auto; } }"""

_MACROS = """\
{% macro status(state) %}<b class="{{ state }}">{{ marks.get(state, "✘") }} {{ state }}</b>{% endmacro %}
{% macro number(value) %}<td>{{ value or "" }}</td>{% endmacro %}
{% macro findings(items) %}
<ul>
{% for finding in items %}
<li>{{ status(finding.status) }} <code>{{ finding.id }}</code> <samp>{{ finding.evidence | shorten }}</samp>
{%- if finding.remedy and finding.status in ("warn", "fail") %}
<span class="remedy">remedy: <samp>{{ finding.remedy | shorten }}</samp></span>
{%- endif %}</li>
{% endfor %}
</ul>
{% endmacro %}
{% macro passes(items) %}
<ul>
{% for finding in items %}
<li><code>{{ finding.id }}</code> <samp>{{ finding.evidence | shorten }}</samp></li>
{% endfor %}
</ul>
{% endmacro %}
"""

_HEAD = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{{{ title }}}}</title>
<style>
{_STYLE}
</style>
</head>
"""

_BODY = """\
<body>
<header>
<h1>{{ title }}</h1>
<p class="dim">This page was written {{ now | time }}; ages are those of that moment.</p>
{% for note in notes %}
<p class="warn">! {{ note }}</p>
{% endfor %}
</header>
<main>
<section>
<h2>Hosts</h2>
<div class="scroll"><table>
<thead><tr><th>host</th><th></th><th>fail</th><th>warn</th><th>pass</th><th>skip</th>
<th>findings changed</th><th>tasks changed</th><th>age</th></tr></thead>
<tbody>
{% for host in fleet.hosts %}
<tr><td class="text"><a href="#h{{ loop.index }}">{{ host.name }}</a></td><td class="text">{{ status(host.state) }}</td>
{%- for state in ("fail", "warn", "pass", "skip") %}{{ number(host.counts[state]) }}{% endfor %}
{{- number(host.changes | length) }}{{ number(host | changed) }}<td>{{ host.report | age }}</td></tr>
{% endfor %}
{% for name in fleet.missing %}
<tr><td class="text">{{ name }}</td><td class="text"><b class="warn">! {{ no_report }}</b></td></tr>
{% endfor %}
</tbody>
</table></div>
</section>
{% for host in fleet.hosts %}
<section id="h{{ loop.index }}">
<h2>{{ host.name }} {{ status(host.state) }}</h2>
<p class="dim">{{ host.report.playbook }}, {{ host.report | began }}, {{ host.report | age }} old
{%- if host.report.check_mode %}. Check mode: the run changed nothing, and counts what it would change{% endif %}</p>
{% if host.result.failures or host.result.failed %}
<h3>Failed tasks</h3>
<ul>
{% for failure in host.result.failures %}
<li class="fail">✘ {% if failure.role %}<code>{{ failure.role }}</code> {% endif %}<samp>{{ failure.task }}</samp>
{%- if not host.result.failed %} <span class="dim">(a rescue caught it)</span>{% endif %}</li>
{% else %}
<li class="fail">✘ Ansible counts the host as failed, and reported no task.</li>
{% endfor %}
</ul>
{% endif %}
{% set open = host.result.findings | by_status("fail", "warn", "skip") %}
{% if open %}
<h3>Findings</h3>
{{ findings(open) -}}
{% endif %}
{% if host.earlier %}
<h3>Since {{ host.earlier | began }} ({{ host.earlier.playbook }})</h3>
<ul>
{% for change in host.changes %}
<li>{{ change.before or "new" }} → {{ status(change.after) if change.after != gone else gone }} <code>{{ change.id }}</code></li>
{% else %}
<li>No finding has another status.</li>
{% endfor %}
{% if host.unchecked %}
<li class="dim">{{ host.unchecked | counted("finding") }} of that run not checked by this one.</li>
{% endif %}
</ul>
{% endif %}
{% if host | changed %}
<p>{{ "Would change" if host.report.check_mode else "Changed" }}:
{%- for role, work in host.works if work.changed %} <code>{{ role }}</code> ({{ work.changed | counted("task") }}){{ "," if not loop.last }}
{%- endfor %}</p>
{% endif %}
{% if host.counts["pass"] %}
<details><summary>{{ host.counts["pass"] | counted("finding") }} passed</summary>
{{ passes(host.result.findings | by_status("pass")) -}}
</details>
{% endif %}
{% if host.works %}
<details><summary>Module runs and seconds by role</summary>
<div class="scroll"><table>
<thead><tr><th>role</th><th>module runs</th><th>verify</th><th>changed</th><th>seconds</th></tr></thead>
{% for role, work in host.works %}
<tr><td class="text">{{ role }}</td>{{ number(work.module_runs) }}{{ number(work.verify_module_runs) }}{{ number(work.changed) -}}
<td>{{ "%.1f" | format(work.seconds) }}</td></tr>
{% endfor %}
</table></div>
</details>
{% endif %}
</section>
{% endfor %}
<section>
<h2>Roles</h2>
<div class="scroll"><table>
<thead><tr><th>role</th><th>hosts</th><th>module runs</th><th>verify</th><th>changed</th><th>longest, s</th><th>on</th></tr></thead>
{% for role, total in fleet.roles.items() %}
<tr><td class="text">{{ role }}</td>{{ number(total.hosts) }}{{ number(total.module_runs) }}{{ number(total.verify_module_runs) -}}
{{ number(total.changed) }}<td>{{ "%.1f" | format(total.longest) }}</td><td class="text">{{ total.slowest }}</td></tr>
{% endfor %}
</table></div>
</section>
<section>
<h2>Runs</h2>
{% for report in fleet.reports %}
<h3>{{ report.playbook }}, {{ report | began }}</h3>
<p class="dim">{{ "%.1f" | format(report.seconds) }} s on {{ report.hosts | length | counted("host") -}}
, ansible-core {{ report.ansible_core }}
{%- if report.check_mode %}, check mode{% endif %}</p>
<ul>
{% for play in report.plays %}
<li>{{ "%.1f" | format(play.seconds) }} s <samp>{{ play.name }}</samp></li>
{% endfor %}
</ul>
{% endfor %}
</section>
</main>
</body>
</html>
"""


_STATES = {
    FAILED: "failed",
    "fail": "with failed findings",
    "warn": "with warnings",
    "pass": "passed",
    "skip": "skipped",
}


def page(fleet: Fleet, now: datetime.datetime, notes: Sequence[str] = ()) -> str:
    """Return the page of *fleet* as of *now*; *notes* are shown at its top."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {
        "age": lambda report: _age((now - started(report)).total_seconds()),
        "by_status": lambda findings, *statuses: [
            finding for status in statuses for finding in findings if finding["status"] == status
        ],
        "changed": lambda host: sum(work.changed for _role, work in host.works),
        "began": lambda report: _time(started(report)),
        "counted": _count,
        "shorten": shorten,
        "time": _time,
    }
    template = environment.from_string(_MACROS + _HEAD + _BODY)
    return template.render(
        fleet=fleet,
        gone=GONE,
        marks=MARKS,
        no_report=NO_REPORT,
        notes=notes,
        now=now,
        title=summary(fleet),
    ).lstrip()


def summary(fleet: Fleet) -> str:
    """Return how many hosts are in which state, in one line."""
    states = [f"{fleet.states[state]} {_STATES[state]}" for state in STATES if fleet.states[state]]
    if fleet.missing:
        states.append(f"{len(fleet.missing)} without a report")
    return ": ".join(filter(None, [_count(len(fleet.hosts) + len(fleet.missing), "host"), ", ".join(states)]))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _age(seconds: float) -> str:
    """Return a duration in the largest unit of which there are two."""
    for noun, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return _count(int(seconds // length), noun)
    return _count(max(0, int(seconds)), "second")
