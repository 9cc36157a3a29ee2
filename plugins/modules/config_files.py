#!/usr/bin/python
# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/config_files.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: config_files
short_description: Put a set of configuration files in place, and let units use them, as one transaction
description:
  - Renders files on the controller, compares them with the target, and puts those that differ in place in one module run.
  - Each staged file can be validated before anything is replaced, and the set as a whole by commands afterwards. If any of them
    fails, every file is restored with its owner, mode and times, and the error shows the output of the command.
  - Units of O(units) are brought to their state in the same run. Those to be stopped end before the files change, the others start after.
  - If a unit does not start with the new files, files and units are as before. The error has the last lines of the unit's journal.
  - Keeps the first original of each file that it replaces. O(state=absent) restores the originals byte for byte. Leaving a file out
    of the list restores that one.
  - The next run first undoes a run that was interrupted (power cut, C(kill -9), full disk).
  - A file that somebody edited by hand is kept when an older one is restored, under
    C(/var/lib/rigwright/config_files/NAME/edited), and a warning names it.
  - Symbolic links are never followed and never replaced.
  - In a role, no module starts for a request that M(rigwright.workstation.plan) has found carried out (its C(configured_sets)), if no
    task has changed the host since. The callback P(rigwright.workstation.report#callback) tells it.
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.config_files
  - rigwright.workstation.systemd_units
attributes:
  check_mode:
    support: full
    details:
      - Validators run on a private copy when they are installed.
      - A file in a missing directory is refused, unless an earlier task of the run would change something and may create it.
        The action reads this from the registered results of a role, C(__<role>_...).
  diff_mode:
    support: full
    details:
      - The content of secret files never shows. In others, what looks like a secret is masked.
      - A program (a file outside of C(/etc) that ends in C(.py) or begins with C(#!)) shows as name, version of the collection, number of
        lines and SHA-256.
options:
  name:
    description: >-
      Name of the set. Its originals are kept under C(/var/lib/rigwright/config_files/NAME) on the target. A file belongs to one set only.
      A directory may belong to several; the last one restores it. With O(plan), the default is the name of the calling role.
    type: str
    required: false
  plan:
    description:
      - The registered result of M(rigwright.workstation.plan) in the calling role. O(directories), O(files), O(checks) and O(units) are
        those of the plan, unless the task gives them.
      - With O(state=present), its findings are recorded as M(rigwright.workstation.finding) does. So is the one on units that
        wait for a restart (RV(pending)), if the plan has it.
    type: dict
  files:
    description: The files, the whole list. The original of a file that an earlier run placed and that is no longer listed is restored.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path, in a directory that root alone may write.
        type: str
        required: true
      state:
        description:
          - V(absent) moves a file away; it is restored when the set is removed.
          - V(released) leaves the file with this content and no longer manages it. It is for a file that other programs have changed
            too, since restoring the original would undo their changes.
        type: str
        choices: [present, released, absent]
        default: present
      template:
        description:
          - Template, relative to the role's C(templates) directory.
          - Default is the path on the target with C(.j2) added, unless another source is set.
        type: str
      content:
        description: The text itself.
        type: str
      program:
        description: >-
          A private module of this collection, whose C(main) is the program. It is written with all its imports,
          as one file that Python runs without Ansible.
        type: str
      data:
        description: Data that is written in O(files[].format).
        type: raw
      format:
        description: Format of O(files[].data). Default is the format of the path's ending.
        type: str
        choices: [ini, json, toml, yaml]
      mode:
        description: Octal mode in quotes, since an unquoted C(0644) is the number 420 for YAML.
        type: raw
        default: "0644"
      owner:
        description: User name.
        type: str
        default: root
      group:
        description: Group name.
        type: str
        default: root
      merged:
        description:
          - The content is made from that of the file on the host. Where there is one, it keeps owner, group and mode, and O(files[].mode),
            O(files[].owner) and O(files[].group) are for a new one. One that not everybody may read counts as O(files[].secret).
        type: bool
        default: false
      secret:
        description: The content shows nowhere, neither in a diff nor in a log, at C(-vvv) or in an error.
        type: bool
        default: false
      validate:
        description: Command that is run on the staged file before anything is replaced; C(%s) stands for the staged file.
        type: str
"""

EXAMPLES = r"""
- name: Configure sshd so that a mistake changes nothing
  rigwright.workstation.config_files:
    name: ssh
    files:
      - path: /etc/ssh/sshd_config.d/00-rigwright.conf
        content: |
          PasswordAuthentication no
    checks:
      - /usr/sbin/sshd -t

- name: Configure the service of a role as planned
  rigwright.workstation.config_files:
    plan: "{{ __frp_server_plan }}"

- name: Restore the original files
  rigwright.workstation.config_files:
    name: ssh
    state: absent
"""

RETURN = r"""
changed_paths:
  description: Every path that changed, restored and removed ones included.
  returned: always
  type: list
  elements: str
  sample: [/etc/ssh/sshd_config.d/00-rigwright.conf]
removed_paths:
  description: The changed paths that no longer exist.
  returned: always
  type: list
  elements: str
  sample: []
actions:
  description: The C(systemctl) verbs that were called, by unit.
  returned: success
  type: dict
  sample: {frps.service: [restart]}
pending:
  description: Units that still run with older files because O(units[].may_restart) is V(false).
  returned: success
  type: list
  elements: str
  sample: []
findings:
  description: The findings of O(plan), as recorded.
  returned: with findings of O(plan)
  type: list
  elements: dict
  sample: []
recovered:
  description: Whether an interrupted earlier run was undone first.
  returned: always
  type: bool
  sample: false
"""
