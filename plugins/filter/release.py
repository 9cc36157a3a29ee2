# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Release

DOCUMENTATION = r"""
name: release
short_description: What to download for this machine, and whether it can be
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Chooses the version, the address and the SHA-256 of a release for M(rigwright.workstation.release_archive).
  - What makes a choice impossible comes as requirements for M(rigwright.workstation.require), so that a role refuses it before
    anything changes.
positional: _input, name, own, version, machine, role
options:
  _input:
    description: The pinned releases, C(__common_releases) of C(roles/common/vars/main/releases.yml).
    type: dict
    required: true
  name:
    description: Which of them.
    type: str
    required: true
  own:
    description: Releases of the user's own, in the same form. They come on top.
    type: dict
    required: true
  version:
    description: The version to run; empty is the pinned one.
    type: str
    required: true
  machine:
    description: What C(uname -m) says, C(ansible_facts['architecture']).
    type: str
    required: true
  role:
    description: The role whose variables C(<role>_version) and C(<role>_releases) the requirements name.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where frp would come from
  ansible.builtin.debug:
    msg: "{{ (__common_releases | rigwright.workstation.release('frp', {}, '', ansible_facts['architecture'], 'frp_server')).url }}"
"""

RETURN = r"""
_value:
  description:
    - C(version), C(url), C(checksum) and C(requirements).
    - C(url) and C(checksum) are empty when a requirement is not met.
  type: dict
"""

import re
from collections.abc import Mapping
from typing import Any

# The publishers' words for what `uname -m` says (Go's own, GOARCH).
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def release(
    pinned: Mapping[str, JsonObject], name: str, own: Mapping[str, JsonObject], version: str, machine: str, role: str
) -> Release:
    """Return version, address and checksum of a release, and the requirements for it."""
    default = pinned[name]
    changed = own.get(name) or {}
    version = version or changed.get("version") or default["version"]
    architecture = ARCHITECTURES.get(machine, "")
    checksums = {**default["checksums"].get(version, {}), **(changed.get("checksums") or {}).get(version, {})}
    checksum = str(checksums.get(architecture, ""))
    fit = re.fullmatch(r"[0-9a-f]{64}", checksum) is not None
    archive = default["archive"].format(version=version, architecture=architecture)
    return {
        "version": version,
        "url": f"{changed.get('url') or default['url']}/{archive}" if fit else "",
        "checksum": f"sha256:{checksum}" if fit else "",
        "requirements": [
            {
                "ok": architecture != "",
                "variable": f"{role}_version",
                "problem": f"cannot be had for this machine: no release of {name} is known for {machine}",
                "remedy": f"use a machine of {' or '.join(ARCHITECTURES)}",
            },
            {
                "ok": fit or architecture == "",
                "variable": f"{role}_releases",
                "problem": f"has no SHA-256 of {name} {version} for {architecture}, and none is pinned",
                "remedy": f"take it from the publisher's list of checksums, or run {name} {default['version']}",
            },
        ],
    }


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"release": release}
