#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_key
short_description: Ask the firmware to trust the key that signs the NVIDIA module
description:
  - With Secure Boot the kernel loads only modules that are signed with a key which the firmware trusts. This module hands the key
    of DKMS to C(mokutil). At the next boot a person confirms it at the console, with a password.
  - Asks each time that it is run. The plan of the role P(rigwright.workstation.nvidia_driver#role) says whether that is due.
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
options:
  certificate:
    description: The certificate of the key. In check mode it possibly does not exist yet.
    type: path
    required: true
  password:
    description: Password that the person types at the console. No command has it in its arguments.
    type: str
    required: true
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Ask the firmware to trust the key of DKMS
  rigwright.workstation.nvidia_driver_key:
    certificate: /var/lib/dkms/mok.pub
    password: "{{ nvidia_driver_mok_password }}"
"""

RETURN = r""" # """

import tempfile

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule


def enroll(module: HostModule, certificate: str, password: str) -> None:
    """Hand the key to mokutil. It takes the password's hash from a file that only root can read."""
    openssl, mokutil = (module.get_bin_path(name, required=True) for name in ("openssl", "mokutil"))
    _rc, hashed, _err = module.run_command([openssl, "passwd", "-6", "-stdin"], data=password, check_rc=True)
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.write(hashed.strip())
        file.flush()
        rc, out, err = module.run_command([mokutil, "--import", certificate, "--hash-file", file.name])
    if rc != 0:
        module.fail_json(
            msg=f"The firmware cannot be asked to trust {certificate}: {' '.join((err or out).split())}. The driver is installed, but"
            " Secure Boot will not let its module load. Run the role again, or switch Secure Boot off."
        )


def main() -> None:
    module = HostModule(
        argument_spec={
            "certificate": {"type": "path", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    if not module.check_mode:
        enroll(module, module.params["certificate"], module.params["password"])
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
