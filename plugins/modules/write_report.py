#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/write_report.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: write_report
short_description: Write reports of runs as an HTML page and as JUnit XML
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Reads reports that the callback P(rigwright.workstation.report#callback) wrote.
  - Writes one page and one JUnit file for all their hosts.
  - If several reports name a host, its newest run counts. Each host is compared with its run before that.
  - Works on the controller alone and starts no module on a target. The playbook C(rigwright.workstation.report) runs it.
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.attributes.controller
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  file:
    description:
      - The reports. By default the one that the callback writes.
      - A report of another schema is refused.
    type: list
    elements: path
    default: []
  previous_file:
    description:
      - Earlier reports to compare with. By default those that the callback kept, O(file) with the ending C(.previous).
      - One that cannot be read, or is of another schema, is marked on the page.
    type: list
    elements: path
    default: []
  html:
    description: The page to write. By default the first O(file) with the ending C(.html). If it is empty, no page is written.
    type: path
  junit:
    description: The JUnit file to write. By default the first O(file) with the ending C(.xml). If it is empty, none is written.
    type: path
  hosts:
    description: Hosts of the inventory. Those that no report names are listed as such.
    type: list
    elements: str
    default: []
seealso:
  - plugin: rigwright.workstation.report
    plugin_type: callback
"""

EXAMPLES = r"""
- name: Write a page of two controllers' reports
  rigwright.workstation.write_report:
    file: [/srv/reports/lab.json, /srv/reports/office.json]
    html: /srv/www/fleet.html
    junit: ""
"""

RETURN = r"""
msg:
  description: How many hosts are in which state.
  returned: success
  type: str
  sample: "3 hosts: 1 failed, 2 passed"
html:
  description: The page.
  returned: when one is written
  type: str
  sample: /srv/www/fleet.html
junit:
  description: The JUnit file.
  returned: when one is written
  type: str
  sample: /srv/www/fleet.xml
"""
