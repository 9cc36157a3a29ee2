#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mirrors_plan
short_description: Plan the files that send a host's package managers to mirrors
description:
  - Reads the host's own package sources, asks the mirrors for their state, and returns the files that make the host use
    them, for M(rigwright.workstation.config_files) to put in place. Changes nothing itself.
  - Suites, components and keys are those that the host has. Only the address changes, and the distribution's archive is
    defined once afterwards. Sources of third parties are left alone.
  - The choice of mirrors is remembered in one of the returned files. While the request stays the same it stands, and no
    mirror is asked again.
  - Mirrors are asked through C(apt-helper), so with the proxy and the certificates that apt itself uses.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Mirrors are asked in check mode too, since asking changes nothing.
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  apt_urls:
    description:
      - Addresses of mirrors of the distribution's archive, the preferred one first. Several give failover.
      - The host's sources stay as they are when empty.
    type: list
    elements: str
    default: []
  distribution:
    description: Data that identifies the distribution's own archive among those of third parties.
    type: dict
    required: true
    suboptions:
      id:
        description: Name of the distribution as its own source file has it.
        type: str
        required: true
      codename:
        description: Name of the release, such as V(trixie).
        type: str
        required: true
      pockets:
        description: What is appended to the codename in the names of the further suites.
        type: list
        elements: str
        required: true
      security_pocket:
        description: The pocket that brings security updates.
        type: str
        required: true
      security_suffix:
        description: What is appended to a mirror's address to reach the security suite.
        type: str
        required: true
      components:
        description: Names of the distribution's components.
        type: list
        elements: str
        required: true
      keyrings:
        description: File names of the keyrings with which the archive is signed.
        type: list
        elements: str
        required: true
      directories:
        description: Last parts of the addresses under which the archive is served.
        type: list
        elements: str
        required: true
  security:
    description: Whether security updates come from the mirrors as well.
    type: bool
    default: false
  ask:
    description: Whether the state of mirrors is checked. Otherwise they are used unchecked and in the given order.
    type: bool
    default: true
  ask_again:
    description: Ask again although the request is the same as last time.
    type: bool
    default: false
  report_only:
    description: Return the problem in RV(problem) instead of failing, for a verification that continues.
    type: bool
    default: false
  max_age_days:
    description: A mirror whose newest release is older is refused.
    type: int
    default: 7
  timeout:
    description: How long one answer may take, in seconds.
    type: int
    default: 10
  pip_url:
    description: Address of a Python package index for pip; C(/etc/pip.conf) keeps what else it says.
    type: str
    default: ""
seealso:
  - module: rigwright.workstation.config_files
"""

EXAMPLES = r"""
- name: Plan the mirrors
  rigwright.workstation.mirrors_plan:
    apt_urls:
      - https://mirror.example/debian
      - https://mirror.example.net/debian
    distribution:
      id: debian
      codename: "{{ ansible_facts['distribution_release'] }}"
      pockets: [updates, backports, security]
      security_pocket: security
      security_suffix: "-security"
      components: [main, contrib, non-free, non-free-firmware]
      keyrings: [debian-archive-keyring.gpg, debian-archive-keyring.pgp]
      directories: [debian, debian-security]
  register: plan

- name: Configure the package managers for the mirrors
  rigwright.workstation.config_files:
    name: mirrors
    directories: "{{ plan.directories }}"
    files: "{{ plan.files }}"
"""

RETURN = r"""
files:
  description: The files, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/apt/mirrors/debian.list, content: "https://mirror.example/debian\tpriority:1\n"}]
directories:
  description: The directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /var/lib/rigwright_mirrors}, {path: /etc/apt/mirrors}]
problem:
  description: What is wrong, as O(report_only) asks for it; empty when nothing is.
  returned: success
  type: str
  sample: ""
asked:
  description: Whether mirrors were asked in this run.
  returned: always
  type: bool
  sample: false
mirrors:
  description: The mirrors in the order in which apt tries them; those that are not used come last.
  returned: always
  type: list
  elements: dict
  contains:
    url:
      description: Address of the mirror.
      type: str
    status:
      description: V(fit), V(dead), V(stale) or V(unchecked).
      type: str
    reason:
      description: Why it is not fit.
      type: str
    age_days:
      description: Age of its newest release, when it was asked in this run.
      type: float
  sample: [{url: "https://mirror.example/debian", status: fit, reason: "", age_days: 0.4}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_plan import run


def main() -> None:
    text = {"type": "str", "required": True}
    texts = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "apt_urls": {"type": "list", "elements": "str", "default": []},
            "distribution": {
                "type": "dict",
                "required": True,
                "options": {
                    "id": text,
                    "codename": text,
                    "pockets": texts,
                    "security_pocket": text,
                    "security_suffix": text,
                    "components": texts,
                    "keyrings": {**texts, "no_log": False},
                    "directories": texts,
                },
            },
            "security": {"type": "bool", "default": False},
            "ask": {"type": "bool", "default": True},
            "ask_again": {"type": "bool", "default": False},
            "report_only": {"type": "bool", "default": False},
            "max_age_days": {"type": "int", "default": 7},
            "timeout": {"type": "int", "default": 10},
            "pip_url": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()
