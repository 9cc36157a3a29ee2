#!/usr/bin/python

# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release_archive
short_description: Install programs from a checked release archive
description:
  - Downloads a tar archive, checks its SHA-256 before it is unpacked, unpacks it under C(/opt/<name>/<version>) and
    points links such as C(/usr/local/bin/x) into that directory. All of it is one module run.
  - A single program that is compressed with bzip2 and in no archive (C(x_1.0_linux_amd64.bz2)) is taken by the name without C(.bz2).
  - Each step is a rename. An interrupted run leaves what was installed before, and the next run completes it.
  - Previous versions stay, so that going back to one needs no network.
  - Nothing is downloaded when the version is there and its programs are byte for byte what was unpacked.
  - Several users on one host (the roles of a server and of a client, for example) may share a O(name), in different
    versions too. A version is removed once none of them relies on it.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is downloaded, so a wrong O(checksum) shows only when the archive is installed.
  diff_mode:
    support: full
options:
  name:
    description:
      - Name of the release, and of its directory in O(install_root).
    type: str
    required: true
  user:
    description:
      - Name of the user of the programs, usually the role. It is no account of the system.
      - Defaults to O(name).
    type: str
  state:
    description:
      - V(present) installs the version and its links.
      - V(absent) removes everything of this O(user), and the versions and links that no other user needs.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - Version of the release, and name of its directory.
      - Required if O(state=present), as are O(url), O(checksum) and O(programs).
    type: str
  url:
    description:
      - Address of the archive. V(http://), V(https://) and V(file://) work.
    type: str
  checksum:
    description:
      - Checksum that the publisher states, as V(sha256:) and 64 hexadecimal digits.
      - An address of a list of checksums is not accepted. It would come from where the archive comes from, and prove nothing.
    type: str
  programs:
    description:
      - The links to make, and the path of the program of each inside the archive (after O(strip_components)).
    type: dict
  strip_components:
    description:
      - Number of leading parts to leave out of the paths in the archive.
    type: int
    default: 1
  keep:
    description:
      - Number of previous versions to keep for going back.
    type: int
    default: 1
  install_root:
    description:
      - Directory that holds the directory of the release. It is refused where users other than root may write in it or above it.
    type: path
    default: /opt
  timeout:
    description:
      - Timeout in seconds for a server that sends nothing.
    type: int
    default: 30
  retries:
    description:
      - Number of further attempts for a failed download, after 1, 2, 4 ... seconds. A status such as 404 is final.
    type: int
    default: 3
  deadline:
    description:
      - Seconds that all attempts may take. A server that sends a byte at a time is given up after them.
    type: int
    default: 1800
  max_mib:
    description:
      - Size in MiB above which a download is given up. The checksum is compared only when the archive is complete.
    type: int
    default: 1024
notes:
  - To restart a service when its program changed, watch its link. The link itself is replaced when another version is chosen.
seealso:
  - module: ansible.builtin.unarchive
  - module: rigwright.workstation.systemd_units
"""

EXAMPLES = r"""
- name: Install frps
  rigwright.workstation.release_archive:
    name: frp
    user: frp_server
    version: 0.70.1
    url: https://mirror.example.org/frp/v0.70.1/frp_0.70.1_linux_amd64.tar.gz
    checksum: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    programs:
      /usr/local/bin/frps: frps

- name: Remove frps, and frp if nothing else uses it
  rigwright.workstation.release_archive:
    name: frp
    user: frp_server
    state: absent
"""

RETURN = r"""
version:
  description: The version in use, or null when absent.
  returned: success
  type: str
  sample: 0.70.1
previous:
  description: The version that is kept for going back, or null when there is none.
  returned: success
  type: str
  sample: 0.69.0
directory:
  description: The directory of the version in use, or null when absent.
  returned: success
  type: str
  sample: /opt/frp/0.70.1
changed_paths:
  description: The links that lead to another program now, or to none; in check mode those that would.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/bin/frps]
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.release_run import SPEC, run


def main() -> None:
    module = HostModule(
        argument_spec=SPEC,
        required_if=[("state", "present", ("version", "url", "checksum", "programs"))],
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()
