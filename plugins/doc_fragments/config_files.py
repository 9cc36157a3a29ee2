# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What both halves of config_files take; they differ in `files`."""

    DOCUMENTATION = r"""
options:
  name:
    description:
      - Name of the set. Its originals are kept under C(/var/lib/rigwright/config_files/NAME) on the target.
      - A file belongs to one set only. A directory may belong to several; the last one restores it.
    type: str
    required: true
  state:
    description: V(present) applies the set. V(absent) restores everything as it was before the set.
    type: str
    choices: [present, absent]
    default: present
  directories:
    description: Directories that the files need. One that the set made is removed again when it is empty.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path, in a directory that root alone may write.
        type: str
        required: true
      mode:
        description: Octal mode in quotes, since an unquoted C(0755) is the number 493 for YAML.
        type: raw
        default: "0755"
      owner:
        description: User name.
        type: str
        default: root
      group:
        description: Group name.
        type: str
        default: root
  checks:
    description:
      - Commands that are run, without a shell, once all files are in place, and only when one changed.
      - When one fails, everything is restored.
    type: list
    elements: str
    default: []
"""
