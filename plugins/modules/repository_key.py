#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_key
short_description: Fetch the key of a package repository and check its full fingerprint
description:
  - Downloads a file of OpenPGP public keys and returns them, for M(rigwright.workstation.config_files), which puts them in place.
  - The downloaded text is never returned. The keys are read from it and written as one new armor block, since apt reads every armor
    block of a file, whatever its title.
  - The file is refused unless it holds exactly the keys of O(fingerprints). apt trusts every key in a file that C(Signed-By) names.
  - Needs no gpg. Changes nothing itself.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  url:
    description:
      - Address of the key file, armored or not.
    type: str
    required: true
  fingerprints:
    description:
      - Full fingerprints of its primary keys, 40 hexadecimal digits each (64 for keys of version 6). Spaces do not count.
    type: list
    elements: str
    required: true
  timeout:
    description:
      - Give a silent server up after so many seconds.
    type: int
    default: 30
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Fetch Docker's key
  rigwright.workstation.repository_key:
    url: https://download.docker.com/linux/debian/gpg
    fingerprints: [9DC858229FC7DD38854AE2D88D81803C0EBFCD88]
  register: key
"""

RETURN = r"""
content:
  description: The keys as one armor block, the same for the same keys.
  returned: success
  type: str
  sample: "-----BEGIN PGP PUBLIC KEY BLOCK-----..."
"""

import re
import time
import urllib.error

from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import read_url
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.openpgp import Invalid, armored, parse_keys

TRIES = 3
PAUSE = 2
# A key file has a few thousand characters; nothing that is larger is one.
LIMIT = 1 << 20
DEADLINE = 120


def download(url: str, timeout: int) -> bytes:
    """Download a key.

    :raises OSError: several attempts failed.
    :raises ValueError: it is too large to be a key, or does not end.
    """
    for remaining in reversed(range(TRIES)):
        try:
            return read_url(url, LIMIT, DEADLINE, timeout)
        except (urllib.error.URLError, OSError) as error:
            # What is not there will not be there in two seconds.
            if not remaining or (isinstance(error, urllib.error.HTTPError) and error.code < 500):
                raise
        time.sleep(PAUSE)
    raise AssertionError


def main() -> None:
    module = HostModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "fingerprints": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    url = module.params["url"]
    wanted = sorted(fingerprint.replace(" ", "").upper() for fingerprint in module.params["fingerprints"])
    if not wanted or not all(re.fullmatch(r"[0-9A-F]{40}|[0-9A-F]{64}", fingerprint) for fingerprint in wanted):
        module.fail_json(
            msg=f"`fingerprints` must hold full fingerprints, 40 hexadecimal digits each, and is {wanted}. Nothing was changed."
        )
    try:
        content = download(url, module.params["timeout"])
    except (urllib.error.URLError, OSError, ValueError) as error:
        module.fail_json(
            msg=f"The key {url} could not be downloaded: {error}. Nothing was changed. Try again, or use a mirror."
        )
    try:
        keys = parse_keys(content)
    except Invalid as error:
        module.fail_json(msg=f"{url} is not the key of the repository: {error}. Nothing was changed.")
    found = sorted(keys.fingerprints)
    if found != wanted:
        module.fail_json(
            msg=f"{url} is not the key that was expected: it holds {', '.join(found)}, and not {', '.join(wanted)}. Nothing was changed."
        )
    module.exit_json(changed=False, content=armored(keys.packets))


if __name__ == "__main__":
    main()
